/**
 * Plans for another number of ranks. What the batch is, and which samples a step sees, stays; so does, where it can, how
 * many of them a rank computes with at once. Plans that give the most ranks work come first, and of these the one that
 * is most like the plan before.
 */
import { batchRanks, divisors, hasErrors, meshAxes } from '../base/index.js'
import { check, worldOfPlan } from './check.js'
import { layersPerStage } from './layers.js'
import { dataGroups } from './rule.js'
import { isScheduleName } from './schedule.js'
import type { Job, Plan } from './schema.js'

/** Jobs with at most so many ranks that `check` has nothing against, the best first. */
export function jobsFor(job: Job, ranks: number): Job[] {
  return cutsUpTo(ranks)
    .flatMap(cut => admissible(job, { ...job.plan, ...cut }))
    .map(one => ({ one, worth: worthOf(one, job.plan) }))
    .sort((a, b) => b.worth.working - a.worth.working || a.worth.distance - b.worth.distance)
    .map(({ one }) => one)
}

type Sizes = Pick<Plan, 'tp' | 'pp' | 'dp'>

function cutsUpTo(ranks: number): Sizes[] {
  const cuts: Sizes[] = []
  for (let tp = 1; tp <= ranks; tp++)
    for (let pp = 1; tp * pp <= ranks; pp++) for (let dp = 1; tp * pp * dp <= ranks; dp++) cuts.push({ tp, pp, dp })
  return cuts
}

/** The first of the ways to fill in the rest that is admissible: none, or one. */
function admissible(job: Job, cut: Plan): Job[] {
  for (const plan of shapesOf(job.plan, cut))
    for (const microbatches of microbatchesOf(job, plan)) {
      const found: Job = { ...job, plan: { ...plan, microbatches } }
      if (!hasErrors(check(found))) return [found]
    }
  return []
}

/** With the schedule as it was, or a plain one; a list of layers is of as many stages as there were. */
function shapesOf(before: Plan, cut: Plan): Plan[] {
  const layers = cut.pp === before.pp ? before.layers : 'even'
  const { shard = cut.dp, ...rest } = cut
  const cutInGroups: Plan = cut.dp % shard === 0 && shard < cut.dp ? cut : rest
  const plain: Plan = { ...cutInGroups, layers, schedule: '1f1b', chunks: 1 }
  const alone: Plan = { ...plain, sequenceParallel: plain.sequenceParallel && plain.tp > 1, cp: 1, ep: 1, etp: 1 }
  return [...(isScheduleName(String(before.schedule)) ? [{ ...cutInGroups, layers }] : []), plain, alone]
}

/** Those that leave a rank as many samples at once, then those that come near. */
function microbatchesOf({ training: { globalBatch }, plan: before }: Job, plan: Plan): number[] {
  const wanted = (before.microbatches * batchRanks(before)) / batchRanks(plan)
  const share = globalBatch / batchRanks(plan)
  if (!Number.isInteger(share)) return []
  const apart = (n: number) => Math.abs(Math.log(n / wanted))
  return divisors(share).sort((a, b) => apart(a) - apart(b))
}

/** How many ranks have work at a time, and how far the plan is from the one before. */
function worthOf({ plan, model }: Job, before: Plan): { readonly working: number; readonly distance: number } {
  const parts = layersPerStage(plan, model.layers)
  const even = model.layers / (parts.length * Math.max(...parts))
  const full = plan.microbatches / (plan.microbatches + (plan.pp - 1) / plan.chunks)
  const factors = meshAxes.map(axis => Math.abs(Math.log2(plan[axis] / before[axis])) * (axis === 'dp' ? 1 : 2))
  const distance = factors.reduce((sum, one) => sum + one, plan.schedule === before.schedule ? 0 : 1)
  return { working: worldOfPlan(plan) * even * full, distance }
}

/** `dp 2 x tp 2 x pp 2, zero 1, 1f1b, 4 microbatches`. */
export function planTitle(plan: Plan): string {
  const axes = meshAxes.filter(axis => plan[axis] > 1).map(axis => `${axis} ${plan[axis]}`)
  const { zero, pp, schedule, microbatches } = plan
  const { shard, groups } = dataGroups(plan)
  return [
    axes.join(' x ') || 'one rank',
    ...(zero > 0 ? [`zero ${zero}`] : []),
    ...(groups > 1 ? [`shard ${shard}`] : []),
    ...(pp > 1 ? [typeof schedule === 'string' ? schedule : schedule.file] : []),
    `${microbatches} microbatch${microbatches === 1 ? '' : 'es'}`,
  ].join(', ')
}
