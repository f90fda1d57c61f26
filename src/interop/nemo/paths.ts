/** Where NeMo 1 and Bridge write what Megatron has flags for. */

/** Names of the model that both have, under `model`. */
const shared: Readonly<Record<string, string>> = {
  ...{
    'tensor-model-parallel-size': 'tensor_model_parallel_size',
    'pipeline-model-parallel-size': 'pipeline_model_parallel_size',
  },
  ...{
    'num-virtual-stages-per-pipeline-rank': 'virtual_pipeline_model_parallel_size',
    'context-parallel-size': 'context_parallel_size',
  },
  ...{
    'expert-model-parallel-size': 'expert_model_parallel_size',
    'expert-tensor-parallel-size': 'expert_tensor_parallel_size',
  },
  ...{ 'sequence-parallel': 'sequence_parallel', 'num-layers': 'num_layers', 'hidden-size': 'hidden_size' },
  ...{
    'ffn-hidden-size': 'ffn_hidden_size',
    'num-attention-heads': 'num_attention_heads',
    'num-query-groups': 'num_query_groups',
  },
  ...{ 'kv-channels': 'kv_channels', 'hidden-dropout': 'hidden_dropout', 'attention-dropout': 'attention_dropout' },
  ...{
    normalization: 'normalization',
    'norm-epsilon': 'layernorm_epsilon',
    'max-position-embeddings': 'max_position_embeddings',
  },
  ...{
    'position-embedding-type': 'position_embedding_type',
    'rotary-base': 'rotary_base',
    'init-method-std': 'init_method_std',
  },
  ...{ 'account-for-embedding-in-pipeline-split': 'account_for_embedding_in_pipeline_split' },
  ...{ 'account-for-loss-in-pipeline-split': 'account_for_loss_in_pipeline_split' },
  ...{ 'pipeline-model-parallel-layout': 'pipeline_model_parallel_layout', 'qk-layernorm': 'qk_layernorm' },
  ...{ 'make-vocab-size-divisible-by': 'make_vocab_size_divisible_by', 'num-experts': 'num_moe_experts' },
  ...{
    'moe-router-topk': 'moe_router_topk',
    'moe-aux-loss-coeff': 'moe_aux_loss_coeff',
    'moe-ffn-hidden-size': 'moe_ffn_hidden_size',
  },
  ...{
    'moe-expert-capacity-factor': 'moe_expert_capacity_factor',
    'moe-router-load-balancing-type': 'moe_router_load_balancing_type',
  },
  ...{ 'moe-shared-expert-intermediate-size': 'moe_shared_expert_intermediate_size' },
  ...{
    'moe-pad-expert-input-to-capacity': 'moe_pad_expert_input_to_capacity',
    'multi-latent-attention': 'multi_latent_attention',
  },
}

const under = (prefix: string, names: Readonly<Record<string, string>>): Record<string, string> =>
  Object.fromEntries(Object.entries(names).map(([term, key]) => [term, `${prefix}.${key}`]))

export const nemoPaths: Readonly<Record<string, string>> = {
  ...under('model', shared),
  ...under('model', { 'micro-batch-size': 'micro_batch_size', 'global-batch-size': 'global_batch_size' }),
  ...under('model', { 'rampup-batch-size': 'rampup_batch_size', 'rotary-percent': 'rotary_percentage', seed: 'seed' }),
  ...under('model', {
    'recompute-granularity': 'activations_checkpoint_granularity',
    'recompute-method': 'activations_checkpoint_method',
  }),
  ...under('model', { 'recompute-num-layers': 'activations_checkpoint_num_layers', 'seq-length': 'data.seq_length' }),
  ...under('model', {
    swiglu: 'activation',
    'squared-relu': 'activation',
    activation: 'activation',
    'disable-bias-linear': 'bias',
  }),
  ...under('model', {
    'untie-embeddings-and-output-weights': 'share_embeddings_and_output_weights',
    'fp8-format': 'fp8',
  }),
  ...under('model', {
    'fp8-amax-history-len': 'fp8_amax_history_len',
    'fp8-amax-compute-algo': 'fp8_amax_compute_algo',
  }),
  ...under('model.optim', {
    lr: 'lr',
    'weight-decay': 'weight_decay',
    'adam-beta1': 'betas',
    'adam-beta2': 'betas',
    optimizer: 'name',
  }),
  ...under('model.optim', {
    'use-distributed-optimizer': 'name',
    'overlap-grad-reduce': 'overlap_grad_sync',
    'adam-eps': 'eps',
  }),
  ...under('model.optim.sched', { 'lr-warmup-iters': 'warmup_steps', 'min-lr': 'min_lr', 'lr-decay-style': 'name' }),
  ...under('model.optim.sched', { 'lr-decay-iters': 'constant_steps', 'lr-warmup-fraction': 'warmup_ratio' }),
  ...under('model', {
    'padded-vocab-size': 'override_vocab_size',
    'add-qkv-bias': 'qkv_bias',
    'window-size': 'window_size',
    'use-rope-scaling': 'scale_positional_embedding',
    'rotary-seq-len-interpolation-factor': 'seq_len_interpolation_factor',
    'use-tp-pp-dp-mapping': 'use_tp_pp_dp_mapping',
    'cpu-offloading': 'cpu_offloading',
    'cpu-offloading-num-layers': 'cpu_offloading_num_layers',
    'initial-loss-scale': 'native_amp_init_scale',
    'loss-scale-window': 'native_amp_growth_interval',
    hysteresis: 'hysteresis',
  }),
  ...under('model.tokenizer', { 'tokenizer-type': 'type', 'tokenizer-model': 'model' }),
  ...{
    'train-iters': 'trainer.max_steps',
    'clip-grad': 'trainer.gradient_clip_val',
    bf16: 'trainer.precision',
    fp16: 'trainer.precision',
  },
  ...{ world: 'trainer.num_nodes' },
}

export const bridgePaths: Readonly<Record<string, string>> = {
  ...under('model', shared),
  ...under('model', {
    'rotary-percent': 'rotary_percent',
    'seq-length': 'seq_length',
    'padded-vocab-size': 'vocab_size',
  }),
  ...under('model', {
    swiglu: 'gated_linear_unit',
    'disable-bias-linear': 'add_bias_linear',
    'add-qkv-bias': 'add_qkv_bias',
  }),
  ...under('model', {
    'untie-embeddings-and-output-weights': 'share_embeddings_and_output_weights',
    'cp-comm-type': 'cp_comm_type',
  }),
  ...under('model', { 'recompute-granularity': 'recompute_granularity', 'recompute-method': 'recompute_method' }),
  ...under('model', { 'recompute-num-layers': 'recompute_num_layers', 'recompute-modules': 'recompute_modules' }),
  ...under('train', {
    'global-batch-size': 'global_batch_size',
    'micro-batch-size': 'micro_batch_size',
    'train-iters': 'train_iters',
  }),
  ...under('train', { 'train-samples': 'train_samples', 'rampup-batch-size': 'rampup_batch_size' }),
  ...under('optimizer', {
    lr: 'lr',
    'min-lr': 'min_lr',
    'adam-beta1': 'adam_beta1',
    'adam-beta2': 'adam_beta2',
    'adam-eps': 'adam_eps',
  }),
  ...under('optimizer', { 'weight-decay': 'weight_decay', 'clip-grad': 'clip_grad', optimizer: 'optimizer' }),
  ...under('scheduler', {
    'lr-warmup-iters': 'lr_warmup_iters',
    'lr-decay-style': 'lr_decay_style',
    'lr-decay-iters': 'lr_decay_iters',
  }),
  ...under('scheduler', { 'lr-warmup-fraction': 'lr_warmup_fraction' }),
  ...under('ddp', {
    'use-distributed-optimizer': 'use_distributed_optimizer',
    'use-megatron-fsdp': 'use_megatron_fsdp',
  }),
  ...under('ddp', {
    'data-parallel-sharding-strategy': 'data_parallel_sharding_strategy',
    'overlap-grad-reduce': 'overlap_grad_reduce',
  }),
  ...under('ddp', { 'overlap-param-gather': 'overlap_param_gather', 'grad-reduce-in-bf16': 'grad_reduce_in_fp32' }),
  ...{
    bf16: 'mixed_precision',
    fp16: 'mixed_precision',
    'fp8-format': 'mixed_precision',
    'fp8-recipe': 'mixed_precision',
  },
  ...{ seed: 'rng.seed' },
  ...under('model', {
    'use-rope-scaling': 'rope_scaling',
    'rotary-seq-len-interpolation-factor': 'seq_len_interpolation_factor',
    'decoder-first-pipeline-num-layers': 'num_layers_in_first_pipeline_stage',
    'decoder-last-pipeline-num-layers': 'num_layers_in_last_pipeline_stage',
    'microbatch-group-size-per-virtual-pipeline-stage': 'microbatch_group_size_per_vp_stage',
    'apply-layernorm-1p': 'layernorm_zero_centered_gamma',
  }),
  ...under('dist', { 'use-torch-fsdp2': 'use_torch_fsdp2', 'use-tp-pp-dp-mapping': 'use_tp_pp_dp_mapping' }),
}

/** Parts of Bridge whose keys are, but for the above, flags of Megatron. */
export const bridgeParts = ['model', 'train', 'optimizer', 'scheduler', 'ddp', 'dist'] as const

const strategyTerms = [
  ...['tensor-model-parallel-size', 'pipeline-model-parallel-size', 'num-virtual-stages-per-pipeline-rank'],
  ...['context-parallel-size', 'expert-model-parallel-size', 'expert-tensor-parallel-size', 'sequence-parallel'],
  ...[
    'account-for-embedding-in-pipeline-split',
    'account-for-loss-in-pipeline-split',
    'pipeline-model-parallel-layout',
  ],
]

const ofStrategy = (part: (term: string) => boolean) =>
  Object.fromEntries(Object.entries(shared).filter(([term]) => part(term)))

/** NeMo 2: what a recipe returns, part by part. Of several places the first that is there counts. */
export const recipePaths: Readonly<Record<string, readonly string[]>> = Object.fromEntries(
  Object.entries({
    ...under(
      'model.config',
      ofStrategy(term => !strategyTerms.includes(term)),
    ),
    ...under(
      'trainer.strategy',
      ofStrategy(term => strategyTerms.includes(term)),
    ),
    ...under('model.config', {
      'recompute-granularity': 'recompute_granularity',
      'recompute-method': 'recompute_method',
    }),
    ...under('model.config', { 'recompute-num-layers': 'recompute_num_layers', 'padded-vocab-size': 'vocab_size' }),
    ...under('model.config', { swiglu: 'gated_linear_unit', 'disable-bias-linear': 'add_bias_linear' }),
    ...under('model.config', { 'untie-embeddings-and-output-weights': 'share_embeddings_and_output_weights' }),
    ...under('trainer.strategy.ddp', { 'overlap-grad-reduce': 'overlap_grad_reduce' }),
    ...under('trainer.strategy.ddp', { 'overlap-param-gather': 'overlap_param_gather' }),
    ...under('data', { 'global-batch-size': 'global_batch_size', 'micro-batch-size': 'micro_batch_size' }),
    ...{ 'train-iters': 'trainer.max_steps', world: 'num_nodes', bf16: 'trainer.plugins', fp16: 'trainer.plugins' },
    ...{ 'fp8-format': 'trainer.plugins', 'fp8-recipe': 'trainer.plugins' },
  }).map(([term, path]) => [term, [path]] as const),
)

/** Of the optimizer: as a recipe of optimizers is called, or as its configuration says. */
export const optimizerPaths: Readonly<Record<string, readonly string[]>> = {
  lr: ['optim.config.lr', 'optim.max_lr'],
  'min-lr': ['optim.lr_scheduler.min_lr', 'optim.min_lr'],
  'lr-warmup-iters': ['optim.lr_scheduler.warmup_steps', 'optim.warmup_steps'],
  'adam-beta1': ['optim.config.adam_beta1', 'optim.adam_beta1'],
  'adam-beta2': ['optim.config.adam_beta2', 'optim.adam_beta2'],
  'adam-eps': ['optim.config.adam_eps'],
  'weight-decay': ['optim.config.weight_decay'],
  'clip-grad': ['optim.config.clip_grad', 'optim.clip_grad'],
  optimizer: ['optim.config.optimizer'],
  'use-distributed-optimizer': ['optim.config.use_distributed_optimizer'],
  'seq-length': ['data.seq_length', 'model.config.seq_length'],
}
