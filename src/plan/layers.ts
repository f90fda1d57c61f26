/** Stages and layers: which stage holds how many, and what schedules demand of the counts. */
import { divisorsNear, either, error, evenParts, warning } from '../base/index.js'
import { type Rule, scheduleFactsOf, splitsBackward } from './rule.js'
import type { Plan } from './schema.js'

/** Stages of the pipeline, in the order a microbatch passes them. */
export const stagesOf = (plan: Plan): number => plan.pp * plan.chunks

/**
 * Layers per stage as the plan asks for them. Of an even split the earlier stages get the remainder; with `first`
 * and `last` the others share the rest. `check` refuses what does not add up.
 */
export function layersPerStage(plan: Plan, layers: number): number[] {
  const stages = stagesOf(plan)
  if (plan.layers === 'even') return evenParts(layers, stages)
  if (Array.isArray(plan.layers)) return [...plan.layers]
  if (stages === 1) return [layers]
  const { first, last } = plan.layers
  const head = first === undefined ? [] : [first]
  const tail = last === undefined ? [] : [last]
  const rest = layers - (first ?? 0) - (last ?? 0)
  return [...head, ...evenParts(rest, stages - head.length - tail.length), ...tail]
}

const showStages = ({ pp, chunks }: Plan): string =>
  chunks > 1 ? `pp ${pp} x chunks ${chunks} = ${pp * chunks} stages` : `pp ${pp} = ${pp} stages`

/** [4, 4, 3] -> '4 + 4 + 3', and long ones as '20 x 4 + 4 x 3'. */
function showParts(parts: readonly number[]): string {
  if (parts.length <= 8) return parts.join(' + ')
  const counts = new Map<number, number>()
  for (const part of parts) counts.set(part, (counts.get(part) ?? 0) + 1)
  return [...counts].map(([part, times]) => `${times} x ${part}`).join(' + ')
}

export const stages: Rule = function* (job) {
  const { layers } = job.model
  const { plan } = job
  const count = stagesOf(plan)
  const most = plan.layers === 'even' ? layers : layers + 2
  if (count > most) {
    const empty = plan.layers === 'even' ? ' (two more if plan.layers leaves the first and the last empty)' : ''
    yield error(
      { code: 'plan/stages', values: { stages: count, layers } },
      'plan.pp',
      `${showStages(plan)}, but the model has ${layers} layers`,
      `at most ${most} stages${empty}`,
    )
  } else if (plan.layers !== 'even') yield* chosenLayers(job)
  else if (layers % count !== 0) {
    const even = `even would be ${either(divisorsNear(layers, count))} stages`
    yield warning(
      { code: 'plan/uneven', values: { stages: count, layers } },
      'plan.pp',
      `layers ${layers} = ${showParts(layersPerStage(plan, layers))}: the fullest stage sets the pace`,
      even,
    )
  }
}

/** A list, or a first and a last, that someone chose. */
const chosenLayers: Rule = function* ({ model: { layers }, plan }) {
  const count = stagesOf(plan)
  const held = layersPerStage(plan, layers)
  const sum = held.reduce((a, b) => a + b, 0)
  if (held.length !== count) {
    yield error(
      'plan/layers',
      'plan.layers',
      `${held.length} entries for ${showStages(plan)}`,
      `write ${count} numbers with the sum ${layers}`,
    )
    return
  }
  const list = Array.isArray(plan.layers)
  const only = count === 1 && typeof plan.layers === 'object' && !Array.isArray(plan.layers) ? plan.layers : {}
  const wrong = [only.first, only.last].find(n => n !== undefined && n !== layers)
  if (wrong !== undefined)
    yield error(
      'plan/layers',
      'plan.layers',
      `the only stage holds all ${layers} layers, not ${wrong}`,
      'leave plan.layers out',
    )
  if (sum !== layers)
    yield error(
      'plan/layers',
      'plan.layers',
      `${showParts(held)} = ${sum}, but the model has ${layers} layers`,
      `the sum must be ${layers}`,
    )
  const stage = held.findIndex((n, i) => n < (i === 0 || i === count - 1 ? 0 : 1))
  if (stage >= 0)
    yield error(
      'plan/layers',
      list ? `plan.layers[${stage}]` : 'plan.layers',
      `stage ${stage} would hold ${held[stage]} of ${showParts(held)} layers`,
      'only the first and the last stage may hold none',
    )
}

export const chunks: Rule = function* ({ plan }) {
  const facts = scheduleFactsOf(plan)
  if (!facts?.chunksFixed || plan.chunks === facts.chunks) return
  const looped = splitsBackward(plan) ? 'interleaved-zb' : 'interleaved'
  const message = `schedule ${plan.schedule} has chunks ${facts.chunks}, got ${plan.chunks}`
  yield error('plan/chunks', 'plan.chunks', message, facts.chunks === 1 ? `try schedule ${looped}` : 'leave chunks out')
}

/** The two directions still compute the right thing below this; they only leave the bubble they were made to fill. */
export const dualPipe: Rule = function* ({ plan }) {
  const { schedule, pp, microbatches } = plan
  const facts = scheduleFactsOf(plan)
  if (facts?.backward !== 'paired') return
  const bothEnds = facts.placement === 'both ends'
  const unwise = (field: string, message: string, instead: readonly number[]) =>
    warning('plan/schedule', `plan.${field}`, message, `try ${either(instead)}`)
  if (bothEnds && pp % 2 !== 0)
    yield unwise('pp', `${schedule} is made for pp % 2 = 0, got pp ${pp}`, pp > 1 ? [pp - 1, pp + 1] : [2])
  if (bothEnds && microbatches % 2 !== 0)
    yield unwise('microbatches', `${schedule} is made for microbatches % 2 = 0, got ${microbatches}`, [
      microbatches + 1,
    ])
  if (microbatches < 2 * pp)
    yield unwise(
      'microbatches',
      `${schedule} fills the pipeline from microbatches = 2 x pp = ${2 * pp}, got ${microbatches}`,
      [2 * pp],
    )
}
