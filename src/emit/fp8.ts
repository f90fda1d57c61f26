/**
 * FP8 matmuls in PyTorch: runtime/fp8.py. FP8 GEMMs need operands that are contiguous along the contracted dim, so operands
 * in another layout are transposed first, once for all matmuls that read them.
 */
import type { Blocks, Dim, Scaled } from '../base/index.js'
import type { Instr, InstrOf, Ref, Segment } from '../ir/index.js'
import {
  aligned,
  assign,
  call,
  has,
  lettersOf,
  type Options,
  placeOf,
  type Site,
  tuple,
  verdict,
} from './expressions.js'
import { quote } from './python.js'

/** How many elements of each dim a block has; 0: all. */
const blocksAlong = (dims: readonly Dim[], blocks: Blocks): string => tuple(dims.map(({ name }) => blocks[name] ?? 0))

/** How scales follow, where it is not the usual way. */
const given = (by: Scaled['by']): Options => (by ? { by: quote(by) } : {})

const cutBy = (dims: readonly Dim[], blocks: Blocks | undefined): Options =>
  blocks ? { blocks: blocksAlong(dims, blocks) } : {}

export const absMax = (instr: InstrOf<'absMax'>, site: Site): string[] =>
  assign(site, instr, call('abs_max', instr.ins.map(site.name), cutBy(site.dims(instr.ins[0]), instr.blocks)))

export function quantize(
  { ins: [x, amax], outs: [codes], format, blocks, by }: InstrOf<'quantize'>,
  site: Site,
): string[] {
  const dims = site.dims(codes)
  const operands = [aligned(site, x, dims), site.name(amax), quote(format)]
  return [`${site.result(codes)} = ${call('quantize', operands, { ...cutBy(dims, blocks), ...given(by) })}`]
}

export function scaledContract({ ins, outs, formats, blocks, by }: InstrOf<'scaledContract'>, site: Site): string[] {
  const [out] = outs
  const letters = lettersOf([...ins.slice(0, 2), out].map(site.dims))
  const operands = ins.slice(0, 2).map(ref => operandOf(ref, site, site.dims(out)))
  const equation = `${operands.map(({ dims }) => letters(dims)).join(', ')} -> ${letters(site.dims(out))}`
  const scales = operands.map(({ dims }, i) => inOrderOf(dims, ins[i + 2], site))
  const names = [quote(equation), ...operands.map(({ name }) => name), ...scales]
  const cut = blocks ? { blocks: tuple(operands.map(({ dims }, i) => blocksAlong(dims, blocks[i]))) } : {}
  const how = { ...cut, ...given(by) }
  const product = call('scaled_einsum', [...names, tuple(formats.map(quote)), quote(site.buffer(out).dtype)], how)
  return [...operands.flatMap(({ lines }) => lines), `${site.result(out)} = ${product}`]
}

export function scaledExpertContract(instr: InstrOf<'scaledExpertContract'>, site: Site): string[] {
  const [rows, , w] = instr.ins
  const transposed = site.dims(rows)[1].name === site.dims(w)[2].name
  return ofRows('scaled_grouped_gemm', instr, [rows, w], site, { transposed: transposed || undefined })
}

export const scaledExpertWeightGrad = (instr: InstrOf<'scaledExpertWeightGrad'>, site: Site): string[] =>
  ofRows('scaled_grouped_gemm_weight_grad', instr, instr.ins.slice(0, 2), site)

function ofRows(
  name: string,
  { ins, outs: [out], formats, blocks, by }: InstrOf<'scaledExpertContract' | 'scaledExpertWeightGrad'>,
  coded: readonly Ref[],
  site: Site,
  how: Options = {},
): string[] {
  const cut = blocks ? { blocks: tuple(coded.map((ref, i) => blocksAlong(site.dims(ref), blocks[i]))) } : {}
  const operands = [...ins.map(site.name), tuple(formats.map(quote)), quote(site.buffer(out).dtype)]
  return [`${site.result(out)} = ${call(name, operands, { ...how, ...cut, ...given(by) })}`]
}

export function track({ ins, outs, format, margin, algo, ...guard }: InstrOf<'track'>, site: Site): string[] {
  const [[amax, norm], [scale, history]] = [ins, outs].map(refs => refs.map(site.name))
  const operands = [scale, history, amax, verdict(guard, norm), quote(format)]
  const made = call('update_scale_', operands, { margin, algo: quote(algo) })
  return [`${outs.map(site.result).join(', ')} = ${made}`]
}

/**
 * Blockwise quantization: amax and quantized values in one call, for all block shapes of the segment, so that the operand is read
 * once. Ranks do not synchronize amax of blocks, so there is no collective in between.
 */
export function quantizeLines({ instrs }: Segment): readonly (readonly [Instr, (site: Site) => string[]])[] {
  const pairs = instrs.flatMap(greatest => {
    if (greatest.kind !== 'absMax' || !greatest.blocks) return []
    const codes = instrs.find(instr => instr.kind === 'quantize' && instr.ins[1] === greatest.outs[0])
    return codes?.kind === 'quantize' && codes.ins[0] === greatest.ins[0] ? [{ greatest, codes }] : []
  })
  const of = new Map(
    pairs.map(({ greatest }) => [greatest.ins[0], pairs.filter(pair => pair.greatest.ins[0] === greatest.ins[0])]),
  )
  return [...of].flatMap(([x, ways]) => {
    const [{ greatest: first, codes }] = ways
    const line = (site: Site): string[] => {
      const names = ways.flatMap(way => [way.greatest.outs[0], way.codes.outs[0]]).map(site.result)
      const cuts = ways.map(way => blocksAlong(site.dims(x), way.greatest.blocks!))
      const how = { blocks: tuple(cuts), ...given(codes.by) }
      return [`${names.join(', ')} = ${call('quantize_with_amax', [site.name(x), quote(codes.format)], how)}`]
    }
    const done = ways.flatMap(way => [way.greatest, way.codes]).filter(instr => instr !== first)
    return [[first, line] as const, ...done.map(instr => [instr, (): string[] => []] as const)]
  })
}

/** The numbers of blocks, in the order that the dims of what they belong to have where it is multiplied. */
function inOrderOf(dims: readonly Dim[], ref: Ref, site: Site): string {
  const own = site.dims(ref)
  const order = dims.filter(({ name }) => has(own, name)).map(({ name }) => placeOf(own, name))
  return order.every((place, i) => place === i) ? site.name(ref) : `${site.name(ref)}.permute${tuple(order)}`
}

/** An operand whose summed dims come last: as it lies, turned, or, where they are among others, as it lies all the same. */
function operandOf(ref: Ref, site: Site, out: readonly Dim[]) {
  const dims = site.dims(ref)
  const summed = dims.filter(({ name }) => !has(out, name))
  const first = dims.slice(0, summed.length).every(dim => summed.includes(dim))
  if (!first || summed.length === dims.length) return { name: site.name(ref), dims, lines: [] }
  const { name, lines } = site.turned(ref, summed.length)
  return { name, dims: [...dims.slice(summed.length), ...summed], lines }
}
