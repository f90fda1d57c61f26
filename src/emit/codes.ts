/**
 * Products of codes in PyTorch: runtime/codes.py. A GPU multiplies codes that lie one after the other along what is summed, so operands
 * that lie otherwise are turned before, once for all products that read them.
 */
import type { Blocks, Dim } from '../base/index.js'
import type { InstrOf, Ref } from '../ir/index.js'
import { aligned, assign, call, has, lettersOf, type Options, placeOf, type Site, tuple } from './expressions.js'
import { quote } from './python.js'

/** How many elements of each dim a block has; 0: all. */
const blocksAlong = (dims: readonly Dim[], blocks: Blocks): string => tuple(dims.map(({ name }) => blocks[name] ?? 0))

const cutBy = (dims: readonly Dim[], blocks: Blocks | undefined): Options =>
  blocks ? { blocks: blocksAlong(dims, blocks) } : {}

export const absMax = (instr: InstrOf<'absMax'>, site: Site): string[] =>
  assign(site, instr, call('abs_max', instr.ins.map(site.name), cutBy(site.dims(instr.ins[0]), instr.blocks)))

export function quantize({ ins: [x, amax], outs: [codes], format, blocks }: InstrOf<'quantize'>, site: Site): string[] {
  const dims = site.dims(codes)
  const operands = [aligned(site, x, dims), site.name(amax), quote(format)]
  return [`${site.result(codes)} = ${call('quantize', operands, cutBy(dims, blocks))}`]
}

export function scaledContract({ ins, outs, formats, blocks }: InstrOf<'scaledContract'>, site: Site): string[] {
  const [out] = outs
  const letters = lettersOf([...ins.slice(0, 2), out].map(site.dims))
  const operands = ins.slice(0, 2).map(ref => operandOf(ref, site, site.dims(out)))
  const equation = `${operands.map(({ dims }) => letters(dims)).join(', ')} -> ${letters(site.dims(out))}`
  const scales = operands.map(({ dims }, i) => inOrderOf(dims, ins[i + 2], site))
  const names = [quote(equation), ...operands.map(({ name }) => name), ...scales]
  const cut = blocks ? { blocks: tuple(operands.map(({ dims }, i) => blocksAlong(dims, blocks[i]))) } : {}
  const product = call('scaled_contract', [...names, tuple(formats.map(quote)), quote(site.buffer(out).dtype)], cut)
  return [...operands.flatMap(({ lines }) => lines), `${site.result(out)} = ${product}`]
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
