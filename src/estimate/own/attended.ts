/** Widths of queries, keys and values of one token, on one rank. */
import { kvSplit } from '../counts.js'
import type { Shape } from '../shape.js'

/** Elements of one token on one rank. */
interface AttendedWidths {
  readonly queries: number
  readonly keys: number
  readonly values: number
  /** What attention gives. */
  readonly results: number
}

export function attendedWidths(shape: Shape, tp: number): AttendedWidths {
  const { heads, kvHeads, headDim, latent } = shape
  if (latent) {
    const [asked, given] = [(heads * (latent.plain + latent.turned)) / tp, (heads * latent.values) / tp]
    return { queries: asked, keys: asked, values: given, results: given }
  }
  const [queries, keys] = [(heads * headDim) / tp, (kvHeads * headDim) / kvSplit(shape, tp)]
  return { queries, keys, values: keys, results: queries }
}
