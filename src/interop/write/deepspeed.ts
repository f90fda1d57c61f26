/** A job as DeepSpeed's JSON: T, M and G all three, clipping even where there is none, warm-up in a line. */
import { dataGroups, type Job } from '../../plan/index.js'
import { type KeysOf, withoutUnset } from './unset.js'
import { json, microbatchOf, type Writer, worldOf } from './writing.js'

const keys: KeysOf = {
  'training.optimizer': ['optimizer'],
  'training.lrSchedule': ['scheduler'],
  'training.clip': ['gradient_clipping'],
}

const devices = { device: 'none', host: 'cpu', disk: 'nvme' } as const

export const writeDeepSpeed: Writer = (job, refuse, unset) => {
  const { plan, training } = job
  if (plan.pp > 1 && plan.zero >= 2) refuse('plan.zero', `DeepSpeed refuses stage ${plan.zero} with pipelines`)
  if (plan.cp > 1 && plan.attention !== 'ulysses')
    refuse('plan.attention', 'DeepSpeed supports Ulysses sequence parallelism only')
  if (plan.precision === 'bf16-no-masters' || (plan.precision === 'pure-bf16' && plan.zero === 0))
    refuse('plan.precision', 'DeepSpeed supports f32 master weights, or pure bf16 with stages 1 to 3')
  const bytes = plan.precision === 'f32' ? 4 : 2
  const { shard, groups } = dataGroups(plan)
  const config = {
    train_batch_size: training.globalBatch,
    train_micro_batch_size_per_gpu: microbatchOf(job),
    gradient_accumulation_steps: plan.microbatches,
    gradient_clipping: training.clip ?? 0,
    zero_optimization: {
      stage: plan.zero,
      overlap_comm: plan.overlap,
      reduce_bucket_size: plan.bucket / bytes,
      offload_optimizer: { device: devices[plan.offload?.optimizer ?? 'device'] },
      ...(plan.zero === 3 && groups > 1 && { mics_shard_size: shard }),
      ...(plan.zero === 3 && { offload_param: { device: devices[plan.offload?.parameters ?? 'device'] } }),
    },
    ...precisionOf(job),
    optimizer: optimizerOf(job, refuse),
    ...schedulerOf(job),
    ...(plan.tp > 1 && { tensor_parallel: { autotp_size: plan.tp } }),
    ...(plan.cp > 1 && { sequence_parallel_size: plan.cp }),
    ...(plan.pp > 1 && { pipeline: { stages: plan.pp } }),
    ...(plan.ep > 1 && { expert_parallel: { autoep_size: plan.ep } }),
    steps_per_print: 10,
  }
  const files = new Map([['ds_config.json', json(withoutUnset(config, keys, unset))]])
  return { files, given: { world: worldOf(job) }, keys }
}

function precisionOf({ plan, training }: Job) {
  const types =
    plan.precision === 'bf16' ? { data_types: { grad_accum_dtype: plan.gradients === 'bf16' ? 'bf16' : 'fp32' } } : {}
  if (plan.precision === 'f16')
    return { fp16: { enabled: true, ...scaleOf(training.lossScale) }, data_types: { grad_accum_dtype: 'fp32' } }
  const pure = plan.precision === 'pure-bf16' && { bf16_master_weights_and_grads: true, bf16_optimizer_states: true }
  return { bf16: { enabled: plan.precision !== 'f32', ...pure }, ...types }
}

function scaleOf(scale: Job['training']['lossScale']) {
  if (scale?.kind === 'static') return { loss_scale: scale.scale }
  if (scale?.kind !== 'deepspeed') return { loss_scale: 0 }
  return {
    ...{ loss_scale: 0, initial_scale_power: Math.log2(scale.initial), loss_scale_window: scale.interval },
    ...{ hysteresis: scale.hysteresis, consecutive_hysteresis: scale.consecutive, min_loss_scale: scale.min },
  }
}

function optimizerOf({ training: { optimizer: o }, plan }: Job, refuse: (path: string, message: string) => void) {
  const common = { lr: o.lr, weight_decay: o.weightDecay }
  switch (o.kind) {
    case 'adamw': {
      const signs = plan.compress?.reduce === 'onebit'
      const flags = {
        ...(o.coupled && { adam_w_mode: false }),
        ...(o.uncorrected && !signs && { bias_correction: false }),
        ...(o.amsgrad && { amsgrad: true }),
      }
      return {
        type: signs ? 'OneBitAdam' : 'AdamW',
        params: {
          ...common,
          betas: [o.beta1, o.beta2],
          eps: o.eps,
          ...flags,
          ...(signs && { freeze_step: plan.compress?.from }),
        },
      }
    }
    case 'lamb':
      return { type: 'Lamb', params: { ...common, betas: [o.beta1, o.beta2], eps: o.eps } }
    case 'lion':
      return { type: 'Lion', params: { ...common, betas: [o.beta1, o.beta2] } }
    case 'sgd':
      return {
        type: 'SGD',
        params: {
          ...common,
          momentum: o.momentum,
          ...(o.nesterov && { nesterov: true }),
          ...(o.dampening !== undefined && { dampening: o.dampening }),
        },
      }
    case 'muon':
      return { type: 'Muon', params: { ...common, momentum: o.momentum } }
    default:
      refuse('training.optimizer.kind', `DeepSpeed has no ${o.kind}`)
      return undefined
  }
}

/** Schedules that DeepSpeed has no name for are made in code. */
function schedulerOf({
  training: {
    lrSchedule: s,
    optimizer: { lr },
    steps,
  },
}: Job) {
  const warmup = { warmup_num_steps: s.warmup, warmup_type: 'linear' }
  const total = s.decaySteps ?? steps
  if (s.warmup < 2) return {}
  const params = { warmup_min_lr: s.warmupFrom ?? 0, warmup_max_lr: lr, ...warmup }
  if (s.kind === 'constant') return { scheduler: { type: 'WarmupLR', params } }
  if (s.kind === 'linear' && s.minLr === 0)
    return { scheduler: { type: 'WarmupDecayLR', params: { ...params, total_num_steps: total } } }
  if (s.kind !== 'cosine') return {}
  return {
    scheduler: {
      type: 'WarmupCosineLR',
      params: {
        ...warmup,
        total_num_steps: total,
        warmup_min_ratio: (s.warmupFrom ?? 0) / lr,
        cos_min_ratio: s.minLr / lr,
      },
    },
  }
}
