/** What happens between microbatches and once a step: messages between stages, gradients and parameters, the optimizer. */
import { dataRanks, ranksOf } from '../base/index.js'
import { scheduleFacts } from '../plan/index.js'
import type { Software } from './others/software.js'
import type { Prices, PriceTable } from './prices.js'
import type { Ranks } from './rank-cost.js'
import { groupOf } from './schedules/in-flight.js'
import type { RankTime } from './schedules/pipeline.js'
import { shareOfMicrobatches, splitsAll } from './schedules/stages.js'
import type { Setup, Split } from './setup.js'

/**
 * Messages between stages: a pass there and back through all of them, what is exposed of every other message, and what
 * rounds of several chunks wait for theirs.
 */
export function handingCost(
  { split, software }: Setup,
  table: PriceTable,
  { handed, regather }: Prices,
  { busiest }: Ranks,
): number {
  const { pp, chunks, microbatches } = split
  if (pp === 1) return 0
  const one = table.collective('send', handed, pp, ranksOf(split) / pp) + regather
  const rounds = goesRound(split) ? (chunks - 1) * lateness(split, busiest, one) : 0
  return 2 * one * (pp - 1 + software.exposed.pp * chunks * microbatches) + rounds
}

const goesRound = ({ schedule }: Split): boolean => {
  const { placement, chunksFixed } = scheduleFacts[schedule]
  return placement === 'loop' && !chunksFixed
}

/**
 * While a pipeline of several chunks fills, a rank goes from one chunk to the next as soon as a group of microbatches
 * has passed: the first of them is back later than that by all messages of the way round, unless the group is larger
 * than there are ranks. The same when it empties.
 */
function lateness(split: Split, { forward, input, weight }: RankTime, message: number): number {
  const { pp, chunks, microbatches, schedule } = split
  const group = scheduleFacts[schedule].forwardsFirst ? microbatches : groupOf(split)
  const slack = Math.max(0, group - pp) / chunks
  const empties = splitsAll(split) ? input : input + weight
  return Math.max(0, pp * message - slack * forward) + Math.max(0, pp * message - slack * empties)
}

/** Gradients to their sum and parameters back; what backward and the next forward hide only slows them down. */
export function dataCost({ shape, split, software }: Setup, table: PriceTable, prices: Prices, ranks: Ranks): number {
  const { tp, pp, zero, microbatches } = split
  const size = dataRanks(split)
  const tied =
    shape.tied && pp > 1
      ? table.collective('all-reduce', software.reduceBytes * prices.headParameters, 2, size * tp)
      : 0
  const pieces = Math.max(1, collectivesOf(software, ranks))
  const piece = ranks.parameters / pieces
  if (prices.own) return tied + pieces * mirrored(split, software, table, piece) + ranks.flights.once
  if (zero === 3) return tied + endsCost(split, software, table, prices)
  const kind = zero === 0 ? 'all-reduce' : 'reduce-scatter'
  const reduced = pieces * table.collective(kind, software.reduceBytes * piece, size, tp)
  const gathered = zero === 0 ? 0 : pieces * table.collective('all-gather', 2 * piece, size, tp)
  // Gradients that lie split (ZeRO-2) are reduced after every microbatch: there is no room to add them up whole.
  const times = zero === 2 ? microbatches : 1
  const traffic = times * reduced + gathered
  const within = zero === 2 ? times * Math.min(reduced, making(split, ranks.busiest)) : 0
  const beyond = Math.min(traffic * (1 - software.exposed.dp), times * hiding(split, ranks.busiest))
  const hidden = Math.max(within, beyond)
  return tied + traffic - hidden + software.contention * hidden
}

/** How many the gradients of a rank travel in. */
const collectivesOf = ({ bucket, reduceBytes, pieces }: Software, { parameters, layers }: Ranks): number =>
  bucket > 0 ? (reduceBytes * parameters) / bucket : pieces * layers

/** The sum of a gradient over the two stages that hold its parameter. */
function mirrored(split: Split, { reduceBytes }: Software, table: PriceTable, parameters: number): number {
  const { tp, dp, pp, zero } = split
  if (shareOfMicrobatches(split) === 1) return 0
  return table.collective('all-reduce', (reduceBytes * parameters) / (zero === 0 ? 1 : dp), 2, tp * dp * (pp - 1))
}

/** A gradient is on its way while the next ones are made; the last of each layer has nothing to hide behind. */
const making = (split: Split, { input, weight }: RankTime): number => 0.8 * (splitsAll(split) ? weight : input + weight)

/** Compute that is left once the first gradients are final: the last microbatch; of several chunks, those after the first. */
const hiding = ({ pp, chunks }: Split, { forward, input, weight }: RankTime): number =>
  (forward + input + weight) * Math.max(1, pp * (1 - 1 / chunks))

/** What no compute can hide under ZeRO-3: the first gather, and the tables at both ends, every microbatch. */
function endsCost(
  split: Split,
  { reduceBytes }: Software,
  table: PriceTable,
  { headParameters, layerParameters }: Prices,
): number {
  const size = dataRanks(split)
  const gather = table.collective('all-gather', 2 * (headParameters + layerParameters), size, split.tp)
  const scatter = table.collective('reduce-scatter', reduceBytes * headParameters, size, split.tp)
  return split.microbatches * (gather + scatter)
}

export function optimizerCost({ split, cluster, software }: Setup, parameters: number): number {
  const { bandwidth, curves } = cluster.device
  const owned = split.zero === 0 ? parameters : parameters / dataRanks(split)
  return (owned * software.optimizerBytes) / (bandwidth * curves.memory.efficiency)
}
