/**
 * One instruction of a segment: a closed union. Operands are names of the segment's buffers.
 * A collective is a *start*; its result may be read after the `wait` that names it. Until then its result may not be
 * touched, and its operand may be read but not written.
 */
import { type Axis, axisOfGroup, type Combine, isOptimizer, type MeshAxis, type Op } from '../base/index.js'

/** The name of a buffer of the segment. */
export type Ref = string

/** Op kinds are instruction kinds: `ins` and `outs` follow the signature written beside the op. */
export type Compute = Op & { readonly ins: readonly Ref[]; readonly outs: readonly Ref[] }

/**
 * Who meets: the ranks along these axes (major first), or, where `stages` is given,
 * the ranks of those pipeline coordinates only (tied weights, stages held twice).
 */
export interface Group {
  readonly axes: readonly Axis[]
  readonly stages?: readonly number[]
}

/**
 * Every pair of an operand and a result is a collective of its own; all of them start and finish together, for the price
 * of one latency. Pairs may differ in shape, not in dtype. Where a `dim` may be missing, the collective is *flat*: what is
 * laid side by side, or cut, is the line of a block (see Layout), and the whole side has room for all parts.
 */
interface Pairs {
  readonly ins: readonly Ref[]
  readonly outs: readonly Ref[]
  readonly group: Group
}

export type Collective =
  /** Every rank gets the sum (max) over the group. May work in place. */
  | ({ readonly kind: 'all-reduce' } & Pairs & { readonly combine: Combine })
  /** Parts are laid side by side along dim, in group order. */
  | ({ readonly kind: 'all-gather' } & Pairs & { readonly dim?: string })
  /** The sum is cut along dim; member i gets part i. */
  | ({ readonly kind: 'reduce-scatter' } & Pairs & { readonly dim?: string })
  /** The own part is cut along `to`, part i goes to member i; what arrives is laid side by side along `from`. */
  | ({ readonly kind: 'all-to-all' } & Pairs & { readonly from: string; readonly to: string })
  /** Parts go round: member i gets what member i - by has. */
  | ({ readonly kind: 'shift' } & Pairs & { readonly by: number })
  /**
   * As `dispatch` and `combine`, of one operand, which its routes follow: rows lie with the rank of the group that holds their
   * expert. The group is in the order in which experts are split.
   */
  | ({ readonly kind: 'all-dispatch' } & Pairs)
  | ({ readonly kind: 'all-combine' } & Pairs)
  /** Every operand, as it lies, goes to another space. Nobody else takes part: the group is the rank alone. */
  | ({ readonly kind: 'move' } & Pairs)

export type Instr =
  | Compute
  | Collective
  /** The collective whose first result is `on` is finished, with all its pairs. */
  | { readonly kind: 'wait'; readonly on: Ref }
  /**
   * Part i along dim, i being the rank's index along the axes: what a whole tensor becomes when it is split. Without a
   * dim it is part i of the line of the block.
   */
  | {
      readonly kind: 'slice'
      readonly in: Ref
      readonly out: Ref
      readonly axes: readonly Axis[]
      readonly dim?: string
    }
  /** The rank's part of one microbatch of a data input, or of a scalar of the step (lr). */
  | { readonly kind: 'load'; readonly out: Ref; readonly input: string }

export type InstrKind = Instr['kind']
export type InstrOf<K extends InstrKind> = Extract<Instr, { kind: K }>

export const isCollective = (instr: Instr): instr is Collective => 'group' in instr

export const isCompute = (instr: Instr): instr is Compute => 'ins' in instr && !isCollective(instr)

/** Changes a parameter: by its gradient, or by what it follows. */
export const isUpdate = (instr: Instr): instr is Compute =>
  isCompute(instr) && (isOptimizer(instr) || instr.kind === 'balance' || instr.kind === 'track')

/** Works on the line of a block, not along a dim. */
export const isFlat = (instr: Instr): boolean =>
  (instr.kind === 'all-gather' || instr.kind === 'reduce-scatter' || instr.kind === 'slice') && instr.dim === undefined

/** The operands and results of a collective, two and two; what follows the operands says where they go. */
export const pairsOf = ({ ins, outs }: Collective): readonly { readonly in: Ref; readonly out: Ref }[] =>
  outs.map((out, i) => ({ in: ins[i], out }))

/** A collective whose operand goes where its routes say. */
export const isRouted = (instr: Instr): instr is InstrOf<'all-dispatch' | 'all-combine'> =>
  instr.kind === 'all-dispatch' || instr.kind === 'all-combine'

/**
 * The axis that a collective is counted under: rows go to experts, whatever axes the ranks that hold them lie along; stages meet along pp,
 * whether their group names it or not.
 */
export function axisOfCollective(instr: Collective): MeshAxis | undefined {
  const { axes, stages } = instr.group
  return isRouted(instr) ? 'ep' : axisOfGroup(stages ? ['pp', ...axes] : axes)
}

/** Whom a move meets. */
export const alone: Group = { axes: [] }

/** One function per kind: adding a kind turns every table that lacks it into a type error. */
export type Rules<Out, Ctx = void> = { readonly [K in InstrKind]: (instr: InstrOf<K>, ctx: Ctx) => Out }

export const applyRule = <Out, Ctx>(rules: Rules<Out, Ctx>, instr: Instr, ctx: Ctx): Out =>
  (rules[instr.kind] as (instr: Instr, ctx: Ctx) => Out)(instr, ctx) // the table is total, so the rule fits its kind
