/** What embedding and head add to the tasks of our own program: their collectives, and the table's gradient as a whole. */
import { activationBytes } from '../../base/index.js'
import { type Kernel, priceInStep } from '../../cost/index.js'
import type { Prices, PriceTable } from '../prices.js'
import type { RankTime } from '../schedules/pipeline.js'
import { reducesEach, splitsAll } from '../schedules/stages.js'
import type { Setup } from '../setup.js'

/** A block's phases, and what each of them waits for tp. */
export interface BlockTime extends RankTime {
  readonly waits: RankTime
}

export interface Ends<Time extends RankTime = RankTime> {
  readonly first: Time
  readonly last: Time
}

export function ownEnds(
  { shape, split, cluster, precision }: Setup,
  table: PriceTable,
  prices: Prices,
): Ends<BlockTime> {
  const { tp, sequenceParallel, microbatch, microbatches } = split
  const { embedding, head, embeddingParameters } = prices
  const tokens = microbatch * shape.seq
  const activation = tokens * shape.embed * activationBytes(precision)
  const gather = sequenceParallel ? table.collective('all-gather', activation, tp, 1) : 0
  const sum = table.collective(sequenceParallel ? 'reduce-scatter' : 'all-reduce', activation, tp, 1)
  const losses = 3 * table.collective('all-reduce', 4 * tokens, tp, 1)
  // Rows are added into a gradient as large as the table; the first of a step is kept as it is.
  const bytes = embeddingParameters * (reducesEach(split) ? 4 : 8 * (1 - 1 / microbatches))
  const memory: Kernel = { kind: 'memory', read: bytes / 2, written: bytes / 2 }
  const added = bytes > 0 ? priceInStep(memory, cluster.device) : 0
  const inTwo = splitsAll(split)
  return {
    first: blockTime(
      { forward: embedding.forward, input: 0, weight: added },
      { forward: sum, input: 0, weight: gather },
    ),
    last: blockTime(head, {
      forward: gather + losses,
      input: inTwo ? sum : Math.max(0, sum - head.weight),
      weight: inTwo ? gather : 0,
    }),
  }
}

const blockTime = ({ forward, input, weight }: RankTime, waits: RankTime): BlockTime => ({
  forward: forward + waits.forward,
  input: input + waits.input,
  weight: weight + waits.weight,
  waits,
})
