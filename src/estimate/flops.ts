/** FLOPs of a step over all devices: those the model needs (PaLM's count), and those its plan executes. */
import type { Setup } from './setup.js'
import type { Shape } from './shape.js'

/** Parameters that multiply every token: layers and head, without tables that are only looked up. */
export function matmulParameters({
  layers,
  embed,
  heads,
  kvHeads,
  headDim,
  ffn,
  gated,
  vocab,
  experts,
}: Shape): number {
  const attention = embed * headDim * (2 * heads + 2 * kvHeads)
  return layers * (attention + (gated ? 3 : 2) * embed * ffn * (experts?.active ?? 1)) + embed * vocab
}

const repeated = { none: 0, selective: 0, full: 1, 'per-op': 0.42 } as const

export function flopsOfStep({ shape, split }: Setup): { model: number; hardware: number } {
  const tokens = split.dp * split.microbatches * split.microbatch * shape.seq
  const dense = 2 * matmulParameters(shape)
  const scores = 4 * shape.layers * shape.heads * shape.headDim * shape.seq
  const again = repeated[split.recompute]
  const core = split.recompute === 'selective' ? 1 : again
  return { model: 3 * tokens * (dense + scores), hardware: tokens * ((3 + again) * dense + (3 + core) * scores) }
}
