/**
 * Flags of Megatron-LM by release, as its argument parsers have them: read off the tagged releases from v1.0 (2019) to v2.5, the
 * state of June 2023, core 0.4 to 0.19 and the main branch of August 2026. A line is `first..last:` and the names that came and
 * went with these; without a last one they are still there. Then what forks add.
 */
export const releases = [
  '1.0',
  '2.0',
  '2.5',
  '23.06',
  '0.4',
  '0.5',
  '0.7',
  '0.8',
  '0.10',
  '0.12',
  '0.14',
  '0.15',
  '0.17',
  '0.19',
  '2026-08',
] as const
export type Release = (typeof releases)[number]

/** Flags that take no word. */
export const switches = `
1.0..2.0: fp32-allreduce
1.0..2.5: override-lr-scheduler use-checkpoint-lr-scheduler
1.0..23.06: mmap-warmup
1.0: adlr-autoresume apply-query-key-layer-scaling apply-residual-connection-post-layernorm attention-softmax-in-fp32
  checkpoint-activations eod-mask-loss finetune fp16 no-load-optim no-load-rng no-save-optim no-save-rng openai-gelu
  reset-attention-mask reset-position-ids
2.0..2.0: faiss-use-gpu no-scaled-masked-softmax-fusion
2.0..2.5: distribute-checkpointed-activations
2.0..23.06: no-query-key-layer-scaling
2.0: fp16-lm-cross-entropy fp32-residual-connection lazy-mpu-init no-bias-dropout-fusion no-bias-gelu-fusion
  use-cpu-initialization use-one-sent-docs
2.5..2.5: use-contiguous-buffers-in-ddp
2.5..0.8: log-batch-size-to-tensorboard no-log-learnig-rate-to-tensorboard
2.5..0.17: no-scatter-gather-tensors-in-pipeline
2.5: accumulate-allreduce-grads-in-fp32 bert-no-binary-head bf16 biencoder-shared-query-context-model
  init-method-xavier-uniform log-memory-to-tensorboard log-num-zeros-in-grad log-params-norm log-timers-to-tensorboard
  log-validation-ppl-to-tensorboard no-log-loss-scale-to-tensorboard no-masked-softmax-fusion retriever-score-scaling
23.06..23.06: embedding-weights-in-fp32 fp8-e4m3 fp8-hybrid no-contiguous-buffers-in-local-ddp
  overlap-p2p-communication
23.06..0.5: retro-return-doc-ids
23.06..0.10: standalone-embedding-stage
23.06..0.15: no-async-tensor-model-parallel-allreduce retro-add-retriever
23.06: apply-layernorm-1p data-parallel-random-init dino-norm-last-layer disable-bias-linear
  distribute-saved-activations exit-on-missing-checkpoint exit-signal-handler log-world-size-to-tensorboard
  no-barrier-with-level-1-timing no-data-sharding no-fp8-wgrad no-gradient-accumulation-fusion no-initialization
  no-persist-layer-norm no-position-embedding output-bert-embeddings override-opt_param-scheduler
  recompute-activations sequence-parallel skip-train squared-relu swiglu untie-embeddings-and-output-weights
  use-checkpoint-args use-checkpoint-opt_param-scheduler use-distributed-optimizer use-flash-attn
  use-ring-exchange-p2p use-rotary-position-embeddings vision-pretraining
0.4..0.8: delay-param-gather no-delay-grad-reduce
0.4..0.15: disable-tp-comm-bulk-dgrad disable-tp-comm-bulk-wgrad disable-tp-comm-split-ag disable-tp-comm-split-rs
  retro-no-verify-neighbor-count
0.4: group-query-attention manual-gc no-check-for-nan-in-loss-and-grad no-clone-scatter-output-in-embedding
  no-manual-gc-eval no-overlap-p2p-communication overlap-grad-reduce overlap-param-gather profile tp-comm-overlap
  use-mcore-models
0.5..0.5: moe-token-dropping
0.5..0.7: enable-one-logger
0.5: add-qkv-bias log-progress log-throughput mock-data moe-grouped-gemm no-bias-swiglu-fusion no-rope-fusion
  rotary-interleaved
0.7..0.15: disable-tp-comm-overlap-ag disable-tp-comm-overlap-rs moe-extended-tp
0.7: async-save auto-detect-ckpt-format calculate-per-token-loss ckpt-assume-constant-structure
  ckpt-fully-parallel-load ckpt-fully-parallel-save disable-straggler-on-startup log-straggler moe-layer-recompute
  moe-pad-expert-input-to-capacity moe-per-layer-logging no-create-attention-mask-in-dataloader no-mmap-bin-files
  qk-layernorm test-mode tp-comm-overlap-rs-dgrad use-dist-ckpt use-tp-pp-dp-mapping
0.8..0.17: use-legacy-models
0.8: cross-entropy-loss-fusion ddp-average-in-collective defer-embedding-wgrad-compute deterministic-mode
  moe-router-pre-softmax no-ckpt-fully-parallel-save no-one-logger one-logger-async
0.10..0.10: renormalize-blend-weights
0.10: check-for-spiky-loss ckpt-convert-update-legacy-dist-opt-format decrease-batch-size-if-needed enable-ft-package
  flash-decode fp8-param-gather moe-shared-expert-overlap moe-use-upcycling multi-latent-attention
  no-align-grad-reduce no-align-param-gather no-use-tokenizer-model-from-checkpoint-args
  overlap-p2p-communication-warmup-flush overlap-param-gather-with-optimizer-step record-memory-history
  use-mp-args-from-checkpoint-args use-pytorch-profiler use-rope-scaling use-torch-fsdp2
0.12..0.12: keep-fp8-transpose-cache-when-using-custom-fsdp use-custom-fsdp
0.12..0.15: moe-use-legacy-grouped-gemm
0.12: account-for-embedding-in-pipeline-split account-for-loss-in-pipeline-split calc-ft-timeouts
  check-for-large-grads ddp-pad-buckets-for-high-nccl-busbw disable-bf16-reduced-precision-matmul
  disable-gloo-process-groups enable-cuda-graph external-cuda-graph first-last-layers-bf16 grad-reduce-in-bf16
  inference-dynamic-batching inference-rng-tracker init-model-with-meta-device is-hybrid-model moe-enable-deepep
  moe-permute-fusion moe-router-enable-expert-bias no-gradient-reduce-div-fusion no-pin-cpu-grads no-pin-cpu-params
  optimizer-cpu-offload overlap-cpu-optimizer-d2h-h2d replication run-workload-inspector-server te-rng-tracker
  use-persistent-ckpt-worker use-precision-aware-optimizer use-torch-optimizer-for-cpu-offload
0.14..0.14: load-model-opt-format
0.14: cache-mla-latents delay-wgrad-compute disable-mamba-mem-eff-path disable-msc enable-experimental
  enable-full-sharding-in-hsdp fsdp-double-buffer full-validation inprocess-empty-cuda-cache inprocess-restart
  keep-fp8-transpose-cache load-main-params-from-ckpt log-energy moe-apply-probs-on-input
  moe-router-force-load-balancing moe-router-fusion moe-router-padding-for-fp8 multiple-validation-sets
  nccl-all-reduce-for-prefill no-strict-fsdp-dtensor-load overlap-moe-expert-parallel-comm qk-l2-norm
  reuse-grad-buf-for-mxfp8-param-ag sft torch-fsdp2-no-reshard-after-forward use-fused-weighted-squared-relu
  use-megatron-fsdp use-nccl-ub use-sharp
0.15..0.15: disable-chunked-prefill langrl-external-server legacy-tokenizer rl-calculate-intra-group-similarity
  rl-offload-kv-cache-during-training rl-remove-kv-cache-during-training rl-reset-cuda-graphs
0.15: decode-only-cuda-graphs disable-symmetric-registration dist-ckpt-optim-fully-reshardable
  dist-ckpt-save-pre-mcore-014 distrib-optim-fully-reshardable-mem-efficient fp4-param-gather
  grpo-filter-groups-with-same-reward inference-dynamic-batching-track-paused-request-events
  moe-pad-experts-for-cuda-graph-inference perform-rl-step quick-geglu rl-inference-logprobs-is-correction
  rl-offload-optimizer-during-inference rl-partial-rollouts rl-use-sequence-packing trust-remote-code
  use-te-activation-func
0.17..0.17: muon-use-nesterov tokenizer-hf-include-special-tokens tokenizer-hf-use-fast
0.17: allow-ambiguous-pad-tokens apply-wd-to-qk-layernorm attention-output-gate batch-invariant-mode
  cpu-offloading-retain-pinned-cpu-buffers create-all-gather-group dataloader-defer-npy-index-mmap
  dataloader-fast-cache-load ddp-reduce-scatter-with-fp32-accumulation disable-jit-fuser dsa-indexer-use-sparse-loss
  enable-chunked-prefill ep-overlap-early-attn-memory-release exit-signal-handler-for-dataloader
  exit-signal-handler-for-training fake-process-group fim-data fine-grained-activation-offloading
  flight-recorder-include-stack-trace fsdp-manual-registration fused-residual-rmsnorm hybrid-context-parallel
  inference-disable-triton-nvls-kernels inference-dynamic-batching-prefix-caching
  inference-dynamic-batching-track-generated-token-events inference-fuse-tp-communication
  inference-moe-disable-fused-quant-kernels inference-text-gen-server-logging
  inference-use-synchronous-zmq-collectives inference-wandb-logging log-device-memory-used log-max-attention-logit
  mla-down-proj-fusion moe-enable-routing-replay moe-router-padding-for-quantization moe-shared-expert-gate
  mtp-standalone mtp-use-repeated-layer muon-no-split-qkv no-flight-recorder-dump-on-timeout
  no-flight-recorder-extra-dump-on-exec no-flight-recorder-include-only-active no-tp-comm-bulk-dgrad
  no-tp-comm-bulk-wgrad no-tp-comm-overlap-ag no-tp-comm-overlap-rs no-tp-comm-split-ag no-tp-comm-split-rs
  optimizer-cuda-graph pytorch-profiler-collect-callstack pytorch-profiler-collect-chakra
  pytorch-profiler-collect-shapes qk-clip rl-offload-inference-model-weights-when-idle rl-persist-cuda-graphs
  rl-skip-bos-token rl-training-cuda-graphs rl-verify-model-weights-swap tokenizer-hf-no-include-special-tokens
  tokenizer-hf-no-use-fast tokenizer-sentencepiece-legacy use-kitchen-attention use-legacy-static-engine use-mup
0.19..0.19: moe-ncclep-static-shape no-stream-ckpt-dequant
0.19: async-ckpt-use-cpu-shm dataloader-inter-document-masking delay-offload-until-cuda-graph dsa-indexer-k-norm-fp32
  dsa-indexer-rope-interleaved enable-msc fp8-output-proj freeze-all-layers fsdp-db-use-persist-buf-on-alloc-fail
  high-priority-a2a-comm-stream inference-cuda-graph-all-prefills inference-disable-ep-consensus
  logits-load-ignore-errors megatron-fsdp-enable-fine-grained-param-gather megatron-fsdp-max-pool-double-buffer
  moe-hybridep-pad-uneven-dispatch-inputs moe-ncclep-zero-copy moe-paged-stash moe-permute-fusion-into-hybridep
  moe-routing-trace-capture-hidden-states moe-routing-trace-capture-logits moe-routing-trace-dump-weights
  moe-single-grouped-bias moe-single-grouped-weight mtp-detach-heads muon-nesterov
  no-ckpt-load-validate-sharding-integrity no-dsa-indexer-rotate-activation no-dsa-indexer-scoring-relu
  no-pad-vocab-size no-tokenizer-sentencepiece-ignore-extra-whitespaces no-use-layer-wise-param-layout
  no-yarn-correction-range-round-to-int nvtx-ranges overlap-dispatch-backward-with-experts-wgrad record-shapes
  rl-profile use-grouped-gemm-for-dense-mlp use-grouped-gemm-for-shared-expert use-same-sampling-seed-across-dp-ranks
  use-transformer-engine-op-fuser verify-integrity yarn-correction-range-round-to-int
2026-08: ckpt-drop-redundant-extra-state ckpt-fully-parallel-load-per-rank-objects ckpt-pg-tensors-cache-create
  enable-mhc-connections gdp-cutedsl-kernel gtp-expert-remat-nccl-ub gtp-remat-nccl-ub
  gtp-remat-reduce-scatter-with-fp32-accumulation moe-use-grouped-tensor mtp-hsm muon-use-syrk
  no-save-tokenizer-assets otel-enabled rl-durable-rollout-bank use-gigatoken
`

/** Flags that take one word. */
export const values = `
1.0..1.0: min-scale
1.0..2.5: checkpoint-num-layers
1.0..23.06: DDP-impl data-impl layernorm-epsilon
1.0..0.8: local_rank
1.0: adlr-autoresume-interval attention-dropout batch-size clip-grad distributed-backend eval-interval eval-iters
  exit-interval hidden-dropout hidden-size hysteresis init-method-std load log-interval loss-scale loss-scale-window
  lr lr-decay-iters lr-decay-style make-vocab-size-divisible-by mask-prob max-position-embeddings merge-file min-lr
  model-parallel-size num-attention-heads num-layers num-workers save save-interval seed seq-length short-seq-prob
  split tensorboard-dir tokenizer-type train-iters vocab-file warmup weight-decay
2.0..2.0: scaled-upper-triang-masked-softmax-fusion
2.0: adam-beta1 adam-beta2 adam-eps bert-load block-data-path exit-duration-in-mins global-batch-size ict-head-size
  ict-load indexer-batch-size indexer-log-interval initial-loss-scale lr-decay-samples lr-warmup-fraction
  lr-warmup-iters lr-warmup-samples micro-batch-size min-loss-scale onnx-safe pipeline-model-parallel-size
  query-in-block-prob tensor-model-parallel-size titles-data-path train-samples
2.5..2.5: img-dim
2.5..0.15: retriever-seq-length
2.5: biencoder-projection-dim dataloader-type decoder-seq-length embedding-path encoder-seq-length evidence-data-path
  ffn-hidden-size kv-channels num-channels num-classes num-layers-per-virtual-pipeline-stage optimizer patch-dim
  sample-rate sgd-momentum tensorboard-log-interval tensorboard-queue-size vocab-extra-ids
23.06..0.5: retro-workdir
23.06..0.12: pipeline-model-parallel-split-rank
23.06..0.15: retro-cyclic-train-iters retro-encoder-attention-dropout retro-encoder-hidden-dropout
  retro-encoder-layers retro-num-neighbors retro-num-retrieved-chunks
23.06: bert-embedder-type classes-fraction data-cache-path data-per-class-fraction decoder-num-layers
  dino-bottleneck-size dino-freeze-last-layer dino-head-hidden-size dino-local-crops-number dino-local-img-size
  dino-teacher-temp dino-warmup-teacher-temp dino-warmup-teacher-temp-epochs distributed-timeout-minutes
  empty-unused-memory-level encoder-num-layers end-weight-decay fp8-amax-compute-algo fp8-amax-history-len
  fp8-interval fp8-margin head-lr-mult img-h img-w inference-batch-times-seqlen-threshold iter-per-epoch mask-factor
  mask-type max-tokens-to-oom num-experts recompute-granularity recompute-method recompute-num-layers rotary-percent
  start-weight-decay swin-backbone-type timing-log-level timing-log-option tokenizer-model transformer-impl
  vision-backbone-type vision-pretraining-type vocab-size weight-decay-incr-style
0.4: context-parallel-size expert-model-parallel-size fp8-format lr-warmup-init manual-gc-interval
  nccl-communicator-config-path norm-epsilon normalization num-query-groups position-embedding-type profile-step-end
  profile-step-start rotary-seq-len-interpolation-factor tp-comm-overlap-cfg wandb-exp-name wandb-project
  wandb-save-dir
0.5..0.7: one-logger-entity
0.5..0.15: retro-attention-gate
0.5: moe-input-jitter-eps moe-router-topk moe-z-loss-coeff one-logger-project one-logger-run-name
0.7..0.15: retro-project-dir
0.7: check-weight-hash-across-dp-replicas-interval ckpt-step ddp-bucket-size decoupled-lr decoupled-min-lr
  dist-ckpt-format moe-expert-capacity-factor moe-token-dispatcher-type moe-token-drop-policy
  num-dataset-builder-threads pretrained-checkpoint straggler-ctrlr-port straggler-minmax-count yaml-cfg
0.8..0.12: s3-cache-path
0.8..0.15: hybrid-attention-ratio hybrid-mlp-ratio
0.8: app-tag-run-name app-tag-run-version dist-ckpt-strictness hybrid-override-pattern logging-level
  lr-wsd-decay-iters lr-wsd-decay-samples lr-wsd-decay-style rotary-base tiktoken-num-special-tokens tiktoken-pattern
  wgrad-deferral-limit
0.10..0.12: encoder-pipeline-model-parallel-size encoder-tensor-model-parallel-size
0.10: ckpt-convert-format ckpt-convert-save ckpt-format config-logger-dir data-args-path
  decoder-first-pipeline-num-layers decoder-last-pipeline-num-layers error-injection-rate error-injection-type
  expert-tensor-parallel-size inference-max-seq-length kv-lora-rank local-rank memory-snapshot-path
  microbatch-group-size-per-virtual-pipeline-stage moe-ffn-hidden-size moe-layer-freq
  moe-shared-expert-intermediate-size non-persistent-ckpt-type non-persistent-global-ckpt-dir
  non-persistent-local-ckpt-algo non-persistent-local-ckpt-dir non-persistent-save-interval
  num-distributed-optimizer-instances per-split-data-args-path q-lora-rank qk-head-dim qk-pos-emb-head-dim rerun-mode
  rotary-scaling-factor tp-comm-bootstrap-backend train-sync-interval v-head-dim
0.12..0.15: inference-dynamic-batching-buffer-guaranteed-fraction inference-dynamic-batching-buffer-overflow-factor
  inference-dynamic-batching-max-requests-override inference-dynamic-batching-max-tokens-override
0.12: attention-backend cross-entropy-fusion-impl cuda-graph-warmup-steps data-parallel-sharding-strategy
  ddp-num-buckets exp-avg-dtype exp-avg-sq-dtype fp8-recipe heterogeneous-layers-config-encoded-json
  heterogeneous-layers-config-path inference-dynamic-batching-buffer-size-gb inference-max-requests main-grads-dtype
  main-params-dtype mamba-head-dim mamba-num-groups mamba-state-dim moe-router-bias-update-rate moe-router-dtype
  moe-router-group-topk moe-router-num-groups moe-router-score-function moe-router-topk-scaling-factor mscale
  mscale-all-dim mtp-loss-scaling-factor mtp-num-layers num-layers-at-end-in-bf16 num-layers-at-start-in-bf16
  num-virtual-stages-per-pipeline-rank optimizer-offload-fraction pipeline-model-parallel-comm-backend
  relative-attention-max-distance relative-attention-num-buckets replication-factor replication-jump
  result-rejected-tracker-filename rope-scaling-factor suggested-communication-unit-size
0.14..0.14: inference-dynamic-batching-chunk-size
0.14..0.15: kitchen-config-file kitchen-recipe-number
0.14: embedding-init-method-std inference-dynamic-batching-num-cuda-graphs inprocess-active-world-size
  inprocess-barrier-timeout inprocess-completion-timeout inprocess-granularity inprocess-hard-timeout
  inprocess-heartbeat-interval inprocess-heartbeat-timeout inprocess-last-call-wait inprocess-max-iterations
  inprocess-monitor-process-interval inprocess-monitor-thread-interval inprocess-progress-watchdog-interval
  inprocess-soft-timeout inprocess-termination-grace-time mamba-num-heads mid-level-dataset-surplus
  mlp-chunks-for-prefill moe-deepep-num-sms moe-upcycling-granularity no-rope-freq object-storage-cache-path
  padded-vocab-size pipeline-model-parallel-layout rope-type save-retain-interval sft-tokenizer-prompt-format
  sharp-enabled-group symmetric-ar-type
0.15..0.15: grpo-default-temperature grpo-default-top-p inference-max-batch-size
  langrl-inference-server-conversation-template langrl-inference-server-type rl-sequence-packing-bin-size
0.15: activation-func-clamp-value cuda-graph-impl distributed-timeout-seconds-after-init fp4-format fp4-recipe
  glu-linear-offset grpo-clamp-eps-lower grpo-clamp-eps-upper grpo-entropy-term-weight grpo-group-size grpo-iterations
  grpo-kl-beta grpo-prompts-per-step inference-dynamic-batching-block-size
  inference-dynamic-batching-unified-memory-level langrl-env-config rl-importance-sampling-truncation-coef
  rl-prompts-per-eval rl-sequence-packing-algo softmax-type tokenizer-metadata wandb-entity window-attn-skip-freq
  window-size
0.17..0.17: inference-dynamic-batching-cuda-graph-max-tokens rl-generation-batch-size
  rl-num-parallel-generation-batches rl-num-parallel-generations rl-parallel-generation-tasks
0.17: async-ckpt-cpu-priority async-ckpt-io-priority async-strategy ckpt-fully-parallel-load-exchange-algo
  ckpt-fully-parallel-load-process-group ckpt-fully-parallel-save-process-group cpu-offloading-num-layers
  dist-ckpt-workers dsa-indexer-head-dim dsa-indexer-loss-coeff dsa-indexer-n-heads dsa-indexer-topk
  dump-param-to-param-group-map exit-signal experimental-attention-variant fim-eod-token fim-fragment-rate
  fim-middle-token fim-no-prefix fim-pad-token fim-prefix-token fim-rate fim-split-sample fim-spm-rate
  fim-suffix-token flight-recorder-dump-path flight-recorder-trace-buffer-size fp4-quantizer-factory
  fp8-quantizer-factory ft-num-warmup-iters hybrid-layer-pattern inference-coordinator-port
  inference-dynamic-batching-cuda-graph-mixed-prefill-count inference-dynamic-batching-mamba-memory-ratio
  inference-dynamic-batching-max-requests inference-dynamic-batching-max-tokens
  inference-dynamic-batching-paused-buffer-size-gb inference-dynamic-batching-prefix-caching-coordinator-policy
  inference-dynamic-batching-prefix-caching-eviction-policy inference-dynamic-batching-prefix-caching-mamba-gb
  inference-dynamic-batching-prefix-caching-routing-alpha inference-grouped-gemm-backend
  inference-logging-step-interval kitchen-attention-backend linear-attention-freq linear-conv-kernel-dim
  linear-key-head-dim linear-num-key-heads linear-num-value-heads linear-value-head-dim lion-beta1 lion-beta2
  log-memory-interval mamba-inference-conv-states-dtype mamba-inference-ssm-states-dtype max-seqlen-per-dp-cp-rank
  megatron-fsdp-grad-comm-dtype megatron-fsdp-main-grads-dtype megatron-fsdp-main-params-dtype
  min-offloaded-tensor-size moe-flex-dispatcher-backend moe-hybridep-num-sms moe-latent-size moe-router-force-biased
  mtp-hybrid-override-pattern muon-coefficient-type muon-extra-scale-factor muon-fp32-matmul-prec muon-momentum
  muon-num-ns-steps muon-scalar-optimizer muon-scale-mode muon-tp-mode mup-attn-scale-power mup-base-head-dim
  mup-base-hidden-size mup-embedding-mult mup-output-mult mup-width-mult no-weight-decay-cond-type
  num-speculative-tokens outer-dp-sharding-strategy per-dataset-sequences-path phase-transition-iterations
  qk-clip-alpha qk-clip-threshold refit-method rl-default-temperature rl-default-top-k rl-default-top-p
  rl-inference-expert-model-parallel-size rl-inference-expert-tensor-model-parallel-size
  rl-inference-model-unified-memory-level rl-inference-pipeline-model-parallel-size
  rl-inference-tensor-model-parallel-size rl-kv-cache-management-mode rl-sequence-packing-max-sequences-per-bin
  save-dgrads-interval save-wgrads-interval te-precision-config-file
0.19: activation-offload-fraction chat-template delta-offload-bytes-across-pp-ranks dsa-indexer-k-norm-epsilon
  dsa-indexer-skip-topk-offset dsa-indexer-topk-freq dsa-kernel-backend eval-global-batch-size eval-micro-batch-size
  expert-tensor-parallel-num-weight-shards fault-injector-delay-start-iteration fault-injector-fault-delay
  fault-injector-fault-probabilities fault-injector-fault-types fault-injector-mtti-seconds fault-injector-num-ranks
  fault-injector-offset-seconds fault-injector-ranks fault-injector-seed fine-grained-offloading-max-inflight-offloads
  flash-attention-version gpu-sniff-test-interval inference-cuda-graph-max-tokens inference-cuda-graph-scope
  inference-dynamic-batching-async-sched-mode inference-dynamic-batching-cuda-graph-sizing-distribution
  inference-dynamic-batching-logprobs-mode inference-dynamic-batching-sampling-backend
  inference-moe-token-dispatcher-type inference-shards logits-load-decode-threads logits-load-dir
  logits-load-kd-loss-alpha logits-load-msc-prefetch-depth logits-load-prefetch-factor logits-save-dir
  logits-save-dtype logits-save-top-k logits-save-top-p logits-save-top-p-min-k mamba-training-ssm-states-dtype
  mlp-chunks-for-training moe-expert-rank-capacity-factor moe-flex-dispatcher-num-sms moe-hybridep-num-blocks-permute
  moe-hybridep-num-blocks-unpermute moe-hybridep-num-sms-preprocessing moe-mlp-glu-interleave-size
  moe-paged-stash-buffer-size-factor-cpu moe-paged-stash-buffer-size-factor-cuda moe-paged-stash-page-size
  moe-router-quantile-balancing-ema moe-routing-trace-max-training-iters moe-routing-trace-path
  moe-shared-expert-glu-interleave-size null-tokenizer-eod-id null-tokenizer-pad-id override-ckpt-iteration
  rl-consumption-granularity rl-generation-lag rl-profile-dir rl-submission-granularity save-activations-interval
  save-params-interval save-tokens-per-expert-interval start-eval-at-iter step-batch-size-schedule
  tensor-parallel-num-weight-shards yarn-beta-fast yarn-beta-slow yarn-original-max-position-embeddings
2026-08: batch-invariant-backend ckpt-pg-tensors-cache-path gdp-num-chunk-states-to-recompute gdp-num-householder
  megatron-fsdp-version mhc-init-gating-factor mhc-num-residual-streams mhc-recompute-layer-num
  mhc-sinkhorn-iterations moe-combine-bwd-dtype moe-dispatch-fwd-dtype otel-service-name otel-span-groups
  output-logit-dtype rl-max-inflight-requests rl-rollout-bank-dir rl-rollout-bank-max-bytes
`

/** Flags that take all words up to the next flag. */
export const lists = `
1.0: data-path
2.0..2.0: report-topk-accuracies
2.0: rampup-batch-size
2.5: retriever-report-topk-accuracies
23.06: test-data-path train-data-path valid-data-path
0.4: profile-ranks spec
0.5: moe-aux-loss-coeff moe-router-load-balancing-type
0.8..0.17: tiktoken-special-tokens
0.10: cp-comm-type hierarchical-context-parallel-sizes
0.12: cuda-graph-scope iterations-to-skip mrope-section recompute-modules
0.14: high-priority-stream-groups
0.17: ddp-param-name-patterns-for-fp32-local-accumulation offload-modules rl-inference-parsers
  tokenizer-special-tokens
0.19: cuda-graph-modules validation-set-names
2026-08: gtp-remat-opt-in-modules
`

/** What forks add: `fork kind:` and names. */
export const forks = `
bigscience flag: abort-on-unmet-fused-kernel-constraints checkpoint-in-cpu contigious-checkpointing cpu-optimizer
  cpu_torch_adam deepspeed-activation-checkpointing embed-layernorm inference loss-on-targets-only
  memory-centric-tiled-linear partition-activations profile-backward reweight-loss-based-on-position-frequency
  scattered-embeddings split-transformers sync-tp-duplicated-parameters synchronize-each-layer universal-checkpoint
  use-bnb-optimizer use-pin-memory zero-contigious-gradients zero-reduce-scatter
bigscience value: codecarbon-dir eval-only glu-activation kill-switch-path log-level log-level-replica log-path
  lr-decay-tokens mean-noise-span-length noise-density pad-vocab-size-to pp-partition-method remote-device
  test-weighted-split-paths-path tile-factor tokenizer-name-or-path train-tokens train-weighted-split-paths-path
  valid-num-workers valid-weighted-split-paths-path zero-allgather-bucket-size zero-reduce-bucket-size zero-stage
bigscience values: skip-train-iteration-range test-weighted-split-paths train-weighted-split-paths
  valid-weighted-split-paths
megatron-deepspeed flag: checkpoint-in-cpu contigious-checkpointing cpu-optimizer cpu_torch_adam
  create-moe-param-group data-efficiency-curriculum-learning deepspeed-activation-checkpointing
  disable-mem-efficient-ln disable-moe-token-dropping disable-moe-top2-2nd-expert-sampling ds-inference
  ds-sequence-parallel-fpdt ds-sequence-parallel-fpdt-offloading ds_fused_adam enable-expert-tensor-parallelism
  enable-zbh1-exact-semantics enable-zbh1-pipeline force-ds-sequence-parallel inference kd
  log-optimizer-states-to-tensorboard memory-centric-tiled-linear mos no-load-lr-state no-pipeline-parallel
  partition-activations profile-backward random-ltd repeated-dataloader reset-iteration return-data-index
  scattered-embeddings split-transformers synchronize-each-layer universal-checkpoint use-flash-attn-builder
  use-flash-attn-triton use-flash-attn-v2 use-pin-memory use-tutel zero-contigious-gradients zero-reduce-scatter
megatron-deepspeed value: aml-data-download-path ds-sequence-parallel-fpdt-chunk-size ds-sequence-parallel-size
  expert-interval hidden-size-teacher kd-alpha-ce kd-beta-ce kd-temp kill-switch-file load-tag load-teacher
  lr-decay-tokens lr-warmup-tokens mlp-type moe-eval-capacity-factor moe-expert-parallel-size moe-loss-coeff
  moe-min-capacity moe-train-capacity-factor num-attention-heads-teacher num-experts-switch num-key-value-heads
  num-layers-teacher profile_steps remote-device rotary-position-embeddings-theta tile-factor topk
  train-data-exact-num-epochs train-desc-path train-doc-idx-path train-idx-path train-sample-idx-path
  train-shuffle-idx-path train-tokens use-dataset-only zero-allgather-bucket-size zero-reduce-bucket-size zero-stage
megatron-deepspeed values: num-experts-teacher
zero-bubble flag: cpu-offload measure-activation-memory no-paired-barrier offload-continuous-buffers recompute-lgd
zero-bubble value: num-seq-splits
`
