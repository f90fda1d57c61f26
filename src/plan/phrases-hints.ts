/** What is said to words of other frameworks, in English: each stands within a phrase. */
import type { ProblemPhrases } from '../base/index.js'

/** What a key of another framework does not say by itself, by the field that is meant. */
export const remarkPhrases = {
  '.remark/training.steps': ['a run is so many steps of seq x globalBatch tokens'],
  '.remark/plan.offload': ['{ optimizer: host or disk, parameters: host or disk, activations: boundaries }'],
  '.remark/training.batchRamp': ['[{ globalBatch: 16, until: 10k }]: so many sequences a step until so many were seen'],
  '.remark/model': ['a preset, or ./config.json; `lockstep train --init FOLDER` starts from its weights'],
  '.remark/plan.layers': ['even, a list of layers per stage, or { first, last }'],
  '.remark/plan.zero': ['1 splits optimizer state over dp, 2 gradients too, 3 parameters too (FSDP)'],
  '.remark/plan.microbatches': ['a microbatch has globalBatch / (dp x microbatches) sequences'],
  '.remark/plan.chunks': ['stages each pipeline rank holds, with schedule interleaved'],
  '.remark/plan.recompute': ['none, cheap, selective or full'],
  '.remark/plan.cp': ['attention says how its ranks meet: gather, ring, ulysses or { ulysses, ring }'],
  '.remark/plan.ep': ['ranks that a model with `moe` deals its experts out to'],
  '.remark/model.moe': ['of the llama family: { experts, chosen, ffn, ... }'],
  '.remark/training.lora': ['{ rank: 8, alpha: 16, targets: [q, v] }'],
  '.remark/training.lossScale': ['a number that stays, or { kind: torch, megatron or deepspeed, ... }'],
  '.remark/training.lrSchedule': ['kind constant, linear, cosine, inverse-sqrt or wsd'],
} as const satisfies ProblemPhrases

/** Words for what no field says: what to do instead. */
const notePhrases = {
  '.note/save-every': ['a job does not say it: `lockstep train --save FOLDER --save-every N` saves'],
  '.note/save': ['a job does not say it: `lockstep train --save FOLDER` saves'],
  '.note/resume': ['a job does not say it: `lockstep train --resume CHECKPOINT` goes on'],
  '.note/curves': ['a job does not say it: `lockstep train --tensorboard FOLDER` writes curves'],
  '.note/metrics': ['a job does not say it: `train` shows every step, and its metrics have each'],
  '.note/ranks': ['ranks are the product dp x cp x tp x pp of the plan; a cluster is said by --cluster and --devices'],
  '.note/attention': ['leave it out: attention never keeps its scores; plan.attention says how ranks of cp meet'],
  '.note/compile': ['leave it out: programs are compiled as a whole'],
  '.note/positions': [
    'rotary positions are those of the llama family, learned ones those of gpt: model.family says it',
  ],
  '.note/norms': ['norms and activations belong to the family: llama has RMSNorm and SwiGLU, gpt LayerNorm and GELU'],
  '.note/one-token': [
    'leave it out: every token predicts the next one alone; of a config.json layers that predict further tokens are left out with a warning',
  ],
  '.note/params': ['write its fields into training.optimizer itself: { kind: adamw, lr: 3e-4 }'],
} as const satisfies ProblemPhrases

export type Note = keyof typeof notePhrases

/** Values of other frameworks. */
const valuePhrases = {
  '.value/f8': ['what is kept has 16 bits at least: write bf16, and fp8: {} beside it for products on 8'],
  '.value/tf32': ['tf32 is how a GPU multiplies f32: write f32, and price it with simulate --multiply tf32'],
  '.value/2bw': ['weights of several versions are not supported: a step uses one; did you mean `1f1b`?'],
  '.value/chimera': ['not supported; dualpipe also runs both ways, or write a .csv file'],
  '.value/adam': ['did you mean `adamw`, with coupled: true for the decay of plain Adam?'],
  '.value/nesterov': ['did you mean `sgd` with momentum and nesterov: true?'],
  '.value/amsgrad': ['did you mean `adamw` with amsgrad: true?'],
  '.value/rows': ['try {usual}, or worst; 1 is the room of rows that all experts share equally'],
  '.value/optimizer': ['not supported yet; one of {kinds}'],
} as const satisfies ProblemPhrases

/** Models that have no preset. */
const modelPhrases = {
  '.model/config': ['no preset: write model: ./config.json with its Hugging Face config'],
  '.model/experts': ['routed experts are part of the llama family alone: mixtral, qwen, deepseek, kimi'],
  '.model/encoder': ['only decoders that predict the next token are supported'],
  '.model/family': ['not supported; families: gpt, llama, mlp'],
  '.model/weights': [
    'a file of weights is not a model: write a preset or a Hugging Face config.json; `train --init` loads the weights of a Hugging Face folder or a checkpoint',
  ],
  '.model/folder': ['a folder or another file is not read: write model: {path}/config.json'],
  '.model/hub': [
    'that looks like a name on the Hugging Face hub: nothing is downloaded, save its config.json beside the job and write model: ./config.json',
  ],
} as const satisfies ProblemPhrases

export const hintPhrases = {
  ...{ ...remarkPhrases, ...notePhrases, ...valuePhrases, ...modelPhrases },
  '.write-fields': ['write {fields}{remark}'],
  '.meant-field': ['did you mean `{field}`?{remark}'],
  '.remark': [' ({remark})'],
} as const
