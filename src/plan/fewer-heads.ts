/**
 * The ranks of a stage and the heads they split, both as few as do the same: tp and the ranks of cp that exchange heads keep their
 * factors, those of key-value heads and those of the queries that share one.
 */
import { type Enough, fewerRanks } from './fewer-ranks.js'
import { contextOf, headSplit } from './rule.js'
import type { Job, Plan } from './schema.js'

export interface FewerHeads extends Pick<Plan, 'tp' | 'cp' | 'dp' | 'shard' | 'ep' | 'etp' | 'attention'> {
  readonly kvHeads: number
  /** Query heads to one of keys and values. */
  readonly group: number
}

/** With at most so many key-value heads a rank. */
export function fewerHeads({ model, plan }: Job, headsPerRank: number, enough: Enough): FewerHeads {
  const { attention } = plan
  const known = model.family === 'mlp' ? undefined : model.kvHeads
  const { outer, heads: few, ...grid } = fewerRanks(plan, known, enough)
  const tp = few.tp.kvHeads * few.tp.group
  const ulysses = few.ulysses.kvHeads * few.ulysses.group
  const cp = outer * ulysses
  if (model.family === 'mlp') return { ...grid, tp, cp, attention, kvHeads: 1, group: 1 }
  const { kvHeads } = model
  const split = headSplit(plan.tp, contextOf(plan).ulysses, kvHeads)
  const groups = few.tp.group * few.ulysses.group
  // More key-value heads than these would change how the axes are factored, where one has a second factor.
  const own = groups > 1 ? 1 : Math.min(kvHeads / split.tp.kvHeads / split.ulysses.kvHeads, headsPerRank)
  const group = model.heads / kvHeads / split.tp.group / split.ulysses.group
  return {
    ...{ ...grid, tp, cp, kvHeads: few.tp.kvHeads * few.ulysses.kvHeads * own, group: groups * Math.min(group, 2) },
    attention: typeof attention === 'object' ? { ulysses, ring: outer } : attention,
  }
}

/** Two of each factor that splits something. A ring keeps its ranks, since it takes as many steps. */
export const twoOfEach =
  (plan: Plan, copies: number): Enough =>
  (factor, ranks) =>
    factor === 'dp' ? copies : factor === 'cp' && contextOf(plan).ring ? ranks : 2
