/**
 * What a job's numbers say together. Every rule is asked, and each problem states the equation that fails and the
 * nearest numbers for which it would hold. Errors are what cannot be compiled; advice is in `advice.ts`.
 */
import {
  axisFacts,
  batchAxes,
  batchRanks,
  dataRanks,
  defaultOrder,
  divisorsNear,
  either,
  error,
  fullStates,
  gcd,
  hasMaster,
  isMeshAxis,
  meshAxes,
  type Problem,
  type ProblemValues,
  ranksOf,
  roundUp,
  shorten,
  showBytes,
  showCount,
} from '../base/index.js'
import { type ModelConfig, parametersOf } from '../model/index.js'
import { adviceOnBubble, adviceOnPrecision, adviceOnRecompute, adviceOnZero } from './advice.js'
import { batchRamp } from './batch-ramp.js'
import { compression } from './compress.js'
import { context, contextHeads, cutDocuments } from './context.js'
import { data, labels, learningRate, optimizerSettings } from './data.js'
import { choices, layersOfExperts, ranksOfExperts, rowsOfExperts } from './experts.js'
import { fp8 } from './fp8.js'
import { gradients, rounding } from './gradients.js'
import { chunks, dualPipe, stages, stagesOf } from './layers.js'
import { lora } from './lora.js'
import { lossScale } from './loss-scale.js'
import { offload, offloadOf } from './offload.js'
import { advised } from './phrases.js'
import { bytesPerNumber, type Rule, scheduleFactsOf, widthOfGradient, widthOfParameter } from './rule.js'
import type { Job, Plan } from './schema.js'

export const check = (job: Job): Problem[] => rules.flatMap(rule => [...rule(job)])

/** Problems of a job some of whose fields could not be read: only rules that ask for none of those fields speak. */
export const checkBeside = (job: Job, fields: readonly string[]): Problem[] =>
  rules.flatMap(rule => {
    const asked = new Set<string>()
    const problems = [...rule(watched(job, '', asked))]
    return fields.some(field => asked.has(field)) ? [] : problems
  })

/** The same value, which writes down the paths that are read. */
const watched = <T extends object>(value: T, path: string, asked: Set<string>): T =>
  new Proxy(value, {
    get(target, key) {
      const found: unknown = Reflect.get(target, key)
      if (typeof key !== 'string') return found
      const inner = path === '' ? key : `${path}.${key}`
      asked.add(inner)
      return typeof found === 'object' && found !== null ? watched(found, inner, asked) : found
    },
  })

export const worldOfPlan = (plan: Plan): number => ranksOf(plan)

const mostRanks = 2 ** 24
const mostTasks = 2 ** 20

const tryDivisors = (n: number, around: number): string => `try ${either(divisorsNear(n, around))}`

const ranks: Rule = function* ({ plan }) {
  const world = worldOfPlan(plan)
  const factors = meshAxes
    .filter(axis => plan[axis] > 1 && !axisFacts[axis].folded)
    .map(axis => `${axis} ${plan[axis]}`)
  for (const axis of meshAxes)
    if (plan[axis] > 1 && !axisFacts[axis].supported) {
      const message = `not supported yet: ${axis} ${plan[axis]}`
      const values = { axis, size: plan[axis] }
      yield error({ code: 'plan/unsupported', values }, `plan.${axis}`, message, `leave ${axis} at 1`)
    }
  if (world > mostRanks) {
    const message = `${factors.join(' x ')} = ${world} ranks, more than ${mostRanks}`
    yield error({ code: 'plan/ranks', values: { ranks: world, most: mostRanks } }, 'plan', message)
  }
}

const order: Rule = function* ({ plan }) {
  const named = plan.order.split('-')
  const unknown = named.find(name => !isMeshAxis(name))
  const twice = named.find((name, i) => named.indexOf(name) !== i)
  const missing = meshAxes.filter(axis => plan[axis] > 1 && !named.includes(axis))
  const refuse = (what: string) =>
    error('plan/order', 'plan.order', what, `name ${defaultOrder} once each, fastest first`)
  if (unknown !== undefined) yield refuse(`\`${shorten(unknown, 20)}\` is not an axis of the mesh`)
  else if (twice !== undefined) yield refuse(`\`${shorten(twice, 20)}\` is named twice`)
  if (missing.length > 0) yield refuse(`${either(missing, 'and')} ${missing.length > 1 ? 'are' : 'is'} missing`)
}

const batch: Rule = function* ({ training: { globalBatch }, plan }) {
  const { microbatches } = plan
  const copies = batchRanks(plan)
  const pieces = microbatches * copies
  if (globalBatch % pieces === 0) return
  const shared = batchAxes.filter(axis => axis === 'dp' || plan[axis] > 1).map(axis => `${axis} ${plan[axis]}`)
  const divisor = `microbatches ${microbatches} x ${shared.join(' x ')} = ${pieces}`
  const equation = `globalBatch ${globalBatch} % (${divisor}) = ${globalBatch % pieces}, must be 0`
  const below = Math.floor(globalBatch / pieces) * pieces
  const batches = either(below > 0 ? [below, below + pieces] : [pieces])
  const fewer =
    globalBatch % copies === 0 ? `microbatches ${either(divisorsNear(globalBatch / copies, microbatches))}, or ` : ''
  const values = { globalBatch, microbatches, copies }
  yield error({ code: 'plan/batch', values }, 'training.globalBatch', equation, `try ${fewer}globalBatch ${batches}`)
}

const heads: Rule = function* ({ model }) {
  if (model.family === 'mlp') return
  const { embed, heads, kvHeads } = model
  const headDim = model.family === 'llama' ? model.headDim : embed / heads
  if (heads % kvHeads !== 0)
    yield error(
      { code: 'model/heads', values: { what: 'heads', size: heads, by: 'kvHeads', ways: kvHeads } },
      'model.kvHeads',
      `heads ${heads} % kvHeads ${kvHeads} = ${heads % kvHeads}, must be 0`,
      tryDivisors(heads, kvHeads),
    )
  if (!Number.isInteger(headDim))
    yield error(
      { code: 'model/heads', values: { what: 'embed', size: embed, by: 'heads', ways: heads } },
      'model.heads',
      `embed ${embed} / heads ${heads} = ${headDim.toFixed(2)} is not an integer`,
      tryDivisors(embed, heads),
    )
  else if (model.family === 'llama' && !model.mla && headDim % 2 !== 0) {
    const message = `headDim ${headDim} is odd, but rotary positions turn pairs`
    yield error('model/heads', 'model.headDim', message, `try ${headDim + 1}`)
  }
}

const latent: Rule = function* ({ model }) {
  if (model.family !== 'llama' || !model.mla) return
  const { heads, kvHeads, headDim, mla, qkvBias, qkNorm } = model
  const refuse = (field: string, equation: string, suggestion: string) =>
    error('model/latent', `model.${field}`, equation, suggestion)
  if (kvHeads !== heads)
    yield refuse(
      'kvHeads',
      `kvHeads ${kvHeads}, but latent attention has a key for each of heads ${heads}`,
      'leave it out',
    )
  if (headDim !== mla.plainDim + mla.ropeDim)
    yield refuse(
      'headDim',
      `headDim ${headDim}, but plainDim ${mla.plainDim} + ropeDim ${mla.ropeDim} = ${mla.plainDim + mla.ropeDim}`,
      'leave it out',
    )
  if (mla.ropeDim % 2 !== 0)
    yield refuse(
      'mla.ropeDim',
      `ropeDim ${mla.ropeDim} is odd, but rotary positions turn pairs`,
      `try ${mla.ropeDim + 1}`,
    )
  if (qkvBias || qkNorm) {
    const field = qkvBias ? 'qkvBias' : 'qkNorm'
    yield refuse(field, `latent attention has no ${qkvBias ? 'biases' : 'norms of heads'}`, 'leave it out')
  }
}

const rope: Rule = function* ({ model }) {
  if (model.family !== 'llama') return
  const scaling = model.ropeScaling
  const refuse = (field: string, equation: string) =>
    error('model/rope', `model.ropeScaling.${field}`, equation, 'pairs that turn faster stay, slower ones are slowed')
  if (scaling?.kind === 'llama3' && scaling.low >= scaling.high)
    yield refuse('low', `low ${scaling.low} must be below high ${scaling.high}`)
  if (scaling?.kind === 'yarn' && scaling.slow > scaling.fast)
    yield refuse('slow', `slow ${scaling.slow} must not be above fast ${scaling.fast}`)
}

type Width = 'heads' | 'ffn' | 'vocab'

interface Unsplittable {
  readonly sentence: string
  readonly values: ProblemValues['plan/indivisible']
}

/** Which of the model's sizes tp would have to split and cannot: the sentence for each. */
function unsplittable(model: ModelConfig, tp: number): ReadonlyMap<Width, Unsplittable> {
  const found = new Map<Width, Unsplittable>()
  const divide = (what: Width, size: number) => {
    const sentence = `${what} ${size} cannot be split tp ${tp} ways`
    if (size % tp !== 0) found.set(what, { sentence, values: { what, size, ways: tp } })
  }
  divide('ffn', model.ffn)
  if (model.family !== 'mlp') divide('vocab', model.vocab)
  if (model.family === 'gpt' && model.kvHeads === model.heads) divide('heads', model.heads)
  else if (model.family !== 'mlp') {
    const { heads, kvHeads } = model
    const [tp0, group] = [gcd(tp, kvHeads), heads / kvHeads]
    if (Number.isInteger(group) && group % (tp / tp0) !== 0)
      found.set('heads', {
        sentence: `tp ${tp} = ${tp0} x ${tp / tp0}: kvHeads ${kvHeads} can be split ${tp0} ways, but heads / kvHeads = ${group} not ${tp / tp0} ways`,
        values: { what: 'heads / kvHeads', size: group, ways: tp / tp0 },
      })
  }
  return found
}

const tensor: Rule = function* ({ model, plan: { tp } }) {
  const found = unsplittable(model, tp)
  if (found.size === 0) return
  const fits = (n: number) => n > 0 && unsplittable(model, n).size === 0
  const near = [
    Array.from({ length: tp }, (_, i) => tp - 1 - i).find(fits),
    Array.from({ length: tp }, (_, i) => tp + 1 + i).find(fits),
  ].filter(n => n !== undefined)
  for (const [what, { sentence, values }] of found) {
    const padded = what === 'vocab' && model.family !== 'mlp' ? roundUp(model.vocab, 128 * tp) : 0
    const pad = `pad it to the next multiple of 128 x tp: vocab ${padded}`
    const instead = padded > 0 ? pad : `try tp ${either(near)}`
    yield error({ code: 'plan/indivisible', values }, 'plan.tp', sentence, instead)
  }
}

const sequence: Rule = function* ({ model, training: { seq }, plan: { tp, cp, sequenceParallel } }) {
  const positions = model.family === 'mlp' ? undefined : model.positions
  if (positions !== undefined && seq > positions)
    yield error(
      { code: 'model/positions', values: { seq, positions } },
      'training.seq',
      `seq ${seq} > positions ${positions} of the model`,
      `try seq ${positions}`,
    )
  if (sequenceParallel && tp === 1) yield advised('plan.sequenceParallel', 'plan/no-effect/with', { why: 'tp 1' })
  if (sequenceParallel && seq % cp === 0 && seq % (cp * tp) !== 0) {
    const ways = cp > 1 ? `cp ${cp} x tp ${tp} = ${cp * tp}` : `tp ${tp}`
    const suggestion = `try seq ${roundUp(seq, cp * tp)}, or tp ${either(divisorsNear(seq / cp, tp))}`
    const values = { what: 'seq', size: seq, ways: cp * tp }
    const message = `seq ${seq} cannot be split ${ways} ways`
    yield error({ code: 'plan/indivisible', values }, 'plan.sequenceParallel', message, suggestion)
  }
}

const size: Rule = function* ({ model, training, plan }) {
  const parameters = parametersOf(model, training.seq)
  const rows = Math.max(model.layers, stagesOf(plan))
  const tasks = rows * plan.microbatches
  if (Math.ceil(parameters) > Number.MAX_SAFE_INTEGER)
    yield error('model/size', 'model', `${showCount(parameters)} parameters exceed 2^53`)
  if (tasks > mostTasks)
    yield error(
      { code: 'plan/size', values: { tasks, most: mostTasks } },
      'plan.microbatches',
      `${rows} layers x microbatches ${plan.microbatches} = ${tasks} tasks, more than ${mostTasks}`,
      `try ${Math.floor(mostTasks / rows)}`,
    )
}

/** A lower bound before anything is compiled: states only, spread as evenly as they can be. */
const memory: Rule = function* ({ model, training: { seq, optimizer, ema, lora }, plan }) {
  const { deviceMemory, zero, tp, pp } = plan
  if (deviceMemory === undefined) return
  const isHere = offloadOf(plan).optimizer === 'device'
  const states = isHere ? fullStates(optimizer, hasMaster(plan.precision)).length + (ema ? 1 : 0) : 0
  const copies = scheduleFactsOf(plan)?.placement === 'both ends' ? 2 : 1
  const numbersAt = (stage: number, kept = states) => {
    const share = (least: number) => (stage >= least ? dataRanks(plan) : 1)
    const updated = lora ? 0 : widthOfGradient(plan) / share(2) + kept / share(1) // what is frozen is only held
    return copies * (widthOfParameter(plan) / share(3) + updated)
  }
  const held = parametersOf(model, seq) / (tp * pp)
  const width = bytesPerNumber(plan)
  const bytesAt = (stage: number) => Math.floor(held * numbersAt(stage) * width)
  const bytes = bytesAt(zero)
  if (bytes <= deviceMemory) return
  const numbers = numbersAt(zero)
  const equation =
    `parameters, gradients and optimizer state need at least ${Number(numbers.toFixed(3))} x ${width} bytes x ` +
    `${showCount(held)} = ${showBytes(bytes)} on a rank, a device has ${showBytes(deviceMemory)}`
  const enough = [1, 2, 3].find(stage => stage > zero && bytesAt(stage) <= deviceMemory)
  const ranks = Math.ceil((held * tp * pp * numbersAt(0) * width) / deviceMemory)
  const instead =
    enough === undefined
      ? `at least ${ranks} ranks must share them: by tp x pp (now ${tp * pp}), or by dp with zero 3`
      : `with zero ${enough} they need ${showBytes(bytesAt(enough))}`
  const away = Math.floor(held * numbersAt(zero, 0) * width)
  const elsewhere =
    states > 0 && away <= deviceMemory ? `; with offload.optimizer host they need ${showBytes(away)}` : ''
  const values = { bytes, room: deviceMemory }
  yield error({ code: 'plan/memory', values }, 'plan.deviceMemory', equation, `${instead}${elsewhere}`)
}

const rulesOfSteps: readonly Rule[] = [
  ranks,
  order,
  batch,
  heads,
  latent,
  rope,
  tensor,
  sequence,
  context,
  contextHeads,
  cutDocuments,
  choices,
  layersOfExperts,
  ranksOfExperts,
  rowsOfExperts,
  size,
  chunks,
  dualPipe,
  stages,
  memory,
  data,
  labels,
  learningRate,
  optimizerSettings,
  gradients,
  rounding,
  lossScale,
  lora,
  fp8,
  compression,
  offload,
]

const rules: readonly Rule[] = [
  ...rulesOfSteps,
  batchRamp(rulesOfSteps),
  adviceOnBubble,
  adviceOnZero,
  adviceOnRecompute,
  adviceOnPrecision,
]
