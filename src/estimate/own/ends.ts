/** What embedding and head add to the tasks of our own program: their collectives, and the table's gradient as a whole. */
import { activationBytes } from '../../base/index.js'
import { type Kernel, priceInStep } from '../../cost/index.js'
import type { Prices, PriceTable } from '../prices.js'
import type { RankTime } from '../schedules/pipeline.js'
import { fetchesEach, reducesEach, splitsAll } from '../schedules/stages.js'
import type { Setup } from '../setup.js'

export interface Ends {
  readonly first: RankTime
  readonly last: RankTime
}

export function ownEnds(
  { shape, split, cluster, precision, software }: Setup,
  table: PriceTable,
  prices: Prices,
): Ends {
  const { tp, dp, sequenceParallel, microbatch, microbatches } = split
  const { embedding, head, headParameters, embeddingParameters } = prices
  const element = activationBytes(precision)
  const tokens = microbatch * shape.seq
  const activation = tokens * shape.embed * element
  const reduces = reducesEach(split)
  const gather = sequenceParallel ? table.meeting('all-gather', activation, tp, 1) : 0
  const sum = table.meeting(sequenceParallel ? 'reduce-scatter' : 'all-reduce', activation, tp, 1)
  const losses = 3 * table.meeting('all-reduce', 4 * tokens, tp, 1)
  const fetch = (n: number) => (fetchesEach(split) ? table.meeting('all-gather', element * n, dp, tp) : 0)
  const reduce = (n: number) => (reduces ? table.meeting('reduce-scatter', software.reduceBytes * n, dp, tp) : 0)
  // Rows are added into a gradient as large as the table; the first of a step is kept as it is.
  const bytes = embeddingParameters * (reduces ? 4 : 8 * (1 - 1 / microbatches))
  const memory: Kernel = { kind: 'memory', read: bytes / 2, written: bytes / 2 }
  const inTwo = splitsAll(split)
  return {
    first: {
      forward: embedding.forward + sum + fetch(embeddingParameters),
      input: 0,
      weight: gather + (bytes > 0 ? priceInStep(memory, cluster.device) : 0) + reduce(embeddingParameters),
    },
    last: {
      forward: head.forward + gather + losses + fetch(headParameters),
      input: head.input + fetch(headParameters) + (inTwo ? sum : Math.max(0, sum - head.weight)),
      weight: head.weight + (inTwo ? gather : 0) + reduce(headParameters),
    },
  }
}
