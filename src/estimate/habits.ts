/**
 * What a framework keeps in memory for the same plan: how many bytes a parameter costs in all, which tensors autograd
 * holds, what the library takes for itself. A new framework is a new row, not a new formula.
 */
import { GiB } from '../base/index.js'
import type { Software } from './software.js'

export interface Habits {
  /** Bytes of a parameter as it is multiplied, of its gradient, and of what the optimizer keeps of it, in 16 bits. */
  readonly parameter: number
  readonly gradient: number
  readonly state: number
  /** Bytes kept for one head and one pair of tokens where attention is not fused; dropout adds its mask and result. */
  readonly score: number
  readonly scoreDropout: number
  /** Bytes a norm keeps of each element beside what enters and leaves it. */
  readonly norm: number
  /** Tensors as wide as the feed-forward layer that are kept of a gated one; of a plain one it is two everywhere. */
  readonly gated: number
  /** Bytes that one logit costs at the height of the loss, on one rank and where the vocabulary is split. */
  readonly logit: number
  readonly splitLogit: number
  /** tp gathers the logits before the loss, so that every rank has them all. */
  readonly gathersLogits: boolean
  /** Layers whose parameters lie whole at one time under ZeRO-3. */
  readonly whole: number
  /** ZeRO-3 in a pipeline: parameters and f32 gradients stay whole for the step, only the optimizer's part is split. */
  readonly wholeInPipeline: boolean
  /** Copies of what crosses to the next stage that are kept of every microbatch of the step. */
  readonly boundaries: number
  /** Whole-sequence activations alive at once under sequence parallelism. */
  readonly gathered: number
  /** Bytes beside the tensors: context, communicators, buckets. 0 where the allocator's own figure was reported. */
  readonly context: number
  /** What the allocator cannot use again, as a part of what comes and goes. */
  readonly slack: number
}

/** Megatron-LM with fp16 or bf16, Adam, no distributed optimizer: the 16 bytes and sbh(34 + 5as/h) everybody quotes. */
export const usual: Habits = {
  parameter: 2,
  gradient: 2,
  state: 12,
  score: 2,
  scoreDropout: 3,
  norm: 0,
  gated: 3,
  logit: 0,
  splitLogit: 0,
  gathersLogits: false,
  whole: 2,
  wholeInPipeline: false,
  boundaries: 0,
  gathered: 0,
  context: 0,
  slack: 0,
}

/** Megatron-DeepSpeed with ZeRO-1: many communicators, buckets, and memory as the device's tool shows it. */
const deepspeed = { context: GiB(9), slack: 0.3, logit: 8, splitLogit: 8 }

/** FSDP2 with parameters in f32, the loss on a vocabulary that DTensor splits: 20 bytes a logit, without it 15.5. */
const torchtitan = { whole: 3, wholeInPipeline: true, gathered: 3, boundaries: 3, splitLogit: 20 }

/** By the name of the software; the rest is as usual. */
const known: Readonly<Record<string, Partial<Habits>>> = {
  /** The f32 copy of its part of the gradient that the optimizer steps with. */
  'megatron-deepspeed fp16': { ...deepspeed, state: 16 },
  /** Gradients in bf16 and summed up in f32. */
  'megatron-deepspeed bf16': { ...deepspeed, gradient: 6 },
  'torchtitan 2024 eager': { ...torchtitan, logit: 15.5 },
  'torchtitan 2024': { ...torchtitan, logit: 13.5 },
  /** The loss is compiled too: logits and their gradient are all there is. */
  'torchtitan 2025': { ...torchtitan, logit: 4 },
  sailor: { gradient: 4, state: 14, logit: 16, splitLogit: 16, context: 3.4e9, slack: 0.1 },
  /** Own code of Aleph Alpha, 2023: norms and gates not fused, logits gathered over tp before the loss. */
  'aleph-alpha': { norm: 8, gated: 4, score: 4, logit: 16, gathersLogits: true, context: GiB(8), slack: 0.4 },
}

const cache = new WeakMap<Software, Habits>()

export function habitsOf(software: Software): Habits {
  const found = cache.get(software) ?? { ...usual, ...known[software.name], ...software.memory }
  cache.set(software, found)
  return found
}
