/**
 * Products of codes in PyTorch: runtime/codes.py. A GPU multiplies codes that lie one after the other along what is summed, so operands
 * that lie otherwise are turned before, once for all products that read them.
 */
import type { Dim } from '../base/index.js'
import type { InstrOf, Ref } from '../ir/index.js'
import { call, has, lettersOf, type Site, tuple } from './expressions.js'
import { quote } from './python.js'

export function scaledContract({ ins, outs, formats }: InstrOf<'scaledContract'>, site: Site): string[] {
  const [out] = outs
  const letters = lettersOf([...ins.slice(0, 2), out].map(site.dims))
  const operands = ins.slice(0, 2).map(ref => operandOf(ref, site, site.dims(out)))
  const equation = `${operands.map(({ dims }) => letters(dims)).join(', ')} -> ${letters(site.dims(out))}`
  const names = [quote(equation), ...operands.map(({ name }) => name), ...ins.slice(2).map(site.name)]
  const product = call('scaled_contract', [...names, tuple(formats.map(quote)), quote(site.buffer(out).dtype)])
  return [...operands.flatMap(({ lines }) => lines), `${site.result(out)} = ${product}`]
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
