/** What embedding and head add to the tasks of our own program: their kernels, their collectives, the table's gradient. */
import { activationBytes } from '../../base/index.js'
import { type Kernel, priceInStep } from '../../cost/index.js'
import type { Prices, PriceTable } from '../prices.js'
import type { TaskTimes } from '../schedules/play.js'
import { reducesEach } from '../schedules/stages.js'
import type { Setup } from '../setup.js'
import { Clock } from './clock.js'
import { accumulation, type BlockTime, blockTime } from './layer.js'
import type { OwnWork } from './work.js'

export interface Ends<Time = TaskTimes> {
  readonly first: Time
  readonly last: Time
}

export const ownEnds = (setup: Setup, table: PriceTable, prices: Prices, work: OwnWork): Ends<BlockTime> => ({
  first: embeddingTime(setup, table, prices, work),
  last: headTime(setup, table, work),
})

const activationsOf = ({ shape, split, precision }: Setup): number =>
  ((split.microbatch * shape.seq) / split.cp) * shape.embed * activationBytes(precision)

/** What one kind of task does: nothing, if nothing is said. */
function clockOf({ software }: Setup, act: (clock: Clock) => void = () => {}): Clock {
  const clock = new Clock(software.contention)
  act(clock)
  return clock
}

/** Rows of the table are looked up; going back, rows are added into a gradient as large as the table. */
function embeddingTime(setup: Setup, table: PriceTable, { embeddingParameters }: Prices, work: OwnWork): BlockTime {
  const { shape, split, cluster, software } = setup
  const { tp, microbatches, sequenceParallel } = split
  const activation = activationsOf(setup)
  const sum = table.collective(sequenceParallel ? 'reduce-scatter' : 'all-reduce', activation, tp, 1)
  const gather = sequenceParallel ? table.collective('all-gather', activation, tp, 1) : 0
  // The first gradient of a step is kept as it is.
  const bytes = embeddingParameters * (reducesEach(split) ? 4 : 8 * (1 - 1 / microbatches))
  const added: Kernel = { kind: 'memory', read: bytes / 2, written: bytes / 2 }
  const learned = shape.positions === 'learned'
  const positions = learned ? work.wholePass(1) + accumulation(setup)(shape.seq * shape.embed) : 0
  // Each rank has the gradients of its own positions: parts of what is reduced at once are cut from all of them.
  const [near, far] = sequenceParallel ? [1, tp * split.cp] : [tp, split.cp]
  const positionBytes = learned && reducesEach(split) ? software.gradientBytes * shape.seq * shape.embed : 0
  const allPositions = table.collective('all-gather', positionBytes, far, near)
  const forward = clockOf(setup, clock => {
    clock.work(work.wholePass(2, learned ? 2 : 1))
    clock.wait(clock.start(sum))
  })
  const back = clockOf(setup, clock => {
    clock.wait(clock.start(gather))
    clock.wait(clock.start(allPositions))
    clock.work(work.wholePass(1) + positions + (bytes > 0 ? priceInStep(added, cluster.device) : 0))
  })
  if (shape.adapters) return blockTime({ F: forward, I: clockOf(setup), W: clockOf(setup), B: clockOf(setup) })
  return blockTime({ F: forward, I: clockOf(setup), W: back, B: back })
}

/** A norm, the product with the table, and the loss: its largest logit and the sum of all, each in a pass of its own. */
function headTime(setup: Setup, table: PriceTable, work: OwnWork): BlockTime {
  const { shape, split, cluster } = setup
  const { tp, cp, microbatch, sequenceParallel } = split
  const activation = activationsOf(setup)
  const gather = sequenceParallel ? table.collective('all-gather', activation, tp, 1) : 0
  const sum = table.collective(sequenceParallel ? 'reduce-scatter' : 'all-reduce', activation, tp, 1)
  const loss = table.collective('all-reduce', (4 * microbatch * shape.seq) / cp, tp, 1)
  const accumulate = accumulation(setup)
  const frozen = shape.adapters !== undefined
  const norms = frozen ? 0 : (shape.norm === 'layer' ? 2 : 1) * accumulate(shape.embed)
  const made = work.table.weight + accumulate(work.table.parameters)
  const small = 3 * cluster.device.curves.floor // a label's logit, the loss of a token, their sum
  const logits = (clock: Clock, again: boolean) => {
    clock.work(work.pass(2), again)
    clock.wait(clock.start(gather))
    clock.work(work.table.forward, again)
    for (let pass = 0; pass < 2; pass++) {
      clock.work(work.logitPass(1), again)
      clock.wait(clock.start(loss))
    }
    clock.wait(clock.start(loss))
  }
  const forward = (clock: Clock) => {
    logits(clock, false)
    clock.work(small)
  }
  const backward = (both: boolean) => (clock: Clock) => {
    if (split.recompute === 'full') logits(clock, true)
    if (both && split.recompute === 'cheap') clock.work(work.pass(2), true)
    clock.work(work.logitPass(2) + work.table.input)
    const summed = clock.start(sum)
    if (both) clock.work(made)
    clock.wait(summed)
    clock.work(both && !frozen ? work.pass(3) + work.pass(2) + norms : work.pass(3))
  }
  const weights = (clock: Clock) => {
    if (frozen) return
    if (split.recompute === 'cheap') clock.work(work.pass(2), true)
    clock.wait(clock.start(gather))
    clock.work(made + work.pass(2) + norms)
  }
  const [F, I, W, B] = [forward, backward(false), weights, backward(true)].map(act => clockOf(setup, act))
  return blockTime({ F, I, W, B })
}
