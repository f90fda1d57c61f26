/** What the memory of our own program depends on of the cut of a layer: found once for all plans that share it. */
import { adaptedWidths, expertParameters, layerParameters, tableRanks, trainedParameters } from '../counts.js'
import { denseOf, routedOf } from '../experts.js'
import type { Placed, Split } from '../setup.js'
import { headStash, layerStash, type Stash, type Widths, widthsOf } from './stash.js'

/** Parameters of a rank, and of these those of experts. */
export interface Held {
  readonly all: number
  readonly experts: number
}

/** What plans share whose layers are cut alike and computed again alike. */
export interface CutFacts {
  readonly widths: Widths
  /** Of the mean layer. */
  readonly layer: Stash
  readonly head: Stash
  readonly layerParameters: number
  /** Of that, what is trained; of a model with adapters these alone, and nothing of embedding and head. */
  readonly trained: number
  /** Of that, those of experts; and where only some layers have them, of one that has and of one that has not. */
  readonly expert: number
  readonly routed: Held
  readonly denseLayer: number
  /** Elements of the largest matrix of a layer that is trained. */
  readonly largest: number
  /** Parameters of the token table. */
  readonly table: number
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
  const [routed, dense] = shape.experts ? [routedOf(shape), denseOf(shape)] : [shape, shape]
  return {
    widths,
    layer: layerStash(placed, widths),
    head: headStash(placed, widths),
    layerParameters: layerParameters(shape, split),
    trained: trainedParameters(shape, split),
    expert: expertParameters(shape, split),
    routed: { all: layerParameters(routed, split), experts: expertParameters(routed, split) },
    denseLayer: layerParameters(dense, split),
    largest: largestWeight(placed),
    table: (shape.vocab * shape.embed) / ranksOfTable(placed),
  }
}

export const ranksOfTable = ({ shape, split }: Placed): number => tableRanks(shape, split.tp)

function largestWeight({ shape, split }: Placed): number {
  const { adapters } = shape
  if (adapters)
    return Math.max(...adapters.targets.flatMap(of => adaptedWidths(shape, split.tp, of).flat())) * adapters.rank
  return Math.max(
    (shape.embed * Math.max(shape.ffn, shape.heads * shape.headDim)) / split.tp,
    ((shape.experts?.count ?? 0) * shape.embed * (shape.experts?.ffn ?? 0)) / (split.ep * (split.etp ?? 1)),
  )
}
