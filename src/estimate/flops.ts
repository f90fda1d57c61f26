/**
 * FLOPs, in the senses that are in print: a utilisation means nothing without the name of its count. Model FLOPs are
 * what training needs, hardware FLOPs what a plan executes, recomputation included.
 */
import { batchRanks } from '../base/index.js'
import { extentOf } from '../model/index.js'
import { trainedParameters } from './counts.js'
import { leavesLast, repeated } from './others/layer-cost.js'
import type { Setup } from './setup.js'
import type { Shape } from './shape.js'

/** Parameters that multiply every token: layers and head, without tables that are only looked up. */
export function matmulParameters(shape: Shape): number {
  const { layers, embed, ffn, gated, vocab, experts, further = 0 } = shape
  const dense = layers - (experts ? layers - experts.dense : 0)
  const widths = dense * ffn + (layers - dense) * (experts ? experts.active * experts.ffn + experts.shared : 0)
  const choices = (layers - dense) * embed * (experts?.count ?? 0)
  const heads = (1 + further) * embed * vocab
  return layers * attentionParameters(shape) + (gated ? 3 : 2) * embed * widths + choices + heads
}

function attentionParameters({ embed, heads, kvHeads, headDim, latent }: Shape): number {
  if (!latent) return embed * headDim * (2 * heads + 2 * kvHeads)
  const { queries, keyValues, plain, turned, values } = latent
  const asked = heads * (plain + turned) * (queries ?? embed) + embed * (queries ?? 0)
  return asked + embed * (keyValues + turned) + keyValues * heads * (plain + values) + heads * values * embed
}

/** Products of scores and of values, of each token and each token that it sees, summed over layers. */
function corePairs({ layers, heads, headDim, latent, seq, window }: Shape): number {
  const width = latent ? latent.plain + latent.turned + latent.values : 2 * headDim
  const narrow = Math.min(window?.tokens ?? seq, seq / 2)
  const seen = window?.layers === 'half' ? (seq / 2 + narrow) / 2 : narrow
  return layers * heads * width * seen
}

/** The same and the tables, biases and norms left out: the N of 6N. */
const parametersOf = (shape: Shape): number => matmulParameters(shape) + (shape.tied ? 0 : shape.vocab * shape.embed)

const squares = ({ layers, seq, embed }: Shape): number => layers * seq * embed * embed

/** Training FLOPs of one sequence by published definition: PaLM, SC21, Korthikanti, Llama 3. */
export const flopDefinitions = {
  /** Chowdhery et al. 2022 (PaLM), appendix B: 6 for each parameter, 12 for attention, the masked half too. */
  palm: (s: Shape): number => s.seq * (6 * parametersOf(s) + 12 * s.layers * s.heads * s.headDim * s.seq),
  /** Narayanan et al. 2021 (SC21): four passes over every layer, so recomputation is in it; whole attention. */
  sc21: (s: Shape): number => 96 * squares(s) * (1 + s.seq / (6 * s.embed) + s.vocab / (16 * s.layers * s.embed)),
  /** Korthikanti et al. 2022, and Megatron-LM since: three passes, whole attention. */
  korthikanti: (s: Shape): number =>
    72 * squares(s) * (1 + s.seq / (6 * s.embed) + s.vocab / (12 * s.layers * s.embed)),
  /** Llama 3 (2024): 6 for each parameter, and the half of attention that the mask leaves. */
  llama3: (s: Shape): number => s.seq * (6 * parametersOf(s) + 6 * s.layers * s.embed * s.seq),
  /** Megatron-LM since it counts experts: 6 for each parameter a token is multiplied with, and the half of attention. */
  megatron: (s: Shape): number => 6 * s.seq * (matmulParameters(s) + corePairs(s)),
} as const satisfies Readonly<Record<string, (shape: Shape) => number>>

export type Definition = keyof typeof flopDefinitions

/** What takes the place of seq in the attention of a layer, in the mean of all layers: less than seq where some see a window. */
function meanExtent({ seq, window }: Shape): number {
  if (!window) return seq
  const narrow = extentOf(seq, window.tokens)
  return window.layers === 'half' ? (seq + narrow) / 2 : narrow
}

/** Of a token: what is frozen has no gradient, 2 less for each parameter; adapters have 6 like any other. */
function sparedOf(shape: Shape): number {
  if (!shape.adapters) return 0
  const { all, experts } = trainedParameters(shape, { tp: 1, ep: 1 })
  const { active, count } = shape.experts ?? { active: 1, count: 1 }
  return 2 * parametersOf(shape) - 6 * shape.layers * (all - experts * (1 - active / count))
}

/** Of a step over all devices. The model's are PaLM's, of what windows leave; the hardware's are those of the products that are executed. */
export function flopsOfStep(setup: Setup): { model: number; hardware: number } {
  const { shape, split } = setup
  const sequences = batchRanks(split) * split.microbatches * split.microbatch
  const core = 4 * shape.layers * shape.heads * shape.headDim
  const whole = flopDefinitions.palm(shape) - 3 * core * shape.seq * (shape.seq - meanExtent(shape))
  const model = sequences * (whole - shape.seq * sparedOf(shape))
  const again = repeated[split.recompute]
  const layers = 2 * (matmulParameters(shape) - shape.embed * shape.vocab)
  const scores = core * meanExtent(shape)
  const left = leavesLast(setup) ? 2 * shape.layers * shape.embed * shape.ffn : 0
  const repeats = again.forward * (layers + scores) + again.core * scores - left
  return { model, hardware: model + sequences * shape.seq * repeats }
}
