/** MaxText's rows: what its scripts say of a model, and of slices. */
import type { Reading } from './reading.js'
import type { Row } from './row.js'

export const maxtextKnown = (row: Row): Partial<Reading> => ({ ...scaledSizes(row), ...slicesOf(row) })

/**
 * MaxText makes its models of a scale, a power of two: heads and feed-forward, the width, and the layers are doubled in turns (`global_parameter_scale`
 * of its scripts, from 16 layers of 2048 with 16 heads of 128 and a feed-forward of 7168).
 */
function scaledSizes({ model, params_b: billions = 0, recompute }: Row): Partial<Reading> {
  const times = Math.log2(billions)
  if (!/^MaxText \d+B$/.test(model) || !Number.isInteger(times)) return {}
  const [all, rest] = [Math.floor(times / 3), times % 3]
  const wide = 2 ** (all + (rest > 0 ? 1 : 0))
  return {
    ...{ layers: 16 * 2 ** all, embed: 2048 * 2 ** (all + (rest > 1 ? 1 : 0)), heads: 16 * wide, headDim: 128 },
    ...{ ffn: 7168 * wide, vocab: 32000, ...(recompute === 'minimal' && { recompute: 'selective' as const }) },
  }
}

/** Its scripts leave what joins slices to data parallelism: parameters are shared within one alone. */
function slicesOf({ interconnect = '', n_gpus: devices = 0, tp = 1 }: Row): Partial<Reading> {
  const slices = Number(/^(\d+) slices/.exec(interconnect)?.[1] ?? 1)
  return slices > 1 ? { network: { slices }, sharded: devices / slices / tp } : {}
}
