/** What the memory of our own program depends on of the cut of a layer: found once for all plans that share it. */
import {
  adaptedWidths,
  expertParameters,
  expertWidths,
  type Held,
  layerParameters,
  tableRanks,
  trainedParameters,
} from '../counts.js'
import { entry } from '../entry.js'
import { denseOf, routedOf } from '../experts.js'
import type { RankLayers } from '../schedules/stages.js'
import type { Placed, Split } from '../setup.js'
import { headStash, layerStash, type Stash, type Widths, widthsOf } from './stash.js'

/** What plans share whose layers are cut alike and computed again alike. */
export interface CutFacts {
  readonly widths: Widths
  /** Of the mean layer, and of the mean of layers of which another share has experts. */
  readonly layer: Stash
  readonly mixed: (share: number) => Stash
  readonly head: Stash
  readonly layerParameters: number
  /** Of that, what is trained; of a model with adapters these alone, and nothing of embedding and head. */
  readonly trained: LayersHeld
  /** Of that, those of experts; and where only some layers have them, of one that has and of one that has not. */
  readonly expert: number
  readonly routed: Held
  readonly denseLayer: number
  /** Elements of the largest matrix of a layer that is trained. */
  readonly largest: number
  /** Parameters of the token table. */
  readonly table: number
}

/** Of the mean layer, and of one with experts and one without. */
interface LayersHeld {
  readonly mean: Held
  readonly routed: Held
  readonly dense: number
}

/** Of the layers of a rank. */
export function heldOf({ layers, dense }: RankLayers, of: LayersHeld): Held {
  if (dense === undefined) return { all: layers * of.mean.all, experts: layers * of.mean.experts }
  const some = layers - dense
  return { all: some * of.routed.all + dense * of.dense, experts: some * of.routed.experts }
}

/** All that these depend on beside the shape. */
export const sharedFields = [
  'tp',
  'cp',
  'ep',
  'etp',
  'sequenceParallel',
  'ulysses',
  'ring',
  'imbalance',
  'recompute',
  'fp8',
] as const satisfies readonly (keyof Split)[]

export function cutFacts(placed: Placed): CutFacts {
  const { shape, split } = placed
  const widths = widthsOf(placed, ranksOfTable(placed))
  const mixes = new Map<number, Stash>()
  const [routed, dense] = shape.experts ? [routedOf(shape), denseOf(shape)] : [shape, shape]
  return {
    widths,
    layer: layerStash(placed, widths),
    mixed: share => entry(mixes, share, () => layerStash(placed, widths, share)),
    head: headStash(placed, widths),
    layerParameters: layerParameters(shape, split),
    trained: {
      mean: trainedParameters(shape, split),
      routed: trainedParameters(routed, split),
      dense: trainedParameters(dense, split).all,
    },
    expert: expertParameters(shape, split),
    routed: { all: layerParameters(routed, split), experts: expertParameters(routed, split) },
    denseLayer: layerParameters(dense, split),
    largest: largestWeight(placed),
    table: (shape.vocab * shape.embed) / ranksOfTable(placed),
  }
}

export const ranksOfTable = ({ shape, split }: Placed): number => tableRanks(shape, split.tp)

function largestWeight({ shape, split }: Placed): number {
  const { adapters, experts } = shape
  if (adapters) {
    const [ofExperts, tp] = [expertWidths(shape, split.etp).flat(), split.tp]
    const of = (one: Placed['shape']) => adapters.targets.flatMap(target => adaptedWidths(one, tp, target).flat())
    const each = ofExperts.map(width => (width * (experts?.count ?? 0)) / split.ep)
    return adapters.rank * Math.max(...of(shape), ...(experts?.dense ? of(denseOf(shape)) : []), ...each)
  }
  return Math.max(
    (shape.embed * Math.max(shape.ffn, shape.heads * shape.headDim)) / split.tp,
    ((experts?.count ?? 0) * shape.embed * (experts?.ffn ?? 0)) / (split.ep * (split.etp ?? 1)),
  )
}
