/**
 * The first values of all parameters, drawn by all ranks at once: each draws an even share of every parameter, and lays it
 * wherever it is held, its own arena or another's. A number depends on its place in the whole tensor alone, so who draws
 * it makes no difference.
 */
import { coordinatesOf, elementsOf, type Layout, type Mesh, type Rank } from '../../../base/index.js'
import { heldRuns, initial } from '../../../geometry/index.js'
import { bytesPer, type DType, type Param } from '../../../ir/index.js'
import { layNumbers, viewOf } from '../kernels/dtypes.js'
import { writeTo } from './disk.js'

export interface Drawing {
  readonly seed: number
  readonly mesh: Mesh
  readonly params: readonly DrawnParam[]
}

export interface DrawnParam extends Pick<Param, 'name' | 'init' | 'dims'> {
  /** The parameter and, where it has one, its master. */
  readonly kept: readonly DrawnTensor[]
}

export interface DrawnTensor {
  readonly dtype: DType
  readonly layout: Layout
  /** Where the own part of each rank that holds it begins, in bytes of the memory or of a file. */
  readonly holders: readonly { readonly rank: Rank; readonly offset: number; readonly file?: number | undefined }[]
}

const elementsBetweenLooks = 2 ** 17

/** Draws a rank's share of so many; `look` hears how much of it is done, and says whether to go on. */
export function draw(
  { seed, mesh, params }: Drawing,
  { rank, ranks, buffer }: { readonly rank: Rank; readonly ranks: number; readonly buffer: SharedArrayBuffer },
  look: (share: number) => boolean,
): void {
  const all = params.reduce((sum, { dims }) => sum + elementsOf(dims), 0) / ranks
  let drawn = 0
  for (const param of params) {
    const [from, until] = [rank, rank + 1].map(share => Math.floor((elementsOf(param.dims) * share) / ranks))
    const value = initial(param, seed)
    const values = new Float32Array(until - from)
    for (let i = 0; i < values.length; i++) {
      if (i % elementsBetweenLooks === 0 && !look((drawn + i) / all)) return
      values[i] = value(from + i)
    }
    for (const kept of param.kept)
      for (const holder of kept.holders) lay({ mesh, param, kept, from, values, buffer }, holder)
    drawn += values.length
  }
}

interface Share {
  readonly mesh: Mesh
  readonly param: DrawnParam
  readonly kept: DrawnTensor
  /** Index in the whole tensor of the first of the values. */
  readonly from: number
  readonly values: Float32Array
  readonly buffer: SharedArrayBuffer
}

function lay(share: Share, { rank, offset, file }: DrawnTensor['holders'][number]): void {
  const { mesh, param, kept, from, values, buffer } = share
  for (const { held, index, length } of heldRuns(mesh, param.dims, kept.layout, coordinatesOf(mesh, rank))) {
    const [first, end] = [Math.max(index, from), Math.min(index + length, from + values.length)]
    if (first >= end) continue
    const at = offset + bytesPer[kept.dtype] * (held + first - index)
    const own = values.subarray(first - from, end - from)
    if (file === undefined) {
      layNumbers(kept.dtype, viewOf(kept.dtype, buffer, at, own.length), own)
      continue
    }
    const bytes = new SharedArrayBuffer(own.length * bytesPer[kept.dtype])
    layNumbers(kept.dtype, viewOf(kept.dtype, bytes, 0, own.length), own)
    writeTo(file, new Uint8Array(bytes), at)
  }
}
