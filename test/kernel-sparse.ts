/** Cases of what is sent in part: the greatest of many numbers, and these where they belong. */
import { keptSizes } from '../src/base/index.js'
import { type Make, reference } from './kernel-draw.js'

/** With equals among them, zeros of both signs, and what is very large. */
export const greatest: Make = ({ size, tensor, pick, chance, int }) => {
  const n = size(500, 3000) + 1
  const [x, ratio] = [tensor({ n }), pick([0.01, 0.1, 0.5, 1])]
  const odd = [0, -0, 1, -1, 3e38]
  const values = x.values.map(value => (chance(0.1) ? odd[int(odd.length)] : value))
  const { kept } = keptSizes(n, { ratio })
  const outs = { addend: 1, kept }
  const [found, places] = reference({ kind: 'greatest', ratio }, [{ ...x, values }], outs, outs)
  return {
    ...{ command: 'greatest', ins: { x: values }, words: { n, kept }, expected: { values: found, places } },
    ...{ integers: ['places'], magnitude: 1, bound: 0 },
  }
}

export const scatter: Make = ({ size, tensor, integers, pick }) => {
  const [n, addends, ratio] = [size(500) + 1, pick([1, 2, 5]), pick([0.01, 0.1, 0.5, 1])]
  const { kept } = keptSizes(n, { ratio })
  const [values, places] = [tensor({ addend: addends, kept }), integers({ addend: addends, kept }, 0, n)]
  const [expected] = reference({ kind: 'scatter', ratio }, [values, places], { n })
  return {
    ...{ command: 'scatter', ins: { values: values.values }, ids: { places: places.values } },
    ...{ words: { n, kept, addends }, expected: { out: expected }, magnitude: kept * addends, bound: 1e-6 },
  }
}
