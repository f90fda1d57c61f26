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
  fullStates,
  gcd,
  hasMaster,
  isMeshAxis,
  meshAxes,
  type Problem,
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
import { context, contextHeads } from './context.js'
import { data, labels, learningRate, optimizerSettings } from './data.js'
import { cutDocuments, padding } from './documents.js'
import { choices, layersOfExperts, ranksOfExperts, rowsOfExperts } from './experts.js'
import { fp8 } from './fp8.js'
import { gradients, rounding } from './gradients.js'
import { chunks, dualPipe, stages, stagesOf } from './layers.js'
import { lora } from './lora.js'
import { lossScale } from './loss-scale.js'
import { offload, offloadOf } from './offload.js'
import { advised, clause, refused } from './phrases.js'
import { bytesPerNumber, dataGroups, type Rule, scheduleFactsOf, widthOfGradient, widthOfParameter } from './rule.js'
import type { Job, Plan } from './schema.js'
import { sharding } from './sharding.js'

/** All diagnostics of a job, without compiling it. */
export const check = (job: Job): Problem[] => rules.flatMap(rule => [...rule(job)])

/** Whether no rule says that it cannot be compiled: found sooner than everything that might be said of it. */
export function isSound(job: Job): boolean {
  for (const rule of refusals) for (const { severity } of rule(job)) if (severity === 'error') return false
  return true
}

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

/** The number of ranks of a plan. */
export const worldOfPlan = (plan: Plan): number => ranksOf(plan)

const mostRanks = 2 ** 24
const mostTasks = 2 ** 20

const ranks: Rule = function* ({ plan }) {
  const world = worldOfPlan(plan)
  const factors = meshAxes
    .filter(axis => plan[axis] > 1 && !axisFacts[axis].folded)
    .map(axis => `${axis} ${plan[axis]}`)
  for (const axis of meshAxes)
    if (plan[axis] > 1 && !axisFacts[axis].supported)
      yield refused(`plan.${axis}`, 'plan/unsupported/axis', { axis, size: plan[axis] })
  if (world > mostRanks)
    yield refused('plan', 'plan/ranks', { factors: factors.join(' x '), ranks: world, most: mostRanks })
}

const order: Rule = function* ({ plan }) {
  const named = plan.rankOrder.split('-')
  const unknown = named.find(name => !isMeshAxis(name))
  const twice = named.find((name, i) => named.indexOf(name) !== i)
  const missing = meshAxes.filter(axis => plan[axis] > 1 && !named.includes(axis))
  const words = { order: defaultOrder }
  if (unknown !== undefined)
    yield refused('plan.rankOrder', 'plan/order/unknown', { ...words, axis: shorten(unknown, 20) })
  else if (twice !== undefined)
    yield refused('plan.rankOrder', 'plan/order/twice', { ...words, axis: shorten(twice, 20) })
  if (missing.length > 1)
    yield refused('plan.rankOrder', 'plan/order/several', { ...words, axes: { joint: 'and', of: missing } })
  else if (missing.length > 0) yield refused('plan.rankOrder', 'plan/order/missing', { ...words, axis: missing[0] })
}

const batch: Rule = function* ({ training: { globalBatch }, plan }) {
  const { microbatches } = plan
  const copies = batchRanks(plan)
  const pieces = microbatches * copies
  if (globalBatch % pieces === 0) return
  const shared = batchAxes.filter(axis => axis === 'dp' || plan[axis] > 1).map(axis => `${axis} ${plan[axis]}`)
  const below = Math.floor(globalBatch / pieces) * pieces
  const words = {
    ...{ globalBatch, divisor: `microbatches ${microbatches} x ${shared.join(' x ')}`, pieces },
    ...{ rest: globalBatch % pieces, batches: below > 0 ? [below, below + pieces] : [pieces] },
  }
  yield globalBatch % copies === 0
    ? refused('training.globalBatch', 'plan/batch/fewer', {
        ...{ ...words, fewer: divisorsNear(globalBatch / copies, microbatches) },
      })
    : refused('training.globalBatch', 'plan/batch', words)
}

const heads: Rule = function* ({ model }) {
  if (model.family === 'mlp') return
  const { embed, heads, kvHeads } = model
  const headDim = model.family === 'llama' ? model.headDim : embed / heads
  if (heads % kvHeads !== 0)
    yield refused('model.kvHeads', 'model/heads/kv', {
      ...{ heads, kvHeads, rest: heads % kvHeads, near: divisorsNear(heads, kvHeads) },
    })
  if (!Number.isInteger(headDim))
    yield refused('model.heads', 'model/heads/width', {
      ...{ embed, heads, width: headDim.toFixed(2), near: divisorsNear(embed, heads) },
    })
  else if (model.family === 'llama' && !model.mla && headDim % 2 !== 0)
    yield refused('model.headDim', 'model/heads/odd', { headDim, near: headDim + 1 })
}

const latent: Rule = function* ({ model }) {
  if (model.family !== 'llama' || !model.mla) return
  const { heads, kvHeads, headDim, mla, qkvBias, qkNorm } = model
  const { qkNopeHeadDim, qkRopeHeadDim } = mla
  if (kvHeads !== heads) yield refused('model.kvHeads', 'model/latent/keys', { kvHeads, heads })
  if (headDim !== qkNopeHeadDim + qkRopeHeadDim)
    yield refused('model.headDim', 'model/latent/width', {
      headDim,
      qkNopeHeadDim,
      qkRopeHeadDim,
      sum: qkNopeHeadDim + qkRopeHeadDim,
    })
  if (qkRopeHeadDim % 2 !== 0)
    yield refused('model.mla.qkRopeHeadDim', 'model/latent/odd', { qkRopeHeadDim, near: qkRopeHeadDim + 1 })
  if (qkvBias) yield refused('model.qkvBias', 'model/latent/biases')
  else if (qkNorm) yield refused('model.qkNorm', 'model/latent/norms')
}

const rope: Rule = function* ({ model }) {
  if (model.family !== 'llama') return
  const scaling = model.ropeScaling
  if (scaling?.kind === 'llama3' && scaling.low >= scaling.high)
    yield refused('model.ropeScaling.low', 'model/rope/low', { low: scaling.low, high: scaling.high })
  if (scaling?.kind === 'yarn' && scaling.slow > scaling.fast)
    yield refused('model.ropeScaling.slow', 'model/rope/slow', { slow: scaling.slow, fast: scaling.fast })
}

type Width = 'heads' | 'ffn' | 'vocab'

/** Heads are split over tp by keys first, then by groups of queries. */
interface HeadGroups {
  readonly own: number
  readonly more: number
  readonly kvHeads: number
  readonly group: number
}

/** Which of the model's sizes tp would have to split and cannot: the size, or how heads would be split. */
function unsplittable(model: ModelConfig, tp: number): ReadonlyMap<Width, number | HeadGroups> {
  const found = new Map<Width, number | HeadGroups>()
  const divide = (what: Width, size: number) => {
    if (size % tp !== 0) found.set(what, size)
  }
  divide('ffn', model.ffn)
  if (model.family !== 'mlp') divide('vocab', model.vocab)
  if (model.family === 'gpt' && model.kvHeads === model.heads) divide('heads', model.heads)
  else if (model.family !== 'mlp') {
    const { heads, kvHeads } = model
    const [own, group] = [gcd(tp, kvHeads), heads / kvHeads]
    if (Number.isInteger(group) && group % (tp / own) !== 0) found.set('heads', { own, more: tp / own, kvHeads, group })
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
  for (const [what, size] of found)
    if (typeof size === 'object') yield refused('plan.tp', 'plan/indivisible/groups', { tp, ...size, near })
    else if (what === 'vocab')
      yield refused('plan.tp', 'plan/indivisible/vocab', { size, tp, near, padded: roundUp(size, 128 * tp) })
    else yield refused('plan.tp', 'plan/indivisible', { what, size, tp, near })
}

const sequence: Rule = function* ({ model, training: { seq }, plan: { tp, cp, sequenceParallel } }) {
  const positions = model.family === 'mlp' ? undefined : model.positions
  if (positions !== undefined && seq > positions) yield refused('training.seq', 'model/positions', { seq, positions })
  if (sequenceParallel && tp === 1) yield advised('plan.sequenceParallel', 'plan/no-effect/with', { why: 'tp 1' })
  if (sequenceParallel && seq % cp === 0 && seq % (cp * tp) !== 0)
    yield refused('plan.sequenceParallel', 'plan/indivisible/sequence', {
      ...{ seq, ways: cp > 1 ? `cp ${cp} x tp ${tp} = ${cp * tp}` : `tp ${tp}` },
      ...{ next: roundUp(seq, cp * tp), near: divisorsNear(seq / cp, tp) },
    })
}

const size: Rule = function* ({ model, training, plan }) {
  const parameters = parametersOf(model, training.seq)
  const rows = Math.max(model.layers, stagesOf(plan))
  const tasks = rows * plan.microbatches
  if (Math.ceil(parameters) > Number.MAX_SAFE_INTEGER)
    yield refused('model', 'model/size', { parameters: showCount(parameters) })
  if (tasks > mostTasks)
    yield refused('plan.microbatches', 'plan/size', {
      ...{ rows, microbatches: plan.microbatches, tasks, most: mostTasks, near: Math.floor(mostTasks / rows) },
    })
}

/** A lower bound before anything is compiled: states only, spread as evenly as they can be. */
const memory: Rule = function* ({ model, training: { seq, optimizer, ema, lora }, plan }) {
  const { deviceMemory, zero, tp, pp } = plan
  if (deviceMemory === undefined) return
  const isHere = offloadOf(plan).optimizer === 'device'
  const states = isHere ? fullStates(optimizer, hasMaster(plan.precision)).length + (ema ? 1 : 0) : 0
  const copies = scheduleFactsOf(plan)?.placement === 'both ends' ? 2 : 1
  // Ranks of several groups may hold different experts.
  const sharing = 'moe' in model && model.moe ? dataRanks(plan) : dataGroups(plan).shard * plan.cp
  const numbersAt = (stage: number, kept = states) => {
    const share = (least: number) => (stage >= least ? sharing : 1)
    const updated = lora ? 0 : widthOfGradient(plan) / share(2) + kept / share(1) // what is frozen is only held
    return copies * (widthOfParameter(plan) / share(3) + updated)
  }
  const held = parametersOf(model, seq) / (tp * pp)
  const width = bytesPerNumber(plan)
  const bytesAt = (stage: number) => Math.floor(held * numbersAt(stage) * width)
  const bytes = bytesAt(zero)
  if (bytes <= deviceMemory) return
  const enough = [1, 2, 3].find(stage => stage > zero && bytesAt(stage) <= deviceMemory)
  const ranks = Math.ceil((held * tp * pp * numbersAt(0) * width) / deviceMemory)
  const away = Math.floor(held * numbersAt(zero, 0) * width)
  const instead = [
    enough === undefined
      ? clause('.share', { ranks, now: tp * pp })
      : clause('.with-zero', { zero: enough, bytes: showBytes(bytesAt(enough)) }),
    ...(states > 0 && away <= deviceMemory ? [clause('.with-host', { bytes: showBytes(away) })] : []),
  ]
  yield refused('plan.deviceMemory', 'plan/memory/states', {
    ...{ numbers: Number(numbersAt(zero).toFixed(3)), width, held: showCount(held), bytes: showBytes(bytes) },
    ...{ room: showBytes(deviceMemory), instead: { joint: ';', of: instead } },
  })
}

const rulesOfSteps: readonly Rule[] = [
  ranks,
  order,
  sharding,
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
  padding,
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

const refusals: readonly Rule[] = [...rulesOfSteps, batchRamp(rulesOfSteps)]
const advice: readonly Rule[] = [adviceOnBubble, adviceOnZero, adviceOnRecompute, adviceOnPrecision]

const rules: readonly Rule[] = [...refusals, ...advice]
