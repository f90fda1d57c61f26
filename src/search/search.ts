/**
 * The complete search. Groups of plans, and plans, are visited in the order of a bound on their time, best first; they are
 * left out only if a bound proves that none of them can be among what is asked for:
 * - memory: the lightest does not fit;
 * - time: the fastest is no faster than the worst of the best so far, and cannot stand on the Pareto front,
 *   because the front ends before it or holds a plan at least as fast as that and as light as the lightest.
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
  heldBytesLike,
  pipelineIn,
  roomOf,
  type Setup,
  type Split,
  type StepPrice,
  timesOf,
  totalBytes,
  withMemory,
} from '../estimate/index.js'
import { type ScheduleName, scheduleFacts } from '../plan/index.js'
import { Agenda } from './agenda.js'
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

/** A group with what its plans have at the least. */
interface Bounded {
  readonly group: Group
  readonly pipelines: readonly Pipeline[]
  readonly savings: readonly Saving[]
  readonly plans: number
  /** Seconds. */
  readonly least: number
  /** Of the lightest plan, and of the lightest with each saving. */
  readonly bytes: number
  readonly bytesWith: readonly number[]
}

/** Plans that differ in their pipeline alone. */
interface Pipelines {
  readonly pipelines: readonly Pipeline[]
  readonly setupWith: (pipeline: Pipeline) => Setup
  readonly priceWith: (setup: Setup) => StepPrice
  readonly bytes: number
  readonly least: number
}

interface BoundedPlan {
  readonly setup: Setup
  /** Seconds and bytes that it surely takes. */
  readonly least: number
  readonly held: number
  readonly priceWith: (setup: Setup) => StepPrice
  readonly memoryOf: (setup: Setup) => Footprint
}

/** Plans that may be the best come first and take the longest: this makes the share one of time, about. */
const costOfFirst = 0.3

export const search = (request: Request, options: Options): Found => finish(searching(request, options))

export function* searching(request: Request, options: Options): Work<Found> {
  const groups = boundedGroups(request)
  const considered = groups.reduce((n, { plans }) => n + plans, 0)
  const visit = new Visit(request, options, groups)
  let [steps, done] = [0, 0]
  while ((done = visit.next()) >= 0) if (++steps % 64 === 0) yield (done / considered) ** costOfFirst
  return visit.found(considered)
}

/**
 * What was found so far. Groups, what is left of them once a saving is chosen, and plans wait on one agenda, and what may be
 * the fastest is looked at first: what it leaves behind makes others useless.
 */
class Visit {
  readonly #request: Request
  readonly #capacity: number
  readonly #prune: boolean
  readonly #best: Best
  readonly #agenda = new Agenda<Bounded | Pipelines | BoundedPlan>()
  readonly #pruned = { memory: 0, time: 0 }
  #priced = 0
  #unfit = 0

  constructor(request: Request, options: Options, groups: readonly Bounded[]) {
    const { keep, capacity = capacityOf(request), front = true, prune = true } = options
    this.#request = request
    this.#capacity = capacity
    this.#prune = prune
    this.#best = new Best(keep, front)
    for (const group of groups) this.#agenda.add(group)
  }

  /** Looks at what comes next; how many plans are decided. -1: there was nothing left. */
  next(): number {
    const item = this.#agenda.next()
    if (item === undefined) return -1
    if ('group' in item) this.#group(item)
    else if ('pipelines' in item) this.#pipelines(item)
    else this.#plan(item)
    return this.#pruned.memory + this.#pruned.time + this.#priced
  }

  found(considered: number): Found {
    const counts = { considered, pruned: this.#pruned, priced: this.#priced, unfit: this.#unfit }
    return { best: this.#best.fastest, front: this.#best.front, counts, capacity: this.#capacity }
  }

  #group({ group, pipelines, savings, plans, least, bytes, bytesWith }: Bounded): void {
    if (this.#isUseless(plans, least, bytes)) return
    for (const [i, saving] of savings.entries()) this.#saving(group, saving, pipelines, bytesWith[i])
  }

  #saving(group: Group, saving: Saving, pipelines: readonly Pipeline[], bytes: number): void {
    const setupWith = (pipeline: Pipeline) => setupOf(this.#request, splitFrom(group, pipeline, saving))
    if (this.#isUseless(pipelines.length, 0, bytes)) return
    const cutWith = (schedule: ScheduleName) => new CutPrice(setupWith({ schedule, chunks: 1 }))
    const [whole, split] = [cutWith('1f1b'), cutWith('zb-h1')]
    const priceWith = (setup: Setup) =>
      (scheduleFacts[setup.split.schedule].backward === 'split' ? split : whole).withPipeline(setup)
    const least = Math.min(whole.least(), split.least())
    this.#agenda.add({ pipelines, setupWith, priceWith, bytes, least })
  }

  #pipelines({ pipelines, setupWith, priceWith, bytes, least: atLeast }: Pipelines): void {
    if (this.#isUseless(pipelines.length, atLeast, bytes)) return
    const plain = setupWith({ schedule: '1f1b', chunks: 1 })
    const [memoryOf, heldBytes] = [footprintsLike(plain), heldBytesLike(plain)]
    for (const pipeline of pipelines) {
      const setup = setupWith(pipeline)
      const { pipeline: laid, leastOpen } = pipelineIn(setup)
      const held = Math.max(bytes, heldBytes(laid.ranks[0], leastOpen))
      if (this.#isUseless(1, atLeast, held)) continue
      const least = priceWith(setup).least()
      if (!this.#isUseless(1, least, held)) this.#agenda.add({ setup, least, held, priceWith, memoryOf })
    }
  }

  #plan({ setup, least, held, priceWith, memoryOf }: BoundedPlan): void {
    if (this.#isUseless(1, least, held)) return
    const memory = memoryOf(setup)
    const bytes = totalBytes(memory)
    const price = priceWith(setup)
    const fits = bytes <= this.#capacity
    if (fits && (this.#isUseless(1, least, bytes) || this.#isUseless(1, price.leastInOrder(), bytes))) return
    this.#priced++
    if (fits) this.#best.offer({ split: setup.split, estimate: withMemory(price.times(), memory), bytes })
    else this.#unfit++
  }

  /** Whether so many plans, that take at least so long and so much memory, can be left out. */
  #isUseless(plans: number, least: number, bytes: number): boolean {
    if (!this.#prune) return false
    const reason = bytes > this.#capacity ? 'memory' : this.#best.cannotUse(least, bytes) ? 'time' : undefined
    if (reason) this.#pruned[reason] += plans
    return reason !== undefined
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
    const bounds = { least: stepBound(request, group), bytes: Math.min(...bytesWith), bytesWith }
    bounded.push({ group, pipelines, savings, plans, ...bounds })
  }
  return bounded
}
