/** The type of what a rank holds, and what is asked of it. */
import { type Axis, type Dim, flatAxes, type Layout, type Mesh, type Spoken, sizeOf } from '../../base/index.js'
import type { Instr } from '../instr.js'
import type { Buffer, DType, Program } from '../program.js'
import type { Law } from './law.js'

/** What a rank holds, seen with the axes that matter only. */
export interface Type {
  readonly dtype: DType
  readonly dims: readonly Dim[]
  readonly layout: Layout
}

export const axesThatMatter = (mesh: Mesh): Axis[] =>
  mesh.axes.filter(({ name, size }) => size > 1 && name !== 'pp').map(({ name }) => name)

/** Axes of size 1 split nothing and make nothing partial, and `pp` has no types. */
export function plain(mesh: Mesh, { splits, partial, flat = [], turn, shares }: Layout): Layout {
  const matters = (axis: string) => axis !== 'pp' && sizeOf(mesh, axis as Axis) > 1 // keys of a layout are axes
  const parts = flat.filter(matters)
  const kept = Object.entries(splits).map(([dim, axes]) => [dim, axes.filter(matters)] as const)
  return {
    splits: Object.fromEntries(kept.filter(([, axes]) => axes.length > 0)),
    partial: Object.fromEntries(Object.entries(partial).filter(([axis]) => matters(axis))),
    ...(parts.length > 0 && { flat: parts }),
    ...(turn?.axes.some(matters) && { turn: { ...turn, axes: turn.axes.filter(matters) } }),
    ...(shares?.axes.some(matters) && { shares: { ...shares, axes: shares.axes.filter(matters) } }),
  }
}

export const typeOf = (mesh: Mesh, { dtype, dims, layout }: Buffer): Type => ({
  dtype,
  dims,
  layout: plain(mesh, layout),
})

export const namesOf = ({ dims }: Type) => dims.map(({ name }) => name)

/** Every rank along the axis holds the same. */
export const isWhole = (layout: Layout, axis: Axis): boolean =>
  layout.partial[axis] === undefined && !flatAxes(layout).includes(axis) && dimsSplitBy(layout, axis).length === 0

export const dimsSplitBy = ({ splits }: Layout, axis: Axis) =>
  Object.keys(splits).filter(dim => splits[dim].includes(axis))

export type Partial = Layout['partial']

/** Tells what is wrong. */
export type Say = (law: Law, said: Spoken) => void

/** An instruction with the types of its operands, and those that its results are declared to have. */
export interface Case<I extends Instr = Instr> {
  readonly program: Program
  readonly instr: I
  readonly operands: readonly Type[]
  readonly claimed: readonly Type[]
  readonly say: Say
}
