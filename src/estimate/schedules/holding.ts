/**
 * What a pipeline rank holds: its layers, and the moments when most lies there. That depends on the pipeline and the
 * number of microbatches alone, which plans share by the thousand: it is found once for all of them.
 */
import { scheduleFacts } from '../../plan/index.js'
import { entry } from '../entry.js'
import type { Split } from '../setup.js'
import { exceedsAll, grown, type Moments, momentsOf, momentWidth } from './moments.js'
import type { Order, OrderBook, PlayedOrders } from './order.js'
import type { Pipeline, RankLayers } from './stages.js'

export interface Holding extends RankLayers {
  /** Layers in flight at the most, whatever their state. */
  readonly held: number
  /** Of these, between forward and input gradient, at the most. */
  readonly open: number
  readonly moments: Moments
}

export interface Holdings {
  readonly all: readonly Holding[]
  /** Ranks of which one is the heaviest: earlier ranks first. */
  readonly undominated: readonly Holding[]
}

/** Layers that the first rank has between forward and backward when it begins to go back, at the least. */
export function leastOpenOf(split: Split, { stages, ranks }: Pipeline, book: OrderBook): number {
  const begun = book.begun(split)
  return ranks[0].stages.reduce((sum, stage, chunk) => sum + (begun[chunk] ?? 0) * stages[stage], 0)
}

/** Of one order: by the layers of its stages. */
type ByStages = Map<string, Holdings>

/** More microbatches than are played change nothing, but where all go forward first: such plans share what was found. */
export class HoldingBook {
  readonly #known = new WeakMap<Order, ByStages>()

  of(split: Split, pipeline: Pipeline, { order }: PlayedOrders): Holdings {
    const more = split.microbatches / order.microbatches
    if (more > 1 && scheduleFacts[split.schedule].forwardsFirst) return holdingsOf(order, pipeline, more)
    const byStages = entry(this.#known, order, (): ByStages => new Map())
    return entry(byStages, keyOf(pipeline), () => holdingsOf(order, pipeline, 1))
  }
}

const keyOf = ({ stages, ranks }: Pipeline): string =>
  `${stages.join()} ${ranks[0].dense === undefined ? '' : ranks.map(({ dense }) => dense).join()}`

/** `more`: how many times as many microbatches go forward first as were played. */
function holdingsOf(order: Order, { stages, ranks }: Pipeline, more: number): Holdings {
  const moments = momentsOf(order, stages)
  const all = ranks.map(({ layers, dense, first, last }, rank): Holding => {
    const own = more > 1 ? grown(moments[rank], more) : moments[rank]
    let [held, open] = [0, 0]
    for (let at = 0; at < own.length; at += momentWidth) {
      held = Math.max(held, own[at + 1] + own[at + 2])
      open = Math.max(open, own[at + 1])
    }
    return { layers, ...(dense !== undefined && { dense }), first, last, held, open, moments: own }
  })
  return { all, undominated: undominated(all) }
}

/**
 * Memory grows with each number: who has no more of anything than another is not the heaviest. Neighbours are the most alike, so
 * that each is compared with those last kept.
 */
function undominated(all: readonly Holding[]): Holding[] {
  const kept: Holding[] = []
  for (const one of all) {
    if (kept.some(other => covers(other, one))) continue
    while (kept.length > 0 && covers(one, kept[kept.length - 1])) kept.pop()
    kept.push(one)
  }
  return kept
}

const covers = (a: Holding, b: Holding): boolean =>
  a.layers >= b.layers &&
  a.dense === b.dense &&
  a.held >= b.held &&
  (a.first || !b.first) &&
  (a.last || !b.last) &&
  exceedsAll(a.moments, b.moments)
