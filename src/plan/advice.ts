/** What composes correctly and unwisely: warnings, with the numbers. */
import {
  bytesPer,
  dataRanks,
  fullStates,
  gradientIn,
  hasMaster,
  type OpKind,
  planPrecisionFacts,
  type Stored,
  showBytes,
} from '../base/index.js'
import { buildModel, type ModelConfig, parametersOf, routedLayers } from '../model/index.js'
import { advised, clause } from './phrases.js'
import { bytesPerNumber, type Rule, splitsBackward, widthOfGradient, widthOfParameter } from './rule.js'
import { recomputable } from './schema.js'

/** How much of a step a pipeline rank waits, with forward = input gradient = weight gradient = 1. */
export const adviceOnBubble: Rule = function* ({ plan }) {
  const { pp, microbatches, chunks } = plan
  if (microbatches >= pp) return
  const idle = (pp - 1) * (splitsBackward(plan) ? 1 : 3)
  const share = (m: number) => idle / (idle + 3 * m * chunks)
  const lost = (m: number) => Math.round(100 * share(m))
  yield advised('plan.microbatches', 'plan/bubble', {
    ...{ microbatches, pp, share: lost(microbatches), more: 4 * pp, less: lost(4 * pp) },
  })
}

export const adviceOnZero: Rule = function* ({ model, training, plan }) {
  const { zero, microbatches, gather, reduce } = plan
  const alone = dataRanks(plan) === 1
  if (zero > 0 && alone) yield advised('plan.zero', 'plan/no-effect/zero', { zero })
  if (zero < 3 && gather === 'step') yield advised('plan.gather', 'plan/no-effect/below', { zero: 3 })
  if (zero < 2 && reduce === 'step') yield advised('plan.reduce', 'plan/no-effect/below', { zero: 2 })
  if (microbatches <= 4 || alone) return
  const held = (parametersOf(model, training.seq) * bytesPerNumber(plan)) / (plan.tp * plan.pp)
  const [gathered, reduced] = [held * widthOfParameter(plan), held * widthOfGradient(plan)]
  if (zero === 3 && gather === 'use')
    yield advised('plan.gather', 'plan/traffic/gather', {
      ...{ microbatches, moved: showBytes(2 * microbatches * gathered), bytes: showBytes(gathered) },
    })
  if (zero >= 2 && reduce === 'microbatch')
    yield advised('plan.reduce', 'plan/traffic/reduce', {
      ...{ microbatches, moved: showBytes(microbatches * reduced), bytes: showBytes(reduced) },
    })
}

/** As many layers as show each kind that the model has, of heads that its latents make up: widths do not change which ops there are. */
function oneOfEachLayer(model: ModelConfig): ModelConfig {
  if (model.family !== 'llama') return { ...model, layers: 1 }
  const { mla } = model
  const [routed = 0] = routedLayers(model)
  return { ...model, layers: routed + 1, ...(mla && { headDim: mla.qkNopeHeadDim + mla.qkRopeHeadDim }) }
}

/** The recomputable ops that a model has. */
function opsOf(model: ModelConfig): OpKind[] {
  const { blocks } = buildModel(oneOfEachLayer(model), { batch: 1, seq: 1 })
  const kinds = new Set(blocks.flatMap(({ graph }) => graph.nodes.map(({ op }) => op.kind)))
  return recomputable.filter(kind => kinds.has(kind))
}

export const adviceOnRecompute: Rule = function* ({ model, plan }) {
  if (Array.isArray(plan.recompute)) {
    const has = opsOf(model)
    const absent = plan.recompute.filter(op => !has.includes(op))
    if (absent.length > 0)
      yield advised('plan.recompute', 'plan/no-effect/recompute', {
        ...{ family: model.family, absent, has: { joint: 'and', of: has } },
      })
  }
  if (!splitsBackward(plan)) return
  if (plan.recompute === 'full') {
    yield advised('plan.recompute', 'plan/unwise/full', { schedule: `${plan.schedule}` })
  }
  if (plan.sequenceParallel && plan.tp > 1) {
    yield advised('plan.sequenceParallel', 'plan/unwise/sequence', { schedule: `${plan.schedule}` })
  }
}

/** bf16 has 8 binary digits: what is less than half of the last of them is gone when it is added. */
const lostBelow = 1 / 512

export const adviceOnPrecision: Rule = function* ({ training: { optimizer }, plan }) {
  const { precision, rounding } = plan
  const { token, state: kept } = planPrecisionFacts[precision]
  if (token === 'f32' || hasMaster(precision) || rounding === 'stochastic') return
  const bytes = (of: Stored) => {
    const facts = planPrecisionFacts[of.precision]
    const states = fullStates(optimizer, hasMaster(of.precision)).length
    return bytesPer[facts.token] + bytesPer[gradientIn(of)] + bytesPer[facts.state] * states
  }
  const { kind, lr } = optimizer
  const above = Number((lr / lostBelow).toPrecision(3))
  yield advised('plan.precision', 'plan/unwise/bf16', {
    what: clause(kept === 'bf16' ? '.sums' : '.parameters'),
    share: 1 / lostBelow,
    example: kind === 'adamw' ? clause('.still-above', { lr, above }) : '',
    less: bytes({ precision: 'bf16' }),
    more: bytes(plan),
  })
}
