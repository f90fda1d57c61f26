/**
 * A model with experts in numbers. Ranks of one stage are counted in two ways: dp x cp x tp for what every token passes,
 * and edp x ep x etp for the experts, the last varying fastest. A rank of the second grid holds count / ep experts, of
 * each an etp-th, and works on the rows that its part of the tokens send there.
 */
import { dataRanks, type MeshAxis } from '../base/index.js'
import type { Split } from './setup.js'
import type { Experts, Shape } from './shape.js'

/** How experts are laid on ranks. */
export type ExpertSplit = Pick<Split, 'tp' | 'cp' | 'ep' | 'etp' | 'microbatch'>

export const expertTensor = ({ etp = 1 }: Pick<Split, 'etp'>): number => etp

type ExpertGrid = Pick<Split, MeshAxis | 'etp'>

/** Ranks that hold the same experts. */
export const expertCopies = (split: ExpertGrid): number =>
  (dataRanks(split) * split.tp) / (split.ep * expertTensor(split))

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
 * Parts that the experts of one token lie in, of so many equal parts, on average: each is left out if all its experts
 * are. With groups all experts of a token are in a few of them.
 */
export function partsOfToken({ count, active, groups }: Experts, parts: number): number {
  const all = groups ? Math.max(1, (count * groups.chosen) / groups.all) : count
  const among = groups ? Math.max(1, (parts * groups.chosen) / groups.all) : parts
  const each = all / among
  let missed = 1
  for (let i = 0; i < active; i++) missed *= Math.max(0, all - each - i) / (all - i)
  return Math.min(parts, among * (1 - missed))
}
