/** Accelerate's YAML: what kind of ranks there are, and which plugin splits the model. Batches are the Trainer's. */
import { isMapping, mappingOf } from '../../plan/index.js'
import { readDeepSpeed } from '../deepspeed/read.js'
import type { Given, Imported, Reader } from '../note.js'
import { type KeyTable, Reading } from '../reading.js'
import { Trainer, trainerOptimizer, trainerSteps } from '../trainer.js'
import { readTree } from '../tree.js'
import { readFsdp } from './fsdp.js'
import { readMegatronPlugin } from './megatron.js'

const cosmetic =
  'compute_environment debug machine_rank num_machines gpu_ids main_process_ip main_process_port rdzv_backend rdzv_conf same_network ' +
  'main_training_function enable_cpu_affinity mpirun_config downcast_bf16 tpu_name tpu_zone tpu_use_cluster tpu_use_sudo command_file ' +
  'commands tpu_vm tpu_env use_xpu use_mps_device ipex_config log_level'

const known: KeyTable = {
  ...Object.fromEntries(cosmetic.split(' ').map(key => [key, ''])),
  dynamo_config: 'compilation',
  dynamo_backend: 'compilation',
  'parallelism_config.*': 'how ranks exchange keys and values',
  'deepspeed_config.*': 'no job field sets it',
  'fsdp_config.*': 'no job field sets it',
  'megatron_lm_config.*': 'no job field sets it',
  'fp8_config.*': 'settings of the FP8 library',
}

const sections = [
  'distributed_type',
  'mixed_precision',
  'fp16',
  'use_cpu',
  'num_processes',
  'deepspeed_config',
  'fsdp_config',
  'parallelism_config',
  'megatron_lm_config',
  'fp8_config',
  'dynamo_config',
  'dynamo_backend',
]
const topKeys = new Set([...cosmetic.split(' '), ...sections])

export const readAccelerate: Reader = (text, given, format) => {
  const r = new Reading({ framework: 'accelerate', format }, readTree(text, format === 'json' ? 'json' : 'yaml'))
  if (r.refused) return r.finish(known)
  for (const key of r.keys('')) if (!topKeys.has(key)) r.refuse(key, 'Accelerate rejects unknown keys')
  if (r.word('compute_environment') === 'AMAZON_SAGEMAKER')
    r.refuse('compute_environment', 'SageMaker sets the number of ranks, which is not in the file')
  const trainer = new Trainer(given)
  const world = readWorld(r, given)
  const precision = readPrecision(r)
  const imported =
    world === undefined
      ? undefined
      : readType(r, { ...given, world, trainer: withPrecision(given, precision) }, trainer)
  return merged(r.finish(known), imported)
}

const withPrecision = ({ trainer = {} }: Given, precision: string | undefined): Readonly<Record<string, unknown>> =>
  precision === 'bf16' || precision === 'f16' ? { [precision === 'bf16' ? 'bf16' : 'fp16']: true, ...trainer } : trainer

/** `num_processes` counts the ranks of all machines. */
function readWorld(r: Reading, { world }: Given): number | undefined {
  const said = r.raw('num_processes') === -1 ? undefined : r.whole('num_processes', 1)
  const machines = r.whole('num_machines') ?? 1
  if (said !== undefined && machines > 1 && said < machines)
    r.refuse('num_processes', `${said} ranks on ${machines} machines: num_processes counts the ranks of all machines`)
  if (said === undefined && world === undefined)
    r.refuse('num_processes', 'the world size is not in the file: set --devices')
  r.world = world ?? said
  if (said === undefined) return world
  if (world !== undefined && world !== said) r.drop('num_processes', `${said}, but --devices ${world} was given`)
  else r.carry('num_processes', 'world', undefined, `${said} ranks, of all machines together`)
  return world ?? said
}

function readPrecision(r: Reading): string | undefined {
  const word = r.raw('mixed_precision') === false ? 'no' : r.word('mixed_precision')?.toLowerCase()
  if (word === undefined) {
    const half = r.bool('fp16') === true
    if (r.has('fp16')) r.carry('fp16', 'plan.precision', half ? 'f16' : 'f32', 'the older name of mixed_precision')
    else r.assume('mixed_precision', 'plan.precision', 'f32', 'without mixed_precision Accelerate keeps f32')
    return half ? scaled(r) : undefined
  }
  if (word === 'no' || word === 'bf16') {
    r.carry('mixed_precision', 'plan.precision', word === 'no' ? 'f32' : 'bf16')
    return word === 'no' ? 'f32' : 'bf16'
  }
  if (word === 'fp16') {
    r.carry('mixed_precision', 'plan.precision', 'f16')
    return scaled(r)
  }
  if (word !== 'fp8') {
    r.refuse('mixed_precision', `expected no, fp16, bf16 or fp8, got ${word}`)
    return undefined
  }
  r.carry('mixed_precision', 'plan.precision', 'bf16', 'FP8 matmuls, the rest in bf16')
  r.set('plan.fp8', { recipe: 'delayed' })
  return 'bf16'
}

function scaled(r: Reading): string {
  r.assume('mixed_precision', 'training.lossScale', { kind: 'torch' }, "PyTorch's GradScaler, with its defaults")
  return 'f16'
}

/** What the plugin of this kind does. A file of DeepSpeed is read as such; its result stands above this one. */
function readType(r: Reading, given: Given & { readonly world: number }, trainer: Trainer): Imported | undefined {
  const type = r.word('distributed_type')?.toUpperCase()
  const note = (message = '') => r.carry('distributed_type', 'plan.zero', undefined, message)
  switch (type) {
    case 'NO':
    case 'MULTI_GPU':
    case 'MULTI_CPU':
    case 'MULTI_XPU':
    case 'MULTI_NPU':
    case 'TP':
      note(type === 'TP' ? '' : 'DDP: every rank has the full model')
      r.set('plan.zero', 0)
      break
    case 'FSDP':
      note()
      readFsdp(r)
      break
    case 'DEEPSPEED':
      note()
      return readDeepSpeedPlugin(r, given, trainer)
    case 'MEGATRON_LM':
      note()
      readMegatronPlugin(r, given, trainer)
      return undefined
    default:
      r.refuse('distributed_type', type === undefined ? 'it is missing' : `${type} is not supported`)
      return undefined
  }
  const axes = readAxes(r, given.world)
  if (axes) readBatch(r, trainer, axes.dp)
  readTrainer(r, trainer)
  return undefined
}

function readTrainer(r: Reading, trainer: Trainer): void {
  trainerSteps(r, trainer)
  trainerOptimizer(r, trainer)
  if (trainer.present && r.field('training.clip') === undefined) {
    const clip = trainer.number('max_grad_norm')
    r.assume('--trainer', 'training.clip', clip || undefined, trainer.show('max_grad_norm'))
  }
  if (!trainer.present) r.missing('training.optimizer', 'the optimizer is set in code, or by arguments of the Trainer')
  if (r.field('training.seq') === undefined)
    r.missing('training.seq', 'the sequence length is not in this file: pass --seq')
}

interface Axes {
  readonly dp: number
}

/** dp_replicate x dp_shard x tp x cp x sp = num_processes. */
function readAxes(r: Reading, world: number): Axes | undefined {
  const at = (name: string) => `parallelism_config.parallelism_config_${name}_size`
  const size = (name: string) => r.whole(at(name), 1) ?? 1
  const [replicate, shard, tp, cp, sp] = ['dp_replicate', 'dp_shard', 'tp', 'cp', 'sp'].map(size)
  const said = isMapping(r.raw('parallelism_config')) && r.keys('parallelism_config').length > 0
  const product = replicate * shard * tp * cp * sp
  if (said && product !== world) {
    r.refuse(
      'parallelism_config',
      `dp_replicate ${replicate} x dp_shard ${shard} x tp ${tp} x cp ${cp} x sp ${sp} = ${product} ranks, not num_processes ${world}`,
    )
    return undefined
  }
  if (cp > 1 && sp > 1) r.refuse(at('sp'), 'cp and sp exclude each other')
  if (replicate > 1 && shard === 1 && (tp > 1 || cp > 1))
    r.refuse(at('dp_replicate'), 'Accelerate refuses replicas without shards together with tp or cp')
  const dp = said ? replicate * shard : world
  r.derive(
    said ? at('dp_shard') : 'num_processes',
    'plan.dp',
    dp,
    said ? `dp ${dp} = dp_replicate ${replicate} x dp_shard ${shard}` : `dp ${dp} = num_processes ${world}`,
  )
  if (replicate > 1 && shard > 1)
    r.carry(at('dp_replicate'), 'plan.shard', shard, `HSDP: groups of dp_shard ${shard} ranks, ${replicate} replicas`)
  else r.cosmetic(at('dp_replicate'))
  if (said && shard === 1 && r.field('plan.zero') === 3 && replicate > 1) r.set('plan.zero', 0)
  if (r.has(at('tp'))) r.carry(at('tp'), 'plan.tp', tp)
  if (r.has(at('cp'))) r.carry(at('cp'), 'plan.cp', cp)
  if (r.has(at('sp')) && sp > 1) r.carry(at('sp'), 'plan.cp', sp, 'Ulysses (all-to-all)')
  if (sp > 1) r.set('plan.attention', 'ulysses')
  else r.cosmetic(at('sp'))
  if (cp > 1)
    r.assume(
      at('cp'),
      'plan.attention',
      rotation(r),
      'all-gather unless parallelism_config_cp_comm_strategy is alltoall',
    )
  return { dp }
}

/** Accelerate's cp is PyTorch's: keys are gathered, or go round. */
function rotation(r: Reading): string {
  const path = 'parallelism_config.parallelism_config_cp_comm_strategy'
  const attention = r.choice(path, { allgather: 'gather', alltoall: 'ring' }, 'keys are gathered')
  if (attention !== undefined) r.carry(path, 'plan.attention', undefined)
  return attention ?? 'gather'
}

function readBatch(r: Reading, trainer: Trainer, dp: number, said?: number): void {
  if (!trainer.present && said === undefined) {
    r.missing('training.globalBatch', 'batches are arguments of the Trainer: --trainer per_device_train_batch_size=8')
    return
  }
  const micro = trainer.number('per_device_train_batch_size') ?? 1
  const steps = said ?? trainer.number('gradient_accumulation_steps') ?? 1
  const batch = micro * steps * dp
  r.assume('--trainer', 'plan.microbatches', steps, trainer.show('gradient_accumulation_steps'))
  r.derive(
    '--trainer',
    'training.globalBatch',
    batch,
    `${trainer.show('per_device_train_batch_size')} x accumulation ${steps} x dp ${dp} = ${batch}`,
  )
}

/** Stage and moves in the YAML itself, or in a file of DeepSpeed, which then wins. */
function readDeepSpeedPlugin(
  r: Reading,
  given: Given & { readonly world: number },
  trainer: Trainer,
): Imported | undefined {
  const at = (key: string) => `deepspeed_config.${key}`
  r.cosmetic(
    ...[
      'deepspeed_multinode_launcher',
      'zero3_init_flag',
      'zero3_save_16bit_model',
      'deepspeed_hostfile',
      'deepspeed_exclusion_filter',
      'deepspeed_inclusion_filter',
      'deepspeed_moe_layer_cls_names',
      'seq_parallel_communication_data_type',
      'offload_optimizer_nvme_path',
      'offload_param_nvme_path',
    ].map(at),
  )
  const file = r.word(at('deepspeed_config_file'))
  if (file !== undefined && file !== 'none') return readFile(r, file, given)
  const stage = r.whole(at('zero_stage')) ?? 2
  if (r.has(at('zero_stage'))) r.carry(at('zero_stage'), 'plan.zero', stage)
  else r.assume(at('zero_stage'), 'plan.zero', 2, "2 is the default of Accelerate's plugin")
  readDevices(r, at, stage)
  const clip = r.raw(at('gradient_clipping')) === 'auto' ? undefined : r.number(at('gradient_clipping'))
  if (clip !== undefined) r.carry(at('gradient_clipping'), 'training.clip', clip || undefined)
  else if (r.has(at('gradient_clipping')))
    r.derive(
      at('gradient_clipping'),
      'training.clip',
      trainer.number('max_grad_norm'),
      `auto is ${trainer.show('max_grad_norm')}`,
    )
  if (r.field('plan.precision') === 'bf16')
    r.assume('mixed_precision', 'plan.gradients', 'bf16', 'DeepSpeed sums gradients in the dtype of the model')
  r.assume(at('overlap_comm'), 'plan.overlap', stage === 3, `${stage === 3} is DeepSpeed's default for stage ${stage}`)
  const axes = readAxes(r, given.world)
  const steps =
    r.raw(at('gradient_accumulation_steps')) === 'auto' ? undefined : r.whole(at('gradient_accumulation_steps'), 1)
  if (r.has(at('gradient_accumulation_steps'))) r.carry(at('gradient_accumulation_steps'), 'plan.microbatches', steps)
  if (axes) readBatch(r, trainer, axes.dp, steps)
  readTrainer(r, trainer)
  return undefined
}

function readDevices(r: Reading, at: (key: string) => string, stage: number): void {
  const spaces: Readonly<Record<string, string>> = { cpu: 'host', nvme: 'disk' }
  for (const [key, field] of [
    ['offload_optimizer_device', 'optimizer'],
    ['offload_param_device', 'parameters'],
  ] as const) {
    const device = r.word(at(key))
    if (device !== undefined && device !== 'none' && !Object.hasOwn(spaces, device))
      r.refuse(at(key), `expected none, cpu or nvme, got ${device}`)
    else if (device !== undefined && device !== 'none' && field === 'parameters' && stage < 3)
      r.drop(at(key), `only stage 3 offloads parameters, not ${stage}`)
    else if (device !== undefined)
      r.carry(
        at(key),
        `plan.offload.${field}`,
        spaces[device],
        spaces[device] ? `${device} is the ${spaces[device]}` : '',
      )
  }
}

function readFile(r: Reading, file: string, given: Given): Imported | undefined {
  const path = 'deepspeed_config.deepspeed_config_file'
  const text = given.read?.(file)
  if (text === undefined) {
    r.refuse(path, `${file} cannot be read: the plan is in that file`)
    return undefined
  }
  r.carry(path, 'plan', undefined, `the file ${file} is in a folder above`)
  const axes = readAxes(r, given.world ?? 1)
  return axes ? readDeepSpeed(text, given, 'json') : undefined
}

/** The fields and notes of both, those of the file that wins above the others. Its lines are of another file. */
function merged(own: Imported, file: Imported | undefined): Imported {
  if (!file) return own
  const notes = [...own.notes, ...file.notes.map(({ line: _, ...note }) => note)]
  if (!own.job || !file.job) return { framework: own.framework, format: own.format, notes }
  const section = (key: string) => ({ ...mappingOf(own.job?.[key]), ...mappingOf(file.job?.[key]) })
  const job = { training: section('training'), plan: { ...section('plan') } }
  return { ...own, job, notes, ...(own.world !== undefined && { world: own.world }) }
}
