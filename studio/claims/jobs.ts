/** Jobs that several claims look at. */
import type { JobText } from './lab.js'

type PlanText = NonNullable<JobText['plan']>

/** GPT-3 on one rank that would have to be large enough. */
export const gpt3 = (plan: PlanText): JobText => ({
  model: 'gpt3-175b',
  training: { seq: 2048, globalBatch: 1 },
  plan,
})

/** The 7.5B model of the ZeRO figure, data parallel. */
export const zeroFigure = (plan: PlanText): JobText => ({
  model: 'megatron-7.5b',
  training: { seq: 2048, globalBatch: 64 },
  plan: { dp: 64, ...plan },
})

/** Llama 2 7B on eight devices, one sequence each. */
export const seven = (plan: PlanText, globalBatch = 8): JobText => ({
  model: 'llama2-7b',
  training: { seq: 4096, globalBatch },
  plan: { precision: 'bf16', ...plan },
})

/** GPT-2 on 64 devices: little to compute, many to meet. */
export const small = (plan: PlanText): JobText => ({
  model: 'gpt2',
  training: { seq: 1024, globalBatch: 64 },
  plan: { dp: 64, precision: 'bf16', ...plan },
})

/** Llama 3 8B on 64 devices, 128 sequences a step, in `pp` stages. */
export const eight = (pp: number): JobText => ({
  model: 'llama3-8b',
  training: { seq: 8192, globalBatch: 128 },
  plan: { dp: 64 / pp, pp, zero: 1, precision: 'bf16', microbatches: 2 * pp, recompute: 'selective' },
})

/** Llama 3 70B on 64 devices, its layers split over `tp`. */
export const seventy = (tp: number): JobText => ({
  model: 'llama3-70b',
  training: { seq: 4096, globalBatch: 64 },
  plan: {
    ...{ tp, dp: 64 / tp, zero: 3, sequenceParallel: true },
    ...{ precision: 'bf16', recompute: 'selective', microbatches: tp / 4 },
  },
})

/** The same in three dimensions; `order` says which axis lies next to which. */
export const cube = (order: string): JobText => ({
  model: 'llama3-70b',
  training: { seq: 4096, globalBatch: 64 },
  plan: { tp: 8, pp: 4, dp: 2, zero: 1, sequenceParallel: true, precision: 'bf16', microbatches: 16, order },
})

/** Four small layers, for what can be run at once. */
export const mlp = (plan: PlanText): JobText => ({
  model: 'mlp-tiny',
  training: { seq: 4, globalBatch: 8 },
  plan,
})

export const tiny = (plan: PlanText): JobText => ({
  model: 'llama-tiny',
  training: { seq: 8, globalBatch: 4 },
  plan,
})

export const recipes = {
  eight: { precision: 'pure-bf16' },
  twelve: { precision: 'bf16-no-masters', gradients: 'bf16' },
  sixteen: { precision: 'bf16', gradients: 'bf16' },
  eighteen: { precision: 'bf16' },
} as const
