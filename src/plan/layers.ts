/** Which stage holds how many layers. */
import { evenParts } from '../base/index.js'
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
