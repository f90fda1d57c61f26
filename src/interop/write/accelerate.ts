/** A job as Accelerate's YAML (1.1, in which a plain NO is false), with the arguments of the Trainer beside it: batches and learning rates are theirs. */
import { stringify } from 'yaml'
import { dataGroups, type Job } from '../../plan/index.js'
import { type KeysOf, withoutUnset } from './unset.js'
import { json, microbatchOf, type Writer, worldOf } from './writing.js'

/** Keys of the Trainer's arguments. */
const keys: KeysOf = {
  'training.optimizer': ['learning_rate', 'adam_beta1', 'adam_beta2', 'adam_epsilon', 'weight_decay'],
  'training.lrSchedule': ['lr_scheduler_type', 'warmup_steps'],
  'training.clip': ['max_grad_norm'],
  'training.steps': ['max_steps'],
  'training.seed': ['seed'],
}
/** The one of them that Accelerate's own file states too. */
const sectionKeys: KeysOf = { 'training.clip': ['deepspeed_config.gradient_clipping'] }

export const writeAccelerate: Writer = (job, refuse, unset) => {
  const { plan } = job
  if (plan.pp > 1) refuse('plan.pp', 'Accelerate supports pipelines only through its Megatron plugin')
  if (plan.sequenceParallel && plan.tp > 1)
    refuse('plan.sequenceParallel', 'Accelerate has no sequence parallelism with tp')
  if (plan.tp > 1 && (plan.zero === 1 || plan.zero === 2))
    refuse('plan.tp', 'Accelerate’s DeepSpeed plugin (ZeRO 1 and 2) does not support tp')
  if (plan.cp > 1 && plan.zero !== 3) refuse('plan.cp', 'Accelerate supports context parallelism with FSDP only')
  if (plan.precision === 'pure-bf16' || plan.precision === 'bf16-no-masters')
    refuse('plan.precision', 'Accelerate keeps f32 master weights')
  if (plan.ep > 1) refuse('plan.ep', 'Accelerate has no expert parallelism')
  const world = worldOf(job)
  const config = {
    compute_environment: 'LOCAL_MACHINE',
    debug: false,
    distributed_type: kindOf(job),
    ...sectionOf(job),
    downcast_bf16: 'no',
    machine_rank: 0,
    main_training_function: 'main',
    mixed_precision: plan.precision === 'f32' ? 'no' : plan.precision === 'f16' ? 'fp16' : 'bf16',
    num_machines: 1,
    num_processes: world,
    ...(plan.zero === 3 || plan.tp > 1 ? { parallelism_config: axesOf(job) } : {}),
    rdzv_backend: 'static',
    same_network: true,
    use_cpu: false,
  }
  const trainer = withoutUnset(trainerOf(job, refuse), keys, unset)
  return {
    files: new Map([
      ['accelerate.yaml', stringify(withoutUnset(config, sectionKeys, unset), { version: '1.1' })],
      ['training_arguments.json', json(trainer)],
    ]),
    given: { trainer },
    keys,
  }
}

const kindOf = ({ plan }: Job): string =>
  plan.zero === 3 ? 'FSDP' : plan.zero > 0 ? 'DEEPSPEED' : worldSize(plan) === 1 ? 'NO' : 'MULTI_GPU' // tp too: `parallelism_config` says it
const worldSize = (plan: Job['plan']): number => plan.dp * plan.tp * plan.cp

function sectionOf({ plan, training }: Job) {
  const devices = { device: 'none', host: 'cpu', disk: 'nvme' } as const
  if (plan.zero === 3)
    return {
      fsdp_config: {
        ...{
          fsdp_version: 2,
          fsdp_reshard_after_forward: plan.gather === 'use',
          fsdp_offload_params: plan.offload?.parameters === 'host',
        },
        ...{
          fsdp_activation_checkpointing: plan.recompute === 'full',
          fsdp_auto_wrap_policy: 'TRANSFORMER_BASED_WRAP',
          fsdp_state_dict_type: 'SHARDED_STATE_DICT',
        },
      },
    }
  if (plan.zero === 0) return {}
  return {
    deepspeed_config: {
      ...{
        zero_stage: plan.zero,
        gradient_accumulation_steps: plan.microbatches,
        gradient_clipping: training.clip ?? 0,
      },
      ...{
        offload_optimizer_device: devices[plan.offload?.optimizer ?? 'device'],
        offload_param_device: 'none',
        zero3_init_flag: false,
      },
    },
  }
}

function axesOf({ plan }: Job) {
  const ulysses = plan.attention === 'ulysses' && plan.cp > 1
  const split = plan.zero === 3
  const { shard, groups } = dataGroups(plan)
  return {
    parallelism_config_dp_replicate_size: split ? groups : plan.dp,
    parallelism_config_dp_shard_size: split ? shard : 1,
    parallelism_config_tp_size: plan.tp,
    ...(ulysses ? { parallelism_config_sp_size: plan.cp } : { parallelism_config_cp_size: plan.cp }),
    ...(!ulysses &&
      plan.cp > 1 && { parallelism_config_cp_comm_strategy: plan.attention === 'ring' ? 'alltoall' : 'allgather' }),
  }
}

function trainerOf(job: Job, refuse: (path: string, message: string) => void) {
  const {
    plan,
    training: { optimizer: o, lrSchedule, clip, steps, seed },
  } = job
  if (o.kind !== 'adamw') refuse('training.optimizer.kind', `export to Accelerate supports adamw, not ${o.kind}`)
  const kind = {
    linear: 'linear',
    cosine: 'cosine',
    constant: lrSchedule.warmup > 0 ? 'constant_with_warmup' : 'constant',
    'inverse-sqrt': 'inverse_sqrt',
    wsd: 'warmup_stable_decay',
  }[lrSchedule.kind]
  return {
    per_device_train_batch_size: microbatchOf(job),
    gradient_accumulation_steps: plan.microbatches,
    learning_rate: o.lr,
    ...(o.kind === 'adamw' && { adam_beta1: o.beta1, adam_beta2: o.beta2, adam_epsilon: o.eps }),
    ...{ weight_decay: o.weightDecay, max_grad_norm: clip ?? 0, max_steps: steps, seed },
    ...{ lr_scheduler_type: kind, warmup_steps: lrSchedule.warmup },
    ...(plan.precision === 'bf16' && { bf16: true }),
    ...(plan.precision === 'f16' && { fp16: true }),
  }
}
