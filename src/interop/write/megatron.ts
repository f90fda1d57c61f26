/** A job as a launch script of Megatron-LM: every value a flag, so that no default of any release decides. */
import { sequencesUntil } from '../../base/index.js'
import { dataGroups, type Job, layersPerStage } from '../../plan/index.js'
import { layoutOf } from '../megatron/layout.js'
import { modelFlags } from './megatron-model.js'
import { rateFlags } from './megatron-rate.js'
import { type KeysOf, withoutUnset } from './unset.js'
import { microbatchOf, type Refuse, type Writer, worldOf } from './writing.js'

/** By name without dashes; true is a switch that is on. */
export type Flags = Readonly<Record<string, string | number | true | undefined>>

export const writeMegatron: Writer = (job, refuse, unset) => {
  const { decaySteps } = job.training.lrSchedule
  const keys: KeysOf = {
    'training.optimizer': ['lr', 'optimizer', 'weight-decay', 'adam-beta1', 'adam-beta2', 'adam-eps', 'sgd-momentum'],
    'training.lrSchedule': ['lr-decay-style', ...Object.keys(rateFlags(job.training))],
    'training.clip': ['clip-grad'],
    'training.steps': ['train-iters', ...(decaySteps === undefined ? ['lr-decay-iters'] : [])],
    'training.seed': ['seed'],
  }
  const flags: Flags = {
    ...meshFlags(job, refuse),
    ...stageFlags(job, refuse),
    ...stateFlags(job, refuse),
    ...precisionFlags(job, refuse),
    ...recomputeFlags(job, refuse),
    ...modelFlags(job.model, job.training.seq, refuse),
    ...batchFlags(job, refuse),
    ...optimizerFlags(job, refuse),
    ...rateFlags(job.training),
  }
  const script = scriptOf(worldOf(job), withoutUnset(flags, keys, unset))
  const dashed = Object.fromEntries(
    Object.entries(keys).map(([field, names]) => [field, names.map(name => `--${name}`)]),
  )
  const std = flags['init-method-std']
  const fixed =
    std === undefined
      ? []
      : [{ path: `--init-method-std ${std}`, message: 'how Lockstep initializes weights; no job field sets it' }]
  return { files: new Map([['megatron.sh', script]]), given: {}, keys: dashed, fixed }
}

function scriptOf(world: number, flags: Flags): string {
  const perNode = [8, 7, 6, 5, 4, 3, 2, 1].find(count => world % count === 0) ?? 1
  const words = Object.entries(flags).flatMap(([name, value]) =>
    value === undefined ? [] : [value === true ? `--${name}` : `--${name} ${value}`],
  )
  return [
    '#!/bin/bash',
    `# ${world} ranks, on every node: NODE_RANK=n MASTER_ADDR=host bash megatron.sh --data-path ... --tokenizer-type ... --save ...`,
    // Before Blackwell Megatron refuses to split tensors or sequences without it, and its FSDP refuses it.
    ...(flags['use-megatron-fsdp'] ? [] : ['export CUDA_DEVICE_MAX_CONNECTIONS=1']),
    `torchrun --nproc-per-node ${perNode} --nnodes ${world / perNode} --node-rank "\${NODE_RANK:-0}" \\`,
    `  --master-addr "\${MASTER_ADDR:-localhost}" --master-port "\${MASTER_PORT:-29500}" pretrain_gpt.py \\`,
    ...words.map(word => `  ${word} \\`),
    '  "$@"',
    '',
  ].join('\n')
}

const exchanges: Readonly<Record<string, string>> = { ring: 'p2p', ulysses: 'a2a', gather: 'all_gather' }

function meshFlags({ plan, model }: Job, refuse: Refuse): Flags {
  const { attention, rankOrder } = plan
  if (rankOrder !== 'tp-cp-ep-dp-pp' && rankOrder !== 'tp-cp-ep-pp-dp')
    refuse('plan.rankOrder', 'Megatron supports rank orders tp-cp-ep-dp-pp and tp-cp-ep-pp-dp')
  if (plan.compress) refuse('plan.compress', 'Megatron has no gradient compression')
  const routed = model.family === 'llama' && model.moe !== undefined
  const both = typeof attention === 'object'
  return {
    'tensor-model-parallel-size': plan.tp,
    'pipeline-model-parallel-size': plan.pp,
    'context-parallel-size': plan.cp,
    ...(plan.cp > 1 && { 'cp-comm-type': both ? 'a2a+p2p' : exchanges[attention] }),
    ...(plan.cp > 1 && both && { 'hierarchical-context-parallel-sizes': `${attention.ulysses} ${attention.ring}` }),
    ...(routed && { 'expert-model-parallel-size': plan.ep, 'expert-tensor-parallel-size': plan.etp }),
    ...(rankOrder === 'tp-cp-ep-pp-dp' && { 'use-tp-pp-dp-mapping': true }),
    ...(plan.sequenceParallel && plan.tp > 1 && { 'sequence-parallel': true }),
  }
}

function stageFlags({ plan, model }: Job, refuse: Refuse): Flags {
  if (plan.pp === 1) return {}
  if (plan.schedule !== '1f1b' && plan.schedule !== 'interleaved')
    refuse('plan.schedule', 'Megatron supports 1f1b and interleaved')
  const layers = layersPerStage(plan, model.layers)
  if (!layers.every(count => count === layers[0])) return { 'pipeline-model-parallel-layout': `'${layoutOf(layers)}'` }
  return plan.chunks > 1 ? { 'num-virtual-stages-per-pipeline-rank': plan.chunks } : {}
}

function stateFlags({ plan }: Job, refuse: Refuse): Flags {
  const { offload, zero } = plan
  const { groups } = dataGroups(plan)
  if (zero === 3 && plan.gather === 'step') refuse('plan.gather', 'Megatron-FSDP gathers parameters at every use')
  if (offload && (offload.activations !== 'none' || offload.parameters !== 'device' || offload.optimizer === 'disk'))
    refuse('plan.offload', 'Megatron can offload the optimizer to the host only')
  return {
    ...(zero > 0 && { 'use-distributed-optimizer': true }),
    ...(zero > 0 && groups > 1 && { 'num-distributed-optimizer-instances': groups }),
    ...(zero > 1 && {
      'use-megatron-fsdp': true,
      'data-parallel-sharding-strategy': zero === 2 ? 'optim_grads' : 'optim_grads_params',
      'ckpt-format': 'fsdp_dtensor',
      'no-gradient-accumulation-fusion': true,
    }),
    ...(plan.overlap && { 'overlap-grad-reduce': true, ...(zero > 0 && { 'overlap-param-gather': true }) }),
    ...(offload?.optimizer === 'host' && { 'optimizer-cpu-offload': true, 'optimizer-offload-fraction': '1.0' }),
  }
}

const recipes: Readonly<Record<string, string>> = {
  ...{ delayed: 'delayed', current: 'tensorwise', mx: 'mxfp8', blocks: 'blockwise' },
}

function precisionFlags({ plan, training }: Job, refuse: Refuse): Flags {
  const { precision, fp8 } = plan
  if (precision !== 'bf16' && precision !== 'f16' && precision !== 'f32')
    refuse('plan.precision', `Megatron supports bf16, fp16 and f32 with f32 master weights, not ${precision}`)
  if (plan.rounding !== 'nearest') refuse('plan.rounding', 'Megatron has no stochastic rounding')
  const of8 = fp8 && {
    'fp8-format': fp8.recipe === 'blocks' || fp8.recipe === 'mx' ? 'e4m3' : 'hybrid',
    'fp8-recipe': recipes[fp8.recipe],
    ...(fp8.recipe === 'delayed' && {
      'fp8-amax-history-len': fp8.history,
      'fp8-margin': fp8.margin,
      'fp8-amax-compute-algo': fp8.algo === 'max' ? 'max' : 'most_recent',
    }),
  }
  return {
    ...(precision === 'bf16' && { bf16: true }),
    ...(precision === 'f16' && { fp16: true, ...scaleFlags(training.lossScale, refuse) }),
    ...(plan.gradients === 'bf16' && { 'grad-reduce-in-bf16': true }),
    ...of8,
  }
}

function scaleFlags(scale: Job['training']['lossScale'], refuse: Refuse): Flags {
  if (typeof scale === 'number') return { 'loss-scale': scale }
  if (scale?.kind !== 'megatron') {
    refuse('training.lossScale', 'Megatron supports a static loss scale, or { kind: megatron }')
    return {}
  }
  return {
    'initial-loss-scale': scale.initial,
    'min-loss-scale': scale.min,
    'loss-scale-window': scale.interval,
    hysteresis: scale.hysteresis,
  }
}

function recomputeFlags({ plan: { recompute } }: Job, refuse: Refuse): Flags {
  if (recompute === 'none') return {}
  if (recompute === 'selective') return { 'recompute-granularity': 'selective', 'recompute-modules': 'core_attn' }
  if (recompute === 'full')
    return { 'recompute-granularity': 'full', 'recompute-method': 'uniform', 'recompute-num-layers': 1 }
  refuse('plan.recompute', 'Megatron recomputes the attention core or full layers')
  return {}
}

function batchFlags(job: Job, refuse: Refuse): Flags {
  const { seq, globalBatch, batchRamp, steps, seed, clip } = job.training
  const grows = batchRamp && batchRamp.length > 0
  const sizes = grows ? [...batchRamp.map(step => step.globalBatch), globalBatch] : []
  const once = microbatchOf(job) * job.plan.dp
  if (sizes.some(size => size % once !== 0))
    refuse('training.batchRamp', `every batch size must be a multiple of micro batch x dp = ${once}`)
  const from = grows ? [0, ...batchRamp.map(step => sequencesUntil(step, seq) * seq)] : []
  return {
    'seq-length': seq,
    'micro-batch-size': microbatchOf(job),
    ...(grows
      ? { 'step-batch-size-schedule': `'${sizes.map((size, i) => `${from[i]}:${size}`).join(' ')}'` }
      : { 'global-batch-size': globalBatch }),
    'train-iters': steps,
    seed,
    'clip-grad': clip ?? '0.0',
    'calculate-per-token-loss': true,
  }
}

function optimizerFlags({ training }: Job, refuse: Refuse): Flags {
  const o = training.optimizer
  if (training.lora) refuse('training.lora', 'Megatron-LM has no LoRA')
  const shared = { lr: o.lr, 'weight-decay': o.weightDecay }
  if (o.kind === 'adamw')
    return { optimizer: 'adam', 'adam-beta1': o.beta1, 'adam-beta2': o.beta2, 'adam-eps': o.eps, ...shared }
  if (o.kind === 'sgd') return { optimizer: 'sgd', 'sgd-momentum': o.momentum, ...shared }
  refuse('training.optimizer.kind', `export to Megatron supports adamw and sgd, not ${o.kind}`)
  return {}
}
