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

/** Seconds and bytes that a plan surely takes. */
interface Bounds {
  readonly setup: Setup
  readonly least: number
  readonly bytes: number
}

interface Unweighed extends Bounds {
  readonly priceWith: (setup: Setup) => StepPrice
  readonly memoryOf: (setup: Setup) => Footprint
}

/** Its memory is known, and it fits. */
interface Weighed extends Bounds {
  readonly memory: Footprint
  readonly price: StepPrice
  /** Bounds on its time that were not asked for yet. */
  readonly further: readonly ((price: StepPrice) => number)[]
}

type BoundedPlan = Unweighed | Weighed

const furtherBounds: Weighed['further'] = [price => price.leastInOrder(), price => price.leastBeside()]

/** Plans that may be the best come first and take the longest: this makes the share one of time, about. */
const costOfFirst = 0.3

export const search = (request: Request, options: Options): Found => finish(searching(request, options))

export function* searching(request: Request, options: Options): Work<Found> {
  const { prune = true, capacity = capacityOf(request) } = options
  const groups = boundedGroups(request, prune ? capacity : Number.POSITIVE_INFINITY)
  const considered = groups.plans
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

  constructor(request: Request, options: Options, { fitting, tooHeavy }: BoundedGroups) {
    const { keep, capacity = capacityOf(request), front = true, prune = true } = options
    this.#request = request
    this.#capacity = capacity
    this.#prune = prune
    this.#best = new Best(keep, front)
    this.#pruned.memory = tooHeavy
    for (const group of fitting) this.#agenda.add(group)
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
    for (const [i, saving] of savings.entries()) this.#saving({ group, pipelines, least }, saving, bytesWith[i])
  }

  #saving(
    { group, pipelines, least: atLeast }: Pick<Bounded, 'group' | 'pipelines' | 'least'>,
    saving: Saving,
    bytes: number,
  ): void {
    const setupWith = (pipeline: Pipeline) => setupOf(this.#request, splitFrom(group, pipeline, saving))
    if (this.#isUseless(pipelines.length, atLeast, bytes)) return
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
      if (!this.#isUseless(1, least, held)) this.#agenda.add({ setup, least, bytes: held, priceWith, memoryOf })
    }
  }

  /** Its bounds are found one after the other, and a plan waits its turn by each: few are played. */
  #plan(plan: BoundedPlan): void {
    if (this.#isUseless(1, plan.least, plan.bytes)) return
    if (!('price' in plan)) this.#weigh(plan)
    else if (plan.further.length === 0) this.#play(plan)
    else {
      const [bound, ...further] = plan.further
      this.#agenda.add({ ...plan, least: Math.max(plan.least, bound(plan.price)), further })
    }
  }

  #weigh({ setup, least, priceWith, memoryOf }: Unweighed): void {
    const memory = memoryOf(setup)
    const bytes = totalBytes(memory)
    if (bytes <= this.#capacity) {
      const price = priceWith(setup)
      this.#agenda.add({ setup, least, bytes, memory, price, further: price.flies ? furtherBounds : [] })
    } else {
      this.#priced++
      this.#unfit++
    }
  }

  #play({ setup, bytes, memory, price }: Weighed): void {
    this.#priced++
    this.#best.offer({ split: setup.split, estimate: withMemory(price.times(), memory), bytes })
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

interface BoundedGroups {
  /** Groups with plans that may fit. */
  readonly fitting: readonly Bounded[]
  /** All plans, and those of groups too heavy for so many bytes. */
  readonly plans: number
  readonly tooHeavy: number
}

function boundedGroups(request: Request, capacity: number): BoundedGroups {
  const [pipelinesFor, savingsFor] = [pipelinesOnce(request), savingsOnce(request)]
  const lists = equalLayers()
  const fitting: Bounded[] = []
  let [all, tooHeavy] = [0, 0]
  let heavy: Group | undefined
  for (const group of groupsOf(request)) {
    const [pipelines, savings] = [pipelinesFor(group), savingsFor(group)]
    const plans = pipelines.length * savings.length
    all += plans
    if (plans === 0) continue
    const isHeavier = heavy !== undefined && isSameCut(group, heavy) && group.microbatch > heavy.microbatch
    const bytesWith = isHeavier ? [] : savings.map(saving => bytesBound(request, group, saving, lists))
    const bytes = Math.min(...bytesWith)
    if (bytes > capacity) {
      heavy = group
      tooHeavy += plans
    } else fitting.push({ group, pipelines, savings, plans, least: stepBound(request, group), bytes, bytesWith })
  }
  return { fitting, plans: all, tooHeavy }
}

/** Alike in all but microbatches: the larger they are, the more lies there. */
const isSameCut = (a: Group, b: Group): boolean =>
  a.tp === b.tp &&
  a.cp === b.cp &&
  a.ep === b.ep &&
  a.etp === b.etp &&
  a.pp === b.pp &&
  a.dp === b.dp &&
  a.sequenceParallel === b.sequenceParallel &&
  a.imbalance === b.imbalance &&
  a.ulysses === b.ulysses &&
  a.ring === b.ring

function pipelinesOnce(request: Request): (group: Group) => readonly Pipeline[] {
  const known = new Map<number, readonly Pipeline[]>()
  return ({ pp }) => {
    const pipelines = known.get(pp) ?? pipelinesOf(request, pp)
    known.set(pp, pipelines)
    return pipelines
  }
}

/** They depend on whether there are copies, and several microbatches. */
function savingsOnce({ constraints }: Request): (group: Group) => readonly Saving[] {
  const known = new Map<string, readonly Saving[]>()
  return group => {
    const key = `${group.dp * group.cp > 1} ${group.microbatches > 1}`
    const savings = known.get(key) ?? savingsOf(group, constraints)
    known.set(key, savings)
    return savings
  }
}
