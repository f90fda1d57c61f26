/** Stages and layers: which stage holds how many, and what schedules demand of the counts. */
import { divisorsNear, evenParts, type Spoken } from '../base/index.js'
import { advised, clause, refused } from './phrases.js'
import { type Rule, scheduleFactsOf, splitsBackward } from './rule.js'
import type { Plan } from './schema.js'

/** Stages of the pipeline, in the order a microbatch passes them. */
export const stagesOf = (plan: Plan): number => plan.pp * plan.chunks

/**
 * The number of layers of each pipeline stage. Earlier stages get the remainder of an even split; with `first` and
 * `last` the other stages share the rest. `check` rejects sums that do not add up.
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

const showStages = ({ pp, chunks }: Plan): Spoken =>
  chunks > 1 ? clause('.stages-of-chunks', { pp, chunks, stages: pp * chunks }) : clause('.stages', { pp })

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
    const words = { stages: showStages(plan), layers, most }
    yield plan.layers === 'even'
      ? refused('plan.pp', 'plan/stages/ends', words)
      : refused('plan.pp', 'plan/stages', words)
  } else if (plan.layers !== 'even') yield* chosenLayers(job)
  else if (layers % count !== 0)
    yield advised('plan.pp', 'plan/uneven', {
      ...{ layers, parts: showParts(layersPerStage(plan, layers)), near: divisorsNear(layers, count) },
    })
}

/** A list, or a first and a last, that someone chose. */
const chosenLayers: Rule = function* ({ model: { layers }, plan }) {
  const count = stagesOf(plan)
  const held = layersPerStage(plan, layers)
  const sum = held.reduce((a, b) => a + b, 0)
  if (held.length !== count) {
    yield refused('plan.layers', 'plan/layers/entries', {
      ...{ entries: held.length, stages: showStages(plan), count, layers },
    })
    return
  }
  const list = Array.isArray(plan.layers)
  const only = count === 1 && typeof plan.layers === 'object' && !Array.isArray(plan.layers) ? plan.layers : {}
  const wrong = [only.first, only.last].find(n => n !== undefined && n !== layers)
  if (wrong !== undefined) yield refused('plan.layers', 'plan/layers/only', { layers, wrong })
  if (sum !== layers) yield refused('plan.layers', 'plan/layers/sum', { parts: showParts(held), sum, layers })
  const stage = held.findIndex((n, i) => n < (i === 0 || i === count - 1 ? 0 : 1))
  if (stage >= 0)
    yield refused(list ? `plan.layers[${stage}]` : 'plan.layers', 'plan/layers/none', {
      ...{ stage, held: held[stage], parts: showParts(held) },
    })
}

export const chunks: Rule = function* ({ plan }) {
  const facts = scheduleFactsOf(plan)
  if (!facts?.chunksFixed || plan.chunks === facts.chunks) return
  const looped = splitsBackward(plan) ? 'interleaved-zb' : 'interleaved'
  const words = { schedule: `${plan.schedule}`, chunks: facts.chunks, got: plan.chunks }
  yield facts.chunks === 1
    ? refused('plan.chunks', 'plan/chunks/looped', { ...words, looped })
    : refused('plan.chunks', 'plan/chunks/fixed', words)
}

/** The two directions still compute the right thing below this; they only leave the bubble they were made to fill. */
export const dualPipe: Rule = function* ({ plan }) {
  const { schedule, pp, microbatches } = plan
  const facts = scheduleFactsOf(plan)
  if (facts?.backward !== 'paired') return
  const bothEnds = facts.placement === 'both ends'
  const words = { schedule: `${schedule}`, microbatches }
  if (bothEnds && pp % 2 !== 0)
    yield advised('plan.pp', 'plan/schedule/even', { ...words, pp, near: pp > 1 ? [pp - 1, pp + 1] : [2] })
  if (bothEnds && microbatches % 2 !== 0)
    yield advised('plan.microbatches', 'plan/schedule/pairs', { ...words, near: microbatches + 1 })
  if (microbatches < 2 * pp) yield advised('plan.microbatches', 'plan/schedule/fill', { ...words, least: 2 * pp })
}
