/** A job in the numbers its price depends on. */
import { batchRanks, multipliedIn, planPrecisionFacts, sizesOf } from '../base/index.js'
import type { ModelConfig } from '../model/index.js'
import { isZigzag, type Job, layersPerStage, type Plan, type ScheduleName, usualFlights } from '../plan/index.js'
import { ownSoftware } from './others/frameworks.js'
import type { Placed, Split } from './setup.js'
import type { Shape } from './shape.js'

/** Undefined: no transformer. */
export function shapeOf(model: ModelConfig, seq: number): Shape | undefined {
  if (model.family === 'mlp') return undefined
  const { layers, embed, heads, ffn, vocab, tied } = model
  const sizes = { layers, embed, heads, ffn, vocab, tied, seq }
  if (model.family === 'llama') {
    const { kvHeads, headDim } = model
    return { ...sizes, kvHeads, headDim, gated: true, biases: false, norm: 'rms', dropout: false, positions: 'rotary' }
  }
  const headDim = embed / heads
  const dropout = model.dropout > 0
  return { ...sizes, kvHeads: heads, headDim, gated: false, biases: true, norm: 'layer', dropout, positions: 'learned' }
}

/** What ZeRO does once a step, where it splits anything. */
const onceAStep = ({ zero, reduce, gather }: Plan): Pick<Split, 'reduce' | 'gather'> => ({
  ...(zero >= 2 && reduce === 'step' && { reduce }),
  ...(zero === 3 && gather === 'step' && { gather }),
})

/** How it travels, where that is not the usual. */
const unusualFlights = ({ bucket, prefetch }: Plan): Pick<Split, 'bucket' | 'prefetch'> => ({
  ...(bucket !== usualFlights.bucket && { bucket }),
  ...(prefetch !== usualFlights.prefetch && { prefetch }),
})

/**
 * A plan in numbers. A schedule from a file has no name by which its order could be made: there is a price only for those
 * who say as which schedule it is to be priced.
 */
export function splitOf(job: Job, fileAs: ScheduleName): Split
export function splitOf(job: Job, fileAs?: ScheduleName): Split | undefined
export function splitOf({ model, training, plan }: Job, fileAs?: ScheduleName): Split | undefined {
  const { sequenceParallel, chunks, microbatches } = plan
  const schedule = typeof plan.schedule === 'string' ? plan.schedule : fileAs
  if (schedule === undefined) return undefined
  return {
    ...{ ...sizesOf(plan), sequenceParallel, schedule, chunks, microbatches },
    zero: plan.zero as Split['zero'], // the schema holds it between 0 and 3
    microbatch: training.globalBatch / (batchRanks(plan) * microbatches),
    recompute: typeof plan.recompute === 'string' ? plan.recompute : 'per-op',
    ...(plan.cp > 1 && !isZigzag(plan, training.seq) && { inOrder: true }),
    ...(plan.layers === 'even' ? {} : { layers: layersPerStage(plan, model.layers) }),
    ...onceAStep(plan),
    ...unusualFlights(plan),
  }
}

/** Undefined also where the schedule is a file. */
export function placedOf(job: Job): Placed | undefined {
  const { precision } = job.plan
  const [shape, split] = [shapeOf(job.model, job.training.seq), splitOf(job)]
  if (!shape || !split) return undefined
  return {
    shape,
    split,
    precision: multipliedIn[planPrecisionFacts[precision].token],
    software: ownSoftware[precision],
    optimizer: job.training.optimizer,
  }
}
