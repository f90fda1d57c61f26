/** Flags that no field of a job stands for: what they change, or that they change nothing of a step. */
import type { KeyTable } from '../reading.js'

/** What is said of those that change numbers, memory or time. */
const told: Readonly<Record<string, string>> = {
  'init-method-std': 'Lockstep initializes weights with std 0.02; no job field sets it',
  'decoupled-lr': 'no separate learning rate for embedding and head: training.paramGroups sets one',
  'decoupled-min-lr': 'no separate learning rate for embedding and head: training.paramGroups sets one',
  'apply-layernorm-1p': 'zero-centered gains (1 + gamma) are not supported; results differ by weight decay only',
  'embed-layernorm': 'a norm after the embedding is not supported',
  'mtp-num-layers': 'multi-token prediction is not supported',
  'mtp-loss-scaling-factor': 'multi-token prediction is not supported',
  'rotary-interleaved':
    'interleaved rotary pairs are not supported (Lockstep rotates halves of a head): permute the weights',
  'apply-query-key-layer-scaling': 'layer-index scaling of attention scores is not supported; it changes rounding only',
  'fp16-lm-cross-entropy': 'the loss is computed in f32, not f16',
  'fp32-residual-connection': 'the residual stream has the precision of the plan, not f32',
  'attention-softmax-in-fp32': 'softmax is always in f32',
  'apply-residual-connection-post-layernorm': 'post-LayerNorm residuals are not supported',
  'parallel-attn': 'parallel attention and MLP blocks are not supported',
  'use-checkpoint-args': 'model sizes are read from the checkpoint: set --model',
  'microbatch-group-size-per-virtual-pipeline-stage':
    'the microbatch group size of the interleaved schedule cannot be set',
  'delay-wgrad-compute': 'delayed weight gradients are not supported: see the zero-bubble schedules',
  'overlap-moe-expert-parallel-comm': 'overlap of the expert all-to-all with another microbatch is not supported',
  'distribute-saved-activations': 'saved layer inputs are not sharded over tp',
  'standalone-embedding-stage': 'a standalone embedding stage is not supported',
  'reset-position-ids': 'documents within a sequence: set data.documents',
  'reset-attention-mask': 'documents within a sequence: set data.documents',
  'eod-mask-loss': 'documents within a sequence: set data.documents',
  'start-weight-decay': 'weight-decay schedules are not supported',
  'end-weight-decay': 'weight-decay schedules are not supported',
  'weight-decay-incr-style': 'weight-decay schedules are not supported',
  'moe-input-jitter-eps': 'router input jitter is not supported',
  'ddp-bucket-size': 'gradient bucket size: set plan.bucket',
  'ddp-num-buckets': 'gradient bucket size: set plan.bucket',
  'make-vocab-size-divisible-by': 'the vocabulary size is not in the file',
  'extra-vocab-size': 'extra vocabulary rows are not added',
  'lora-rank': 'LoRA: set training.lora',
  'num-train-epochs': 'the number of steps depends on the dataset: set training.steps',
  packing: 'packed sequences: set data.documents',
  'exit-interval': 'early exit is not supported: set training.steps',
  'exit-duration-in-mins': 'a time limit is not supported',
  'no-scaled-init': 'Lockstep always scales the initialization of residual output layers',
  'use-scaled-init-method': 'scaled initialization of residual output layers is fixed in Lockstep',
  finetune: 'loads weights only: use train --init',
  deepspeed: 'DeepSpeed runs the steps: its config takes precedence',
  'no-pipeline-parallel': 'no pipeline: pp is 1',
  'moe-layer-recompute': 'recomputation of MoE layers: set plan.recompute',
  'moe-router-force-load-balancing': 'forced load balancing (a benchmark mode) is not supported',
  'no-rope-freq': 'layers without rotary embeddings are not supported',
  'checkpoint-in-cpu': 'CPU-offloaded checkpoints: set plan.offload',
  'partition-activations': 'saved layer inputs are not sharded over tp',
  'use-bnb-optimizer': '8-bit optimizer state is not supported',
}

/** Paths, logs, checkpoints, evaluation, profiling, kernels, data loading: no step is another one for them. */
const without = [
  /(^|-)(path|paths|dir|file|files|folder|cache|name|project|entity|tag|prefix)$/,
  /^(log|tensorboard|wandb|one-logger|save|load|ckpt|checkpoint-|dist-ckpt|async-(save|ckpt|strategy)|eval|valid|test|profile|nsys)/,
  /^(tokenizer|vocab-file|merge-file|data|dataset|dataloader|split|num-workers|mmap|mock-data|train-data|per-split)/,
  /^(no-(load|save|mmap|async|log|masked|bias|rope|gradient|barrier|check|persist|one|create|query|seq|initial|ckpt|strict|align|fp8|data|use|contig|scaled-masked|new|pin|delay|manual))/,
  /^(use-(mcore|flash|cpu-init|legacy|dist-ckpt|dist|persistent|pytorch|tokenizer|one|ring|sharp|nccl|checkpoint-opt|fused|pin|te|process|ext|mp-args|turbo))/,
  /^(attention-backend|transformer-impl|distributed-(backend|timeout)|local.rank|timing|manual-gc|empty-unused|seed-|bert|rerun|enable-(ft|one|cuda|experimental|gloo|msc|zb-runtime|optimizer-post|exactly)|exit-(signal|on))/,
  /^(moe-(grouped|token-dispatcher|permute|per-layer|router-(dtype|fusion|padding|force)|use|enable-deepep|deepep|flex|shared-expert-overlap|extended|apply))/,
  /^(cuda-graph|external-cuda|te-|tp-comm|inference|straggler|ft-|flight|nccl|ddp-(average|pad)|average-in|gradient-(reduce|accumulation)|high-priority|train-mode|model-name|tiktoken|deterministic|cross-entropy|apply-rope|auto-detect|strict|override|lazy|adlr|calc-ft|app-tag|record|memory-snapshot|on-device|squeeze|overlap-param-gather-with|align|defer-embedding|wgrad|init-model|fsdp-|keep-fp8|fp8-wgrad|metrics|scalar|variable|model$|model-type|output-dir|steps-per|zero-(allgather|reduce|contigious)|abort-on|sync-tp|kill-switch|codecarbon|valid-num|deepspeed-config|zero-stage|contigious|synchronize|DDP-impl|reinit|max-padding|patch|position-embedding-fusion|calculate-per-token-loss|enable-full|exit-on|iteration|report|suggested|retro|rank|world-size|data-parallel-size|params-dtype|consumed|legacy|max-tokens-to-oom|is-|_)/,
] as const

export const isWithout = (name: string): boolean =>
  !Object.hasOwn(told, name) && without.some(pattern => pattern.test(name))

/** By path; `pathOf` as the file writes flags. */
export const restOf = (pathOf: (name: string) => string): KeyTable =>
  Object.fromEntries(Object.entries(told).map(([name, message]) => [pathOf(name), message]))
