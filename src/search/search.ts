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
  CutPrice,
  calibrated,
  type Estimate,
  type Footprint,
  footprint,
  footprintsLike,
  roomOf,
  type Setup,
  type Split,
  type StepPrice,
  timesOf,
  totalBytes,
  withMemory,
} from '../estimate/index.js'
import { type ScheduleName, scheduleFacts } from '../plan/index.js'
import { Best } from './best.js'
import { bytesBound, equalLayers, stepBound } from './bounds.js'
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
  /** Their memory was found out, and the time of those that fit. */
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

interface BoundedPlan {
  readonly setup: Setup
  readonly price: StepPrice
  readonly least: number
}

/** Groups that may hold the best plans come first and take the longest: this makes the share one of time, about. */
const costOfFirst = 0.3

export const search = (request: Request, options: Options): Found => finish(searching(request, options))

export function* searching(request: Request, options: Options): Work<Found> {
  const groups = boundedGroups(request)
  const considered = groups.reduce((n, { plans }) => n + plans, 0)
  const visit = new Visit(request, options)
  let done = 0
  for (const bounded of groups) {
    yield (done / considered) ** costOfFirst
    done += bounded.plans
    visit.group(bounded)
  }
  return visit.found(considered)
}

/** What was found on the way through the groups so far. */
class Visit {
  readonly #request: Request
  readonly #capacity: number
  readonly #prune: boolean
  readonly #best: Best
  readonly #pruned = { memory: 0, time: 0 }
  #priced = 0
  #unfit = 0

  constructor(request: Request, options: Options) {
    const { keep, capacity = capacityOf(request), front = true, prune = true } = options
    this.#request = request
    this.#capacity = capacity
    this.#prune = prune
    this.#best = new Best(keep, front)
  }

  group({ group, pipelines, savings, plans, step, bytes, bytesWith }: Bounded): void {
    if (this.#prune && bytes > this.#capacity) this.#pruned.memory += plans
    else if (this.#cannotUse(step, bytes)) this.#pruned.time += plans
    else for (const [i, saving] of savings.entries()) this.#saving(group, saving, pipelines, bytesWith[i])
  }

  found(considered: number): Found {
    const counts = { considered, pruned: this.#pruned, priced: this.#priced, unfit: this.#unfit }
    return { best: this.#best.fastest, front: this.#best.front, counts, capacity: this.#capacity }
  }

  /** Pipelines that may be the fastest first: what they leave behind makes others useless. */
  #saving(group: Group, saving: Saving, pipelines: readonly Pipeline[], bytes: number): void {
    if (this.#prune && bytes > this.#capacity) {
      this.#pruned.memory += pipelines.length
      return
    }
    const setupWith = (pipeline: Pipeline) => setupOf(this.#request, splitFrom(group, pipeline, saving))
    const cutWith = (schedule: ScheduleName) => new CutPrice(setupWith({ schedule, chunks: 1 }))
    const [whole, split] = [cutWith('1f1b'), cutWith('zb-h1')]
    const memoryOf = footprintsLike(setupWith({ schedule: '1f1b', chunks: 1 }))
    if (this.#cannotUse(Math.min(whole.least(), split.least()), bytes)) {
      this.#pruned.time += pipelines.length
      return
    }
    const plans = pipelines.map(pipeline => {
      const setup = setupWith(pipeline)
      const price = (scheduleFacts[pipeline.schedule].backward === 'split' ? split : whole).withPipeline(setup)
      return { setup, price, least: price.least() }
    })
    for (const plan of plans.sort((a, b) => a.least - b.least)) this.#plan(plan, bytes, memoryOf)
  }

  #plan({ setup, price, least }: BoundedPlan, bytesBound: number, memoryOf: (setup: Setup) => Footprint): void {
    if (this.#cannotUse(least, bytesBound)) {
      this.#pruned.time++
      return
    }
    const memory = memoryOf(setup)
    const bytes = totalBytes(memory)
    if (bytes <= this.#capacity && this.#cannotUse(least, bytes)) {
      this.#pruned.time++
      return
    }
    this.#priced++
    if (bytes > this.#capacity) this.#unfit++
    else this.#best.offer({ split: setup.split, estimate: withMemory(price.times(), memory), bytes })
  }

  #cannotUse(step: number, bytes: number): boolean {
    return this.#prune && this.#best.cannotUse(step, bytes)
  }
}

function weighed(setup: Setup, times: Omit<Estimate, 'memory'>): Priced {
  const memory = footprint(setup)
  return { split: setup.split, estimate: withMemory(times, memory), bytes: totalBytes(memory) }
}

function boundedGroups(request: Request): Bounded[] {
  const pipelinesAt = new Map<number, readonly Pipeline[]>()
  const lists = equalLayers()
  const bounded: Bounded[] = []
  for (const group of groupsOf(request)) {
    const pipelines = pipelinesAt.get(group.pp) ?? pipelinesOf(request, group.pp)
    pipelinesAt.set(group.pp, pipelines)
    const savings = savingsOf(group, request.constraints)
    const plans = pipelines.length * savings.length
    if (plans === 0) continue
    const bytesWith = savings.map(saving => bytesBound(request, group, saving, lists))
    const bounds = { step: stepBound(request, group), bytes: Math.min(...bytesWith), bytesWith }
    bounded.push({ group, pipelines, savings, plans, ...bounds })
  }
  return bounded.sort((a, b) => a.step - b.step)
}
