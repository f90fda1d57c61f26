/** One microbatch on the busiest pipeline rank, and on all of them together. */
import { holdingsOf } from './holding.js'
import type { LayerCost } from './layer-cost.js'
import type { RankTime } from './pipeline.js'
import type { Prices } from './prices.js'
import type { Setup } from './setup.js'
import type { RankLayers } from './stages.js'

export interface Ranks {
  readonly busiest: RankTime
  readonly sum: RankTime
  /** Of the busiest rank: its layers, and what embedding and head add in compute and in collectives over tp. */
  readonly layers: number
  readonly ends: number
  readonly tpEnds: number
  /** Parameters of the rank that holds most. */
  readonly parameters: number
}

export function ranksOf({ shape, split }: Setup, prices: Prices, layer: LayerCost): Ranks {
  const holdings = holdingsOf(shape, split)
  let held: RankLayers = holdings[0]
  let longest = durationOf(held, layer, prices)
  let parameters = parametersOf(held, prices)
  for (const candidate of holdings) {
    const duration = durationOf(candidate, layer, prices)
    parameters = Math.max(parameters, parametersOf(candidate, prices))
    if (duration <= longest) continue
    longest = duration
    held = candidate
  }
  const busiest = timeOf(held, layer, prices)
  const tpEnds = held.first ? prices.tpEmbedding : 0
  return {
    busiest,
    sum: timeOf({ layers: shape.layers, first: true, last: true }, layer, prices),
    layers: held.layers,
    ends: longest - held.layers * (layer.forward + layer.input + layer.weight) - tpEnds,
    tpEnds,
    parameters,
  }
}

function timeOf({ layers, first, last }: RankLayers, layer: RankTime, prices: Prices): RankTime {
  const { embedding, head, tpEmbedding } = prices
  return {
    forward: layers * layer.forward + (first ? embedding.forward + tpEmbedding : 0) + (last ? head.forward : 0),
    input: layers * layer.input + (first ? embedding.input : 0) + (last ? head.input : 0),
    weight: layers * layer.weight + (first ? embedding.weight : 0) + (last ? head.weight : 0),
  }
}

const durationOf = ({ layers, first, last }: RankLayers, layer: RankTime, prices: Prices): number =>
  layers * (layer.forward + layer.input + layer.weight) +
  (first ? prices.firstEnd + prices.tpEmbedding : 0) +
  (last ? prices.lastEnd : 0)

const parametersOf = ({ layers, first, last }: RankLayers, prices: Prices): number =>
  layers * prices.layerParameters +
  (first ? prices.embeddingParameters : 0) +
  (last ? (first ? prices.headBesideEmbedding : prices.headParameters) : 0)
