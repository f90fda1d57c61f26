/** What a plan sends in fewer bits: what cannot be, what changes nothing, and what is unwise. */
import {
  dataRanks,
  dependsOnAddends,
  error,
  gradientIn,
  isSparing,
  type Problem,
  planPrecisionFacts,
  ranksOf,
  type Sparing,
  warning,
  wireOf,
} from '../base/index.js'
import { stateSpace } from './offload.js'
import type { Rule } from './rule.js'
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
  else if (dataRanks(plan) === 1 && !compress.virtual)
    yield warning(
      'plan/no-effect',
      'plan.compress',
      'has no effect where dp and cp are 1: nothing crosses the data axes',
    )
  if (gather && zero !== 3 && !compress.virtual)
    yield error(
      'plan/compress',
      'plan.compress.gather',
      `zero ${zero} keeps the only exact copy of a parameter where the whole is gathered: gather ${gather} would round it`,
      'set zero to 3, or leave gather out',
    )
  if (gather === 'int8' && zero === 3 && dataRanks(plan) > 1)
    yield warning(
      'plan/compress',
      'plan.compress.gather',
      `int8: results depend on how ranks cut parameters, so they change with dp, cp and tp (now ${plan.dp}, ${plan.cp} and ${plan.tp})`,
      'bf16 loses digits alone, whatever the plan',
    )
  yield* sumsOfAddends(job)
  yield* frozenMoments(job)
  if (compress.virtual && ranksOf(plan) > 1)
    yield error(
      'plan/compress',
      'plan.compress.virtual',
      `${ranksOf(plan)} ranks, but only one rank can do what others would`,
      'leave virtual out',
    )
  if (gather && wireOf(token, gather) === undefined)
    yield warning('plan/no-effect', 'plan.compress.gather', `${gather}: parameters are ${token} already`)
  if (reduce && !isSparing(reduce) && wireOf(summed, reduce) === undefined)
    yield warning('plan/no-effect', 'plan.compress.reduce', `${reduce}: gradients are ${summed} already`)
  if (reduce === 'f16' && lossScale === undefined)
    yield warning(
      'plan/unwise',
      'plan.compress.reduce',
      'f16 has nothing between 0 and 2^-24: gradients below it are lost unless they are scaled',
      'set training.lossScale, or try bf16',
    )
}

/** What is not sent is remembered: as f32, where gradients are, once a step. */
function* spared(plan: Plan, reduce: Sparing): Iterable<Problem> {
  const [summed, { space }] = [gradientIn(plan), stateSpace(plan)]
  const refuse = (message: string, suggestion: string) =>
    error('plan/compress', 'plan.compress.reduce', message, suggestion)
  if (plan.zero >= 2 && plan.reduce === 'microbatch' && dataRanks(plan) > 1)
    yield refuse(
      `${reduce} sends a gradient once a step, but with zero ${plan.zero} each microbatch scatters its own`,
      'set reduce to step, or zero to 1',
    )
  if (summed !== 'f32')
    yield refuse(
      `what ${reduce} does not send is added to the next gradient in f32, but gradients are ${summed}`,
      'set gradients to f32',
    )
  if (space !== undefined)
    yield refuse(
      `what ${reduce} does not send is needed on the device, but states of the optimizer are on the ${space}`,
      'leave offload.optimizer out',
    )
  const [axes, ranks] = dependsOnAddends(reduce) ? ['dp', plan.dp] : ['the data axes', dataRanks(plan)]
  if (ranks === 1 && !plan.compress?.virtual)
    yield warning(
      'plan/unwise',
      'plan.compress.reduce',
      `${reduce}: nothing crosses ${axes}, and gradients become coarser all the same`,
      'leave reduce out',
    )
  if (reduce === 'topk' && ranks > 1) yield* dearShare(plan)
}

/** 1-bit Adam: plain Adam until v stands still, and then m is all that meets. */
const frozenMoments: Rule = function* ({ plan, training: { optimizer, clip } }) {
  if (plan.compress?.reduce !== 'onebit') return
  const refuse = (path: string, message: string, suggestion: string) =>
    error('plan/compress', path, message, suggestion)
  if (optimizer.kind !== 'adamw')
    return yield refuse(
      'plan.compress.reduce',
      `onebit sends the mean of gradients that Adam keeps, but the optimizer is ${optimizer.kind}`,
      'set training.optimizer.kind to adamw, or try topk',
    )
  if (!optimizer.uncorrected)
    yield refuse(
      'training.optimizer.uncorrected',
      'with onebit v stands still, and what corrects it for its start would go on: steps would change their length',
      'set uncorrected to true',
    )
  for (const option of ['coupled', 'amsgrad'] as const)
    if (optimizer[option])
      yield refuse(
        `training.optimizer.${option}`,
        `onebit sends the mean of gradients alone, as AdamW keeps it, but ${option} is set`,
        `leave ${option} out`,
      )
  if (plan.zero > 0 && plan.dp > 1)
    yield warning(
      'plan/compress',
      'plan.zero',
      `onebit: every rank makes its addend of all of m, and zero ${plan.zero} leaves it a part: the others are gathered each step, 4 bytes a parameter`,
      'zero 0 sends signs alone',
    )
  if (plan.compress.from === 0)
    yield refuse(
      'plan.compress.from',
      'v stands still from step 0 on, when it is 0, and nothing would move',
      'set from to the step at which the learning rate has risen, or 100',
    )
  if (clip !== undefined && clip > 0)
    yield warning(
      'plan/compress',
      'training.clip',
      `from step ${plan.compress.from} on no gradient meets the others: clip ${clip} shortens the mean m, whose norm is that of the step`,
    )
}

/** Every rank is sent the numbers and places of all others; a ring sends every number twice, whatever the ranks. */
function* dearShare({ dp, compress }: Plan): Iterable<Problem> {
  const { ratio = 1 } = compress ?? {}
  if (ratio * dp >= 1)
    yield warning(
      'plan/unwise',
      'plan.compress.ratio',
      `ratio ${ratio} x dp ${dp} = ${+(ratio * dp).toPrecision(3)}, from 1 on no fewer bytes are sent than by an all-reduce of all numbers`,
      `try less than ${+(1 / dp).toPrecision(2)}`,
    )
}

/** Of sums that depend on their addends: on what, and where no rank could do the same alone. */
const sumsOfAddends: Rule = function* ({ plan, model }) {
  const { compress, dp, cp, ep, tp, pp, schedule } = plan
  const { reduce } = compress ?? {}
  if (!dependsOnAddends(reduce)) return
  const refused = (message: string, suggestion: string) =>
    error('plan/compress', 'plan.compress.reduce', `${reduce}: ${message}`, suggestion)
  const remembers = reduce !== undefined && isSparing(reduce)
  // Of what is sent once a step, what cp shares out is added up before.
  if (!remembers && cp > 1)
    yield refused(
      `every addend must be the gradient of whole sequences, but cp ${cp} shares them out`,
      'set cp to 1, or try bf16',
    )
  if (ep > 1 && (ep >= dp || !remembers))
    yield warning(
      'plan/compress',
      'plan.compress.reduce',
      `${reduce}: with ep ${ep} gradients of experts are those of several ranks' tokens, and are sent as they are`,
    )
  if (
    reduce === 'int8' &&
    isScheduleName(`${schedule}`) &&
    scheduleFacts[schedule as ScheduleName].placement === 'both ends' &&
    pp > 1
  )
    yield refused(
      `with ${schedule} two ranks hold every stage, whose gradients are added up once more and cannot be sent so`,
      'choose another schedule, or try bf16',
    )
  if (model.family === 'llama' && (model.moe?.loss?.microbatch ?? 0) > 0)
    yield refused(
      'what balances experts within a microbatch is a number of all ranks, which no addend has alone',
      'leave model.moe.loss.microbatch out, or try bf16',
    )
  if (dp > 1)
    yield warning(
      'plan/compress',
      'plan.compress.reduce',
      `${reduce}: results depend on which rank adds what, so they change with dp and tp (now ${dp} and ${tp})`,
      remembers ? 'powersgd keeps back the same, whatever the plan' : 'bf16 loses digits alone, whatever the plan',
    )
}
