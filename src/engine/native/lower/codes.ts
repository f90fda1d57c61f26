/** Numbers to codes and back. */
import { addendsIn, bytesPer, type Coding, codedSizes, elementsOf, flatAxes, summedDims } from '../../../base/index.js'
import { sizeIn } from '../../../geometry/index.js'
import type { InstrOf, Ref } from '../../../ir/index.js'
import { refuse } from './shapes.js'
import { dims, type Site, size } from './site.js'

/** How a line is cut, in words of a command. */
function cutOf({ parts, blocks = [], ...coding }: Coding, n: number) {
  if (blocks.some(ways => ways > 1)) refuse('codes of blocks that other ranks would have')
  return { parts, part: codedSizes(n, { ...coding, parts }).part }
}

/** The elements of each addend, and of a part of a line those that are there. */
function elementsAt(s: Site, ref: Ref) {
  const { dims: own, layout } = s.buffer(ref)
  const [addends, axes] = [addendsIn(own), flatAxes(layout)]
  const each = size(s, ref) / addends
  const first = axes.length > 0 ? s.index(axes) * each : 0
  const n = axes.length > 0 ? Math.max(0, Math.min(each, elementsOf(summedDims(own)) - first)) : each
  return { addends, each, n }
}

/** Where each addend begins of what several have side by side. */
const along = (s: Site, ref: Ref, addends: number, bytesOf: number): number[] =>
  Array.from({ length: addends }, (_, a) => s.at(ref) + a * (size(s, ref) / addends) * bytesOf)

export const codeRules = {
  pack({ ins, outs: [codes, units], run, ...coding }: InstrOf<'pack'>, s: Site): void {
    const { addends, each, n } = elementsAt(s, ins[0])
    const xs = ins.flatMap(x => along(s, x, addends, bytesPer[s.buffer(x).dtype]))
    const cut = cutOf({ run, ...coding }, each)
    const [toCodes, toUnits] = [along(s, codes, xs.length, 1), along(s, units, xs.length, 4)]
    for (const [i, x] of xs.entries()) {
      const at = { codes: toCodes[i], units: toUnits[i], x, ...cut }
      if (coding.signs) s.list.write('packSigns', { ...at, n, whole: Number(coding.signs === 'line') })
      else s.list.write('pack', { ...at, n: each, run })
    }
  },
  unpack({ ins: [codes, units], outs: [out], run, ...coding }: InstrOf<'unpack'>, s: Site): void {
    const addends = sizeIn(dims(s, codes), 'addend') ?? 1
    const { addends: apart, each, n } = elementsAt(s, out)
    const cut = cutOf({ run, ...coding }, each)
    const at = { out: s.at(out), codes: s.at(codes), units: s.at(units), ...cut }
    if (!coding.signs) return void s.list.write('unpack', { ...at, n: each, run, addends })
    const [outs, froms, ofUnits] = [
      along(s, out, apart, bytesPer[s.buffer(out).dtype]),
      along(s, codes, apart, 1),
      along(s, units, apart, 4),
    ]
    for (const [a, to] of outs.entries()) {
      const own = { ...at, out: to, codes: froms[a], units: ofUnits[a] }
      s.list.write('unpackSigns', { ...own, n, room: each, addends: addends / apart })
    }
  },
}

export function blend({ ins: [m], outs: [grad], beta1, ranks }: InstrOf<'blend'>, s: Site): void {
  const { addends, each: n } = elementsAt(s, grad)
  for (const at of along(s, grad, addends, 4))
    s.list.write('blend', { grad: at, m: s.at(m), n, share: beta1 / ranks, rest: 1 - beta1 })
}
