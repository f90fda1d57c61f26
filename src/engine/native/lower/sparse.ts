/** Addends side by side, the greatest numbers of each, and these where they belong. */
import { addendsIn, bytesPer, elementsOf, type Kept, keptSizes, summedDims } from '../../../base/index.js'
import type { InstrOf, Ref } from '../../../ir/index.js'
import { refuse } from './shapes.js'
import { dims, type Site, size } from './site.js'

/** Of how many numbers how many are kept. */
function cutOf(s: Site, x: Ref, how: Kept) {
  const { lines, line, kept } = keptSizes(elementsOf(summedDims(dims(s, x))), how)
  if (lines > 1) refuse('the largest elements of blocks that other ranks would have')
  return { n: line, kept }
}

export const sparseRules = {
  beside({ ins, outs: [out] }: InstrOf<'beside'>, s: Site): void {
    const columns = size(s, ins[0])
    for (const [i, x] of ins.entries())
      s.list.write('copy', {
        ...{ out: s.at(out) + i * columns * bytesPer.f32, x: s.at(x) },
        ...{ rows: 1, columns, strideOut: columns, strideX: columns },
      })
  },
  greatest({ ins: [x], outs: [values, places], ...how }: InstrOf<'greatest'>, s: Site): void {
    const cut = cutOf(s, x, how)
    for (let a = 0; a < addendsIn(dims(s, x)); a++) {
      const [at, from] = [a * cut.kept * bytesPer.f32, a * cut.n * bytesPer.f32]
      s.list.write('greatest', { values: s.at(values) + at, places: s.at(places) + at, x: s.at(x) + from, ...cut })
    }
  },
  scatter({ ins: [values, places], outs: [out], ...how }: InstrOf<'scatter'>, s: Site): void {
    const cut = cutOf(s, out, how)
    const addends = addendsIn(dims(s, values))
    const lines = dims(s, out).length > summedDims(dims(s, out)).length ? addends : 1
    for (let a = 0; a < lines; a++) {
      const [at, to] = [a * cut.kept * bytesPer.f32, a * cut.n * bytesPer.f32]
      const from = { values: s.at(values) + at, places: s.at(places) + at }
      s.list.write('scatter', { out: s.at(out) + to, ...from, ...cut, addends: addends / lines })
    }
  },
}
