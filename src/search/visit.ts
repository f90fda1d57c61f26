/**
 * One search on its way. Cuts of devices, groups, what is left of them once a saving is chosen, and plans wait on one agenda, and what may be
 * the fastest is looked at first: what it leaves behind makes others useless.
 */
import {
  CutPrice,
  type Footprint,
  heaviestOf,
  memoryLike,
  type PipelineMemory,
  type Setup,
  type StepPrice,
  totalBytes,
  withMemory,
} from '../estimate/index.js'
import { scheduleFacts } from '../plan/index.js'
import { Agenda } from './agenda.js'
import { Best } from './best.js'
import { bubbleBound, byteBounds, type CutPrices, type PricesBySize, passageBound } from './bounds.js'
import { type BoundedCut, type BoundedCuts, byRecompute, type Recomputed, type SavedGroup } from './cuts.js'
import { type LaidPipeline, laidOnce, leastEndOf, type UnlaidPipeline } from './laid.js'
import type { Pipeline } from './pipelines.js'
import { type Request, setupOf } from './request.js'
import type { Found, Options, Priced } from './search.js'
import { type Group, type Saving, splitFrom } from './space.js'

/** What waits: at the least so long does something take, and this looks into it. Of one shape, whatever waits. */
interface Turn {
  readonly least: number
  readonly look: () => void
}

/** A group of a cut whose turn it was, of which no price is known yet. */
interface CutGroup extends SavedGroup {
  readonly pipelines: readonly UnlaidPipeline[]
  readonly prices: CutPrices
  readonly mayFit: FittingGroups
  readonly least: number
}

/** A group with what its plans have at the least. */
interface Bounded extends SavedGroup {
  /** By what all its savings compute again. */
  readonly prices: PricesBySize
  readonly pipelines: readonly UnlaidPipeline[]
  readonly bytesOf: BytesOf
  /** Seconds. */
  readonly least: number
}

/** The same by its own price. */
interface PricedGroup extends SavedGroup {
  readonly pipelines: readonly UnlaidPipeline[]
  readonly bytesOf: BytesOf
  readonly least: number
}

/** Plans that differ in their pipeline alone. */
interface Saved {
  readonly group: Group
  readonly saving: Saving
  readonly laid: readonly LaidPipeline[]
  readonly bytes: number
  readonly least: number
}

/** The same when it was their turn: those that may fit. */
interface Pipelines extends Pick<Saved, 'group' | 'saving' | 'least'> {
  readonly held: readonly HeldPipeline[]
  readonly memory: PipelineMemory
  readonly cuts: Cuts
}

interface HeldPipeline {
  readonly laid: LaidPipeline
  /** What some of its ranks hold at the least. */
  readonly bytes: number
}

/** The price of a cut whose backward passes are whole, or some of them, and of one where all are in two. */
interface Cuts {
  readonly whole: CutPrice
  readonly inTwo: CutPrice
}

/** A plan of these with the bounds it is known by; behind it wait those of its siblings that have greater ones. */
interface Unweighed {
  readonly siblings: Siblings
  readonly at: number
  readonly least: number
  /** It has not had its turn yet, and so the next has not begun to wait. */
  readonly isFirst: boolean
}

/** By their bounds on time, the least first. */
interface Siblings extends Pick<Pipelines, 'group' | 'saving' | 'cuts'> {
  readonly memory: PipelineMemory
  readonly plans: readonly { readonly laid: LaidPipeline; readonly least: number; readonly bytes: number }[]
  /** Their places on the agenda, among equals. */
  readonly turns: readonly number[]
}

/** A plan in its order. */
interface Ordered {
  readonly setup: Setup
  readonly least: number
  readonly bytes: number
  /** Found when it is its turn, but where nothing is known of it before. */
  readonly memory: () => Footprint
  readonly price: StepPrice
  /** A bound on its time that was not found yet. */
  readonly further?: (() => number) | undefined
}

export class Visit {
  readonly #request: Request
  readonly #capacity: number
  readonly #surely: number
  readonly #prune: boolean
  readonly #best: Best
  readonly #sample: Options['sample']
  readonly #bytesOf: ReturnType<typeof byteBounds>
  readonly #laid: ReturnType<typeof laidOnce>
  readonly #agenda = new Agenda<Turn>()
  readonly #pruned = { memory: 0, time: 0 }
  #priced = 0
  #unfit = 0

  constructor(
    request: Request,
    { keep, kinds, capacity, surely, front, prune, known, sample }: Required<Options>,
    { cuts }: BoundedCuts,
  ) {
    this.#request = request
    this.#capacity = capacity
    this.#prune = prune
    this.#sample = sample
    this.#surely = surely
    this.#best = new Best({ keep, kinds, front, surely })
    for (const plan of known) this.#best.offer(plan)
    this.#bytesOf = byteBounds(request)
    this.#laid = laidOnce(request)
    for (const cut of cuts) this.#agenda.add({ least: cut.least, look: () => this.#cut(cut) })
  }

  /** Looks at what comes next; how many plans are decided. -1: there was nothing left. */
  next(): number {
    const turn = this.#agenda.next()
    if (turn === undefined) return -1
    turn.look()
    return this.#pruned.memory + this.#pruned.time + this.#priced
  }

  found(considered: number): Found {
    const counts = { considered, pruned: this.#pruned, priced: this.#priced, unfit: this.#unfit }
    return { best: this.#best.fastest, front: this.#best.front, counts, capacity: this.#surely }
  }

  /** Its groups wait by what one of their microbatches takes through all layers and back. */
  #cut({ groups, pipelines, prices, plans, least: atLeast }: BoundedCut): void {
    if (this.#isUseless(plans, atLeast, 0)) return
    const mayFit = this.#fitting()
    for (const { group, savings } of groups()) {
      const least = Math.max(atLeast, passageBound(this.#request, group, prices))
      const one = { group, savings, pipelines, prices, mayFit, least }
      this.#agenda.add({ least, look: () => this.#cutGroup(one) })
    }
  }

  /** What of it may fit waits by what its bubbles and what is computed again add at the least. */
  #cutGroup({ group, savings: all, pipelines, prices: pricesOf, mayFit, least: atLeast }: CutGroup): void {
    if (this.#isUseless(pipelines.length * all.length, atLeast, 0)) return
    const bytesOf = this.#bytesOf(group)
    for (const [recompute, savings] of byRecompute(all)) {
      if (!mayFit(group, recompute, savings, bytesOf)) {
        this.#pruned.memory += pipelines.length * savings.length
        continue
      }
      const prices = pricesOf(recompute)
      const least = Math.max(atLeast, bubbleBound(this.#request, group, pipelines, prices))
      const one = { group, prices, pipelines, savings, bytesOf, least }
      this.#agenda.add({ least, look: () => this.#group(one) })
    }
  }

  /** The larger microbatches are, the more lies there: behind the first that does not fit none does. */
  #fitting(): FittingGroups {
    const first = new Map<Recomputed, number>()
    return (group, recompute, savings, bytesOf) => {
      if (!this.#prune) return true
      if (group.microbatch >= (first.get(recompute) ?? Number.POSITIVE_INFINITY)) return false
      // The last of the savings leave least.
      if (savings.findLast(saving => bytesOf(saving) <= this.#capacity) !== undefined) return true
      first.set(recompute, group.microbatch)
      return false
    }
  }

  /** The same by its own price. */
  #group({ group, prices, pipelines, savings, bytesOf, least: atLeast }: Bounded): void {
    if (this.#isUseless(pipelines.length * savings.length, atLeast, 0)) return
    const own = leastEndOf(prices(group.microbatch), pipelines, group.microbatches)
    const least = Math.max(atLeast, own)
    const one = { group, pipelines, savings, bytesOf, least }
    this.#agenda.add({ least, look: () => this.#pricedGroup(one) })
  }

  #pricedGroup({ group, pipelines, savings, bytesOf, least }: PricedGroup): void {
    if (this.#isUseless(pipelines.length * savings.length, least, 0)) return
    const laid = this.#laid(group, pipelines)
    for (const saving of savings) {
      const bytes = bytesOf(saving)
      if (this.#isUseless(laid.length, least, bytes)) continue
      const one = { group, saving, laid, bytes, least }
      this.#agenda.add({ least, look: () => this.#saving(one) })
    }
  }

  /** Most do not fit, and are left out before they have a price. */
  #saving({ group, saving, laid, bytes, least }: Saved): void {
    if (this.#isUseless(laid.length, least, bytes)) return
    const memory = memoryLike(setupOf(this.#request, splitFrom(group, laid[0], saving)))
    const held: HeldPipeline[] = []
    for (const one of laid) {
      let surely = bytes
      const ranks = one.known.surely
      for (let i = 0; i < ranks.length; i++) surely = Math.max(surely, memory.least(ranks[i]))
      if (!this.#isUseless(1, least, surely)) held.push({ laid: one, bytes: surely })
    }
    if (held.length === 0) return
    const priceWith = (schedule: Pipeline['schedule']) =>
      new CutPrice(setupOf(this.#request, splitFrom(group, { schedule, chunks: 1 }, saving)))
    const whole = priceWith('1f1b')
    // Of our own program tasks take the same.
    const differ = !this.#request.software.own && held.some(one => isInTwo(one.laid))
    const inTwo = differ ? priceWith('zb-h1') : whole
    const further = Math.max(least, Math.min(whole.least(), inTwo.least()))
    const priced = { group, saving, held, memory, cuts: { whole, inTwo }, least: further }
    this.#agenda.add({ least: further, look: () => this.#pipelines(priced) })
  }

  #pipelines({ group, saving, held, memory, cuts, least: atLeast }: Pipelines): void {
    if (this.#isUseless(held.length, atLeast, 0)) return
    const plans: { laid: LaidPipeline; least: number; bytes: number }[] = []
    for (const { laid, bytes } of held) {
      if (this.#isUseless(1, atLeast, bytes)) continue
      const least = cutOf(cuts, laid).leastWith(laid.known, laid)
      if (this.#isUseless(1, least, bytes)) continue
      let most = bytes
      for (const end of laid.known.ends) {
        most = Math.max(most, totalBytes(memory.of(end)))
        if (most > this.#capacity) break
      }
      if (!this.#isUseless(1, least, most)) plans.push({ laid, least, bytes: most })
    }
    const first = this.#agenda.take(plans.length)
    const order = [...plans.keys()].sort((a, b) => plans[a].least - plans[b].least || a - b)
    const turns = order.map(i => first + i)
    this.#wait({ group, saving, cuts, memory, plans: order.map(i => plans[i]), turns }, 0)
  }

  /** The first of these from here on that is of any use waits for its turn. */
  #wait(siblings: Siblings, from: number): void {
    for (let at = from; at < siblings.plans.length; at++) {
      const { least, bytes } = siblings.plans[at]
      if (this.#isUseless(1, least, bytes)) continue
      const one = { siblings, at, least, isFirst: true }
      this.#agenda.add({ least, look: () => this.#sibling(one) }, siblings.turns[at])
      return
    }
  }

  /** Its bounds are found one after the other, and a plan waits its turn by each: few are played. */
  #sibling(plan: Unweighed): void {
    const { siblings, at, least } = plan
    const { bytes } = siblings.plans[at]
    if (plan.isFirst) this.#wait(siblings, at + 1)
    if (this.#isUseless(1, least, bytes)) return
    const further = this.#leastInOrder(siblings, at)
    if (further <= least) this.#order(siblings, at, least)
    else if (!this.#isUseless(1, further, bytes)) {
      const again = { siblings, at, least: further, isFirst: false }
      this.#agenda.add({ least: further, look: () => this.#sibling(again) })
    }
  }

  /** Of plans with the same pipeline one is played; what decided its time is known to take that of the others, too. */
  #leastInOrder({ group, saving, cuts, plans }: Siblings, at: number): number {
    const { laid } = plans[at]
    const cut = cutOf(cuts, laid)
    if (laid.known.paths.length > 0) return cut.leastWith(laid.known, laid)
    return cut.withPipeline(setupOf(this.#request, splitFrom(group, laid, saving))).leastInOrder()
  }

  /** What the ends of a pipeline hold is nearly always the most; where that is not known, all of it is found at once. */
  #order({ group, saving, cuts, memory: like, plans }: Siblings, at: number, least: number): void {
    const { laid, bytes: atLeast } = plans[at]
    const memory = () => heaviestOf(like, laid.known.holdings.lumped)
    const bytes = laid.known.ends.length > 0 ? atLeast : totalBytes(memory())
    if (!this.#fits(bytes)) return
    const setup = setupOf(this.#request, splitFrom(group, laid, saving))
    const price = cutOf(cuts, laid).withPipeline(setup)
    const plan = { setup, least, bytes, memory, price, further: price.further }
    this.#agenda.add({ least, look: () => this.#ordered(plan) })
  }

  /** All its ranks are weighed before it is played: half of the plans that come here do not fit, or faster ones are as light. */
  #ordered({ least, bytes: atLeast, further, memory: find, price, setup }: Ordered): void {
    if (this.#isUseless(1, least, atLeast)) return
    const memory = find()
    const bytes = totalBytes(memory)
    if (!this.#fits(bytes) || this.#isUseless(1, least, bytes)) return
    if (further) {
      const again = { setup, least: Math.max(least, further()), bytes, memory: () => memory, price }
      this.#agenda.add({ least: again.least, look: () => this.#ordered(again) })
      return
    }
    this.#priced++
    const plan: Priced = { split: setup.split, estimate: withMemory(price.times(), memory), bytes }
    this.#best.offer(plan)
    this.#sample?.add(plan)
  }

  /** Whether a plan that was weighed fits. */
  #fits(bytes: number): boolean {
    if (bytes <= this.#capacity) return true
    this.#priced++
    this.#unfit++
    return false
  }

  /** Whether so many plans, that take at least so long and so much memory, can be left out. */
  #isUseless(plans: number, least: number, bytes: number): boolean {
    if (!this.#prune) return false
    const reason = bytes > this.#capacity ? 'memory' : this.#best.cannotUse(least, bytes) ? 'time' : undefined
    if (reason) this.#pruned[reason] += plans
    return reason !== undefined
  }
}

/** Whether of these savings of a group one may fit. */
type FittingGroups = (group: Group, recompute: Recomputed, savings: readonly Saving[], bytesOf: BytesOf) => boolean

/** What plans of a group with a saving hold at the least. */
type BytesOf = (saving: Saving) => number

const cutOf = ({ inTwo, whole }: Cuts, pipeline: Pipeline): CutPrice => (isInTwo(pipeline) ? inTwo : whole)

const isInTwo = ({ schedule }: Pipeline): boolean => scheduleFacts[schedule].backward === 'split'
