/**
 * Any choice of precision, loss scale, optimizer, place of states and format on the wire, drawn together, over every axis: a lawful
 * program that computes what one rank computes, in as many bytes as it says. `PLANS=300 npm test random-choices` draws so many.
 */
import { choices, hasErrors } from '../src/base/index.js'
import { check, Job, type JobInput } from '../src/plan/index.js'
import { computesWhatOneRankComputes, titleOf } from './jobs.js'
import { randomJob } from './random-job.js'
import { routedJobs } from './routed-jobs.js'
import { later, oneIn, test } from './share.js'

type Training = Partial<JobInput['training']>
type Plan = Partial<NonNullable<JobInput['plan']>>

const trainings: readonly (readonly Training[])[] = [
  [
    {},
    { lossScale: { kind: 'static', scale: 1024 } },
    { lossScale: { kind: 'torch', initial: 256, interval: 1 } },
    { lossScale: { kind: 'megatron', initial: 256, interval: 1 } },
    { lossScale: { kind: 'deepspeed', initial: 256, interval: 1 } },
  ],
  [
    { optimizer: { kind: 'adamw', lr: 1e-3, weightDecay: 0.1 } },
    { optimizer: { kind: 'adamw', lr: 1e-3, amsgrad: true } },
    { optimizer: { kind: 'sgd', lr: 1e-2, momentum: 0.9, nesterov: true } },
    { optimizer: { kind: 'lion', lr: 1e-3 } },
    { optimizer: { kind: 'lamb', lr: 1e-2, weightDecay: 0.1 } },
    { optimizer: { kind: 'adafactor', lr: 1e-2 } },
    { optimizer: { kind: 'muon', lr: 1e-3 } },
  ],
  [{}, { clip: 0.1 }, { clip: 10 }],
  [
    {},
    {},
    { lora: { rank: 2, alpha: 3, targets: ['q', 'v'] } },
    { lora: { rank: 3, alpha: 3, targets: ['k', 'out', 'up', 'down'], dropout: 0.2 } },
    { lora: { rank: 1, targets: 'all-linear' } },
  ],
  [{}, {}, { roles: { norm: { weightDecay: 1 }, embedding: { lr: 0.5 } } }],
]

/** What a plan is given beside its axes, each where `check` takes it. */
const plans: readonly (readonly Plan[])[] = [
  [
    {},
    { precision: 'f32' },
    { precision: 'bf16' },
    { precision: 'pure-bf16' },
    { precision: 'f16' },
    { precision: 'bf16-no-masters' },
  ],
  [
    {},
    {},
    { fp8: { recipe: 'current' } },
    { fp8: { recipe: 'delayed', history: 2, algo: 'most_recent', margin: 1 } },
    { fp8: { recipe: 'blocks', block: 2 } },
    { fp8: { recipe: 'current', scales: 'exact', experts: true } },
    { fp8: { recipe: 'delayed', history: 3, experts: true } },
    { fp8: { recipe: 'blocks', block: 2, scales: 'exact', experts: true } },
    { fp8: { recipe: 'mx', block: 2, scales: 'floor' } },
  ],
  [
    {},
    { offload: { optimizer: 'host' } },
    { offload: { optimizer: 'disk' } },
    { zero: 3, offload: { parameters: 'host' } },
    { zero: 3, offload: { optimizer: 'host', parameters: 'host', activations: 'boundaries' } },
    { zero: 3, offload: { optimizer: 'disk', parameters: 'host' } },
    { zero: 3, offload: { parameters: 'disk' } },
    { zero: 3, offload: { optimizer: 'disk', parameters: 'disk', activations: 'boundaries' } },
    { offload: { activations: 'boundaries', boundaries: 'disk' } },
  ],
  [{}, {}, { gradients: 'bf16' }, { gradients: 'f32' }],
  [
    {},
    {},
    { compress: { reduce: 'bf16' } },
    { compress: { reduce: 'f16', gather: 'bf16' } },
    { compress: { gather: 'bf16' } },
    { compress: { gather: 'int8' } },
    { compress: { reduce: 'powersgd', rank: 2, rate: 0.5 } },
    { reduce: 'step', compress: { reduce: 'powersgd', rank: 1, rate: 1, from: 3 } },
    { compress: { reduce: 'topk', ratio: 0.1 } },
    { reduce: 'step', compress: { reduce: 'topk', ratio: 0.5, gather: 'int8' } },
    { compress: { reduce: 'int8', run: 8 } },
    { compress: { reduce: 'int8', gather: 'int8', run: 5 } },
  ],
]

/** The job with one of each, as far as they agree with what it has. */
function drawnFor(job: Job, seed: number): Job {
  const { pick } = choices(seed)
  const drawn = [
    ...trainings.map(some => ({ training: pick(some) })),
    ...plans.map(some => ({ plan: pick(some) })),
  ] as readonly { readonly training?: Training; readonly plan?: Plan }[]
  let sound = job
  for (const { training = {}, plan = {} } of drawn) {
    // What was parsed is parsed again: its defaults are what they were.
    const input = { ...sound, training: { ...sound.training, ...training }, plan: { ...sound.plan, ...plan } }
    const found = Job.safeParse(input)
    if (found.success && !hasErrors(check(found.data))) sound = found.data
  }
  return sound
}

const count = Number(process.env.PLANS ?? 24)
const routed = routedJobs(Number(process.env.SEED ?? 1), {})
const tested = process.env.PLANS ? test : oneIn(18, 5)

for (let n = 0; n < count; n++) {
  const seed = 1000 * Number(process.env.SEED ?? 1) + n
  const job = drawnFor(n % 2 === 0 ? randomJob(seed) : routed.next().value.job, seed)
  const { precision, gradients, compress, offload, fp8 } = job.plan
  const { optimizer, lossScale, lora } = job.training
  const kinds = { optimizer: optimizer.kind, scale: lossScale?.kind, lora: lora?.targets }
  const said = Object.entries({
    precision,
    gradients,
    compress,
    ...(offload && { offload }),
    fp8: fp8?.recipe,
    ...kinds,
  }).filter(([, value]) => value !== undefined)
  tested(`${titleOf(Object.fromEntries(said))} (SEED=${process.env.SEED ?? 1} #${n})`, () =>
    computesWhatOneRankComputes(job),
  )
}

/** 1-bit Adam has conditions that draws seldom meet together. */
for (let n = 0; n < Number(process.env.PLANS ?? 3); n++) {
  const seed = 77000 + 1000 * Number(process.env.SEED ?? 1) + n
  const { plan, training, ...rest } = randomJob(seed)
  const optimizer = { kind: 'adamw' as const, lr: 1e-3, uncorrected: true }
  const how = { zero: 0, compress: { reduce: 'onebit' as const, from: 1 } }
  const found = Job.safeParse({ ...rest, training: { ...training, optimizer }, plan: { ...plan, ...how } })
  if (!found.success || hasErrors(check(found.data))) continue
  const { dp, tp, pp, cp } = found.data.plan
  later(`onebit, ${titleOf({ dp, tp, pp, cp })} (SEED=${process.env.SEED ?? 1} #${n})`, () =>
    computesWhatOneRankComputes(found.data),
  )
}
