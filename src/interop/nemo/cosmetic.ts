/** Keys of NeMo 1 that change neither numbers nor memory of a step: paths, logs, checkpoints, kernels, loading of data. */
import type { KeyTable } from '../reading.js'

const sections =
  'run exp_manager defaults hydra name restore_from_path model.tokenizer model.data model.nsys_profile model.name ' +
  'model.restore_from_path model.restore_from_ckpt model.resume_from_checkpoint model.nemo_path model.encoder_seq_length'

const ofTrainer =
  'accelerator benchmark check_val_every_n_epoch devices enable_checkpointing enable_model_summary enable_progress_bar ' +
  'limit_test_batches limit_val_batches log_every_n_steps logger num_sanity_val_steps replace_sampler_ddp strategy ' +
  'use_distributed_sampler val_check_interval'

/** Kernels, and how messages of one kind are hidden or put together. */
const ofModel =
  'apex_transformer_log_level apply_rope_fusion async_grad_allreduce batch_p2p_comm bias_activation_fusion ' +
  'bias_dropout_add_fusion cross_entropy_loss_fusion defer_embedding_wgrad_compute deterministic_mode enable_cuda_graph ' +
  'enable_megatron_timers gc_interval get_attention_mask_from_fusion grad_allreduce_chunk_size_mb grad_div_ar_fusion ' +
  'gradient_accumulation_fusion gradient_as_bucket_view masked_softmax_fusion mcore_gpt megatron_legacy ' +
  'megatron_timer_kwargs.* moe_grouped_gemm moe_token_dispatcher_type nccl_communicator_config_path onnx_safe ' +
  'overlap_p2p_comm persist_layer_norm post_process pre_process precision reduce_amax save_nemo_on_validation_end sharp ' +
  'sync_batch_comm transformer_engine ub_tp_comm_overlap ub_tp_comm_overlap_cfg use_cpu_initialization use_flash_attention ' +
  'use_te_rng_tracker validation_param_sync_overlap wgrad_deferral_limit dist_ckpt_* tp_comm_overlap_*'

/** Formats of 8 bits are read with `fp8`. */
const ofPrecision =
  'fp8 fp8_e4m3 fp8_hybrid fp8_interval fp8_margin fp8_wgrad hysteresis native_amp_growth_interval native_amp_init_scale'

const ofOptimizer =
  'bucket_cap_mb contiguous_grad_buffer contiguous_param_buffer dtype lock_timeout nccl_ub overlap_param_sync sched.monitor ' +
  'sched.reduce_on_plateau sched.max_steps_for_lr_sched'

const under = (prefix: string, names: string): string[] => names.split(' ').map(name => `${prefix}${name}`)

export const cosmeticKeys: KeyTable = Object.fromEntries(
  [
    ...under('', sections),
    ...under('trainer.', ofTrainer),
    ...under('model.', ofModel),
    ...under('model.', ofPrecision),
    ...under('model.optim.', ofOptimizer),
  ].map(key => [key, '']),
)
