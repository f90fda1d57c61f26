/** Any sound job, from a seed that can be replayed. */
import { choices } from '../src/base/index.js'
import { check, Job, type JobInput, scheduleNames } from '../src/plan/index.js'

type Random = ReturnType<typeof choices>

function modelOf({ pick, chance, int }: Random): JobInput['model'] {
  const layers = 1 + int(8)
  const heads = pick([1, 2, 3, 4, 6])
  const headDim = 2 * (1 + int(2))
  const sizes = {
    layers,
    embed: heads * headDim,
    heads,
    ffn: 4 * (1 + int(4)),
    vocab: 4 * (2 + int(4)),
    tied: chance(0.5),
  }
  const family = pick(['mlp', 'gpt', 'llama'] as const)
  if (family === 'mlp') return { family, layers, embed: sizes.embed, ffn: sizes.ffn }
  if (family === 'gpt') return { family, ...sizes, dropout: pick([0, 0.1, 0.5]) }
  const kvHeads = pick([1, 2, 3].filter(n => heads % n === 0))
  const extras = { qkvBias: chance(0.3), qkNorm: chance(0.3), ...(chance(0.3) ? { window: 1 + int(4) } : {}) }
  return { family, ...sizes, embed: 2 * (1 + int(6)), headDim, kvHeads, ...extras }
}

function planOf({ pick, chance, int }: Random, layers: number): NonNullable<JobInput['plan']> {
  const [pp, chunks] = [pick([1, 2, 3, 4]), pick([undefined, undefined, 1, 2, 3])]
  const cuts = Array.from({ length: pp * (chunks ?? 1) }, () => 1 + int(2))
  return {
    ...{
      dp: pick([1, 2, 3, 4]),
      tp: pick([1, 2, 3, 4]),
      pp,
      zero: int(4),
      sequenceParallel: chance(0.5),
      microbatches: 1 + int(6),
    },
    ...{
      schedule: pick(scheduleNames),
      recompute: pick(['none', 'selective', 'full', ['gelu', 'contract']] as const) as 'none',
    },
    ...{ gather: pick(['use', 'step'] as const), reduce: pick(['microbatch', 'step'] as const), overlap: chance(0.7) },
    ...{ precision: pick(['f32', 'bf16', 'pure-bf16'] as const), gradients: pick([undefined, 'f32', 'bf16'] as const) },
    ...{ rounding: pick(['nearest', 'nearest', 'stochastic'] as const) },
    ...{ rankOrder: pick(['tp-cp-ep-dp-pp', 'pp-dp-tp', 'dp-pp-tp-cp-ep']) },
    ...(chunks ? { chunks } : {}),
    ...(cuts.reduce((a, b) => a + b) === layers
      ? { layers: cuts }
      : chance(0.2) && pp > 1
        ? { layers: { first: 0 } }
        : {}),
  }
}

const optimizers = [
  { kind: 'adamw', lr: 1e-3 },
  { kind: 'adamw', lr: 1e-3 },
  { kind: 'adamw', lr: 1e-3, amsgrad: true },
  { kind: 'adamw', lr: 1e-3, coupled: true },
  { kind: 'sgd', lr: 1e-2, momentum: 0 },
  { kind: 'sgd', lr: 1e-2, momentum: 0.9 },
  { kind: 'sgd', lr: 1e-2, momentum: 0.9, nesterov: true },
  { kind: 'lion', lr: 1e-3 },
  { kind: 'lamb', lr: 1e-2 },
  { kind: 'adafactor', lr: 1e-2 },
  { kind: 'muon', lr: 1e-3 },
] as const

/** The first sound job of the seed. */
export function randomJob(seed: number): Job {
  const random = choices(seed)
  for (;;) {
    const model = modelOf(random)
    const plan = planOf(random, typeof model === 'object' && 'layers' in model ? (model.layers ?? 1) : 1)
    const { pick, chance, int } = random
    const optimizer = { ...pick(optimizers), weightDecay: pick([0, 0.1]) }
    const globalBatch = (plan.dp ?? 1) * (plan.microbatches ?? 1) * (1 + int(2))
    const clip = chance(0.5) ? { clip: pick([0.01, 1]) } : {}
    const ema = chance(0.25) ? { ema: { decay: 0.9 } } : {}
    const training = { seq: 12, globalBatch, optimizer, ...clip, ...ema }
    const job = Job.safeParse({ model, training, plan })
    const ranks = (plan.dp ?? 1) * (plan.tp ?? 1) * (plan.pp ?? 1)
    if (job.success && ranks <= 24 && check(job.data).every(problem => problem.severity === 'warning')) return job.data
  }
}
