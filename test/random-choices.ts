/**
 * Any choice of precision, loss scale, optimizer, average, place of states, format on the wire and growing batch, drawn together, over every axis,
 * from a seed: each is taken where `check` finds it sound beside those before it.
 */
import { choices, hasErrors } from '../src/base/index.js'
import { check, Job, type JobInput } from '../src/plan/index.js'
import { titleOf } from './jobs.js'
import { randomJob } from './random-job.js'
import { routedJobs } from './routed-jobs.js'

export interface Choice {
  readonly training?: Partial<JobInput['training']>
  readonly plan?: Partial<NonNullable<JobInput['plan']>>
}

const plain: Choice = {}
const trained = (...some: readonly NonNullable<Choice['training']>[]): Choice[] => some.map(training => ({ training }))
const planned = (...some: readonly NonNullable<Choice['plan']>[]): Choice[] => some.map(plan => ({ plan }))

/** 1-bit Adam is Adam of a kind, with a format on the wire. */
const signs: Choice = {
  training: { optimizer: { kind: 'adamw', lr: 1e-3, uncorrected: true } },
  plan: { reduce: 'step', gradients: 'f32', compress: { reduce: 'onebit', from: 1 } },
}

/** One of each is drawn, in any order; later ones must agree with earlier ones. */
export const kindsOfChoice = {
  scaler: [
    plain,
    ...trained(
      { lossScale: { kind: 'static', scale: 1024 } },
      { lossScale: { kind: 'torch', initial: 256, interval: 1 } },
      { lossScale: { kind: 'megatron', initial: 256, interval: 1 } },
      { lossScale: { kind: 'deepspeed', initial: 256, interval: 1 } },
    ),
  ],
  optimizer: trained(
    { optimizer: { kind: 'adamw', lr: 1e-3, weightDecay: 0.1 } },
    { optimizer: { kind: 'adamw', lr: 1e-3, amsgrad: true } },
    { optimizer: { kind: 'sgd', lr: 1e-2, momentum: 0.9, nesterov: true } },
    { optimizer: { kind: 'lion', lr: 1e-3 } },
    { optimizer: { kind: 'lamb', lr: 1e-2, weightDecay: 0.1 } },
    { optimizer: { kind: 'adafactor', lr: 1e-2 } },
    { optimizer: { kind: 'muon', lr: 1e-3 } },
  ),
  clip: [plain, ...trained({ clip: 0.1 }, { clip: 10 })],
  adapters: [
    plain,
    plain,
    plain,
    ...trained(
      { lora: { rank: 2, alpha: 3, targets: ['q', 'v'] } },
      { lora: { rank: 3, alpha: 3, targets: ['k', 'out', 'up', 'down'], dropout: 0.2 } },
      { lora: { rank: 1, targets: 'all-linear' } },
    ),
  ],
  roles: [plain, plain, ...trained({ roles: { norm: { weightDecay: 1 }, embedding: { lr: 0.5 } } })],
  average: [plain, plain, ...trained({ ema: { decay: 0.9 } })],
  precision: [
    plain,
    ...planned(
      { precision: 'f32' },
      { precision: 'bf16' },
      { precision: 'pure-bf16' },
      { precision: 'f16' },
      { precision: 'bf16-no-masters' },
    ),
  ],
  rounding: [plain, ...planned({ rounding: 'stochastic' })],
  codes: [
    plain,
    plain,
    ...planned(
      { fp8: { recipe: 'current' } },
      { fp8: { recipe: 'delayed', history: 2, algo: 'most_recent', margin: 1 } },
      { fp8: { recipe: 'blocks', block: 2 } },
      { fp8: { recipe: 'current', scales: 'exact', experts: true } },
      { fp8: { recipe: 'delayed', history: 3, experts: true } },
      { fp8: { recipe: 'blocks', block: 2, scales: 'exact', experts: true } },
      { fp8: { recipe: 'mx', block: 2, scales: 'floor' } },
    ),
  ],
  place: [
    plain,
    plain,
    plain,
    ...planned(
      { offload: { optimizer: 'host' } },
      { offload: { optimizer: 'disk' } },
      { zero: 3, offload: { parameters: 'host' } },
      { zero: 3, offload: { optimizer: 'host', parameters: 'host', activations: 'boundaries' } },
      { zero: 3, offload: { optimizer: 'disk', parameters: 'host' } },
      { zero: 3, offload: { parameters: 'disk' } },
      { zero: 3, offload: { optimizer: 'disk', parameters: 'disk', activations: 'boundaries' } },
      { offload: { activations: 'boundaries' } },
      { offload: { activations: 'boundaries', boundaries: 'disk' } },
    ),
  ],
  gradients: [plain, plain, ...planned({ gradients: 'bf16' }, { gradients: 'f32' })],
  wire: [
    plain,
    ...planned(
      { compress: { reduce: 'bf16' } },
      { compress: { reduce: 'f16' } },
      { zero: 3, compress: { reduce: 'f16', gather: 'bf16' } },
      { zero: 3, compress: { gather: 'int8' } },
      { gradients: 'f32', reduce: 'step', compress: { reduce: 'powersgd', rank: 2, rate: 0.5 } },
      { gradients: 'f32', reduce: 'step', compress: { reduce: 'powersgd', rank: 1, rate: 1, from: 3 } },
      { gradients: 'f32', reduce: 'step', compress: { reduce: 'topk', ratio: 0.1 } },
      { zero: 3, gradients: 'f32', reduce: 'step', compress: { reduce: 'topk', ratio: 0.5, gather: 'int8' } },
      { compress: { reduce: 'int8', run: 8 } },
      { zero: 3, compress: { reduce: 'int8', gather: 'int8', run: 5 } },
    ),
    signs,
    signs,
  ],
} satisfies Readonly<Record<string, readonly Choice[]>>

export interface ChosenJob {
  readonly title: string
  readonly job: Job
  readonly taken: readonly Choice[]
}

const tries = 3

/** The job with one choice of each kind, as far as they agree with what it has. */
function chosenFor(job: Job, seed: number): Omit<ChosenJob, 'title'> {
  const { pick, int } = choices(seed)
  const taken: Choice[] = []
  const left: (readonly Choice[])[] = Object.values(kindsOfChoice)
  let sound = job
  while (left.length > 0) {
    const [kind] = left.splice(int(left.length), 1)
    for (let n = 0; n < tries; n++) {
      const choice = pick(kind)
      const found = withChoice(sound, choice)
      if (!found) continue
      sound = found
      taken.push(choice)
      break
    }
  }
  return { job: grown(sound, seed), taken }
}

/** Undefined: `check` refuses it. What was parsed is parsed again: its defaults are what they were. */
function withChoice(job: Job, { training, plan }: Choice): Job | undefined {
  const input = { ...job, training: { ...job.training, ...training }, plan: { ...job.plan, ...plan } }
  const found = Job.safeParse(input)
  return found.success && !hasErrors(check(found.data)) ? found.data : undefined
}

/** One in six begins with batches of half the size, where those can be. */
function grown(job: Job, seed: number): Job {
  const half = { globalBatch: job.training.globalBatch / 2, until: job.training.globalBatch }
  const found = seed % 6 === 0 && Number.isInteger(half.globalBatch)
  return (found && withChoice(job, { training: { batchRamp: [half] } })) || job
}

/** Every second job has experts, latent attention or sequences that are cut. */
export function* chosenJobs(seed: number): Generator<ChosenJob> {
  const routed = routedJobs(seed, {})
  for (let n = 0; ; n++) {
    const own = 1000 * seed + n
    const { job, taken } = chosenFor(n % 2 === 0 ? randomJob(own) : routed.next().value.job, own)
    yield { title: `${titleOfChoices(job)} (SEED=${seed} #${n})`, job, taken }
  }
}

function titleOfChoices({ plan, training }: Job): string {
  const { precision, gradients, compress, offload, fp8 } = plan
  const { optimizer, lossScale, lora, ema, batchRamp } = training
  const kinds = { optimizer: optimizer.kind, scale: lossScale?.kind, lora: lora?.targets, ema: ema?.decay }
  const places = { precision, gradients, compress, offload, fp8: fp8?.recipe, ramp: batchRamp?.length }
  const said = Object.entries({ ...places, ...kinds }).filter(([, value]) => value !== undefined)
  return titleOf(Object.fromEntries(said))
}
