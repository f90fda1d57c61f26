/** Numbers to codes and back, as lines of Python. */
import { type Coding, elementsOf } from '../base/index.js'
import type { InstrOf } from '../ir/index.js'
import { call, type Site, Unwritten } from './expressions.js'
import { quote } from './python.js'

const codingOf = ({ run, parts, blocks = [] }: Coding) => {
  if (blocks.some(ways => ways > 1)) throw new Unwritten('codes of blocks that other ranks would have')
  return { run, parts }
}

export const packingRules = {
  pack(instr: InstrOf<'pack'>, site: Site): string[] {
    const results = instr.outs.map(ref => site.result(ref)).join(', ')
    return [`${results} = ${call('pack', [`[${instr.ins.map(site.name).join(', ')}]`], codingOf(instr))}`]
  },
  unpack(instr: InstrOf<'unpack'>, site: Site): string[] {
    const [out] = instr.outs
    const { layout, dims, dtype, inside } = site.buffer(out)
    const part = `here.part_of(${[elementsOf(dims), ...(layout.flat ?? []).map(quote)].join(', ')})`
    const sizes = layout.flat ? [part] : dims.map(({ size }) => `${size}`)
    const made = call('unpack', instr.ins.map(site.name), {
      ...{ ...codingOf(instr), sizes: `(${sizes.join(', ')},)`, dtype: quote(dtype) },
    })
    return [inside ? `${site.name(out)}.copy_(${made})` : `${site.result(out)} = ${made}`]
  },
}
