/**
 * A plan on fewer ranks that does the same: every factor of its two grids of a stage's ranks, that of tp, cp and dp and that of
 * experts, which still splits what it splits, into fewer parts. Experts and their widths go with them.
 */
import { divisors, gcd, roundUp } from '../base/index.js'
import type { LlamaConfig, MoeConfig } from '../model/index.js'
import { commonFactors, type DenseFactor, denseGrid, expertGrid } from './folding.js'
import type { HeadSplit } from './rule.js'
import type { Plan } from './schema.js'

export interface FewerRanks {
  readonly heads: HeadSplit
  /** Ranks of cp that have different queries. */
  readonly outer: number
  readonly dp: number
  /** Ranks of a group, where groups are replicas (HSDP). */
  readonly shard?: number
  readonly ep: number
  readonly etp: number
}

/** How many ranks are enough, of so many that split the same thing. */
export type Enough = (factor: DenseFactor, ranks: number) => number

export function fewerRanks(plan: Plan, kvHeads: number | undefined, enough: Enough): FewerRanks {
  const common = commonFactors(denseGrid(plan, kvHeads), expertGrid(plan)) ?? []
  // Ranks that hold different experts are a divisor of as many as there are.
  const fewer = common.map(({ dense, expert, size }) => {
    const few = Math.min(size, enough(dense, size))
    return { dense, expert, size: expert === 'edp' ? few : divisors(size).find(n => n >= few)! }
  })
  const ranks = (isMeant: (factor: (typeof fewer)[number]) => boolean) =>
    fewer.filter(isMeant).reduce((product, { size }) => product * size, 1)
  const of = (name: DenseFactor) => ranks(({ dense }) => dense === name)
  return {
    heads: {
      tp: { kvHeads: of('tp'), group: of('tp of groups') },
      ulysses: { kvHeads: of('ulysses'), group: of('ulysses of groups') },
    },
    ...{ outer: of('cp'), dp: of('dp') * of('replicas') },
    ...(of('replicas') > 1 && { shard: of('dp') }),
    ...{ ep: ranks(({ expert }) => expert === 'ep'), etp: ranks(({ expert }) => expert === 'etp') },
  }
}

export interface FewerExperts {
  /** Ranks, before and now. */
  readonly from: Pick<Plan, 'tp'>
  readonly to: Pick<Plan, 'tp' | 'ep' | 'etp'>
  /** What experts are wide on a rank, at most. */
  readonly width: number
  /** Tokens of a sequence, before and now. */
  readonly seq: readonly [from: number, to: number]
}

/** Narrow experts, of which there are still more than a token chooses. What tp does not divide, it still does not. */
export function fewerExperts({ moe }: LlamaConfig, { from, to, width, seq }: FewerExperts): Partial<LlamaConfig> {
  if (!moe) return {}
  const { capacity, shared } = moe
  const few: MoeConfig = {
    ...{ ...moe, experts: expertsEnough(moe, to.ep), ffn: Math.min(moe.ffn, width * to.etp) },
    ...(shared !== undefined && { shared: Math.min(shared, width * to.tp - (shared % from.tp === 0 ? 0 : 1)) }),
    ...(capacity && { capacity: { ...capacity, group: fewerTokens(capacity.group, seq) } }),
  }
  return { moe: few }
}

function expertsEnough({ experts, topK, groups = 1, topKGroups = groups }: MoeConfig, ep: number): number {
  const step = (groups * ep) / gcd(groups, ep)
  const inGroups = (topK / topKGroups) * groups
  return Math.min(experts, roundUp(Math.max(2 * topK, 2 * ep, inGroups), step))
}

/** A run of tokens that is as large a part of a sequence as it was, or nearly. */
function fewerTokens(group: number | 'sequence', [from, to]: readonly [number, number]): number | 'sequence' {
  if (group === 'sequence') return group
  return divisors(to).findLast(n => n <= Math.max(1, (group * to) / from))!
}
