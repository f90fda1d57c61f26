/** Hints for keys and values of other frameworks, in English; each is part of a message. */
import type { ProblemPhrases } from '../base/index.js'

/** Remarks on what a field expects, for readers who typed another framework's key. */
export const remarkPhrases = {
  '.remark/training.steps': ['a run is N steps of seq x globalBatch tokens'],
  '.remark/plan.offload': ['{ optimizer: host or disk, parameters: host or disk, activations: layer-inputs }'],
  '.remark/training.batchRamp': ['[{ globalBatch: 16, until: 10k }]: 16 sequences per step until 10k were processed'],
  '.remark/model': ['a preset, or ./config.json; `lockstep train --init FOLDER` starts from its weights'],
  '.remark/plan.layers': ['even, a list of layers per stage, or { first, last }'],
  '.remark/plan.zero': ['1 shards optimizer state over dp, 2 also gradients, 3 also parameters (FSDP)'],
  '.remark/plan.microbatches': ['a microbatch has globalBatch / (dp x microbatches) sequences'],
  '.remark/plan.chunks': ['virtual pipeline stages per rank, with schedule interleaved'],
  '.remark/plan.recompute': ['none, cheap, selective or full'],
  '.remark/plan.cp': [
    'plan.attention sets how cp ranks exchange keys and values: gather, ring, ulysses or { ulysses, ring }',
  ],
  '.remark/replicas': ['for HSDP set shard to the ranks that share the state; dp / shard groups of them are replicas'],
  '.remark/plan.ep': ['number of ranks that shard the experts of a `moe` model'],
  '.remark/model.moe': ['llama family only: { experts, topK, ffn, ... }'],
  '.remark/training.lora': ['{ rank: 8, alpha: 16, targets: [q, v] }'],
  '.remark/training.lossScale': ['a fixed number, or { kind: torch, megatron or deepspeed, ... }'],
  '.remark/training.lrSchedule': ['kind constant, linear, cosine, inverse-sqrt or wsd'],
} as const satisfies ProblemPhrases

/** Keys that no field of a job stands for, with what to do instead. */
const notePhrases = {
  '.note/save-every': ['not part of a job: use `lockstep train --save FOLDER --save-every N`'],
  '.note/save': ['not part of a job: use `lockstep train --save FOLDER`'],
  '.note/resume': ['not part of a job: use `lockstep train --resume CHECKPOINT`'],
  '.note/curves': ['not part of a job: use `lockstep train --tensorboard FOLDER`'],
  '.note/metrics': ['not part of a job: `train` prints and records every step'],
  '.note/ranks': ['the world size is dp x cp x tp x pp of the plan; set the cluster with --cluster and --devices'],
  '.note/attention': [
    'leave it out: attention never stores its scores; plan.attention sets how cp ranks exchange keys and values',
  ],
  '.note/compile': ['leave it out: programs are always compiled'],
  '.note/positions': ['set by model.family: llama has rotary positions, gpt learned position embeddings'],
  '.note/norms': ['set by model.family: llama has RMSNorm and SwiGLU, gpt LayerNorm and GELU'],
  '.note/bias': ['set by model.family: gpt has biases, llama has none'],
  '.note/hsdp': [
    'HSDP is `shard`: with dp 16 and shard 8, ZeRO shards over groups of 8 ranks, and 2 groups are replicas',
  ],
  '.note/one-token': [
    'leave it out: multi-token prediction is not supported; MTP layers of a config.json are dropped with a warning',
  ],
  '.note/params': ['write its fields directly into training.optimizer: { kind: adamw, lr: 3e-4 }'],
} as const satisfies ProblemPhrases

export type Note = keyof typeof notePhrases

/** Values of other frameworks. */
const valuePhrases = {
  '.value/f8': ['tensors are stored in at least 16 bits: write bf16, and add fp8: {} for FP8 matmuls'],
  '.value/tf32': ['tf32 is a matmul mode for f32: write f32, and estimate it with simulate --multiply tf32'],
  '.value/2bw': ['several weight versions are not supported; did you mean `1f1b`?'],
  '.value/chimera': ['not supported; dualpipe is bidirectional too, or write a .csv file'],
  '.value/adam': ['did you mean `adamw`, with coupled: true for the L2 decay of Adam?'],
  '.value/nesterov': ['did you mean `sgd` with momentum and nesterov: true?'],
  '.value/amsgrad': ['did you mean `adamw` with amsgrad: true?'],
  '.value/rows': ['try {usual}, or worst; 1 is the capacity for a perfectly balanced load'],
  '.value/optimizer': ['not supported yet; one of {kinds}'],
} as const satisfies ProblemPhrases

/** Models that have no preset. */
const modelPhrases = {
  '.model/config': ['no preset: write model: ./config.json, its Hugging Face config'],
  '.model/experts': ['routed experts are supported only in the llama family: mixtral, qwen, deepseek, kimi'],
  '.model/encoder': ['only decoder-only language models are supported'],
  '.model/family': ['not supported; families: gpt, llama, mlp'],
  '.model/weights': [
    'a file of weights is not a model: write a preset or a Hugging Face config.json; `train --init` loads the weights of a Hugging Face folder or a checkpoint',
  ],
  '.model/folder': ['not a preset or a .json file: write the path of its config.json, such as {path}/config.json'],
  '.model/hub': [
    'that looks like a Hugging Face hub id: models are not downloaded; save its config.json next to the job and write model: ./config.json',
  ],
} as const satisfies ProblemPhrases

export const hintPhrases = {
  ...{ ...remarkPhrases, ...notePhrases, ...valuePhrases, ...modelPhrases },
  '.write-fields': ['write {fields}{remark}'],
  '.meant-field': ['did you mean `{field}`?{remark}'],
  '.remark': [' ({remark})'],
} as const
