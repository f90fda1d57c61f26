/** Addends side by side, the greatest numbers of each, and these again where they belong. */
import { addendsIn, elementsOf, type Kept, keptSizes, summedDims } from '../../base/index.js'
import type { Shape } from '../../geometry/index.js'
import { inBlock } from './block.js'
import type { Prepare } from './kernel.js'

export const beside: Prepare<'beside'> = (_, [x]) => {
  const each = elementsOf(x.dims)
  return (cells, from, [out]) => {
    for (const [i, { at }] of from.entries()) cells.copyWithin(out.at + i * each, at, at + each)
  }
}

/** For every line of a tensor the indices of its elements, in its order. */
function linesOf({ dims }: Shape, how: Kept): Int32Array[] {
  const own = summedDims(dims)
  const elements = elementsOf(own)
  const { lines, line } = keptSizes(elements, how)
  const found = Array.from({ length: lines }, () => new Int32Array(line))
  const sizes = own.map(({ size }) => size)
  for (let e = 0; e < elements; e++) {
    const [block, at] = inBlock(sizes, how.blocks, e)
    found[block][at] = e
  }
  return found
}

const magnitude = (x: number): number => (Number.isNaN(x) ? Number.POSITIVE_INFINITY : Math.abs(x))

export const greatest: Prepare<'greatest'> = (op, [x]) => {
  const lines = linesOf(x, op)
  const elements = elementsOf(summedDims(x.dims))
  const { kept } = keptSizes(elements, op)
  return (cells, [from], [values, places]) => {
    let to = 0
    for (let a = 0; a < addendsIn(x.dims); a++)
      for (const line of lines) {
        const at = (place: number) => cells[from.at + a * elements + line[place]]
        const order = Array.from(line, (_, place) => place)
        order.sort((i, j) => magnitude(at(j)) - magnitude(at(i)) || i - j)
        for (const place of order.slice(0, kept).sort((i, j) => i - j)) {
          cells[values.at + to] = at(place)
          cells[places.at + to++] = place
        }
      }
  }
}

export const scatter: Prepare<'scatter'> = (op, [values], [out]) => {
  const lines = linesOf(out, op)
  const elements = elementsOf(summedDims(out.dims))
  const { kept } = keptSizes(elements, op)
  const apart = out.dims.length > summedDims(out.dims).length
  return (cells, [from, places], [to]) => {
    cells.fill(0, to.at, to.at + elementsOf(out.dims))
    let next = 0
    for (let a = 0; a < addendsIn(values.dims); a++)
      for (const line of lines)
        for (let i = 0; i < kept; i++, next++)
          cells[to.at + (apart ? a * elements : 0) + line[cells[places.at + next]]] += cells[from.at + next]
  }
}
