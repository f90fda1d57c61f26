/** Flags that no field of a job stands for: what they change, or that they change nothing of a step. */
import type { KeyTable } from '../reading.js'

/** What is said of those that change numbers, memory or time. */
const told: Readonly<Record<string, string>> = {
  'init-method-std': 'weights start from a normal distribution of this width there, of 0.02 here',
  'decoupled-lr': 'embedding and head have a learning rate of their own there',
  'decoupled-min-lr': 'embedding and head have a learning rate of their own there',
  'apply-layernorm-1p': 'gains are kept less one there; the same numbers but for weight decay',
  'embed-layernorm': 'a norm behind the embedding: no model here has one',
  'mtp-num-layers': 'layers that predict further tokens: no model here has them',
  'mtp-loss-scaling-factor': 'layers that predict further tokens: no model here has them',
  'rotary-interleaved': 'pairs of neighbours turn there, halves of a head here: weights must be permuted',
  'apply-query-key-layer-scaling': 'scores are divided by the number of the layer there, and multiplied again',
  'fp16-lm-cross-entropy': 'the loss is computed in f16 there, in f32 here',
  'fp32-residual-connection': 'the residual stream is f32 there, in the precision of the plan here',
  'attention-softmax-in-fp32': 'softmax is in f32 here anyway',
  'apply-residual-connection-post-layernorm': 'the residual is taken behind the norm there',
  'parallel-attn': 'attention and feed-forward read the same input there',
  'use-checkpoint-args': 'sizes of the model are in the checkpoint: --model names it',
  'microbatch-group-size-per-virtual-pipeline-stage': 'another order of the interleaved schedule',
  'delay-wgrad-compute': 'gradients of weights are computed later there',
  'overlap-moe-expert-parallel-comm': 'the exchange of experts hides behind another microbatch there',
  'distribute-saved-activations': 'inputs of layers are kept in parts over tp there',
  'standalone-embedding-stage': 'the embedding is a stage of its own there',
  'reset-position-ids': 'documents of a sequence: data.documents says so here',
  'reset-attention-mask': 'documents of a sequence: data.documents says so here',
  'eod-mask-loss': 'documents of a sequence: data.documents says so here',
  'start-weight-decay': 'weight decay changes over the steps there',
  'end-weight-decay': 'weight decay changes over the steps there',
  'weight-decay-incr-style': 'weight decay changes over the steps there',
  'moe-input-jitter-eps': 'inputs of the router are jittered there',
  'ddp-bucket-size': 'gradients travel in buckets of another size: plan.bucket',
  'ddp-num-buckets': 'gradients travel in buckets of another size: plan.bucket',
  'make-vocab-size-divisible-by': 'the vocabulary is not known',
  'extra-vocab-size': 'rows of the vocabulary for further tokens',
  'lora-rank': 'adapters: training.lora says so here',
  'num-train-epochs': 'steps follow from the size of the data',
  packing: 'several documents share a sequence: data.documents',
  'exit-interval': 'the run ends before its last step',
  'exit-duration-in-mins': 'the run ends after some time',
  'no-scaled-init': 'layers that write into the residual stream start as others there',
  'use-scaled-init-method': 'layers that write into the residual stream start smaller there',
  finetune: 'weights are loaded, and the optimizer starts anew',
  deepspeed: 'DeepSpeed runs the steps: what its configuration says counts',
  'no-pipeline-parallel': 'there is no pipeline: pp is 1',
  'moe-layer-recompute': 'layers of experts are computed again there: plan.recompute',
  'moe-router-force-load-balancing': 'tokens go to experts by chance there, so that all have as many',
  'no-rope-freq': 'some layers have no rotary positions there: no model here has such',
  'checkpoint-in-cpu': 'inputs of layers wait on the host there: plan.offload',
  'partition-activations': 'inputs of layers are kept in parts over tp there',
  'use-bnb-optimizer': 'moments are in 8 bits there',
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
