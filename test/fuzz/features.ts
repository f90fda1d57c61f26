/**
 * Every feature of a job as a patch: what it adds to the fields of a plain job. One value per group is drawn (draw.ts), so a group
 * holds alternatives. AdamW's eps is 1e-5, as in emit-cases.ts: gradients that are exactly 0 in theory are rounding noise.
 */
import { type JobInput, recomputePolicies, scheduleNames } from '../../src/plan/index.js'
import { expertModels } from '../expert-models.js'
import { models } from '../jobs.js'

/** Fields that replace those of a job, section by section. */
export interface Patch {
  readonly model?: Readonly<Record<string, unknown>>
  readonly training?: Partial<JobInput['training']>
  readonly plan?: Partial<NonNullable<JobInput['plan']>>
  readonly data?: JobInput['data']
}

type Patches = Readonly<Record<string, Patch>>
type Plan = NonNullable<Patch['plan']>
type Training = NonNullable<Patch['training']>

/** A patch per value, named by the value. */
const named = <T>(values: readonly T[], patch: (value: T) => Patch): Patches =>
  Object.fromEntries(values.map(value => [typeof value === 'string' ? value : JSON.stringify(value), patch(value)]))

const modelField = (field: string, ...values: readonly unknown[]): Patches =>
  named(values, value => ({ model: { [field]: value } }))
const planField = <K extends keyof Plan>(field: K, ...values: readonly Plan[K][]): Patches =>
  named(values, value => ({ plan: { [field]: value } }))
const trainingField = <K extends keyof Training>(field: K, ...values: readonly Training[K][]): Patches =>
  named(values, value => ({ training: { [field]: value } }))

const sizes = { layers: 2, embed: 8, heads: 4, ffn: 8, vocab: 8 }

/** Where every draw begins: a family, and batches that most meshes divide. */
export const families = {
  mlp: { family: 'mlp', layers: 2, embed: 8, ffn: 8 },
  gpt: { family: 'gpt', ...sizes },
  llama: { family: 'llama', ...sizes },
} as const satisfies Readonly<Record<string, JobInput['model']>>

const eps = 1e-5
export const plainOptimizer = { kind: 'adamw', lr: 1e-3, eps } as const
const optimizers: readonly Training['optimizer'][] = [
  { kind: 'adamw', lr: 1e-3, eps, weightDecay: 0.1, beta1: 0.8, beta2: 0.99 },
  { kind: 'adamw', lr: 1e-3, eps, amsgrad: true },
  { kind: 'adamw', lr: 1e-3, eps, weightDecay: 0.1, coupled: true },
  { kind: 'adamw', lr: 1e-3, eps, uncorrected: true },
  { kind: 'sgd', lr: 1e-2 },
  { kind: 'sgd', lr: 1e-2, momentum: 0.9, dampening: 0.3, weightDecay: 0.01 },
  { kind: 'sgd', lr: 1e-2, momentum: 0.9, nesterov: true },
  { kind: 'lion', lr: 1e-3, weightDecay: 0.1, beta1: 0.8, beta2: 0.9 },
  { kind: 'lamb', lr: 1e-2, weightDecay: 0.1, beta1: 0.8, beta2: 0.99, eps },
  { kind: 'lamb', lr: 1e-2, eps, always: true },
  { kind: 'adafactor', lr: 1e-2, weightDecay: 0.1 },
  { kind: 'adafactor', lr: 1e-2, beta2Decay: -0.5, eps1: 1e-6, eps2: 1e-2, clipThreshold: 0.5 },
  { kind: 'muon', lr: 1e-3, adamw: { eps } },
  {
    ...{ kind: 'muon', lr: 1e-3, weightDecay: 0.1, momentum: 0.8, nesterov: false, steps: 3, adjust: 'rms' },
    adamw: { lr: 1e-4, eps, weightDecay: 0.01, beta1: 0.8, beta2: 0.99, amsgrad: true },
  },
  { kind: 'muon', lr: 1e-3, adamw: { eps, coupled: true, uncorrected: true, weightDecay: 0.1 } },
]

/** Compression with error feedback sums gradients once a step, in f32. */
const fedBack = { reduce: 'step', gradients: 'f32' } as const
const wires: readonly Plan[] = [
  { compress: { reduce: 'bf16' } },
  { compress: { reduce: 'f16' } },
  { compress: { reduce: 'int8', run: 8 } },
  { zero: 3, compress: { reduce: 'f16', gather: 'bf16' } },
  { zero: 3, compress: { gather: 'int8' } },
  { zero: 3, compress: { reduce: 'int8', gather: 'int8', run: 5 } },
  { ...fedBack, compress: { reduce: 'powersgd', rank: 2, rate: 0.5 } },
  { ...fedBack, compress: { reduce: 'powersgd', rank: 1, rate: 1, from: 2 } },
  { ...fedBack, compress: { reduce: 'topk', ratio: 0.1 } },
  { ...fedBack, zero: 3, compress: { reduce: 'topk', ratio: 0.5, gather: 'int8' } },
]
/** 1-bit Adam freezes the second moment, which is why it wants one without bias correction. */
const onebit: Patch = {
  training: { optimizer: { kind: 'adamw', lr: 1e-3, eps, uncorrected: true } },
  plan: { ...fedBack, compress: { reduce: 'onebit', from: 1 } },
}

const offloads: readonly Plan[] = [
  { offload: { optimizer: 'host' } },
  { offload: { optimizer: 'disk' } },
  { zero: 3, offload: { parameters: 'host' } },
  { zero: 3, offload: { parameters: 'disk' } },
  { zero: 3, offload: { optimizer: 'disk', parameters: 'host' } },
  { zero: 3, recompute: 'full', offload: { optimizer: 'host', parameters: 'host', activations: 'layer-inputs' } },
  { recompute: 'full', offload: { activations: 'layer-inputs' } },
  { recompute: 'full', offload: { activations: 'layer-inputs', layerInputs: 'disk' } },
]

const ropes = {
  linear: { kind: 'linear', factor: 2 },
  llama3: { kind: 'llama3', factor: 4, low: 1, high: 4, original: 8 },
  yarn: { kind: 'yarn', factor: 4, original: 8, fast: 2, slow: 0.1, scale: 1, scaleAll: 0.5 },
} as const

const capacities = [
  { factor: 1, order: 'token' },
  { factor: 1.25, order: 'probability', group: 4, least: 1 },
]

/** In groups of alternatives, of which a job has one or none. */
export const features: Readonly<Record<string, Patches>> = {
  layers: modelField('layers', 1, 3, 4),
  width: {
    ...{
      'embed 12': { model: { embed: 12 } },
      'one head': { model: { heads: 1 } },
      'two heads': { model: { heads: 2 } },
    },
    ...{ 'three heads': { model: { heads: 3, embed: 12 } }, 'six heads': { model: { heads: 6, embed: 12 } } },
    ...{
      'wide heads': { model: { headDim: 6 } },
      'ffn 12': { model: { ffn: 12 } },
      'vocab 12': { model: { vocab: 12 } },
    },
  },
  kvHeads: modelField('kvHeads', 1, 2),
  tied: modelField('tied', true, false),
  dropout: modelField('dropout', 0.2),
  extras: {
    ...{ 'qkv bias': { model: { qkvBias: true } }, 'qk norm': { model: { qkNorm: true } } },
    ...{ window: { model: { window: 3 } }, eps: { model: { eps: 1e-3 } }, positions: { model: { positions: 64 } } },
  },
  rope: {
    ...named(Object.keys(ropes) as (keyof typeof ropes)[], name => ({ model: { ropeScaling: ropes[name] } })),
    theta: { model: { ropeTheta: 50 } },
  },
  latent: {
    latent: { model: { mla: models.latent.mla } },
    'latent, eps of its norms': { model: { mla: { ...models.latent.mla, eps: 1e-2 } } },
    'latent, queries at once': { model: { mla: { kvLoraRank: 5, qkRopeHeadDim: 2, qkNopeHeadDim: 3, vHeadDim: 4 } } },
  },
  experts: {
    ...named(Object.keys(expertModels) as (keyof typeof expertModels)[], name => ({
      model: { moe: expertModels[name].moe },
    })),
    ...named(capacities, capacity => ({ model: { moe: { ...expertModels.gshard.moe, capacity } } })),
    'experts beside': { model: { experts: 4, topK: 2 } },
  },
  seq: trainingField('seq', 4, 12, 16),
  globalBatch: trainingField('globalBatch', 12, 16, 24),
  batchRamp: {
    samples: { training: { globalBatch: 16, batchRamp: [{ globalBatch: 8, until: 8 }] } },
    tokens: { training: { globalBatch: 16, batchRamp: [{ globalBatch: 8, tokens: 64 }] } },
  },
  optimizer: trainingField('optimizer', ...optimizers),
  paramGroups: trainingField(
    'paramGroups',
    { norm: { lr: 2, weightDecay: 1 }, embedding: { lr: 0.5, weightDecay: 0 } },
    { bias: { lr: 2, weightDecay: 1 }, head: { lr: 0.5, weightDecay: 0 } },
    { matrix: { lr: 0.5, weightDecay: 2 }, router: { lr: 2, weightDecay: 0 }, adapter: { lr: 2, weightDecay: 0 } },
  ),
  ema: trainingField('ema', { decay: 0.9 }),
  lora: trainingField(
    'lora',
    { rank: 2, alpha: 3, targets: ['q', 'v'] },
    { rank: 3, alpha: 3, targets: ['k', 'out', 'up', 'down'], dropout: 0.2 },
    { rank: 1, targets: 'all-linear' },
  ),
  clip: trainingField('clip', 0.1, 10),
  skips: {
    'skip above': { training: { skipAbove: 1e6 } },
    'skip all': { training: { skipAbove: 1e-9, mostSkips: 8 } },
    'skip spikes': { training: { spikes: 'skip' } },
    'note spikes': { training: { spikes: 'note' } },
  },
  lossScale: trainingField(
    'lossScale',
    { kind: 'static', scale: 1024 },
    { kind: 'torch', initial: 256, growth: 4, backoff: 0.25, interval: 1 },
    { kind: 'megatron', initial: 256, min: 2, growth: 4, backoff: 0.25, interval: 1, hysteresis: 1 },
    { kind: 'deepspeed', initial: 256, min: 2, growth: 4, interval: 1, hysteresis: 1, consecutive: true },
  ),
  lrSchedule: trainingField(
    'lrSchedule',
    { kind: 'linear', warmup: 1, minLr: 1e-4 },
    { kind: 'cosine', warmup: 2, warmupFrom: 1e-5, decaySteps: 8 },
    { kind: 'inverse-sqrt', warmup: 1 },
    { kind: 'wsd', warmup: 1, cooldown: 2, cooldownShape: 'minus-sqrt' },
  ),
  seed: trainingField('seed', 7),
  evaluation: {
    'every step': { training: { evalEvery: 1, evalBatches: 2 } },
    never: { training: { evalBatches: 0 } },
  },
  documents: named(
    [{ eod: 0 }, { eod: 1, eodMaskLoss: true }, { eod: 0, pad: 2 }, { eod: 0, eodMaskLoss: true, pad: 4 }] as const,
    documents => ({ data: { documents } }),
  ),
  dp: { ...planField('dp', 2, 4), 'dp 3': { training: { globalBatch: 12 }, plan: { dp: 3 } } },
  tp: {
    ...planField('tp', 2, 4),
    'tp 3': { model: { embed: 12, heads: 3, ffn: 12, vocab: 12 }, plan: { tp: 3 } },
    'tp 3 of an mlp': { model: { ffn: 12 }, plan: { tp: 3 } },
  },
  cp: {
    ...planField('cp', 2, 4),
    'zigzag of documents': {
      training: { seq: 16 },
      plan: { cp: 2, zigzag: 'documents' },
      data: { documents: { eod: 0, pad: 4 } },
    },
  },
  pp: planField('pp', 2, 4),
  ep: planField('ep', 2, 4),
  etp: planField('etp', 2),
  zero: planField('zero', 1, 2, 3),
  shard: {
    'shard 1': { plan: { dp: 4, shard: 1, zero: 2 } },
    'shard 2': { plan: { dp: 4, shard: 2, zero: 3 } },
    'shard 2 of zero 1': { plan: { dp: 4, shard: 2, zero: 1 } },
  },
  gather: planField('gather', 'step'),
  reduce: planField('reduce', 'step'),
  attention: planField('attention', 'ring', 'ulysses', { ulysses: 2, ring: 2 }),
  zigzag: planField('zigzag', true, false),
  rows: planField('expertCapacity', 'worst', 3),
  sequenceParallel: planField('sequenceParallel', true),
  microbatches: planField('microbatches', 2, 4, 8),
  schedule: planField('schedule', ...scheduleNames),
  chunks: planField('chunks', 2, 3),
  stages: {
    'layers by stage': { model: { layers: 4 }, plan: { pp: 2, layers: [1, 3] } },
    'first stage empty': { plan: { pp: 2, layers: { first: 0 } } },
    'last stage short': { model: { layers: 4 }, plan: { pp: 2, layers: { last: 1 } } },
  },
  recompute: planField(
    'recompute',
    ...recomputePolicies.filter(name => name !== 'none'),
    ['gelu', 'swiglu', 'rmsNorm', 'layerNorm'],
    ['gelu', 'contract'],
    ['scores', 'dispatch', 'expertContract', 'weightedSwiglu'],
  ),
  precision: {
    ...planField('precision', 'bf16', 'pure-bf16', 'bf16-no-masters'),
    f16: { training: { lossScale: { kind: 'torch', initial: 256, interval: 1 } }, plan: { precision: 'f16' } },
  },
  rounding: { stochastic: { plan: { precision: 'pure-bf16', rounding: 'stochastic' } } },
  fp8: named(
    [
      { recipe: 'current' },
      { recipe: 'current', scales: 'exact', experts: true },
      { recipe: 'delayed', history: 2, algo: 'most_recent', margin: 1 },
      { recipe: 'delayed', history: 3, experts: true },
      { recipe: 'blocks', block: 2 },
      { recipe: 'blocks', block: 2, scales: 'exact', experts: true },
      { recipe: 'mx', block: 2, scales: 'floor' },
    ] as const,
    fp8 => ({ plan: { precision: 'bf16', fp8 } }),
  ),
  gradients: planField('gradients', 'f32', 'bf16'),
  overlap: planField('overlap', false),
  flights: { ...planField('bucket', 64, 1000), ...planField('prefetch', 0, 2) },
  compress: { ...named(wires, plan => ({ plan })), onebit },
  offload: named(offloads, plan => ({ plan })),
  order: planField('rankOrder', 'pp-dp-tp', 'dp-pp-tp-cp-ep', 'tp-cp-ep-dp-pp', 'dp-tp-pp'),
  deviceMemory: planField('deviceMemory', '80GiB'),
}
