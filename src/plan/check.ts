/**
 * What a job's numbers say together. Every rule is a function of the job, all rules are asked, and each problem
 * states the equation that fails and the nearest numbers for which it would hold.
 * Errors are what cannot be compiled; warnings are what composes correctly and unwisely.
 */
import {
  divisorsNear,
  either,
  error,
  gcd,
  type Problem,
  roundUp,
  showBytes,
  showCount,
  warning,
} from '../base/index.js'
import { type ModelConfig, parametersOf } from '../model/index.js'
import { layersPerStage, stagesOf } from './layers.js'
import { type Job, type Plan, type ScheduleTraits, scheduleTraits } from './schema.js'

type Rule = (job: Job) => readonly (Problem | false)[]

export const check = (job: Job): Problem[] => rules.flatMap(rule => rule(job).filter(problem => problem !== false))

export const axes = ['dp', 'tp', 'pp', 'cp', 'ep'] as const

export const worldOfPlan = (plan: Plan): number => axes.reduce((world, axis) => world * plan[axis], 1)

const mostRanks = 2 ** 24
const mostTasks = 2 ** 20
const bytesPerNumber = 4

/** 'try 2 or 4', or nothing to try. */
const tryDivisors = (n: number, around: number): string => `try ${either(divisorsNear(n, around))}`

const traitsOf = (plan: Plan): ScheduleTraits | undefined =>
  typeof plan.schedule === 'string' ? scheduleTraits[plan.schedule] : undefined

const ranks: Rule = ({ plan }) => {
  const world = worldOfPlan(plan)
  const product = axes
    .filter(axis => plan[axis] > 1)
    .map(axis => `${axis} ${plan[axis]}`)
    .join(' x ')
  return [
    plan.cp > 1 &&
      error('plan/unsupported', 'plan.cp', `not supported yet: cp ${plan.cp} (context parallelism)`, 'leave cp at 1'),
    plan.ep > 1 &&
      error('plan/unsupported', 'plan.ep', `not supported yet: ep ${plan.ep} (expert parallelism)`, 'leave ep at 1'),
    world > mostRanks && error('plan/ranks', 'plan', `${product} = ${world} ranks, more than ${mostRanks}`),
  ]
}

const order: Rule = ({ plan }) => {
  const named = plan.order.split('-')
  const unknown = named.find(name => !(axes as readonly string[]).includes(name)) // widened to ask
  const twice = named.find((name, i) => named.indexOf(name) !== i)
  const missing = axes.filter(axis => plan[axis] > 1 && !named.includes(axis))
  const refuse = (what: string) =>
    error('plan/order', 'plan.order', what, 'write tp-cp-ep-dp-pp in the order you want, fastest first')
  return [
    unknown !== undefined && refuse(`\`${unknown.slice(0, 20)}\` is no axis of the mesh`),
    twice !== undefined && refuse(`\`${twice.slice(0, 20)}\` is named twice`),
    missing.length > 0 && refuse(`${either(missing, 'and')} ${missing.length > 1 ? 'are' : 'is'} missing`),
  ]
}

const batch: Rule = ({ training: { globalBatch }, plan: { microbatches, dp } }) => {
  const pieces = microbatches * dp
  if (globalBatch % pieces === 0) return []
  const message = `globalBatch ${globalBatch} cannot be cut into microbatches ${microbatches} x dp ${dp} = ${pieces} equal pieces`
  const perCopy =
    globalBatch % dp === 0 ? `microbatches ${either(divisorsNear(globalBatch / dp, microbatches))} or ` : ''
  const nearest = [Math.floor(globalBatch / pieces), Math.ceil(globalBatch / pieces)]
    .filter(n => n > 0)
    .map(n => n * pieces)
  return [error('plan/batch', 'training.globalBatch', message, `try ${perCopy}globalBatch ${either(nearest)}`)]
}

/** Which of the model's sizes tp would have to split and cannot: the sentence for each, or nothing. */
function unsplittable(model: ModelConfig, tp: number): Partial<Record<'heads' | 'ffn' | 'vocab', string>> {
  const no = (what: string, n: number) => (n % tp === 0 ? undefined : `${n} ${what} cannot be split tp ${tp} ways`)
  const ffn = no('columns of ffn', model.ffn)
  if (model.family === 'mlp') return { ...(ffn && { ffn }) }
  const vocab = no('rows of vocab', model.vocab)
  const heads = unsplittableHeads(model.heads, model.family === 'llama' ? model.kvHeads : model.heads, tp)
  return { ...(heads && { heads }), ...(ffn && { ffn }), ...(vocab && { vocab }) }
}

/** tp = tp0 x tp1: tp0 splits the key-value heads, tp1 the query heads of each. */
function unsplittableHeads(heads: number, kvHeads: number, tp: number): string | undefined {
  const split = gcd(tp, kvHeads)
  const group = heads / kvHeads
  if (!Number.isInteger(group) || group % (tp / split) === 0) return undefined
  if (group === 1) return `${heads} heads cannot be split tp ${tp} ways`
  return `tp ${tp}: gcd(tp, kvHeads ${kvHeads}) = ${split}, and the other ${tp / split} cannot split heads / kvHeads = ${group}`
}

/** The nearest tp below and above that split everything. */
function splittingNear(model: ModelConfig, tp: number): number[] {
  const fits = (n: number) => Object.keys(unsplittable(model, n)).length === 0
  const below = Array.from({ length: tp - 1 }, (_, i) => tp - 1 - i).find(fits)
  const above = Array.from({ length: tp }, (_, i) => tp + 1 + i).find(fits)
  return [below, above].filter(n => n !== undefined)
}

const tensor: Rule = ({ model, plan: { tp } }) => {
  const { heads, ffn, vocab } = unsplittable(model, tp)
  if (!heads && !ffn && !vocab) return []
  const fitting = `try tp ${either(splittingNear(model, tp))}`
  const padded = model.family === 'mlp' ? 0 : roundUp(model.vocab, 128 * tp)
  return [
    heads !== undefined && error('plan/indivisible', 'plan.tp', heads, fitting),
    ffn !== undefined && error('plan/indivisible', 'plan.tp', ffn, fitting),
    vocab !== undefined &&
      error('plan/indivisible', 'plan.tp', vocab, `pad it to the next multiple of 128 x tp: vocab ${padded}`),
  ]
}

const heads: Rule = ({ model }) => {
  if (model.family === 'mlp') return []
  const { embed, heads } = model
  const kvHeads = model.family === 'llama' ? model.kvHeads : heads
  const headDim = model.family === 'llama' ? model.headDim : embed / heads
  const whole = Number.isInteger(headDim)
  return [
    heads % kvHeads !== 0 &&
      error(
        'model/heads',
        'model.kvHeads',
        `heads ${heads} % kvHeads ${kvHeads} = ${heads % kvHeads}, must be 0`,
        tryDivisors(heads, kvHeads),
      ),
    !whole &&
      error(
        'model/heads',
        'model.heads',
        `embed ${embed} / heads ${heads} = ${headDim.toFixed(2)} is no whole headDim`,
        tryDivisors(embed, heads),
      ),
    model.family === 'llama' &&
      whole &&
      headDim % 2 !== 0 &&
      error(
        'model/heads',
        'model.headDim',
        `headDim ${headDim} is odd, but rotary positions turn pairs`,
        `try ${headDim + 1}`,
      ),
  ]
}

const sequence: Rule = ({ model, training: { seq }, plan: { tp, sequenceParallel } }) => {
  const positions = model.family === 'mlp' ? undefined : model.positions
  return [
    positions !== undefined &&
      seq > positions &&
      error(
        'model/positions',
        'training.seq',
        `seq ${seq} is longer than the model's ${positions} positions`,
        `try seq ${positions}, or more positions in the model`,
      ),
    sequenceParallel &&
      seq % tp !== 0 &&
      error(
        'plan/indivisible',
        'plan.sequenceParallel',
        `seq ${seq} cannot be split tp ${tp} ways`,
        `try seq ${roundUp(seq, tp)}, or tp ${either(divisorsNear(seq, tp))}`,
      ),
    sequenceParallel && tp === 1 && warning('plan/no-effect', 'plan.sequenceParallel', 'has no effect with tp 1'),
  ]
}

const size: Rule = ({ model, training, plan }) => {
  const tasks = Math.max(model.layers, stagesOf(plan)) * plan.microbatches
  return [
    !Number.isSafeInteger(Math.ceil(parametersOf(model, training.seq))) &&
      error(
        'model/size',
        'model',
        `${showCount(parametersOf(model, training.seq))} parameters are more than can be counted`,
      ),
    tasks > mostTasks &&
      error(
        'plan/size',
        'plan.microbatches',
        `${Math.max(model.layers, stagesOf(plan))} layers x microbatches ${plan.microbatches} = ${tasks} tasks, more than ${mostTasks}`,
        'use fewer microbatches',
      ),
  ]
}

const chunks: Rule = ({ plan }) => {
  const traits = traitsOf(plan)
  if (!traits?.chunksFixed || plan.chunks === traits.chunks) return []
  const message = `schedule ${plan.schedule} holds ${traits.chunks} chunk${traits.chunks > 1 ? 's' : ''} per rank, not ${plan.chunks}`
  const suggestion =
    traits.chunks === 1
      ? `chunks 1, or schedule ${traits.splitsBackward ? 'interleaved-zb' : 'interleaved'}`
      : 'chunks 2'
  return [error('plan/chunks', 'plan.chunks', message, suggestion)]
}

const dualPipe: Rule = ({ plan: { schedule, pp, microbatches } }) => {
  if (schedule !== 'dualpipe' && schedule !== 'dualpipe-v') return []
  const both = schedule === 'dualpipe'
  const least = 2 * pp
  return [
    both &&
      pp % 2 !== 0 &&
      error(
        'plan/schedule',
        'plan.pp',
        `dualpipe needs an even pp, got ${pp}`,
        `try ${either([pp - 1, pp + 1].filter(n => n > 0))}`,
      ),
    both &&
      microbatches % 2 !== 0 &&
      error(
        'plan/schedule',
        'plan.microbatches',
        `dualpipe needs even microbatches, got ${microbatches}`,
        `try ${microbatches + 1}`,
      ),
    microbatches < least &&
      error(
        'plan/schedule',
        'plan.microbatches',
        `${schedule} needs microbatches >= 2 x pp = ${least}, got ${microbatches}`,
        `try ${least}`,
      ),
  ]
}

const stages: Rule = ({ model: { layers }, plan }) => {
  const count = stagesOf(plan)
  const product =
    plan.chunks > 1 ? `pp ${plan.pp} x chunks ${plan.chunks} = ${count} stages` : `pp ${plan.pp} = ${count} stages`
  if (plan.layers === 'even') {
    if (count > layers)
      return [
        error(
          'plan/stages',
          'plan.pp',
          `${product}, but the model has ${layers} layers`,
          `at most ${layers} stages, or give plan.layers with an empty first or last stage`,
        ),
      ]
    if (layers % count === 0) return []
    const message = `${layers} layers on ${count} stages: ${showRuns(layersPerStage(plan, layers))}`
    return [
      warning(
        'plan/uneven',
        'plan.pp',
        message,
        `the slowest stage sets the pace; even would be ${either(divisorsNear(layers, count))} stages`,
      ),
    ]
  }
  if (Array.isArray(plan.layers) && plan.layers.length !== count)
    return [
      error(
        'plan/layers',
        'plan.layers',
        `${plan.layers.length} entries for ${product}`,
        `write ${count} numbers that add up to ${layers}`,
      ),
    ]
  if (count > layers + 2)
    return [
      error('plan/stages', 'plan.pp', `${product}, but the model has ${layers} layers`, `at most ${layers + 2} stages`),
    ]
  const held = layersPerStage(plan, layers)
  const sum = held.reduce((a, b) => a + b, 0)
  const empty = held.findIndex((n, stage) => n < (stage === 0 || stage === count - 1 ? 0 : 1))
  const wanted = typeof plan.layers === 'object' && !Array.isArray(plan.layers) ? plan.layers : {}
  const alone = count === 1 && [wanted.first, wanted.last].find(n => n !== undefined && n !== layers)
  return [
    typeof alone === 'number' &&
      error('plan/layers', 'plan.layers', `the only stage holds all ${layers} layers, not ${alone}`),
    sum !== layers &&
      error('plan/layers', 'plan.layers', `${shown(held)} = ${sum} layers, but the model has ${layers}`),
    empty >= 0 &&
      error(
        'plan/layers',
        Array.isArray(plan.layers) ? `plan.layers[${empty}]` : 'plan.layers',
        `stage ${empty} would hold ${held[empty]} layers (${shown(held)})`,
        'only the first and the last stage may hold none',
      ),
  ]
}

const shown = (parts: readonly number[]): string => (parts.length > 16 ? showRuns(parts) : parts.join(' + '))

/** [4, 4, 3] -> '2 x 4 + 1 x 3' */
function showRuns(parts: readonly number[]): string {
  const counts = new Map<number, number>()
  for (const part of parts) counts.set(part, (counts.get(part) ?? 0) + 1)
  return [...counts].map(([part, times]) => `${times} x ${part}`).join(' + ')
}

/** A lower bound before anything is compiled: states only, spread as evenly as they can be. */
const memory: Rule = ({ model, training, plan }) => {
  if (plan.deviceMemory === undefined) return []
  const moments = training.optimizer.kind === 'adamw' ? 2 : training.optimizer.momentum > 0 ? 1 : 0
  const copies = plan.schedule === 'dualpipe' ? 2 : 1
  const share = (from: number) => (plan.zero >= from ? plan.dp : 1)
  const numbers = copies * (1 / share(3) + 1 / share(2) + moments / share(1))
  const held = parametersOf(model, training.seq) / (plan.tp * plan.pp)
  const bytes = Math.floor(held * numbers * bytesPerNumber)
  if (bytes <= plan.deviceMemory) return []
  const message = `parameters, gradients and optimizer state need at least ${showBytes(bytes)} on a rank, a device has ${showBytes(plan.deviceMemory)}`
  return [
    error(
      'plan/memory',
      'plan.deviceMemory',
      message,
      plan.zero < 3 && plan.dp > 1
        ? `try zero ${plan.zero + 1}, or more tp or pp`
        : 'try more tp, pp, or dp with zero 3',
    ),
  ]
}

/** Shares of a step in which a pipeline rank waits, forward = input gradient = weight gradient = 1. */
const bubble: Rule = ({ plan }) => {
  const { pp, microbatches, chunks, schedule } = plan
  const traits = traitsOf(plan)
  if (microbatches >= pp || schedule === 'dualpipe' || schedule === 'dualpipe-v') return []
  const lost = (m: number) => {
    const idle = (pp - 1) * (traits?.splitsBackward ? 1 : 3)
    return `${Math.round((100 * idle) / (idle + 3 * m * chunks))} %`
  }
  const message = `microbatches ${microbatches} < pp ${pp}: about ${lost(microbatches)} of the step is spent waiting`
  return [
    warning('plan/bubble', 'plan.microbatches', message, `with ${4 * pp} microbatches it would be ${lost(4 * pp)}`),
  ]
}

const zero: Rule = ({ model, training, plan }) => {
  const held = (parametersOf(model, training.seq) * bytesPerNumber) / (plan.tp * plan.pp)
  const often = plan.microbatches > 4 && plan.dp > 1
  return [
    plan.zero > 0 &&
      plan.dp === 1 &&
      warning('plan/no-effect', 'plan.zero', `zero ${plan.zero} has no effect with dp 1`),
    plan.zero < 3 && plan.gather === 'step' && warning('plan/no-effect', 'plan.gather', 'has no effect below zero 3'),
    plan.zero < 2 && plan.reduce === 'step' && warning('plan/no-effect', 'plan.reduce', 'has no effect below zero 2'),
    often &&
      plan.zero === 3 &&
      plan.gather === 'use' &&
      warning(
        'plan/traffic',
        'plan.gather',
        `zero 3 gathers parameters in forward and backward of ${plan.microbatches} microbatches: ${showBytes(2 * plan.microbatches * held)} per rank and step`,
        `\`gather: step\` moves ${showBytes(held)} and keeps as much`,
      ),
    often &&
      plan.zero >= 2 &&
      plan.reduce === 'microbatch' &&
      warning(
        'plan/traffic',
        'plan.reduce',
        `zero ${plan.zero} reduces gradients ${plan.microbatches} times: ${showBytes(plan.microbatches * held)} per rank and step`,
        `\`reduce: step\` moves ${showBytes(held)} and keeps as much`,
      ),
  ]
}

const opsOf = {
  mlp: ['gelu', 'add', 'contract'],
  gpt: ['attention', 'gelu', 'layerNorm', 'dropout', 'add', 'contract', 'embed'],
  llama: ['attention', 'swiglu', 'rmsNorm', 'rope', 'add', 'contract', 'embed'],
} as const

const recompute: Rule = ({ model, plan }) => {
  const splits = traitsOf(plan)?.splitsBackward
  const has: readonly string[] = opsOf[model.family]
  const absent = Array.isArray(plan.recompute) ? plan.recompute.filter(op => !has.includes(op)) : []
  return [
    absent.length > 0 &&
      warning(
        'plan/no-effect',
        'plan.recompute',
        `a ${model.family} has no ${either(absent)}`,
        `it has ${either(has, 'and')}`,
      ),
    splits === true &&
      plan.recompute === 'full' &&
      warning(
        'plan/unwise',
        'plan.recompute',
        `full recompute saves little under ${plan.schedule}: what the input gradient computes again stays alive until the weight gradient`,
        'try selective, or 1f1b',
      ),
    splits === true &&
      plan.sequenceParallel &&
      plan.tp > 1 &&
      warning(
        'plan/unwise',
        'plan.sequenceParallel',
        `${plan.schedule} splits backward in two, and both parts gather the output gradient over tp: 6 all-gathers a layer instead of 4`,
        'try 1f1b or interleaved',
      ),
  ]
}

const rules: readonly Rule[] = [
  ranks,
  order,
  batch,
  heads,
  tensor,
  sequence,
  size,
  chunks,
  dualPipe,
  stages,
  memory,
  bubble,
  zero,
  recompute,
]
