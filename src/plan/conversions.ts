/** What other frameworks' values become here: `gradient_accumulation_steps: 8` is `plan.microbatches: 8`. */
import { isMapping } from './mapping.js'

/** Fields of a job with their values, as they are to be written. */
export type Fields = Readonly<Record<string, string | number | boolean>>

/** What the rest of the file says, as far as it can be read. */
export interface Beside {
  readonly number: (path: string) => number | undefined
}

export function besideIn(root: unknown): Beside {
  const at = (path: string): unknown =>
    path.split('.').reduce((inner: unknown, key) => (isMapping(inner) ? inner[key] : undefined), root)
  return {
    number: path => {
      const value = at(path)
      return typeof value === 'number' ? value : undefined
    },
  }
}

type Convert = (value: unknown, beside: Beside) => Fields | undefined

const isOn = (value: unknown): boolean =>
  value === true || value === 'true' || (isMapping(value) && value.enabled !== false && value.enabled !== 'false')
const isOff = (value: unknown): boolean =>
  value === false || value === 'false' || (isMapping(value) && value.enabled === false)

/** A switch that means one value; off, it means another or nothing. */
const toggle =
  (field: string, on: string | number | boolean, off?: string | number | boolean): Convert =>
  value =>
    isOn(value) ? { [field]: on } : isOff(value) && off !== undefined ? { [field]: off } : undefined

/** Words of theirs for values of ours. */
const named =
  (field: string, words: Readonly<Record<string, string | number | boolean>>): Convert =>
  value => {
    const word = String(value)
      .toLowerCase()
      .replaceAll(/[-_. ]/g, '')
    return Object.hasOwn(words, word) ? { [field]: words[word] } : undefined
  }

/** The first that has an answer. */
const first =
  (...converts: readonly Convert[]): Convert =>
  (value, beside) =>
    converts.reduce<Fields | undefined>((found, convert) => found ?? convert(value, beside), undefined)

const inside =
  (key: string, convert: Convert): Convert =>
  (value, beside) =>
    isMapping(value) ? convert(value[key], beside) : undefined

const whole = (field: string, n: number): Fields | undefined =>
  Number.isInteger(n) && n >= 1 ? { [field]: n } : undefined

const number: (use: (n: number, beside: Beside) => Fields | undefined) => Convert = use => (value, beside) =>
  typeof value === 'number' && Number.isFinite(value) ? use(value, beside) : undefined

/** Sequences of one microbatch on one rank. */
const perDevice: Convert = number((n, { number: of }) => {
  const batch = of('training.globalBatch')
  return batch === undefined ? undefined : whole('plan.microbatches', batch / (n * (of('plan.dp') ?? 1)))
})

/** torchtitan's two factors of dp: dp is their product, and where both are more than 1 `shard` is the one that ZeRO shards over. */
const besideDp = (of: Beside['number'], ...keys: readonly string[]): number =>
  keys.map(key => of(`plan.${key}`)).find(size => size !== undefined && size > 0) ?? 1
const inGroups = (shard: number, replicas: number): Fields => (shard > 1 && replicas > 1 ? { 'plan.shard': shard } : {})
const replicas: Convert = number((n, { number: of }) => {
  const shard = besideDp(of, 'dp_shard', 'data_parallel_shard_degree')
  const dp = whole('plan.dp', n * shard)
  return dp && { ...dp, ...inGroups(shard, n) }
})
const shards: Convert = number((n, { number: of }) => {
  const groups = besideDp(of, 'dp_replicate', 'data_parallel_replicate_degree')
  const dp = whole('plan.dp', n * groups)
  return dp && { ...dp, 'plan.zero': 3, ...inGroups(n, groups) }
})

/** What FSDP keeps gathered from forward to backward is ZeRO-3 here as well, gathered once a step. */
const strategies: Convert = first(
  named('plan.zero', { fullshard: 3, noshard: 0, fullshardautowrap: 3, optimgradsparams: 3, optimgrads: 2, optim: 1 }),
  value => (/^shard_?grad_?op/i.test(String(value)) ? { 'plan.zero': 3, 'plan.gather': 'step' } : undefined),
)

const precisions: Convert = named('plan.precision', {
  ...{ bf16: 'bf16', bfloat16: 'bf16', torchbfloat16: 'bf16', bf16mixed: 'bf16', bf16true: 'pure-bf16' },
  ...{ fp16: 'f16', float16: 'f16', torchfloat16: 'f16', half: 'f16', '16mixed': 'f16', fp16mixed: 'f16' },
  ...{ fp32: 'f32', float32: 'f32', torchfloat32: 'f32', float: 'f32', no: 'f32', '32true': 'f32' },
})

const gradientTypes: Convert = named('plan.gradients', {
  ...{ bf16: 'bf16', bfloat16: 'bf16', torchbfloat16: 'bf16', fp32: 'f32', float32: 'f32', torchfloat32: 'f32' },
})

const recomputes: Convert = first(
  inside('mode', named('plan.recompute', { full: 'full', selective: 'selective', none: 'none' })),
  toggle('plan.recompute', 'full', 'none'),
  named('plan.recompute', { full: 'full', selective: 'selective', none: 'none', uniform: 'full', block: 'full' }),
)

const shareOf =
  (field: string, of: string): Convert =>
  (value, beside) =>
    number((n, { number: at }) => {
      const all = at(of)
      return all === undefined || n > 1 ? undefined : { [field]: Math.round(n * all) }
    })(value, beside)

const places = { cpu: 'host', nvme: 'disk', none: 'device' }
const offloaded = (field: string): Convert =>
  first(inside('device', named(field, places)), named(field, places), toggle(field, 'host'))

const samplesToSteps =
  (field: string): Convert =>
  (value, beside) =>
    number((n, { number: of }) => {
      const batch = of('training.globalBatch')
      return batch === undefined ? undefined : { [field]: Math.ceil(n / batch) }
    })(value, beside)

const mebibytes: Convert = number(n => ({ 'plan.bucket': `${n}MiB` }))
const not =
  (field: string): Convert =>
  value =>
    typeof value === 'boolean' ? { [field]: !value } : undefined

const meets: Convert = named('plan.attention', {
  p2p: 'ring',
  allgather: 'gather',
  a2a: 'ulysses',
  alltoall: 'ulysses',
})
const ulysses: Convert = number(n => ({ 'plan.cp': n, 'plan.attention': 'ulysses' }))

const betas: Convert = value =>
  Array.isArray(value) && value.length === 2 && value.every(beta => typeof beta === 'number')
    ? { 'training.optimizer.beta1': value[0], 'training.optimizer.beta2': value[1] }
    : undefined

/** Layers of a stage -> stages of a rank. */
const virtualStages: Convert = number((n, { number: of }) => {
  const layers = of('model.layers')
  return layers === undefined ? undefined : whole('plan.chunks', layers / (of('plan.pp') ?? 1) / n)
})

const decays: Convert = named('training.lrSchedule.kind', {
  ...{ cosine: 'cosine', cosineannealing: 'cosine', linear: 'linear', constant: 'constant', wsd: 'wsd' },
  ...{ constantwithwarmup: 'constant', inversesquareroot: 'inverse-sqrt', inversesqrt: 'inverse-sqrt' },
})

const fp8Recipes: Convert = named('plan.fp8.recipe', {
  ...{ delayed: 'delayed', tensorwise: 'current', blockwise: 'blocks', mxfp8: 'mx', rowwise: 'current' },
})

/** Of the few words whose value is not simply carried over. */
const conversions: Readonly<Record<string, Convert>> = {
  ...{
    zerooptimization: inside(
      'stage',
      number(n => ({ 'plan.zero': n })),
    ),
    zero1: toggle('plan.zero', 1),
  },
  ...{
    zero2: toggle('plan.zero', 2),
    zero3: toggle('plan.zero', 3),
    usedistributedoptimizer: toggle('plan.zero', 1, 0),
  },
  ...{ distributedoptimizer: toggle('plan.zero', 1, 0), usetorchfsdp2: toggle('plan.zero', 3) },
  ...{ fsdp: first(toggle('plan.zero', 3, 0), strategies), fullyshard: toggle('plan.zero', 3, 0) },
  ...{ shardingstrategy: strategies, fsdpshardingstrategy: strategies, dataparallelshardingstrategy: strategies },
  reshardafterforward: first(
    toggle('plan.gather', 'use', 'step'),
    named('plan.gather', { always: 'use', never: 'step' }),
  ),
  fsdpreshardafterforward: toggle('plan.gather', 'use', 'step'),
  ...{ dataparallelsharddegree: shards, dpshard: shards, dataparallelreplicatedegree: replicas, dpreplicate: replicas },
  tpmode: named('plan.sequenceParallel', { reducescatter: true, allreduce: false }),
  ...{ trainmicrobatchsizepergpu: perDevice, perdevicetrainbatchsize: perDevice, microbatchsize: perDevice },
  ...{ microbatch: perDevice, perdevicebatchsize: perDevice, localbatchsize: perDevice },
  numlayerspervirtualpipelinestage: virtualStages,
  ...{ bf16: toggle('plan.precision', 'bf16'), bfloat16: toggle('plan.precision', 'bf16') },
  ...{ fp16: toggle('plan.precision', 'f16'), float16: toggle('plan.precision', 'f16') },
  ...{ half: toggle('plan.precision', 'f16'), fp32: toggle('plan.precision', 'f32') },
  ...{ float32: toggle('plan.precision', 'f32'), amp: toggle('plan.precision', 'bf16') },
  ...{ dtype: precisions, paramdtype: precisions, torchdtype: precisions, mixedprecision: precisions },
  ...{ paramsdtype: precisions, mixedprecisionparam: precisions },
  ...{ graddtype: gradientTypes, reducedtype: gradientTypes, gradaccumdtype: gradientTypes },
  ...{ mixedprecisionreduce: gradientTypes, maingradsdtype: gradientTypes },
  gradreduceinbf16: toggle('plan.gradients', 'bf16', 'f32'),
  accumulateallreducegradsinfp32: toggle('plan.gradients', 'f32'),
  accumulategradinfp32: toggle('plan.gradients', 'f32'),
  ...{ fp8recipe: fp8Recipes, fp8amaxcomputealgo: named('plan.fp8.algo', { max: 'max', mostrecent: 'most_recent' }) },
  ...{ gradientcheckpointing: recomputes, activationcheckpointing: recomputes, activationcheckpoint: recomputes },
  ...{ checkpointing: recomputes, recomputegranularity: recomputes, recomputemethod: recomputes, remat: recomputes },
  ...{ checkpointactivations: recomputes, activationscheckpointgranularity: recomputes, recomputelayer: recomputes },
  fsdpactivationcheckpointing: recomputes,
  recomputeactivations: toggle('plan.recompute', 'selective', 'none'),
  bucketcapmb: mebibytes,
  ...{
    offloadoptimizer: offloaded('plan.offload.optimizer'),
    optimizercpuoffload: offloaded('plan.offload.optimizer'),
  },
  ...{
    offloadoptimizerdevice: offloaded('plan.offload.optimizer'),
    offloadparamdevice: offloaded('plan.offload.parameters'),
  },
  offloadparam: offloaded('plan.offload.parameters'),
  cpucheckpointing: toggle('plan.offload.activations', 'layer-inputs'),
  ...{ cpcommtype: meets, ringattention: toggle('plan.attention', 'ring') },
  contextparallelrotatemethod: named('plan.attention', { allgather: 'gather', alltoall: 'ring' }),
  ...{ ulysses, ulyssessize: ulysses, ulyssessequenceparallelsize: ulysses, spsize: ulysses },
  usetpppdpmapping: toggle('plan.rankOrder', 'tp-cp-ep-pp-dp'),
  initialscalepower: number(n => ({ 'training.lossScale.initial': 2 ** n })),
  ...{ betas, adambetas: betas },
  ...{ lrdecaystyle: decays, lrschedulertype: decays, decaytype: decays, lrdecaytype: decays },
  ...{ lrscheduler: decays, scheduler: decays },
  warmupratio: shareOf('training.lrSchedule.warmup', 'training.steps'),
  lrwarmupfraction: shareOf('training.lrSchedule.warmup', 'training.steps'),
  decayratio: shareOf('training.lrSchedule.cooldown', 'training.steps'),
  ...{ minlrfactor: shareOfRate(), minlrratio: shareOfRate() },
  ...{ trainsamples: samplesToSteps('training.steps'), warmupsamples: samplesToSteps('training.lrSchedule.warmup') },
  lrwarmupsamples: samplesToSteps('training.lrSchedule.warmup'),
  lrdecaysamples: samplesToSteps('training.lrSchedule.decaySteps'),
  ...{
    numtrainepochs: () => undefined,
    epochs: () => undefined,
    numepochs: () => undefined,
    maxepochs: () => undefined,
  },
  emadecay: number(n => ({ 'training.ema.decay': n })),
  untieembeddingsandoutputweights: not('model.tied'),
  ...{ optim: optimizers, optimizertype: optimizers, optimizername: optimizers, optimname: optimizers },
}

function shareOfRate(): Convert {
  return number((n, { number: of }) => {
    const lr = of('training.optimizer.lr')
    return lr === undefined ? undefined : { 'training.lrSchedule.minLr': Number((n * lr).toPrecision(12)) }
  })
}

function optimizers(value: unknown, beside: Beside): Fields | undefined {
  return named('training.optimizer.kind', {
    ...{ adamw: 'adamw', adam: 'adamw', adamwtorch: 'adamw', adamwtorchfused: 'adamw', fusedadam: 'adamw', sgd: 'sgd' },
    ...{ lion: 'lion', lamb: 'lamb', muon: 'muon', adafactor: 'adafactor' },
  })(value, beside)
}

/** undefined: the word says something that this value alone does not tell. */
export function converted(word: string, meant: string, value: unknown, beside: Beside): Fields | undefined {
  if (Object.hasOwn(conversions, word)) return conversions[word](value, beside)
  return typeof value === 'number' || typeof value === 'string' || typeof value === 'boolean'
    ? { [meant]: value }
    : undefined
}

/** `plan.dp: 8` and `plan.zero: 3` */
export const showFields = (fields: Fields, path: string): string =>
  Object.entries(fields)
    .map(([field, value]) => `\`${field.startsWith(`${path}.`) ? field.slice(path.length + 1) : field}: ${value}\``)
    .join(' and ')
