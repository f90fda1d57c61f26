/**
 * A model with experts in numbers. Ranks of one stage are counted in two ways: dp x cp x tp for what every token passes,
 * and edp x ep x etp for the experts, the last varying fastest. A rank of the second grid holds count / ep experts, of
 * each an etp-th, and works on the rows that its part of the tokens send there.
 */
import { dataRanks, gcd, type MeshAxis } from '../base/index.js'
import { type Split, shardRanks } from './setup.js'
import type { Experts, Shape } from './shape.js'

/** How experts are laid on ranks. */
export type ExpertSplit = Pick<Split, 'tp' | 'cp' | 'ep' | 'etp' | 'microbatch'>

export const expertTensor = ({ etp = 1 }: Pick<Split, 'etp'>): number => etp

type ExpertGrid = Pick<Split, MeshAxis | 'etp'>

/** Ranks that hold the same experts. */
export const expertCopies = (split: ExpertGrid): number =>
  (dataRanks(split) * split.tp) / (split.ep * expertTensor(split))

/** Of these, those that ZeRO shards over: where groups of data ranks are replicas, those of one group. */
export const expertShards = (split: Split): number =>
  Math.min(expertCopies(split), Math.max(1, (shardRanks(split) * split.tp) / expertStride(split)))

/** Whether any parameter has copies on other tokens: those of experts may where no others have. */
export const hasCopies = (split: ExpertGrid): boolean =>
  dataRanks(split) > 1 || (split.ep > 1 && expertCopies(split) > 1)

/** How far apart they are. */
export const expertStride = (split: Split): number => split.ep * expertTensor(split)

/** Layers without experts are there, and come before those with some. */
export const comeFirst = ({ experts }: Pick<Shape, 'experts'>): boolean =>
  experts !== undefined && experts.dense > 0 && !experts.spread

/** Of all layers, those that are routed. */
export const routedShare = ({ layers, experts }: Shape): number => (experts ? 1 - experts.dense / layers : 0)

/** The same model with experts in every layer, and in none. */
export const routedOf = (shape: Shape): Shape =>
  shape.experts ? { ...shape, experts: { ...shape.experts, dense: 0 } } : shape
export const denseOf = ({ experts: _, ...shape }: Shape): Shape => shape

/** Tokens that a rank sends to experts: tp shares them out. */
export const routedTokens = ({ seq }: Pick<Shape, 'seq'>, { tp, cp, microbatch }: ExpertSplit): number =>
  (microbatch * seq) / (cp * tp)

/** Elements of a token on one rank: of its rows, for which there is room, of what experts make of them, and of what it passes beside them. */
export function routedWidths(
  { embed }: Pick<Shape, 'embed'>,
  split: Pick<Split, 'tp' | 'etp' | 'imbalance'>,
  { active, ffn, shared }: Experts,
): { readonly rows: number; readonly given: number; readonly hidden: number; readonly shared: number } {
  const etp = expertTensor(split)
  const rows = ((split.imbalance ?? 1) * active * etp) / split.tp
  return { rows, given: rows * embed, hidden: (rows * ffn) / etp, shared: shared / split.tp }
}

/** What one rank computes of one layer: so many experts, of each so many rows and so much of its width. */
export interface ExpertLoad {
  readonly experts: number
  readonly rows: number
  readonly ffn: number
}

/** `imbalance`: rows of the busiest rank over those of the average. */
export function expertLoad(shape: Shape, experts: Experts, split: ExpertSplit, imbalance = 1): ExpertLoad {
  const { count, active, ffn } = experts
  const etp = expertTensor(split)
  const rows = (routedTokens(shape, split) * etp * split.ep * active * imbalance) / count
  return { experts: count / split.ep, rows: Math.ceil(rows), ffn: ffn / etp }
}

/**
 * Parts that the experts of one token lie in, of `parts` equal parts, on average: each is left out if it holds none of
 * them. Group-limited routing draws them from `chosen` of `all` groups: a part may hold some of those, or none.
 */
export function partsOfToken({ count, active, groups = { all: 1, chosen: 1 } }: Experts, parts: number): number {
  const { all, chosen } = groups
  const each = count / all
  const pool = chosen * each
  // Groups and parts line up again after so many parts.
  const period = Number.isInteger(parts) ? parts / gcd(parts, all) : 1
  let reached = 0
  for (let part = 0; part < period; part++)
    for (const [held, share] of expertsHeld(part / parts, (part + 1) / parts, { all, chosen, each }))
      reached += share * (1 - missing(pool, held, active))
  return (parts * reached) / period
}

/** The probability that none of `active` experts drawn from `pool` is one of `held`. */
function missing(pool: number, held: number, active: number): number {
  let missed = 1
  for (let i = 0; i < active; i++) missed *= Math.max(0, pool - held - i) / (pool - i)
  return missed
}

/** How many experts of the chosen groups lie between two fractions of all experts, and how likely each number is. */
function expertsHeld(
  from: number,
  to: number,
  { all, chosen, each }: { readonly all: number; readonly chosen: number; readonly each: number },
): readonly (readonly [held: number, probability: number])[] {
  // Groups one by one: the number of chosen ones so far and the experts these have here, with their probability.
  let states = new Map<string, readonly [picked: number, held: number, probability: number]>([['0 0', [0, 0, 1]]])
  for (let group = 0; group < all; group++) {
    const here = Math.round(each * Math.max(0, Math.min(to * all, group + 1) - Math.max(from * all, group)) * 1e6) / 1e6
    const next: typeof states = new Map()
    const add = (picked: number, held: number, probability: number) => {
      if (probability === 0) return
      const key = `${picked} ${held}`
      next.set(key, [picked, held, probability + (next.get(key)?.[2] ?? 0)])
    }
    for (const [picked, held, probability] of states.values()) {
      const pick = (chosen - picked) / (all - group)
      add(picked + 1, held + here, probability * pick)
      add(picked, held, probability * (1 - pick))
    }
    states = next
  }
  return [...states.values()].map(([, held, probability]) => [held, probability])
}
