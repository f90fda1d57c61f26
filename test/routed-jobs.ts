/** Jobs over everything a plan may do with experts, and with sequences that are cut, from a seed. */
import { choices } from '../src/base/index.js'
import { check, Job, type JobInput } from '../src/plan/index.js'
import { scheduleProblems } from '../src/schedule/index.js'
import { expertModels, routedPlans } from './expert-models.js'
import { models as plainModels, titleOf } from './jobs.js'

const models = {
  ...expertModels,
  latent: { ...plainModels.latent, layers: 2 },
  'latent experts': { ...plainModels.latent, layers: 2, moe: expertModels.deepseek.moe },
  windowed: { ...plainModels['llama tied'], layers: 2 },
}

const grid = {
  model: Object.keys(models) as (keyof typeof models)[],
  ...routedPlans,
  ...{ etp: [1, 2], microbatches: [1, 2, 4], precision: ['f32', 'f32', 'bf16'] },
} as const

type Point = { readonly [K in keyof typeof grid]: (typeof grid)[K][number] }
type Training = Partial<JobInput['training']>

function jobAt({ model, ...plan }: Point, training: Training): Job | undefined {
  const experts = 'moe' in models[model] ? {} : { ep: 1, etp: 1, expertCapacity: undefined, recompute: 'none' as const }
  // Its norms are over four numbers: of what bf16 rounds they make a few per cent of the gradient, here as in the reference.
  const precision = model === 'windowed' ? 'f32' : plan.precision
  const found = Job.safeParse({
    model: models[model],
    training: { seq: 8, globalBatch: 8, clip: 0.5, ...training },
    plan: { ...plan, ...experts, precision } as JobInput['plan'],
  })
  if (!found.success) return undefined
  const { pp, chunks } = found.data.plan
  return { ...found.data, model: { ...found.data.model, layers: Math.max(found.data.model.layers, pp * chunks) } }
}

function isSound(job: Job): boolean {
  const { pp: ranks, chunks, microbatches, schedule } = job.plan
  const known = typeof schedule === 'string' && scheduleProblems(schedule, { ranks, chunks, microbatches }).length === 0
  return known && check(job).every(({ severity }) => severity !== 'error')
}

export interface RoutedJob {
  readonly title: string
  readonly job: Job
}

/** Jobs of two ranks or four, or eight at most; every kind of model comes as often as the others. */
export function* routedJobs(seed: number, training: Training): Generator<RoutedJob> {
  const { pick } = choices(seed)
  for (let n = 0; ; n++)
    for (;;) {
      const drawn = Object.entries(grid).map(([name, values]) => [name, pick(values as readonly unknown[])])
      const point = { ...Object.fromEntries(drawn), model: grid.model[n % grid.model.length] } as Point // one of each
      const world = point.dp * point.cp * point.tp * point.pp
      const job = [2, 4, 8].includes(world) ? jobAt(point, training) : undefined
      if (!job || !isSound(job)) continue
      const { model, ...plan } = point
      yield { title: `${model}: ${titleOf(plan as JobInput['plan'] & object)} (SEED=${seed} #${n})`, job }
      break
    }
}
