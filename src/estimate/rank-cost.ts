/** One microbatch on the busiest pipeline rank, and on all of them together. */

import { holdingsIn } from './book.js'
import type { LayerCost } from './others/layer-cost.js'
import { type Ends, ownEnds } from './own/ends.js'
import type { Prices, PriceTable } from './prices.js'
import type { RankTime } from './schedules/pipeline.js'
import { type RankLayers, shareOfMicrobatches } from './schedules/stages.js'
import type { Setup } from './setup.js'

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

export function ranksOf(setup: Setup, table: PriceTable, prices: Prices, layer: LayerCost): Ranks {
  const { shape, split } = setup
  const holdings = holdingsIn(setup)
  const ends = prices.own ? ownEnds(setup, table, prices) : usualEnds(prices)
  const [first, last] = [totalOf(ends.first), totalOf(ends.last)]
  const each = totalOf(layer)
  const durationOf = (held: RankLayers) => held.layers * each + (held.first ? first : 0) + (held.last ? last : 0)
  let held: RankLayers = holdings[0]
  let longest = durationOf(held)
  let parameters = parametersOf(held, prices)
  for (const candidate of holdings) {
    const duration = durationOf(candidate)
    parameters = Math.max(parameters, parametersOf(candidate, prices))
    if (duration <= longest) continue
    longest = duration
    held = candidate
  }
  const share = shareOfMicrobatches(split)
  const tpEnds = held.first ? prices.tpEmbedding : 0
  return {
    busiest: timeOf(held, layer, ends, share),
    sum: timeOf({ layers: shape.layers, first: true, last: true }, layer, ends, 1),
    layers: share * held.layers,
    ends: share * (longest - held.layers * each - tpEnds),
    tpEnds: share * tpEnds,
    parameters,
  }
}

const totalOf = ({ forward, input, weight }: RankTime): number => forward + input + weight

const usualEnds = ({ embedding, head, tpEmbedding }: Prices): Ends => ({
  first: { forward: embedding.forward + tpEmbedding, input: embedding.input, weight: embedding.weight },
  last: head,
})

function timeOf({ layers, first, last }: RankLayers, layer: RankTime, ends: Ends, share: number): RankTime {
  const of = (part: keyof RankTime) =>
    share * (layers * layer[part] + (first ? ends.first[part] : 0) + (last ? ends.last[part] : 0))
  return { forward: of('forward'), input: of('input'), weight: of('weight') }
}

const parametersOf = ({ layers, first, last }: RankLayers, prices: Prices): number =>
  layers * prices.layerParameters +
  (first ? prices.embeddingParameters : 0) +
  (last ? (first ? prices.headBesideEmbedding : prices.headParameters) : 0)
