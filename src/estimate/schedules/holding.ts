/**
 * What a pipeline rank holds: its layers, and the moments when most lies there. That depends on the pipeline and the
 * number of microbatches alone, which plans share by the thousand: it is found once for all of them.
 */
import { scheduleFacts } from '../../plan/index.js'
import { type RowByRow, schedules, taskIndex, taskIndexes } from '../../schedule/index.js'
import { entry } from '../entry.js'
import type { Split } from '../setup.js'
import type { Shape } from '../shape.js'
import { allOf, grown, type Moments, momentsOf, momentsOfRow, momentWidth } from './moments.js'
import { type Order, type OrderBook, type PlayedOrders, shortCounts } from './order.js'
import {
  isFedFromBothEnds,
  type Pipeline,
  type PipelineRank,
  type RankLayers,
  someRanksOf,
  stagesOf,
} from './stages.js'

export interface Holding extends RankLayers {
  /** Layers in flight at the most, whatever their state. */
  readonly held: number
  /** Of these, between forward and input gradient, at the most. */
  readonly open: number
  readonly moments: Moments
}

export interface Holdings {
  readonly all: readonly Holding[]
  /** What ranks hold that differ in their part of the model: earlier ranks first. */
  readonly lumped: readonly Holding[]
}

/** What a rank has at one time, at the least: layers between forward and input gradient, and between that and weight gradient. */
export interface SurelyHeld extends RankLayers {
  readonly open: number
  readonly pending: number
}

/** The first rank when it begins to go back, and the last when it begins to make weight gradients that it has put off. */
export function surelyHeld(shape: Shape, split: Split, book: OrderBook): SurelyHeld[] {
  const { schedule, pp, chunks, microbatches } = split
  const stages = stagesOf(shape, split)
  const owed = schedules[schedule].owed?.({ ranks: pp, chunks, microbatches })
  const [first, last] = someRanksOf(shape, split, owed ? [0, pp - 1] : [0])
  const begun = held(first, layersIn(first, stages, book.begun(split)), 0)
  return owed ? [begun, held(last, 0, layersIn(last, stages, owed))] : [begun]
}

// Written out: a rank has twice as many fields, and spreading them takes longer than all else here.
function held({ layers, dense, first, last }: RankLayers, open: number, pending: number): SurelyHeld {
  return { layers, dense, first, last, open, pending }
}

/** Of so many microbatches of each chunk. */
const layersIn = (rank: PipelineRank, stages: readonly number[], counts: readonly number[]): number =>
  rank.stages.reduce((sum, stage, chunk) => sum + (counts[chunk] ?? 0) * stages[stage], 0)

/** Of one order: by the layers of its stages. */
type ByStages = Map<string, Holdings>

/** More microbatches than are played change nothing, but where all go forward first: such plans share what was found. */
export class HoldingBook {
  readonly #known = new WeakMap<Order, ByStages>()
  readonly #ends = new Map<string, readonly Holding[]>()

  of(split: Split, pipeline: Pipeline, { order }: PlayedOrders): Holdings {
    const more = split.microbatches / order.microbatches
    if (more > 1 && scheduleFacts[split.schedule].forwardsFirst) return holdingsOf(order, pipeline, more)
    const byStages = entry(this.#known, order, (): ByStages => new Map())
    return entry(byStages, keyOf(pipeline), () => holdingsOf(order, pipeline, 1))
  }

  /**
   * What the first and the last rank hold, or the first and the one in the middle, of which one is mostly the fullest: known from their
   * rows alone. Where rows are found together, what ranks surely hold.
   */
  ends(split: Split, pipeline: Pipeline, orders: OrderBook): readonly Holding[] {
    const { schedule, pp, chunks, microbatches } = split
    const leads = orders.leads(split)
    if (leads) return sureHoldings(pipeline, leads)
    const all = { ranks: pp, chunks, microbatches }
    const played = { ...all, microbatches: shortCounts(schedule, all)?.[1] ?? microbatches }
    const more = scheduleFacts[schedule].forwardsFirst ? microbatches / played.microbatches : 1
    const ranks = [...new Set([0, isFedFromBothEnds(schedule) ? Math.ceil(pp / 2) - 1 : pp - 1])]
    const find = () => {
      const cells = schedules[schedule].make(played)
      return ranks.map(rank => holdingInRow(cells, pipeline, rank, more))
    }
    if (more > 1) return find()
    return entry(this.#ends, `${schedule} ${pp} ${chunks} ${played.microbatches} ${keyOf(pipeline)}`, find)
  }
}

const keyOf = ({ stages, ranks }: Pipeline): string =>
  `${stages.join()} ${ranks[0].dense === undefined ? '' : ranks.map(({ dense }) => dense).join()}`

/** `more`: how many times as many microbatches go forward first as were played. */
function holdingsOf(order: Order, { stages, ranks }: Pipeline, more: number): Holdings {
  const moments = momentsOf(order, stages)
  const all = ranks.map((rank, i) => holdingOf(rank, more > 1 ? grown(moments[i], more) : moments[i]))
  return { all, lumped: lumped(all) }
}

function holdingOf({ layers, dense, first, last }: RankLayers, moments: Moments): Holding {
  let held = 0
  let open = 0
  for (let at = 0; at < moments.length; at += momentWidth) {
    held = Math.max(held, moments[at + 1] + moments[at + 2])
    open = Math.max(open, moments[at + 1])
  }
  return { layers, dense, first, last, held, open, moments }
}

function holdingInRow(cells: RowByRow, { stages, ranks }: Pipeline, rank: number, more: number): Holding {
  const moments = momentsOfRow(taskIndexes(cells, cells.row(rank)), cells.stages, stages)
  return holdingOf(ranks[rank], more > 1 ? grown(moments, more) : moments)
}

/** On a V, until the first microbatch that came down and up again has gone back through its second stage. */
function sureHoldings({ stages, firsts }: Pipeline, leads: readonly number[]): Holding[] {
  return firsts.map(rank => {
    const [down, up] = rank.stages
    const forwards = new Array<number>(leads[down]).fill(taskIndex(stages.length, 'F', down))
    const back = (['F', 'I'] as const).map(kind => taskIndex(stages.length, kind, up))
    return holdingOf(rank, momentsOfRow([...forwards, ...back], stages.length, stages))
  })
}

/** Ranks that hold as much of the model are one, with the moments of all of them: whichever is the heaviest is among these. */
function lumped(all: readonly Holding[]): Holding[] {
  const alike: Holding[][] = []
  for (const one of all) {
    const others = alike.find(([other]) => isAlike(one, other))
    if (others) others.push(one)
    else alike.push([one])
  }
  return alike.map(([first, ...others]) =>
    others.length === 0
      ? first
      : {
          ...first,
          held: Math.max(first.held, ...others.map(({ held }) => held)),
          open: Math.max(first.open, ...others.map(({ open }) => open)),
          moments: allOf([first, ...others].map(({ moments }) => moments)),
        },
  )
}

const isAlike = (a: Holding, b: Holding): boolean =>
  a.layers === b.layers && a.dense === b.dense && a.first === b.first && a.last === b.last
