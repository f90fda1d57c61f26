/** MaxText's rows: what its scripts say of a model, and what is not priced. */
import type { Reading } from './reading.js'
import type { Row } from './row.js'

/**
 * MaxText makes its models of a scale, a power of two: heads and feed-forward, the width, and the layers are doubled in turns (`global_parameter_scale`
 * of its scripts, from 16 layers of 2048 with 16 heads of 128 and a feed-forward of 7168).
 */
export function scaledKnown({ model, params_b: billions = 0, recompute }: Row): Partial<Reading> {
  const times = Math.log2(billions)
  if (!/^MaxText \d+B$/.test(model) || !Number.isInteger(times)) return {}
  const [all, rest] = [Math.floor(times / 3), times % 3]
  const wide = 2 ** (all + (rest > 0 ? 1 : 0))
  return {
    ...{ layers: 16 * 2 ** all, embed: 2048 * 2 ** (all + (rest > 1 ? 1 : 0)), heads: 16 * wide, headDim: 128 },
    ...{ ffn: 7168 * wide, vocab: 32000, ...(recompute === 'minimal' && { recompute: 'selective' as const }) },
  }
}

export const severalSlices = ({ interconnect = '' }: Row): string | undefined =>
  /^([2-9]|\d\d+) slices/.test(interconnect) ? 'slices that a network joins are not modelled' : undefined
