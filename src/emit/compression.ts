/** Quantized communication as lines of Python: INT8 blocks and 1-bit signs, and back. */
import { type Coding, elementsOf, flatAxes, summedDims } from '../base/index.js'
import type { InstrOf, Ref } from '../ir/index.js'
import { call, type Site, Unwritten } from './expressions.js'
import { quote } from './python.js'

const codingOptions = ({ run, parts, signs, blocks = [] }: Coding) => {
  if (blocks.some(ways => ways > 1)) throw new Unwritten('codes of blocks that other ranks would have')
  return signs ? { shards: parts } : { block_size: run, shards: parts }
}

/** The elements of a part, or those of them that are there, padding not among them. */
function flatShard(site: Site, ref: Ref, how: 'flat_shard_size' | 'flat_shard_numel'): string {
  const { layout, dims } = site.buffer(ref)
  return `ctx.${how}(${[elementsOf(dims), ...flatAxes(layout).map(quote)].join(', ')})`
}

const isFlat = (site: Site, ref: Ref): boolean => flatAxes(site.buffer(ref).layout).length > 0
const isPerRank = (site: Site, ref: Ref): boolean => {
  const { dims } = site.buffer(ref)
  return summedDims(dims).length < dims.length
}

export const compressionRules = {
  pack(instr: InstrOf<'pack'>, site: Site): string[] {
    const { ins, outs, signs } = instr
    const results = outs.map(ref => site.result(ref)).join(', ')
    const operands = ins.map(ref => (isPerRank(site, ref) ? `*${site.name(ref)}` : site.name(ref)))
    const told = signs && {
      one_scale: signs === 'line' ? 'True' : 'False',
      ...(isPerRank(site, outs[0]) && { per_rank: 'True' }),
      ...(isFlat(site, ins[0]) && { count: flatShard(site, ins[0], 'flat_shard_numel') }),
    }
    const made = call(signs ? 'pack_signs' : 'quantize_int8', [`[${operands.join(', ')}]`], {
      ...codingOptions(instr),
      ...told,
    })
    return [`${results} = ${made}`]
  },
  unpack(instr: InstrOf<'unpack'>, site: Site): string[] {
    const [out] = instr.outs
    const { layout, dims, dtype, inside } = site.buffer(out)
    const sizes = layout.flat ? [flatShard(site, out, 'flat_shard_size')] : dims.map(({ size }) => `${size}`)
    const told = instr.signs && {
      ...(layout.flat && { count: flatShard(site, out, 'flat_shard_numel') }),
      ...(isPerRank(site, out) && { per_rank: 'True' }),
    }
    const made = call(instr.signs ? 'unpack_signs' : 'dequantize_int8', instr.ins.map(site.name), {
      ...{ ...codingOptions(instr), ...told, sizes: `(${sizes.join(', ')},)`, dtype: quote(dtype) },
    })
    return [inside ? `${site.name(out)}.copy_(${made})` : `${site.result(out)} = ${made}`]
  },
  blend: ({ ins: [m], outs: [grad], beta1, ranks }: InstrOf<'blend'>, site: Site): string[] => [
    `${site.result(grad)} = ${call('onebit_momentum_', [site.name(grad), site.name(m)], { beta1, ranks })}`,
  ],
}
