/** What happens between microbatches and once a step: messages between stages, gradients and parameters, the optimizer. */
import { dataRanks, ranksOf } from '../base/index.js'
import type { Held } from './counts.js'
import { expertCopies, expertStride } from './experts.js'
import type { PassTimes } from './others/layer-cost.js'
import type { Software } from './others/software.js'
import type { Prices, PriceTable } from './prices.js'
import { splitsAll } from './schedules/stages.js'
import { type Setup, type Split, shardRanks } from './setup.js'

/**
 * Seconds of a message from one stage to the next, so many ranks away. Of other people's programs only the way between the
 * farthest neighbours is known.
 */
export function messageCost({ split, software }: Setup, table: PriceTable, prices: Prices, ranks: number): number {
  const { pp } = split
  if (pp === 1) return 0
  const stride = ranksOf(split) / pp
  const { handed, regather } = prices
  return software.own
    ? table.collective('send', handed, 2, ranks * stride)
    : table.collective('send', handed, pp, stride) + regather
}

/** Of the rank that holds most, its layers too; and the layers of the rank that has most of these. */
export interface MostHeld extends Held {
  readonly layers: number
  readonly mostLayers: number
}

/** Gradients to their sum and parameters back; what backward and the next forward hide only slows them down. */
export function dataCost(
  { shape, split, software }: Setup,
  table: PriceTable,
  prices: Prices,
  { all: parameters, experts }: Held,
  mean: PassTimes,
): number {
  const { tp, pp, zero, microbatches } = split
  const size = dataRanks(split)
  const tied =
    shape.tied && pp > 1
      ? table.collective('all-reduce', software.reduceBytes * prices.headParameters, 2, size * tp)
      : 0
  const pieces = Math.max(1, software.bucket > 0 ? (software.reduceBytes * parameters) / software.bucket : 0)
  const piece = (parameters - experts) / pieces
  const expert = (kind: 'all-reduce' | 'reduce-scatter' | 'all-gather', bytes: number) =>
    table.collective(kind, bytes * experts, expertCopies(split), expertStride(split))
  // Our own gradients leave in buckets while the next ones are made.
  const beyondOf = (traffic: number, times = 1) =>
    Math.min(traffic * (1 - (software.own ? 0.35 : software.exposed.dp)), times * hiding(split, mean))
  if (zero === 3) {
    const copied = copiesCost(split, software, table, parameters)
    const hidden = beyondOf(copied)
    return tied + endsCost(split, software, table, prices) + copied - hidden + software.contention * hidden
  }
  const kind = zero === 0 ? 'all-reduce' : 'reduce-scatter'
  const reduced =
    pieces * table.collective(kind, software.reduceBytes * piece, size, tp) + expert(kind, software.reduceBytes)
  const gathered =
    zero === 0 ? 0 : pieces * table.collective('all-gather', 2 * piece, size, tp) + expert('all-gather', 2)
  // Gradients that lie split (ZeRO-2) are reduced after every microbatch: there is no room to add them up whole.
  const times = zero === 2 ? microbatches : 1
  const traffic = times * reduced + gathered
  const within = zero === 2 ? times * Math.min(reduced, making(split, mean)) : 0
  const hidden = Math.max(within, beyondOf(traffic, times))
  return tied + traffic - hidden + software.contention * hidden
}

/** A gradient is on its way while the next ones are made; the last of each layer has nothing to hide behind. */
const making = (split: Split, { input, weight }: PassTimes): number =>
  0.8 * (splitsAll(split) ? weight : input + weight)

/** Compute that is left once the first gradients are final: the last microbatch; of several chunks, those after the first. */
const hiding = ({ pp, chunks }: Split, { forward, input, weight }: PassTimes): number =>
  (forward + input + weight) * Math.max(1, pp * (1 - 1 / chunks))

/** Sums over the copies of parts, where only some ranks share parameters. */
function copiesCost(split: Split, { reduceBytes }: Software, table: PriceTable, parameters: number): number {
  const size = shardRanks(split)
  const copies = dataRanks(split) / size
  return table.collective('all-reduce', (reduceBytes * parameters) / size, copies, size * split.tp)
}

/** What no compute can hide under ZeRO-3: the first gather, and the tables at both ends, every microbatch. */
function endsCost(
  split: Split,
  { reduceBytes }: Software,
  table: PriceTable,
  { headParameters, layerParameters }: Prices,
): number {
  const size = shardRanks(split)
  const gather = table.collective('all-gather', 2 * (headParameters + layerParameters), size, split.tp)
  const scatter = table.collective('reduce-scatter', reduceBytes * headParameters, size, split.tp)
  return split.microbatches * (gather + scatter)
}
