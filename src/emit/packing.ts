/** Numbers to codes and back, as lines of Python. */
import { type Coding, elementsOf, flatAxes, summedDims } from '../base/index.js'
import type { InstrOf, Ref } from '../ir/index.js'
import { call, type Site, Unwritten } from './expressions.js'
import { quote } from './python.js'

const codingOf = ({ run, parts, signs, blocks = [] }: Coding) => {
  if (blocks.some(ways => ways > 1)) throw new Unwritten('codes of blocks that other ranks would have')
  return signs ? { parts } : { run, parts }
}

/** The elements of a part, or those of them that are there, padding not among them. */
function partOf(site: Site, ref: Ref, how: 'part_of' | 'count_of'): string {
  const { layout, dims } = site.buffer(ref)
  return `here.${how}(${[elementsOf(dims), ...flatAxes(layout).map(quote)].join(', ')})`
}

const isFlat = (site: Site, ref: Ref): boolean => flatAxes(site.buffer(ref).layout).length > 0
const hasAddends = (site: Site, ref: Ref): boolean => {
  const { dims } = site.buffer(ref)
  return summedDims(dims).length < dims.length
}

export const packingRules = {
  pack(instr: InstrOf<'pack'>, site: Site): string[] {
    const { ins, outs, signs } = instr
    const results = outs.map(ref => site.result(ref)).join(', ')
    const operands = ins.map(ref => (hasAddends(site, ref) ? `*${site.name(ref)}` : site.name(ref)))
    const told = signs && {
      whole: signs === 'line' ? 'True' : 'False',
      ...(hasAddends(site, outs[0]) && { apart: 'True' }),
      ...(isFlat(site, ins[0]) && { count: partOf(site, ins[0], 'count_of') }),
    }
    const made = call(signs ? 'pack_signs' : 'pack', [`[${operands.join(', ')}]`], { ...codingOf(instr), ...told })
    return [`${results} = ${made}`]
  },
  unpack(instr: InstrOf<'unpack'>, site: Site): string[] {
    const [out] = instr.outs
    const { layout, dims, dtype, inside } = site.buffer(out)
    const sizes = layout.flat ? [partOf(site, out, 'part_of')] : dims.map(({ size }) => `${size}`)
    const told = instr.signs && {
      ...(layout.flat && { count: partOf(site, out, 'count_of') }),
      ...(hasAddends(site, out) && { apart: 'True' }),
    }
    const made = call(instr.signs ? 'unpack_signs' : 'unpack', instr.ins.map(site.name), {
      ...{ ...codingOf(instr), ...told, sizes: `(${sizes.join(', ')},)`, dtype: quote(dtype) },
    })
    return [inside ? `${site.name(out)}.copy_(${made})` : `${site.result(out)} = ${made}`]
  },
  blend: ({ ins: [m], outs: [grad], beta1, ranks }: InstrOf<'blend'>, site: Site): string[] => [
    `${site.result(grad)} = ${call('blend_', [site.name(grad), site.name(m)], { beta1, ranks })}`,
  ],
}
