/**
 * The complete search. Groups are visited in the order of a bound on their time, best first; a group is left out only
 * if a bound proves that none of its plans can be among what is asked for:
 * - memory: its lightest plan does not fit;
 * - time: its fastest plan is no faster than the worst of the best so far, and cannot stand on the Pareto front,
 *   because the front ends before it or holds a plan at least as fast as that and as light as its lightest plan.
 * Everything else is priced. The test compares with pricing everything.
 */
import { type Estimate, estimate, type Setup, type Split, totalBytes } from '../estimate/index.js'
import { Best } from './best.js'
import { leastBytes, leastStep } from './bounds.js'
import { memoryLimit } from './constraint.js'
import type { Request } from './request.js'
import { type Group, groupsOf, type Pipeline, pipelinesOf, savingsOf, splitFrom } from './space.js'

export interface Priced {
  readonly split: Split
  readonly estimate: Estimate
  readonly bytes: number
}

export interface Counts {
  /** Plans of the space that keep to the constraints. */
  readonly considered: number
  /** Left out by a bound, and by which. */
  readonly pruned: { readonly memory: number; readonly time: number }
  readonly priced: number
  /** Of the priced, those that do not fit. */
  readonly unfit: number
}

export interface Found {
  /** Fastest first. */
  readonly best: readonly Priced[]
  /** Of time against memory, to twice the least time: fastest first, and each lighter than those before it. */
  readonly front: readonly Priced[]
  readonly counts: Counts
  readonly capacity: number
}

export interface Options {
  /** How many of the best to keep. */
  readonly keep: number
  /** False: no front is asked for, and more can be left out. */
  readonly front?: boolean
  /** False prices everything: the truth that pruning is held against. */
  readonly prune?: boolean
  readonly watch?: (done: number, all: number) => void
}

export const setupOf = ({ shape, cluster, precision, software }: Request, split: Split): Setup => ({
  ...{ shape, split, cluster, precision, software },
})

export function priceOf(request: Request, split: Split): Priced {
  const price = estimate(setupOf(request, split))
  return { split, estimate: price, bytes: totalBytes(price.memory) }
}

/** What a rank may take of its device, and of what the user allows. */
export function capacityOf({ cluster: { device }, constraints }: Request): number {
  const { memory, reserve } = device
  return Math.min(memory * (1 - reserve.fraction) - reserve.bytes, memoryLimit(constraints))
}

interface Bounded {
  readonly group: Group
  readonly pipelines: readonly Pipeline[]
  readonly plans: number
  readonly step: number
  readonly bytes: number
}

export function search(request: Request, { keep, front = true, prune = true, watch }: Options): Found {
  const capacity = capacityOf(request)
  const groups = boundedGroups(request)
  const considered = groups.reduce((n, { plans }) => n + plans, 0)
  const best = new Best(keep, front)
  const pruned = { memory: 0, time: 0 }
  let [priced, unfit, done] = [0, 0, 0]
  for (const { group, pipelines, plans, step, bytes } of groups) {
    watch?.(done, considered)
    done += plans
    if (prune && bytes > capacity) pruned.memory += plans
    else if (prune && best.cannotUse(step, bytes)) pruned.time += plans
    else
      for (const saving of savingsOf(group.dp, request.constraints))
        for (const pipeline of pipelines) {
          const plan = priceOf(request, splitFrom(group, pipeline, saving))
          priced++
          if (plan.bytes <= capacity) best.offer(plan)
          else unfit++
        }
  }
  const counts = { considered, pruned, priced, unfit }
  return { best: best.fastest, front: best.front, counts, capacity }
}

function boundedGroups(request: Request): Bounded[] {
  const pipelinesAt = new Map<number, readonly Pipeline[]>()
  const bounded: Bounded[] = []
  for (const group of groupsOf(request)) {
    const pipelines = pipelinesAt.get(group.pp) ?? pipelinesOf(request, group.pp)
    pipelinesAt.set(group.pp, pipelines)
    const plans = pipelines.length * savingsOf(group.dp, request.constraints).length
    if (plans > 0)
      bounded.push({ group, pipelines, plans, bytes: leastBytes(request, group), step: leastStep(request, group) })
  }
  return bounded.sort((a, b) => a.step - b.step)
}
