/** One microbatch on the busiest pipeline rank, and on all of them together. */

import { scheduleFacts } from '../plan/index.js'
import { holdingsIn } from './book.js'
import type { LayerCost } from './others/layer-cost.js'
import { type StageTime, stageTime } from './own/data.js'
import { type BlockTime, type Ends, ownEnds } from './own/ends.js'
import { flyingBlocks, trafficOf } from './own/flying.js'
import type { Prices, PriceTable } from './prices.js'
import type { RankTime } from './schedules/pipeline.js'
import { type RankLayers, shareOfMicrobatches } from './schedules/stages.js'
import type { Setup, Split } from './setup.js'

export interface Ranks {
  readonly busiest: RankTime
  readonly sum: RankTime
  /** Of the busiest rank: its layers, and what embedding and head add in compute and in collectives over tp. */
  readonly layers: number
  readonly ends: number
  readonly tpEnds: number
  /** Parameters of the rank that holds most. */
  readonly parameters: number
  /** Of our own program: what the flights of the data axes add to each microbatch, and to the step. */
  readonly flights: { readonly each: number; readonly once: number }
}

export function ranksOf(setup: Setup, table: PriceTable, prices: Prices, layer: LayerCost): Ranks {
  const { shape, split, software } = setup
  const { batch } = software.launch
  const holdings = holdingsIn(setup)
  const { ends, timeOf } = timesOf(setup, table, prices, layer)
  const [first, last] = [totalOf(ends.first), totalOf(ends.last)]
  const each = totalOf(layer)
  const durationOf = (held: RankLayers) =>
    batch + held.layers * each + (held.first ? first : 0) + (held.last ? last : 0)
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
  const busiest = timeOf(held)
  return {
    busiest: scaled(busiest, share),
    sum: later(timeOf({ layers: shape.layers, first: true, last: true }), (split.pp - 1) * batch),
    layers: share * held.layers,
    ends: share * (longest - held.layers * each - tpEnds - batch),
    tpEnds: share * tpEnds,
    parameters,
    flights: { each: share * Math.max(0, totalOf(busiest) - longest), once: onceOf(split, holdings.map(timeOf)) },
  }
}

/** The first rank is the first to start; where backwards are whole and go round it is the last to end, else any may be. */
function onceOf({ pp, schedule }: Split, ranks: readonly StageTime[]): number {
  const { placement, backward } = scheduleFacts[schedule]
  const firstEnds = pp === 1 || (placement === 'loop' && backward === 'whole')
  const end = firstEnds ? ranks[0].end : Math.max(...ranks.map(one => one.end))
  return ranks[0].start + Math.max(0, end)
}

interface RankTimes {
  readonly ends: Ends
  readonly timeOf: (held: RankLayers) => StageTime
}

function timesOf(setup: Setup, table: PriceTable, prices: Prices, layer: LayerCost): RankTimes {
  if (!prices.own) {
    const ends = usualEnds(prices)
    const { batch } = setup.software.launch
    const still = { waited: 0, start: 0, end: 0 }
    return { ends, timeOf: held => ({ ...later(timeOf(held, layer, ends), batch), ...still }) }
  }
  const ends = ownEnds(setup, table, prices)
  const traffic = trafficOf(setup, table)
  const blocks = flyingBlocks(setup, prices, 'waits' in layer ? (layer as BlockTime) : { ...layer, waits: none }, ends)
  const { stages } = prices.own
  return { ends, timeOf: held => stageTime(setup, traffic, blocks, held, stages) }
}

const none: RankTime = { forward: 0, input: 0, weight: 0 }

const later = ({ forward, input, weight }: RankTime, by: number): RankTime => ({ forward: forward + by, input, weight })

const totalOf = ({ forward, input, weight }: RankTime): number => forward + input + weight

const usualEnds = ({ embedding, head, tpEmbedding }: Prices): Ends => ({
  first: { forward: embedding.forward + tpEmbedding, input: embedding.input, weight: embedding.weight },
  last: head,
})

function timeOf({ layers, first, last }: RankLayers, layer: RankTime, ends: Ends): RankTime {
  const of = (part: keyof RankTime) =>
    layers * layer[part] + (first ? ends.first[part] : 0) + (last ? ends.last[part] : 0)
  return { forward: of('forward'), input: of('input'), weight: of('weight') }
}

const scaled = ({ forward, input, weight }: RankTime, by: number): RankTime => ({
  forward: by * forward,
  input: by * input,
  weight: by * weight,
})

const parametersOf = ({ layers, first, last }: RankLayers, prices: Prices): number =>
  layers * prices.layerParameters +
  (first ? prices.embeddingParameters : 0) +
  (last ? (first ? prices.headBesideEmbedding : prices.headParameters) : 0)
