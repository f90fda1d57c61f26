/** Numbers as 8-bit codes and units, and back. */
import { type Coding, codedSizes, elementsOf } from '../../base/index.js'
import type { Shape } from '../../geometry/index.js'
import { inBlock } from './block.js'
import type { Prepare } from './kernel.js'
import { packSigns, unpackSigns } from './signs.js'

/** For every element of a tensor its place among the codes, and that of its unit among the units. */
function placesOf({ dims }: Shape, coding: Coding): { code: Int32Array; unit: Int32Array } {
  const elements = elementsOf(dims)
  const { part, units } = codedSizes(elements, coding)
  const { run, parts, blocks } = coding
  const sizes = dims.map(({ size }) => size)
  const [code, unit] = [new Int32Array(elements), new Int32Array(elements)]
  for (let e = 0; e < elements; e++) {
    const [line, at] = inBlock(sizes, blocks, e)
    const inPart = at % part
    code[e] = line * parts * part + at
    unit[e] = (line * parts + (at - inPart) / part) * units + Math.floor(inPart / run)
  }
  return { code, unit }
}

/** To the nearest whole number, ties to even. */
function nearest(x: number): number {
  const floor = Math.floor(x)
  const rest = x - floor
  return rest > 0.5 || (rest === 0.5 && floor % 2 !== 0) ? floor + 1 : floor
}

export const pack: Prepare<'pack'> = (op, ins, outs) => {
  const [codes, units] = outs
  if (op.signs) return packSigns(op, ins, outs)
  const places = placesOf(ins[0], op)
  const [each, eachUnits] = [codes, units].map(({ dims }) => elementsOf(dims) / ins.length)
  return (cells, from, [toCodes, toUnits]) => {
    for (const [a, { at }] of from.entries()) {
      const [code, unit] = [toCodes.at + a * each, toUnits.at + a * eachUnits]
      cells.fill(0, code, code + each)
      cells.fill(0, unit, unit + eachUnits)
      for (const [e, u] of places.unit.entries()) {
        const size = Math.abs(cells[at + e]) / 128
        // Of a number and of what is none, the greater is none.
        cells[unit + u] = size < Number.POSITIVE_INFINITY ? Math.max(cells[unit + u], size) : Number.NaN
      }
      for (const [e, u] of places.unit.entries()) {
        const by = cells[unit + u]
        const whole = by > 0 ? nearest(cells[at + e] / by) : 0
        cells[code + places.code[e]] = Math.min(127, whole)
      }
    }
  }
}

export const unpack: Prepare<'unpack'> = (op, ins, outs) => {
  const [[codes, units], [x]] = [ins, outs]
  if (op.signs) return unpackSigns(op, ins, outs)
  const places = placesOf(x, op)
  const addends = codes.dims.find(({ name }) => name === 'addend')?.size ?? 1
  const [each, eachUnits] = [codes, units].map(({ dims }) => elementsOf(dims) / addends)
  return (cells, [fromCodes, fromUnits], [to]) => {
    for (const [e, code] of places.code.entries()) {
      let sum = 0
      for (let a = 0; a < addends; a++) {
        const [c, u] = [fromCodes.at + a * each + code, fromUnits.at + a * eachUnits + places.unit[e]]
        sum += cells[c] * cells[u]
      }
      cells[to.at + e] = sum
    }
  }
}
