/**
 * The complete search. Groups are visited in the order of a bound on their time, best first; a group is left out only
 * if a bound proves that none of its plans can be among what is asked for:
 * - memory: its lightest plan does not fit;
 * - time: its fastest plan is no faster than the worst of the best so far, and cannot stand on the Pareto front,
 *   because the front ends before it or holds a plan at least as fast as that and as light as its lightest plan.
 * Everything else is priced. The test compares with pricing everything.
 */
import { finish, seconds, type Work } from '../base/index.js'
import {
  calibrated,
  type Estimate,
  footprint,
  roomOf,
  type Setup,
  type Split,
  timesOf,
  totalBytes,
  withMemory,
} from '../estimate/index.js'
import { Best } from './best.js'
import { bytesBound, stepBound } from './bounds.js'
import { memoryLimit } from './constraint.js'
import type { Request } from './request.js'
import { type Group, groupsOf, type Pipeline, pipelinesOf, type Saving, savingsOf, splitFrom } from './space.js'

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
  /** Their time was found out; their memory too, unless they were too slow to matter. */
  readonly priced: number
  /** Of the priced, those that were found not to fit. */
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
  /** Bytes a rank may take, where that is not the request's capacity. */
  readonly capacity?: number
  /** False: no front is asked for, and more can be left out. */
  readonly front?: boolean
  /** False prices everything: the truth that pruning is compared with. */
  readonly prune?: boolean
}

export const setupOf = ({ shape, cluster, precision, software, book }: Request, split: Split): Setup => ({
  shape,
  split,
  cluster,
  precision,
  software,
  book,
})

export function priceOf(request: Request, split: Split): Priced {
  const setup = setupOf(request, split)
  return weighed(setup, timesOf(setup))
}

/** All its times multiplied: what one measured step says of the others. */
export const scaledTo = (plan: Priced, by: number): Priced =>
  by === 1 ? plan : { ...plan, estimate: calibrated(plan.estimate, seconds(plan.estimate.step * by)) }

/** What a rank may take of its device, and of what the user allows. */
export const capacityOf = ({ cluster, software, constraints }: Request): number =>
  Math.min(roomOf(cluster.device, software), memoryLimit(constraints))

interface Bounded {
  readonly group: Group
  readonly pipelines: readonly Pipeline[]
  readonly savings: readonly Saving[]
  readonly plans: number
  readonly step: number
  /** Of the lightest plan, and of the lightest with each saving. */
  readonly bytes: number
  readonly bytesWith: readonly number[]
}

/** Groups that may hold the best plans come first and take the longest: this makes the share one of time, about. */
const costOfFirst = 0.3

export const search = (request: Request, options: Options): Found => finish(searching(request, options))

export function* searching(request: Request, options: Options): Work<Found> {
  const { keep, capacity = capacityOf(request), front = true, prune = true } = options
  const groups = boundedGroups(request)
  const considered = groups.reduce((n, { plans }) => n + plans, 0)
  const best = new Best(keep, front)
  const pruned = { memory: 0, time: 0 }
  let [priced, unfit, done] = [0, 0, 0]
  for (const { group, pipelines, savings, plans, step, bytes, bytesWith } of groups) {
    yield (done / considered) ** costOfFirst
    done += plans
    if (prune && bytes > capacity) pruned.memory += plans
    else if (prune && best.cannotUse(step, bytes)) pruned.time += plans
    else
      for (const [i, saving] of savings.entries()) {
        if (prune && bytesWith[i] > capacity) {
          pruned.memory += pipelines.length
          continue
        }
        for (const pipeline of pipelines) {
          const setup = setupOf(request, splitFrom(group, pipeline, saving))
          const times = timesOf(setup)
          priced++
          if (prune && best.cannotUse(times.step, bytesWith[i])) continue
          const plan = weighed(setup, times)
          if (plan.bytes <= capacity) best.offer(plan)
          else unfit++
        }
      }
  }
  const counts = { considered, pruned, priced, unfit }
  return { best: best.fastest, front: best.front, counts, capacity }
}

function weighed(setup: Setup, times: Omit<Estimate, 'memory'>): Priced {
  const memory = footprint(setup)
  return { split: setup.split, estimate: withMemory(times, memory), bytes: totalBytes(memory) }
}

function boundedGroups(request: Request): Bounded[] {
  const pipelinesAt = new Map<number, readonly Pipeline[]>()
  const bounded: Bounded[] = []
  for (const group of groupsOf(request)) {
    const pipelines = pipelinesAt.get(group.pp) ?? pipelinesOf(request, group.pp)
    pipelinesAt.set(group.pp, pipelines)
    const savings = savingsOf(group, request.constraints)
    const plans = pipelines.length * savings.length
    if (plans === 0) continue
    const bytesWith = savings.map(saving => bytesBound(request, group, saving))
    const bounds = { step: stepBound(request, group), bytes: Math.min(...bytesWith), bytesWith }
    bounded.push({ group, pipelines, savings, plans, ...bounds })
  }
  return bounded.sort((a, b) => a.step - b.step)
}
