/** A job as torchtitan's TOML (v0.2): every value written out. */
import type { ModelInput } from '../../model/index.js'
import { dataGroups, type Job, stagesOf } from '../../plan/index.js'
import { flavorOf } from '../torchtitan/models.js'
import { type KeysOf, withoutUnset } from './unset.js'
import { microbatchOf, toml, type Writer, worldOf } from './writing.js'

const keys: KeysOf = {
  'training.optimizer': ['optimizer', 'lr_scheduler.min_lr_factor'],
  'training.lrSchedule': ['lr_scheduler'],
  'training.clip': ['training.max_norm'],
  'training.steps': ['training.steps'],
  'training.seed': ['training.seed'],
}

const schedules: Readonly<Record<string, string>> = {
  ...{ '1f1b': '1F1B', gpipe: 'GPipe', 'looped-bfs': 'LoopedBFS', interleaved: 'Interleaved1F1B' },
  ...{ 'interleaved-zb': 'InterleavedZeroBubble', 'zb-v': 'ZBVZeroBubble', 'dualpipe-v': 'DualPipeV' },
}

export const writeTorchtitan: Writer = (job, refuse, unset) => {
  const { plan, training, model } = job
  if (plan.zero === 1 || plan.zero === 2) refuse('plan.zero', 'torchtitan supports DDP (zero 0) and FSDP2 (zero 3)')
  if (plan.tp > 1 && !plan.sequenceParallel)
    refuse('plan.sequenceParallel', 'torchtitan always uses sequence parallelism with tensor parallelism')
  if (training.optimizer.kind !== 'adamw')
    refuse('training.optimizer.kind', `torchtitan has no ${training.optimizer.kind}`)
  if (plan.precision === 'f16' || plan.precision === 'bf16-no-masters')
    refuse('plan.precision', `torchtitan has no ${plan.precision}`)
  const named = typeof plan.schedule === 'string' ? schedules[plan.schedule] : undefined
  if (plan.pp > 1 && named === undefined && typeof plan.schedule === 'string')
    refuse('plan.schedule', `torchtitan has no ${plan.schedule}; lockstep schedule writes it as CSV`)
  const split = plan.zero === 3
  const { shard, groups } = dataGroups(plan)
  const stages = stagesOf(plan)
  const [name, flavor] = flavorOf(one => isSame(one, model)) ?? ['custom', 'custom']
  const micro = microbatchOf(job)
  const config = {
    job: { description: job.name ?? 'exported by lockstep' },
    model: { name, flavor, ...(plan.fp8 && { converters: ['quantize.linear.float8'] }) },
    ...numbersOf(job),
    training: {
      ...{
        local_batch_size: plan.pp > 1 ? training.globalBatch / plan.dp : micro,
        global_batch_size: training.globalBatch,
      },
      ...{
        seq_len: training.seq,
        max_norm: training.clip ?? Number.POSITIVE_INFINITY,
        steps: training.steps,
        seed: training.seed,
      },
      ...{
        dtype: plan.precision === 'pure-bf16' ? 'bfloat16' : 'float32',
        mixed_precision_param: plan.precision === 'f32' ? 'float32' : 'bfloat16',
      },
      mixed_precision_reduce: plan.compress?.reduce === 'bf16' ? 'bfloat16' : 'float32',
    },
    parallelism: {
      ...{ data_parallel_replicate_degree: split ? groups : plan.dp, data_parallel_shard_degree: split ? shard : 1 },
      fsdp_reshard_after_forward: plan.gather === 'use' ? 'always' : 'never',
      ...{ tensor_parallel_degree: plan.tp, pipeline_parallel_degree: plan.pp, context_parallel_degree: plan.cp },
      context_parallel_rotate_method: plan.attention === 'ring' ? 'alltoall' : 'allgather',
      ...(plan.ep > 1 && { expert_parallel_degree: plan.ep, expert_tensor_parallel_degree: plan.etp }),
      ...(plan.pp > 1 && {
        ...{ pipeline_parallel_schedule: named, pipeline_parallel_microbatch_size: micro },
        ...(typeof plan.schedule !== 'string' && { pipeline_parallel_schedule_csv: plan.schedule.file }),
        ...(plan.chunks > 1 && { pipeline_parallel_layers_per_stage: Math.ceil((model.layers + 2) / stages) }),
      }),
    },
    activation_checkpoint: { mode: plan.recompute === 'full' ? 'full' : 'none' },
    compile: { enable: false },
  }
  const text = toml(withoutUnset(config, keys, unset))
  if (plan.cp > 1 && typeof plan.attention === 'object')
    refuse('plan.attention', 'torchtitan supports all-gather and ring attention')
  if (plan.cp > 1 && plan.attention === 'ulysses')
    refuse('plan.attention', 'torchtitan supports all-gather and ring attention')
  return { files: new Map([['train.toml', text]]), given: { world: worldOf(job) }, keys }
}

/** The same sizes; lengths of sequences and scaling of positions are not torchtitan's. */
function isSame(one: ModelInput, model: Job['model']): boolean {
  const other: Readonly<Record<string, unknown>> = { ...model }
  return Object.entries(one).every(
    ([key, value]) => key === 'positions' || JSON.stringify(other[key]) === JSON.stringify(value),
  )
}

function numbersOf({ training: { optimizer: o, lrSchedule: s, steps } }: Job) {
  const shape =
    s.kind === 'cosine' || (s.kind === 'wsd' && s.cooldownShape === 'cosine')
      ? 'cosine'
      : s.cooldownShape === 'minus-sqrt'
        ? 'sqrt'
        : 'linear'
  const cooldown = s.cooldown ?? Math.ceil(steps / 10)
  return {
    optimizer: {
      name: 'AdamW',
      lr: o.lr,
      ...(o.kind === 'adamw' && { beta1: o.beta1, beta2: o.beta2, eps: o.eps }),
      weight_decay: o.weightDecay,
    },
    lr_scheduler: {
      warmup_steps: s.warmup,
      ...(s.kind === 'constant' ? { decay_ratio: 0 } : s.kind === 'wsd' ? { decay_ratio: cooldown / steps } : {}),
      ...{ decay_type: shape, min_lr_factor: s.minLr / o.lr },
    },
  }
}
