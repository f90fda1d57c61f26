/**
 * Any model on any plan computes what it computes on one rank: experts and dense layers, every kind of context parallelism,
 * every axis. A seeded sample shows most pairs of choices; PLANS=500 draws so many plans instead, SEED=2 others.
 */
import { test } from 'node:test'
import { choices } from '../src/base/index.js'
import { check, contextOf, Job, type JobInput, scheduleFacts } from '../src/plan/index.js'
import { scheduleProblems } from '../src/schedule/index.js'
import { expertModels, routedPlans } from './expert-models.js'
import { computesWhatOneRankComputes, models as denseModels, titleOf } from './jobs.js'
import { covering } from './pairs.js'

const models = {
  ...expertModels,
  'gpt tied': denseModels['gpt tied'],
  'llama tied': denseModels['llama tied'],
  'dense latent': denseModels.latent,
}

const grid = { model: Object.keys(models) as (keyof typeof models)[], ...routedPlans } as const

type Point = { readonly [K in keyof typeof grid]: (typeof grid)[K][number] }
const names = Object.keys(grid) as (keyof typeof grid)[]

function jobAt({ model, ...plan }: Point): Job {
  const job = Job.parse({
    model: models[model],
    training: { seq: 8, globalBatch: 8, clip: 0.5 },
    plan: { ...plan, recompute: plan.recompute as 'none' | string[] } as JobInput['plan'],
  })
  const stages = job.plan.pp * job.plan.chunks
  return { ...job, model: { ...job.model, layers: Math.max(job.model.layers, stages) } }
}

/** What can be seen at a glance: most points are not possible, and to check a job takes long. */
function mayBe({ model, dp, cp, tp, pp, ep, etp, attention, schedule, microbatches }: Point): boolean {
  const ranks = dp * cp * tp
  const { ulysses, outer } = contextOf({ cp, attention })
  const { chunks } = scheduleFacts[schedule]
  return (
    ranks > 1 &&
    ranks * pp <= (asked > 0 ? 16 : 8) &&
    ranks % (ep * etp) === 0 &&
    (ep * etp === 1 || model in expertModels) &&
    ulysses * outer === cp &&
    4 % (ulysses * tp) === 0 &&
    8 % (dp * microbatches) === 0 &&
    scheduleProblems(schedule, { ranks: pp, chunks, microbatches }).length === 0
  )
}

const possible = (point: Point): boolean =>
  mayBe(point) && check(jobAt(point)).every(({ severity }) => severity !== 'error')

const asked = Number(process.env.PLANS ?? 0)
const seed = Number(process.env.SEED ?? 1)
const { pick } = choices(seed)

function drawn(): Point {
  for (;;) {
    const point = Object.fromEntries(
      names.map(name => [name, pick(grid[name] as readonly unknown[])]),
    ) as unknown as Point // one of each
    if (possible(point)) return point
  }
}

const points = asked > 0 ? Array.from({ length: asked }, drawn) : covering(Array.from({ length: 400 }, drawn), 12)
for (const [i, { model, ...plan }] of points.entries())
  test(`${model} ${titleOf(plan as JobInput['plan'] & object)} (SEED=${seed} #${i})`, () =>
    computesWhatOneRankComputes(jobAt({ model, ...plan }), 3))
