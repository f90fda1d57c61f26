/** Numbers as signs, and one number for as many of them as share it; and the mean of gradients that is sent so. */

import type { Coding } from '../../base/index.js'
import { addendsIn, codedSizes, elementsOf, summedDims } from '../../base/index.js'
import type { Place, Shape } from '../../geometry/index.js'
import { inBlock } from './block.js'
import { aligned } from './elementwise.js'
import type { Prepare } from './kernel.js'

export const blend: Prepare<'blend'> = ({ beta1, ranks }, [m], [grad]) => {
  const [means] = aligned([m], grad)
  return (cells, [from], [to]) => {
    for (let i = 0; i < means.length; i++)
      cells[to.at + i] = (beta1 / ranks) * cells[from.at + means[i]] + (1 - beta1) * cells[to.at + i]
  }
}

/** For every element its part (the parts of all lines counted through) and its place there; how many parts a line has, and bytes a part. */
function partsOf(shape: Shape, coding: Coding) {
  const dims = summedDims(shape.dims)
  const elements = elementsOf(dims)
  const { lines, part, bytes } = codedSizes(elements, coding)
  const { parts, blocks } = coding
  const sizes = dims.map(({ size }) => size)
  const places = Array.from({ length: elements }, (_, e) => {
    const [line, at] = inBlock(sizes, blocks, e)
    return [line * parts + Math.floor(at / part), at % part] as const
  })
  return { places, bytes, parts, all: lines * parts }
}

/** How many elements there are before padding begins. */
const filled = ({ dims, block }: Shape, { parts }: Place): number =>
  block ? Math.max(0, Math.min(dims[0].size, elementsOf(block) - parts[0].origin)) : elementsOf(summedDims(dims))

/** Of several operands, and of one with several addends, one after the other. */
export const packSigns: Prepare<'pack'> = (op, ins) => {
  const { places, bytes, parts, all } = partsOf(ins[0], op)
  const [addends, each] = [addendsIn(ins[0].dims), places.length]
  return (cells, from, [codes, units]) => {
    for (const [a, x] of from
      .flatMap(x => Array.from({ length: addends }, (_, i) => ({ ...x, at: x.at + i * each })))
      .entries()) {
      const [squares, counts] = [new Float64Array(all), new Float64Array(all)]
      const [code, unit] = [codes.at + a * all * bytes, units.at + a * all]
      const set = new Uint8Array(all * bytes)
      for (const [e, [part, at]] of places.slice(0, filled(ins[0], x)).entries()) {
        const value = cells[x.at + e]
        const sum = op.signs === 'line' ? part - (part % parts) : part
        squares[sum] += value * value
        counts[sum] += 1
        if (value < 0) set[part * bytes + (at >> 3)] |= 1 << (at & 7)
      }
      for (let part = 0; part < all; part++) {
        const sum = op.signs === 'line' ? part - (part % parts) : part
        const root = counts[sum] > 0 ? Math.sqrt(squares[sum] / counts[sum]) : 0
        cells[unit + part] = root < Number.POSITIVE_INFINITY ? root : Number.NaN
      }
      cells.set(Int8Array.from(set), code)
    }
  }
}

/** The sum over addends, unless the result has them; 0 beyond the last element. */
export const unpackSigns: Prepare<'unpack'> = (op, [codes], [x]) => {
  const { places, bytes, all } = partsOf(x, op)
  const [addends, apart] = [addendsIn(codes.dims), addendsIn(x.dims)]
  const summed = apart > 1 ? 1 : addends
  return (cells, [fromCodes, fromUnits], [to]) => {
    const count = filled(x, to)
    for (let first = 0; first < addends; first += summed)
      for (const [e, [part, at]] of places.entries()) {
        let sum = 0
        for (let a = first; a < first + summed && e < count; a++) {
          const byte = cells[fromCodes.at + (a * all + part) * bytes + (at >> 3)]
          sum += ((byte >> (at & 7)) & 1 ? -1 : 1) * cells[fromUnits.at + a * all + part]
        }
        cells[to.at + first * places.length + e] = sum
      }
  }
}
