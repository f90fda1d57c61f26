/** Numbers to codes and back. */
import { type Coding, codedSizes } from '../../../base/index.js'
import { sizeIn } from '../../../geometry/index.js'
import type { InstrOf } from '../../../ir/index.js'
import { refuse } from './shapes.js'
import { dims, type Site, size } from './site.js'

/** How a line is cut, in words of a command. */
function cutOf({ run, parts, blocks = [] }: Coding, n: number) {
  if (blocks.some(ways => ways > 1)) refuse('codes of blocks that other ranks would have')
  return { n, run, parts, part: codedSizes(n, { run, parts }).part }
}

export const codeRules = {
  pack({ ins, outs: [codes, units], ...coding }: InstrOf<'pack'>, s: Site): void {
    const n = size(s, ins[0])
    const cut = cutOf(coding, n)
    const [each, eachUnits] = [size(s, codes) / ins.length, (size(s, units) / ins.length) * 4]
    for (const [i, x] of ins.entries())
      s.list.write('pack', { codes: s.at(codes) + i * each, units: s.at(units) + i * eachUnits, x: s.at(x), ...cut })
  },
  unpack({ ins: [codes, units], outs: [out], ...coding }: InstrOf<'unpack'>, s: Site): void {
    const addends = sizeIn(dims(s, codes), 'addend') ?? 1
    const at = { out: s.at(out), codes: s.at(codes), units: s.at(units) }
    s.list.write('unpack', { ...at, ...cutOf(coding, size(s, out)), addends })
  },
}
