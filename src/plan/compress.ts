/** What a plan sends in fewer bits: what cannot be, what changes nothing, and what is unwise. */
import {
  dataRanks,
  dependsOnAddends,
  gradientIn,
  isSparing,
  type Problem,
  planPrecisionFacts,
  ranksOf,
  type Sparing,
  wireOf,
} from '../base/index.js'
import { stateSpace } from './offload.js'
import { advised, refused } from './phrases.js'
import { type Rule, zigzagOf } from './rule.js'
import { isScheduleName, type ScheduleName, scheduleFacts } from './schedule.js'
import type { Plan } from './schema.js'

export const compression: Rule = function* (job) {
  const { plan, training } = job
  const { lossScale } = training
  const { compress, zero, precision } = plan
  if (!compress) return
  const { token } = planPrecisionFacts[precision]
  const summed = gradientIn(plan)
  const { reduce, gather } = compress
  if (reduce && isSparing(reduce)) yield* spared(plan, reduce)
  else if (dataRanks(plan) === 1 && !compress.virtual) yield advised('plan.compress', 'plan/no-effect/compress')
  if (gather && zero !== 3 && !compress.virtual)
    yield refused('plan.compress.gather', 'plan/compress/exact-copy', { zero, gather })
  if (gather === 'int8' && zero === 3 && dataRanks(plan) > 1)
    yield advised('plan.compress.gather', 'plan/compress/cuts', { dp: plan.dp, cp: plan.cp, tp: plan.tp })
  yield* sumsOfAddends(job)
  yield* frozenMoments(job)
  yield* cutResiduals(job)
  if (compress.virtual && ranksOf(plan) > 1)
    yield refused('plan.compress.virtual', 'plan/compress/virtual', { ranks: ranksOf(plan) })
  if (gather && wireOf(token, gather) === undefined)
    yield advised('plan.compress.gather', 'plan/no-effect/parameters', { gather, dtype: token })
  if (reduce && !isSparing(reduce) && wireOf(summed, reduce) === undefined)
    yield advised('plan.compress.reduce', 'plan/no-effect/gradients', { reduce, dtype: summed })
  if (reduce === 'f16' && lossScale === undefined) yield advised('plan.compress.reduce', 'plan/unwise/f16')
}

/** What is not sent is remembered: as f32, where gradients are, once a step. */
function* spared(plan: Plan, reduce: Sparing): Iterable<Problem> {
  const [summed, { space }] = [gradientIn(plan), stateSpace(plan)]
  const path = 'plan.compress.reduce'
  if (plan.zero >= 2 && plan.reduce === 'microbatch' && dataRanks(plan) > 1)
    yield refused(path, 'plan/compress/once', { reduce, zero: plan.zero })
  if (summed !== 'f32') yield refused(path, 'plan/compress/f32', { reduce, dtype: summed })
  if (space !== undefined) yield refused(path, 'plan/compress/device', { reduce, space })
  const allData = { phrase: '.data-axes', values: {} }
  const [axes, ranks] = dependsOnAddends(reduce) ? (['dp', plan.dp] as const) : ([allData, dataRanks(plan)] as const)
  if (ranks === 1 && !plan.compress?.virtual) yield advised(path, 'plan/unwise/nothing-crosses', { reduce, axes })
  if (reduce === 'topk' && ranks > 1) yield* dearShare(plan)
}

/** The residual of positions has the layout of their gradient: with a zigzag a rank holds two runs of it, and a shard of a checkpoint is one. */
const cutResiduals: Rule = function* ({ plan, model, training }) {
  const isCut = zigzagOf(plan, training.seq) === 'sequence' && model.family === 'gpt'
  if (plan.compress?.reduce === 'powersgd' && isCut) yield refused('plan.zigzag', 'plan/compress/zigzag')
}

/** 1-bit Adam: plain Adam until v stands still, and then m is all that meets. */
const frozenMoments: Rule = function* ({ plan, training: { optimizer, clip } }) {
  if (plan.compress?.reduce !== 'onebit') return
  if (optimizer.kind !== 'adamw')
    return yield refused('plan.compress.reduce', 'plan/compress/adam', { optimizer: optimizer.kind })
  if (!optimizer.uncorrected) yield refused('training.optimizer.uncorrected', 'plan/compress/uncorrected')
  for (const option of ['coupled', 'amsgrad'] as const)
    if (optimizer[option]) yield refused(`training.optimizer.${option}`, 'plan/compress/option', { option })
  if (plan.zero > 0 && plan.dp > 1) yield advised('plan.zero', 'plan/compress/part', { zero: plan.zero })
  const { from } = plan.compress
  yield* earlyFreeze(from, optimizer.beta2)
  if (clip !== undefined && clip > 0) yield advised('training.clip', 'plan/compress/clip', { from, clip })
}

/** Steps that stay so many times as long as Adam's are unwise. */
const mostStretch = 2

/**
 * 1-bit Adam needs a warm-up: v is frozen at the share 1 - beta2^from of its mean, so steps stay longer than Adam's by the root of that. With exact
 * gradients a v that is frozen at once diverges just so.
 */
function* earlyFreeze(from: number, beta2: number): Iterable<Problem> {
  const [path, enough] = ['plan.compress.from', Math.ceil(+(1 / (1 - beta2)).toPrecision(12))]
  if (from === 0) return yield refused(path, 'plan/compress/from', { enough })
  const share = 1 - beta2 ** from
  const times = 1 / Math.sqrt(share)
  const percent = +(100 * share).toPrecision(2)
  if (times > mostStretch)
    yield advised(path, 'plan/compress/early', { from, beta2, percent, times: +times.toPrecision(2), enough })
}

/** Every rank is sent the numbers and places of all others; a ring sends every number twice, whatever the ranks. */
function* dearShare({ dp, compress }: Plan): Iterable<Problem> {
  const { ratio = 1 } = compress ?? {}
  if (ratio * dp >= 1)
    yield advised('plan.compress.ratio', 'plan/unwise/ratio', {
      ...{ ratio, dp, product: +(ratio * dp).toPrecision(3), less: +(1 / dp).toPrecision(2) },
    })
}

/** Of sums that depend on their addends: on what, and where no rank could do the same alone. */
const sumsOfAddends: Rule = function* ({ plan, model }) {
  const { compress, dp, cp, ep, etp, tp, pp, schedule } = plan
  const { reduce } = compress ?? {}
  if (reduce === undefined || !dependsOnAddends(reduce)) return
  const path = 'plan.compress.reduce'
  const remembers = isSparing(reduce)
  // Of what is sent once a step, what cp shares out is added up before.
  if (!remembers && cp > 1) yield refused(path, 'plan/compress/sequences', { reduce, cp })
  if (ep > 1 && (ep >= dp || !remembers)) yield advised(path, 'plan/compress/experts', { reduce, axis: 'ep', size: ep })
  // Ranks of tp come first: where they do not suffice, others share a row's tokens.
  else if (tp % etp > 0 && (ep * etp >= dp * cp * tp || !remembers))
    yield advised(path, 'plan/compress/experts', { reduce, axis: 'etp', size: etp })
  if (
    reduce === 'int8' &&
    isScheduleName(`${schedule}`) &&
    scheduleFacts[schedule as ScheduleName].placement === 'both ends' &&
    pp > 1
  )
    yield refused(path, 'plan/compress/both-ends', { reduce, schedule: `${schedule}` })
  if (model.family === 'llama' && (model.moe?.loss?.microbatch ?? 0) > 0)
    yield refused(path, 'plan/compress/balance', { reduce })
  if (dp > 1)
    yield advised(path, remembers ? 'plan/compress/addends-kept' : 'plan/compress/addends', { reduce, dp, tp })
}
