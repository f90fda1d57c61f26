/** Products of 8-bit codes: one number brings each tensor into their range, and the product is divided by both. */
import { codeFacts, codeScale, elementsOf } from '../../base/index.js'
import { contract } from './contract.js'
import { aligned } from './elementwise.js'
import type { Prepare } from './kernel.js'

/** Rounded when it is stored, as everything is. A comparison with a NaN is false: it stays one. */
export const quantize: Prepare<'quantize'> = ({ format }, [x], [codes]) => {
  const { greatest } = codeFacts[format]
  const [xs] = aligned([x], codes)
  return (cells, [from, amax], [to]) => {
    const scale = codeScale(format, cells[amax.at])
    for (let i = 0; i < xs.length; i++) {
      const value = cells[from.at + xs[i]] * scale
      cells[to.at + i] = value > greatest ? greatest : value < -greatest ? -greatest : value
    }
  }
}

/** Scales are powers of two: dividing by them after the sum was stored rounds nothing. */
export const scaledContract: Prepare<'scaledContract'> = ({ formats: [a, b] }, ins, outs) => {
  const multiply = contract({ kind: 'contract' }, ins.slice(0, 2), outs)
  const elements = elementsOf(outs[0].dims)
  return (cells, places, [to], moment) => {
    multiply(cells, places.slice(0, 2), [to], moment)
    const [aMax, bMax] = places.slice(2).map(({ at }) => cells[at])
    const [byA, byB] = [1 / codeScale(a, aMax), 1 / codeScale(b, bMax)]
    for (let i = 0; i < elements; i++) cells[to.at + i] = cells[to.at + i] * byA * byB
  }
}
