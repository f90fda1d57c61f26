/**
 * What a pipeline rank holds: its layers, and the layers whose activations lie there when it is fullest. That depends on
 * the pipeline and the number of microbatches alone, which plans share by the thousand: it is found once for all of them.
 */
import type { Split } from '../setup.js'
import type { Shape } from '../shape.js'
import { heldStages, inFlight, type Load, layersInFlight } from './in-flight.js'
import { layersOfChunk, layersOfRank, type RankLayers, ranksToWeigh } from './stages.js'

/** Layers in flight in each state, and the stages behind the second number. */
export interface Fullness {
  readonly open: number
  readonly pending: number
  readonly pendingStages: number
}

export interface Holding extends RankLayers {
  /** Layers of the first of its stages. */
  readonly firstStage: number
  /** Layers in flight at the most, whatever their state. */
  readonly held: number
  /** The same where nothing is ever pending. */
  readonly mostOpen: Fullness
  readonly mostPending: Fullness
}

export function holdingOf(shape: Shape, split: Split, rank: number): Holding {
  const { layers, first, last } = layersOfRank(shape, split, rank)
  const chunks = Array.from({ length: split.chunks }, (_, chunk) => layersOfChunk(shape, split, rank, chunk))
  const fullness = ({ open, pending }: Load): Fullness => ({
    open: layersInFlight(split, open, chunks),
    pending: layersInFlight(split, pending, chunks),
    pendingStages: pending,
  })
  const { mostOpen: opened, mostPending: pended } = inFlight(split, rank)
  const mostOpen = fullness(opened)
  return {
    ...{ layers, first, last, firstStage: chunks[0] },
    held: layersInFlight(split, heldStages(split, rank), chunks),
    ...{ mostOpen, mostPending: pended.pending === 0 ? mostOpen : fullness(pended) },
  }
}

/** Of the ranks of which one is the heaviest, and one the busiest: earlier ranks first. */
export const holdingsOf = (shape: Shape, split: Split): readonly Holding[] =>
  undominated([0, ...ranksToWeigh(shape, split)].map(rank => holdingOf(shape, split, rank)))

/** Time and every kind of memory grow with each number: who has no more of anything than another is not the most. */
const undominated = (all: readonly Holding[]): Holding[] =>
  all.filter((one, i) => !all.some((other, j) => (j < i || other.layers > one.layers) && covers(other, one)))

const covers = (a: Holding, b: Holding): boolean =>
  a.layers >= b.layers &&
  a.held >= b.held &&
  (a.last || !b.last) &&
  // What the first stage holds is free again when the table's gradient is made.
  (!b.first || (a.first && a.firstStage === b.firstStage)) &&
  isAsFull(a.mostOpen, b.mostOpen) &&
  isAsFull(a.mostPending, b.mostPending)

const isAsFull = (a: Fullness, b: Fullness): boolean =>
  a.open >= b.open && a.pending >= b.pending && a.pendingStages >= b.pendingStages
