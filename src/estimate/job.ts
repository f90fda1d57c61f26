/** A job in the numbers its price depends on. */
import type { ModelConfig } from '../model/index.js'
import { type Job, layersPerStage, type Plan } from '../plan/index.js'
import { eras, pureLockstep } from './others/eras.js'
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
export const onceAStep = ({ zero, reduce, gather }: Plan): Pick<Split, 'reduce' | 'gather'> => ({
  ...(zero >= 2 && reduce === 'step' && { reduce }),
  ...(zero === 3 && gather === 'step' && { gather }),
})

/** Undefined also where the schedule is a file: its order is nobody's closed form. */
export function placedOf({ model, training, plan }: Job): Placed | undefined {
  const shape = shapeOf(model, training.seq)
  if (!shape || typeof plan.schedule !== 'string') return undefined
  const { tp, pp, dp, cp, ep, sequenceParallel, schedule, chunks, microbatches, precision } = plan
  const split: Split = {
    ...{ tp, pp, dp, cp, ep, sequenceParallel, schedule, chunks, microbatches },
    zero: plan.zero as Split['zero'], // the schema holds it between 0 and 3
    microbatch: training.globalBatch / (dp * ep * microbatches),
    recompute: typeof plan.recompute === 'string' ? plan.recompute : 'per-op',
    ...(plan.layers === 'even' ? {} : { layers: layersPerStage(plan, shape.layers) }),
    ...onceAStep(plan),
  }
  return precision === 'pure-bf16'
    ? { shape, split, precision: 'bf16', software: pureLockstep }
    : { shape, split, precision, software: eras.lockstep }
}
