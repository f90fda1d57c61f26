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
  warning,
} from '../base/index.js'
import { buildModel, type ModelConfig, parametersOf } from '../model/index.js'
import { advised } from './phrases.js'
import { bytesPerNumber, type Rule, splitsBackward, widthOfGradient, widthOfParameter } from './rule.js'
import { recomputable } from './schema.js'

/** How much of a step a pipeline rank waits, with forward = input gradient = weight gradient = 1. */
export const adviceOnBubble: Rule = function* ({ plan }) {
  const { pp, microbatches, chunks } = plan
  if (microbatches >= pp) return
  const idle = (pp - 1) * (splitsBackward(plan) ? 1 : 3)
  const share = (m: number) => idle / (idle + 3 * m * chunks)
  const lost = (m: number) => `${Math.round(100 * share(m))} %`
  const message = `microbatches ${microbatches} < pp ${pp}: about ${lost(microbatches)} of the step is spent waiting`
  const values = { microbatches, pp, share: share(microbatches) }
  yield warning(
    { code: 'plan/bubble', values },
    'plan.microbatches',
    message,
    `with ${4 * pp} it would be ${lost(4 * pp)}`,
  )
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
  const instead = (knob: string, bytes: number) => `\`${knob}: step\` moves ${showBytes(bytes)} and keeps as much`
  if (zero === 3 && gather === 'use') {
    const moved = showBytes(2 * microbatches * gathered)
    const message = `parameters are gathered in forward and backward of ${microbatches} microbatches: ${moved} per rank and step`
    yield warning('plan/traffic', 'plan.gather', message, instead('gather', gathered))
  }
  if (zero >= 2 && reduce === 'microbatch') {
    const moved = showBytes(microbatches * reduced)
    const message = `gradients are reduced after each of ${microbatches} microbatches: ${moved} per rank and step`
    yield warning('plan/traffic', 'plan.reduce', message, instead('reduce', reduced))
  }
}

/** The recomputable ops that a model has. */
function opsOf(model: ModelConfig): OpKind[] {
  const { blocks } = buildModel({ ...model, layers: 1 }, { batch: 1, seq: 1 })
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
  const still = Number((optimizer.lr / lostBelow).toPrecision(3))
  const example = optimizer.kind === 'adamw' ? `: a step of lr ${optimizer.lr} moves no parameter above ${still}` : ''
  yield warning(
    'plan/unwise',
    'plan.precision',
    `${kept === 'bf16' ? 'sums, moments and parameters' : 'parameters'} in bf16 lose every update below 1/${1 / lostBelow} of what they hold${example}`,
    `try bf16, with gradients, moments and master weights in f32: ${bytes({ precision: 'bf16' })} bytes a parameter instead of ${bytes(plan)}; or rounding: stochastic, which adds them up on average`,
  )
}
