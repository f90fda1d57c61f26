/** Routed models small enough to be interpreted by the hundred. */
import { type JobInput, scheduleNames } from '../src/plan/index.js'

const llama = { family: 'llama', layers: 2, embed: 8, heads: 4, kvHeads: 2, ffn: 8, vocab: 8 } as const
const loss = { sequence: 0.05, microbatch: 0.03, z: 0.01 }

/** One of each family of routers, with everything that may stand beside them. */
export const expertModels = {
  mixtral: { ...llama, moe: { experts: 8, topK: 2, ffn: 8, loss: { microbatch: 0.05, z: 0.01 } } },
  deepseek: {
    ...llama,
    moe: {
      ...{ experts: 8, topK: 4, ffn: 4, scores: 'sigmoid', groups: 4, topKGroups: 2, scale: 2.5, bias: 0.01 },
      ...{ shared: 8, dense: 1, loss: { sequence: 0.05 } },
    },
  },
  qwen: {
    ...llama,
    moe: { experts: 4, topK: 1, ffn: 8, normalize: false, shared: 8, sharedGate: true, every: 2, loss },
  },
  gshard: {
    ...llama,
    moe: { experts: 8, topK: 2, ffn: 8, capacity: { factor: 1, order: 'choice', renormalize: true }, loss },
  },
  /** DeepSeek's attention too. */
  latent: {
    ...{ family: 'llama', layers: 2, embed: 8, heads: 4, ffn: 8, vocab: 8 },
    mla: { qLoraRank: 3, kvLoraRank: 5, qkRopeHeadDim: 2, qkNopeHeadDim: 3, vHeadDim: 4 },
    moe: {
      experts: 8,
      topK: 2,
      ffn: 4,
      scores: 'sigmoid',
      bias: 0.01,
      shared: 4,
      dense: 1,
      loss: { sequence: 0.05 },
    },
  },
} as const satisfies Record<string, JobInput['model']>

/** What a plan may do with experts, and with sequences that are cut: values to draw from. */
export const routedPlans = {
  dp: [1, 2, 4],
  cp: [1, 2, 4],
  attention: ['gather', 'ring', 'ulysses', { ulysses: 2, ring: 2 }],
  tp: [1, 2, 4],
  ep: [1, 2, 4, 8],
  etp: [1, 2, 4],
  pp: [1, 2],
  sequenceParallel: [false, true],
  zigzag: [undefined, false],
  zero: [0, 1, 2, 3],
  expertCapacity: ['worst', 4],
  recompute: ['none', 'selective', 'full', ['scores', 'dispatch', 'expertContract', 'weightedSwiglu']],
  microbatches: [2, 4],
  schedule: scheduleNames,
  precision: ['f32', 'bf16', 'pure-bf16'],
} as const
