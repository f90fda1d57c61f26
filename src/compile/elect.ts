/**
 * For each mesh axis *one index wins*: the op is computed split by that index, and everybody else is resharded.
 * In this order: heads that the axis claims, in an op that may be computed by them; the compute layout of a parameter
 * operand, or of a parameter whose gradient is made here (weights stay, activations move); splits the operands arrive with, by the axis's priority; a partial sum passing through an op linear
 * in it; the canonical layout of the result. If nobody wins, the op is computed whole on that axis.
 */
import { type Axis, baseOf, claimOf, factsOf, type Layout, splitOf, splitsDim } from '../base/index.js'
import type { Sharding } from '../model/index.js'
import { isSpare, priority, type ShardedMesh } from './layouts.js'

export interface Candidate {
  /** In the order of the sharding rule's indices. */
  readonly dims: readonly string[]
  readonly layout: Layout
  /** Parameters and parameter gradients: the compute layout, whose vote comes first. */
  readonly param: boolean
}

export interface ElectedLayouts {
  readonly ins: readonly Layout[]
  readonly outs: readonly Layout[]
}

/** Who won an axis: an index, or the operands whose partial sums pass through. */
type Winner = { readonly index: string } | { readonly through: readonly number[] } | undefined

/** `outs` carry the compute layout of a parameter gradient, or the canonical layout of a value. */
export function elect(
  s: ShardedMesh,
  rule: Sharding,
  ins: readonly Candidate[],
  outs: readonly Candidate[],
): ElectedLayouts {
  const votes = s.axes.map(axis => vote(rule, ins, outs, axis))
  // A factored axis is one group of ranks: its spare index may have it only if nobody wants any factor of it.
  const wanted = (vote: string | undefined, axis: Axis) => vote !== undefined && !isSpare(axis, vote)
  const contested = (axis: Axis) => s.axes.some((other, i) => baseOf(other) === baseOf(axis) && wanted(votes[i], other))
  const winners = new Map<Axis, Winner>(
    s.axes.map((axis, i) => {
      const index = wanted(votes[i], axis) || !contested(axis) ? votes[i] : undefined
      return [
        axis,
        index === undefined
          ? (pass(rule, ins, axis) ?? scatter(rule, ins, axis) ?? fallback(rule, outs, axis, contested(axis)))
          : { index },
      ]
    }),
  )
  return {
    ins: ins.map((_, i) => layoutOf(s, winners, rule.ins[i], ins[i].dims, axis => throughOf(winners.get(axis), i))),
    outs: outs.map((_, i) =>
      layoutOf(s, winners, rule.outs[i], outs[i].dims, axis => leftOver(rule, winners.get(axis), i)),
    ),
  }
}

function vote(rule: Sharding, ins: readonly Candidate[], outs: readonly Candidate[], axis: Axis): string | undefined {
  const claimed = claimOf(axis)
  if (claimed !== undefined && rule.byHeads) return claimed
  const claim = (candidates: readonly Candidate[], indices: readonly (readonly string[])[]) =>
    candidates.flatMap(({ dims, layout }, i) =>
      dims.flatMap((dim, d) => (indices[i] && splitOf(layout, dim).includes(axis) ? [indices[i][d]] : [])),
    )
  const only = (list: readonly Candidate[], param: boolean) =>
    list.map(c => (c.param === param ? c : { ...c, dims: [] }))
  const weights = [...claim(only(ins, true), rule.ins), ...claim(only(outs, true), rule.outs)]
  const values = claim(only(ins, false), rule.ins)
  const free = (index: string) => index !== claimed && !rule.fixed.includes(index)
  const best = (list: readonly string[]) => list.filter(free).sort((a, b) => priority(axis, a) - priority(axis, b))[0]
  return best(weights) ?? best(values)
}

/** A set of operands that all hold partial sums over the axis, in which the op is linear. */
function pass(rule: Sharding, ins: readonly Candidate[], axis: Axis): Winner {
  const passes = (i: number) => ins[i].layout.partial[axis] === 'sum' && tokenDim(ins[i], axis) < 0
  const through = rule.linear.find(set => set.length > 0 && set.every(passes))
  return through && { through }
}

/**
 * Gradients of keys and values, which every rank of cp has of all tokens, do not pass: each rank sums up its own tokens at
 * once, before they grow. What lies by heads that the axis claims goes back to tokens in the same way.
 */
function scatter(rule: Sharding, ins: readonly Candidate[], axis: Axis): Winner {
  const claimed = claimOf(axis)
  for (const [i, operand] of ins.entries()) {
    const { partial, splits } = operand.layout
    const moves = partial[axis] === 'sum' || (claimed !== undefined && splits[claimed]?.includes(axis))
    const index = rule.ins[i]?.[tokenDim(operand, axis)]
    if (moves && index !== undefined && !rule.fixed.includes(index)) return { index }
  }
  return undefined
}

/** Which of a tensor's dims is that of the tokens which a data axis splits; -1: none. */
const tokenDim = ({ dims }: Candidate, axis: Axis): number =>
  factsOf(axis).data ? dims.findIndex(dim => splitsDim(axis, dim)) : -1

function fallback(rule: Sharding, outs: readonly Candidate[], axis: Axis, contested: boolean): Winner {
  for (const [i, { dims, layout }] of outs.entries())
    for (const [d, dim] of dims.entries()) {
      const index = rule.outs[i][d]
      if (splitOf(layout, dim).includes(axis) && !rule.fixed.includes(index) && !(contested && isSpare(axis, index)))
        return { index }
    }
  return undefined
}

const throughOf = (winner: Winner, operand: number): 'sum' | undefined =>
  winner && 'through' in winner && winner.through.includes(operand) ? 'sum' : undefined

/** A result without the winning index is only an addend (or candidate) on that axis. */
function leftOver(rule: Sharding, winner: Winner, out: number): 'sum' | 'max' | undefined {
  if (!winner) return undefined
  if ('through' in winner) return 'sum'
  return rule.outs[out].includes(winner.index) ? undefined : rule.combine
}

function layoutOf(
  s: ShardedMesh,
  winners: ReadonlyMap<Axis, Winner>,
  indices: readonly string[],
  dims: readonly string[],
  partialOn: (axis: Axis) => 'sum' | 'max' | undefined,
): Layout {
  // What is claimed is cut from what a rank holds: it comes last.
  const wonBy = (index: string) => {
    const won = s.axes.filter(axis => {
      const w = winners.get(axis)
      return w && 'index' in w && w.index === index
    })
    return [...won.filter(axis => claimOf(axis) !== index), ...won.filter(axis => claimOf(axis) === index)]
  }
  const splits = Object.fromEntries(
    dims.map((dim, d) => [dim, wonBy(indices[d])] as const).filter(([, axes]) => axes.length > 0),
  )
  const partial = Object.fromEntries(s.axes.flatMap(axis => (partialOn(axis) ? [[axis, partialOn(axis)]] : [])))
  return { splits, partial }
}
