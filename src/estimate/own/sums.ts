/**
 * Sums over the holders of a parameter: the two stages that share a table, or the two ranks that hold a stage in
 * DualPipe. They are made one parameter after the other when everything else of a rank is done.
 */
import { sendsFactors } from '../factor-cost.js'
import type { Prices, PriceTable } from '../prices.js'
import { isHeldTwice, type Pipeline, type PipelineRank } from '../schedules/stages.js'
import { type Setup, shardRanks } from '../setup.js'

/** By rank: when its gradients are sums, from when it was done with its own. */
export function holderSums(
  setup: Setup,
  table: PriceTable,
  prices: Prices,
  { ranks }: Pipeline,
  done: Float64Array,
): Float64Array {
  const { shape, split, software } = setup
  const { tp, pp, zero } = split
  const size = shardRanks(split)
  // What is sent as factors lies whole until then.
  const parts = zero === 0 || sendsFactors(split) ? 1 : size
  const sum = (elements: number, apart: number) =>
    table.collective('all-reduce', (software.reduceBytes * elements) / parts, 2, tp * size * apart)
  if (isHeldTwice(split))
    return done.map((at, rank) => {
      const apart = Math.abs(pp - 1 - 2 * rank)
      return apart === 0
        ? at
        : Math.max(at, done[pp - 1 - rank]) + sumsOf(ranks[rank], prices, software.pieces, n => sum(n, apart))
    })
  if (!shape.tied || shape.adapters || pp === 1 || ranks[0].last) return done
  const both = Math.max(done[0], done[pp - 1]) + sum(prices.headParameters, pp - 1)
  return done.map((at, rank) => (rank === 0 || rank === pp - 1 ? both : at))
}

function sumsOf(
  { layers, first, last }: PipelineRank,
  { layerParameters, trained, embeddingParameters, headBesideEmbedding, headParameters }: Prices,
  pieces: number,
  sum: (elements: number) => number,
): number {
  if (trained !== undefined) return layers * pieces * sum(trained.all / pieces)
  const ends = (first ? sum(embeddingParameters) : 0) + (last ? sum(first ? headBesideEmbedding : headParameters) : 0)
  return layers * pieces * sum(layerParameters / pieces) + ends
}
