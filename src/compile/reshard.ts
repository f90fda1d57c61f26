/**
 * From one layout to another: the moves, cheapest kind first. Partial to split is a reduce-scatter, partial to whole an
 * all-reduce, split to whole an all-gather, split i to split j an all-to-all, whole to split a local slice.
 * Moves that shrink a tensor come before those that work on what is left. A flat layout is reached last and left first:
 * moves without a dim concern the line of the block.
 */
import {
  type Axis,
  type Combine,
  type Dim,
  heldElements,
  type Layout,
  layoutKey,
  localDims,
  type Mesh,
  partialAxes,
  sizeOfAll,
  splitOf,
} from '../base/index.js'

export type Move = { readonly to: Layout } & (
  | { readonly kind: 'slice'; readonly dim?: string; readonly axes: readonly Axis[] }
  | { readonly kind: 'reduce-scatter'; readonly dim?: string; readonly axes: readonly Axis[] }
  | { readonly kind: 'all-reduce'; readonly combine: Combine; readonly axes: readonly Axis[] }
  | { readonly kind: 'all-to-all'; readonly from: string; readonly into: string; readonly axes: readonly Axis[] }
  | { readonly kind: 'all-gather'; readonly dim?: string; readonly axes: readonly Axis[] }
)

export function route(dims: readonly Dim[], from: Layout, to: Layout): Move[] {
  if (layoutKey(from) === layoutKey(to)) return []
  if (from.flat) {
    const { flat: axes, ...block } = from
    return [{ kind: 'all-gather', axes, to: block }, ...route(dims, block, to)]
  }
  return to.flat ? flatten(dims, from, to, to.flat) : between(dims, from, to)
}

/** What is partial over all the axes that cut the line is scattered; else it is summed, and every rank takes its part. */
function flatten(dims: readonly Dim[], from: Layout, to: Layout, axes: readonly Axis[]): Move[] {
  const { flat: _, ...block } = to
  if (!axes.every(axis => from.partial[axis] === 'sum'))
    return [...between(dims, from, block), { kind: 'slice', axes, to }]
  const partial = { ...block.partial, ...Object.fromEntries(axes.map(axis => [axis, 'sum' as const])) }
  return [...between(dims, from, { ...block, partial }), { kind: 'reduce-scatter', axes, to }]
}

/** Between layouts that are not flat. */
function between(dims: readonly Dim[], from: Layout, to: Layout): Move[] {
  const moves: Move[] = []
  let now = from
  const push = (move: Move) => {
    moves.push(move)
    now = move.to
  }
  for (const { name } of dims) for (let move = extend(now, to, name); move; move = extend(now, to, name)) push(move)
  for (const combine of ['sum', 'max'] as const) {
    const axes = partialAxes(now).filter(axis => now.partial[axis] === combine && !(axis in to.partial))
    if (axes.length > 0)
      push({ kind: 'all-reduce', combine, axes, to: { ...now, partial: without(now.partial, axes) } })
  }
  for (let move = exchanged(dims, now, to); move; move = exchanged(dims, now, to)) push(move)
  for (const { name } of dims) gather(now, to, name).forEach(push)
  for (const { name } of dims) for (let move = extend(now, to, name); move; move = extend(now, to, name)) push(move)
  if (layoutKey(now) !== layoutKey(to))
    throw new Error(`internal: no way from [${layoutKey(from)}] to [${layoutKey(to)}]`)
  return moves
}

/** Bytes (in elements) a route brings to one rank over the network: what choosing between sources compares. */
export const trafficOf = (mesh: Mesh, dims: readonly Dim[], moves: readonly Move[]): number =>
  moves.reduce((sum, move) => sum + (move.kind === 'slice' ? 0 : localElements(mesh, dims, move)), 0)

function localElements(mesh: Mesh, dims: readonly Dim[], move: Move): number {
  const held = heldElements(mesh, localDims(mesh, dims, move.to), move.to)
  return move.kind === 'all-reduce'
    ? 2 * held
    : move.kind === 'reduce-scatter'
      ? held * sizeOfAll(mesh, move.axes)
      : held
}

const isPrefix = (short: readonly Axis[], long: readonly Axis[]): boolean => short.every((axis, i) => long[i] === axis)

/** The next run of axes by which a dim must be split further, all whole (slice) or all partial sums (reduce-scatter). */
function extend(now: Layout, to: Layout, dim: string): Move | undefined {
  const [have, want] = [splitOf(now, dim), splitOf(to, dim)]
  if (have.length >= want.length || !isPrefix(have, want)) return undefined
  const elsewhere = new Set(Object.values(now.splits).flat())
  const state = (axis: Axis) => (elsewhere.has(axis) ? 'split' : (now.partial[axis] ?? 'whole'))
  const missing = want.slice(have.length)
  const first = state(missing[0])
  if (first === 'split' || first === 'max') return undefined
  const end = missing.findIndex(axis => state(axis) !== first)
  const axes = end < 0 ? missing : missing.slice(0, end)
  const splits = { ...now.splits, [dim]: [...have, ...axes] }
  return first === 'whole'
    ? { kind: 'slice', dim, axes, to: { ...now, splits } }
    : { kind: 'reduce-scatter', dim, axes, to: { splits, partial: without(now.partial, axes) } }
}

/** The next exchange between any two dims. */
function exchanged(dims: readonly Dim[], now: Layout, to: Layout): Move | undefined {
  for (const { name: from } of dims)
    for (const { name: into } of dims) {
      const move = from === into ? undefined : exchange(now, to, from, into)
      if (move) return move
    }
  return undefined
}

/** Axes that leave the end of one dim for the end of another: as many of those that leave it as the other takes up next. */
function exchange(now: Layout, to: Layout, from: string, into: string): Move | undefined {
  const [have, keep] = [splitOf(now, from), splitOf(to, from)]
  if (have.length <= keep.length || !isPrefix(keep, have)) return undefined
  for (let kept = keep.length; kept < have.length; kept++) {
    const axes = have.slice(kept)
    const goal = [...splitOf(now, into), ...axes]
    if (goal.length > splitOf(to, into).length || !isPrefix(goal, splitOf(to, into))) continue
    const splits = resplit(now, { [from]: have.slice(0, kept), [into]: goal })
    return { kind: 'all-to-all', from, into, axes, to: { ...now, splits } }
  }
  return undefined
}

/** Axes that no longer split a dim, from the first that differs. */
function gather(now: Layout, to: Layout, dim: string): Move[] {
  const [have, want] = [splitOf(now, dim), splitOf(to, dim)]
  const differs = have.findIndex((axis, i) => want[i] !== axis)
  if (differs < 0) return []
  return [
    {
      kind: 'all-gather',
      dim,
      axes: have.slice(differs),
      to: { ...now, splits: resplit(now, { [dim]: have.slice(0, differs) }) },
    },
  ]
}

const without = (partial: Layout['partial'], axes: readonly Axis[]): Layout['partial'] =>
  Object.fromEntries(Object.entries(partial).filter(([axis]) => !axes.includes(axis as Axis)))

/** Dims that are no longer split are left out: a layout is written in one way only. */
const resplit = (now: Layout, changed: Layout['splits']): Layout['splits'] =>
  Object.fromEntries(Object.entries({ ...now.splits, ...changed }).filter(([, axes]) => axes.length > 0))
