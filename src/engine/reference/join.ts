/** Two tensors side by side along one dim of a third, and back. */
import { elementsOf } from '../../base/index.js'
import { missingDim, offsets, type Shape, sizeIn, strideOf, without } from '../../geometry/index.js'
import type { Prepare } from './kernel.js'

/** Where the rows of a part and of the whole lie, and how a row runs along the dim that is each one's own. */
interface Piece {
  readonly size: number
  readonly part: { readonly rows: Int32Array; readonly stride: number }
  readonly whole: { readonly rows: Int32Array; readonly stride: number; readonly first: number }
}

function piecesOf(parts: readonly Shape[], whole: Shape): Piece[] {
  const joined = missingDim(whole.dims, [...parts[0].dims, ...parts[1].dims])
  const rows = without(whole.dims, [{ name: joined, size: 0 }])
  let first = 0
  return parts.map(part => {
    const own = missingDim(part.dims, whole.dims)
    const size = sizeIn(part.dims, own) ?? 0
    const piece = {
      size,
      part: { rows: offsets(rows, part.dims), stride: strideOf(part.dims, own) },
      whole: { rows: offsets(rows, whole.dims), stride: strideOf(whole.dims, joined), first },
    }
    first += size
    return piece
  })
}

export const join: Prepare<'join'> = (_, ins, [out]) => {
  const pieces = piecesOf(ins, out)
  return (cells, from, [to]) => {
    for (const [i, { size, part, whole }] of pieces.entries())
      for (let r = 0; r < part.rows.length; r++)
        for (let d = 0; d < size; d++)
          cells[to.at + whole.rows[r] + (whole.first + d) * whole.stride] =
            cells[from[i].at + part.rows[r] + d * part.stride]
  }
}

/** Rows of the whole that are one row of a part add up. */
export const joinGrad: Prepare<'joinGrad'> = (_, [dout], outs) => {
  const pieces = piecesOf(outs, dout)
  const sums = outs.map(({ dims }) => new Float64Array(elementsOf(dims)))
  return (cells, [from], to) => {
    for (const [i, { size, part, whole }] of pieces.entries()) {
      sums[i].fill(0)
      for (let r = 0; r < part.rows.length; r++)
        for (let d = 0; d < size; d++)
          sums[i][part.rows[r] + d * part.stride] += cells[from.at + whole.rows[r] + (whole.first + d) * whole.stride]
      cells.set(sums[i], to[i].at)
    }
  }
}
