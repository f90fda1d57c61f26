/**
 * What a framework keeps in memory for the same plan: how many bytes a parameter costs in all, which tensors autograd
 * holds, what the library takes for itself. A new framework is a new row, not a new formula. Which numbers were chosen
 * on which rows: validation/README.md.
 */
import { GiB } from '../../base/index.js'
import type { Software } from './software.js'

export interface MemoryProfile {
  /** Bytes of a parameter as it is multiplied, of its gradient, and of what the optimizer keeps of it, in 16 bits. */
  readonly parameter: number
  readonly gradient: number
  readonly state: number
  /** Bytes kept for one head and one pair of tokens where attention is not fused; dropout adds its mask and result. */
  readonly score: number
  readonly scoreDropout: number
  /** Bytes that a norm of several kernels keeps of each element beside what enters and leaves it. */
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
  /** The standard deviation of the logarithm of estimated over measured: about the relative error, rows of both signs. */
  readonly spread: number
}

/** Megatron-LM with fp16 or bf16, Adam, no distributed optimizer: the 16 bytes and sbh(34 + 5as/h) everybody quotes. */
export const usual: MemoryProfile = {
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
  spread: 0.05, // over all 121 peaks that count
}

/** FSDP2 with parameters in f32, the loss on a vocabulary that DTensor splits: 20 bytes a logit, without it 15.5. */
const torchtitan = {
  ...{ whole: 3, wholeInPipeline: true, gathered: 3, boundaries: 3, splitLogit: 20, logit: 15.5 },
  spread: 0.054, // 15 peaks
}

const megatron2022 = { gradient: 4, logit: 10, splitLogit: 10 }

/** By the name of the software; the rest is as usual. */
const known: Readonly<Record<string, Partial<MemoryProfile>>> = {
  lockstep: { spread: 0.04 }, // against compiled programs
  'megatron-2021': { spread: 0.03 }, // 54 peaks of zero-bubble
  'megatron-2022': megatron2022,
  'megatron-2024': megatron2022,
  /** Megatron-Bridge's recipes add up gradients in bf16 (grad_reduce_in_fp32: false). */
  'megatron-2025': { ...megatron2022, gradient: 2 },
  'megatron-2026': { ...megatron2022, gradient: 2 },
  'meta-2024': megatron2022,
  /**
   * ZeRO-1 steps with an f32 copy of its part of the gradient. Many communicators and buckets, and memory as the tool
   * of the device shows it.
   */
  'megatron-deepspeed': {
    ...{ state: 16, logit: 8, splitLogit: 8, context: GiB(9), slack: 0.3 },
    spread: 0.055, // 41 peaks
  },
  /**
   * Norms and gates are not fused, and logits are gathered over tp before the loss. Context as other entries reserve it;
   * slack and spread are the likeliest for its 13B layouts that ran or ran out of memory.
   */
  'scaling-2023': {
    ...{ norm: 8, gated: 4, score: 4, logit: 16, gathersLogits: true },
    ...{ context: GiB(3), slack: 0.4, spread: 0.11 },
  },
  /** Its loss is flash-attention's kernel: bf16 logits and their gradient, nothing in f32 (llm-foundry, fused_crossentropy). */
  'fsdp-2023': { ...torchtitan, wholeInPipeline: false, logit: 4, splitLogit: 4 },
  torchtitan,
  'torchtitan-compiled': { ...torchtitan, logit: 13.5 },
}

export const memoryProfileOf = (software: Software): MemoryProfile => ({
  ...usual,
  ...known[software.name],
  ...software.memory,
})
