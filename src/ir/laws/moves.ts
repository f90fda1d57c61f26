/** T1 for collectives and slices, one operand at a time: they change the layout of a value and nothing else. */
import { type Axis, flatAxes, type Mesh, type Spoken, sizeOf, sizeOfAll, splitOf } from '../../base/index.js'
import type { Collective, InstrOf, Ref } from '../instr.js'

/** Collectives that change a layout and nothing else. */
type Reshaping = Exclude<Collective, InstrOf<'all-dispatch' | 'all-combine'>>

import type { Program } from '../program.js'
import { showShaped } from '../text/codec.js'
import { clause } from './phrases.js'
import { unfinished } from './turns.js'
import { isWhole, namesOf, type Partial, plain, type Say, type Type } from './type.js'

interface Moving<I> {
  readonly program: Program
  readonly instr: I
  /** The operand and its type. */
  readonly ref: Ref
  readonly x: Type
  readonly say: Say
}

const matterIn = (mesh: Mesh, axes: readonly Axis[]) => axes.filter(axis => axis !== 'pp' && sizeOf(mesh, axis) > 1)

/** What a slice gives, or nothing where a finding says why it gives nothing. */
export function sliced({ program: { mesh }, instr, ref, x, say }: Moving<InstrOf<'slice'>>): Type | undefined {
  const axes = matterIn(mesh, instr.axes)
  const taken = axes.find(axis => !isWhole(x.layout, axis))
  const wrong = unfinished(x) ?? (taken ? clause('.not-whole-on', { axis: taken }) : uncuttable(x, instr.dim))
  if (wrong) return void say('T1', clause('T/is-but', { ref, type: showShaped(x), why: wrong }))
  return cut(mesh, x, instr.dim, axes)
}

/** What a collective gives for one of its operands. */
export function moved({ program: { mesh }, instr, ref, x, say }: Moving<Reshaping>): Type | undefined {
  const axes = matterIn(mesh, instr.group.axes)
  const crosses = instr.group.axes.includes('pp') || instr.group.stages !== undefined
  const refuse = (why: Spoken) => void say('T1', clause('T/is-but', { ref, type: showShaped(x), why }))
  if (crosses && instr.kind !== 'all-reduce') return refuse(clause('.only-all-reduce'))
  if (instr.kind === 'move') return x
  if (instr.kind === 'shift')
    return shifted(mesh, x, instr.by, axes) ?? refuse(clause('.no-round', { axes: axes.join() }))
  const why = unfinished(x)
  if (why) return refuse(why)
  if (instr.kind === 'all-gather' && instr.dim === undefined) return gatheredLine(x, axes) ?? refuse(uneven(axes))
  if (instr.kind === 'all-reduce' || instr.kind === 'reduce-scatter') {
    const combine = instr.kind === 'all-reduce' ? instr.combine : 'sum'
    const odd = axes.find(axis => x.layout.partial[axis] !== combine)
    if (odd) return refuse(clause('.not-partial', { combine, axis: odd }))
    const summed = { ...x, layout: { ...x.layout, partial: without(x.layout.partial, axes) } }
    if (instr.kind === 'all-reduce') return summed
    const wrong = uncuttable(x, instr.dim)
    return wrong ? refuse(wrong) : cut(mesh, summed, instr.dim, axes)
  }
  const [from, to] = instr.kind === 'all-gather' ? [instr.dim ?? '', undefined] : [instr.from, instr.to]
  const wrong = uncuttable(x, from) ?? uncuttable(x, to ?? from)
  if (wrong) return refuse(wrong)
  const split = splitOf(x.layout, from)
  const rest = split.slice(0, split.length - axes.length)
  if ([...rest, ...axes].join() !== split.join()) return refuse(clause('.split-end', { dim: from, axes: axes.join() }))
  const gathered = resized(x, { dim: from, by: sizeOfAll(mesh, axes), split: rest })
  return to === undefined ? gathered : cut(mesh, gathered, to, axes)
}

/** Every rank has the part of the rank `by` more turns before it, along the axes that split a dim first, read as one. */
function shifted(mesh: Mesh, x: Type, by: number, axes: readonly Axis[]): Type | undefined {
  if (axes.length === 0) return x
  const { turn, ...layout } = x.layout
  const along = axes.join()
  const elsewhere = turn !== undefined && turn.axes.join() !== along
  const splits = Object.values(layout.splits).some(split => split.slice(0, axes.length).join() === along)
  if (elsewhere || !splits || flatAxes(layout).length > 0) return undefined
  const size = sizeOfAll(mesh, axes)
  const after = ((((turn?.by ?? 0) + by) % size) + size) % size
  return { ...x, layout: { ...layout, ...(after > 0 && { turn: { axes, by: after } }) } }
}

/** Why a type cannot be cut along a dim or, where none is named, as a line. */
function uncuttable(x: Type, dim: string | undefined): Spoken | undefined {
  if (flatAxes(x.layout).length > 0) return clause('.is-flat')
  return dim === undefined || namesOf(x).includes(dim) ? undefined : clause('.has-no', { dim })
}

/** Cut over axes on which it is whole, along a dim or as a line. */
function cut(mesh: Mesh, x: Type, dim: string | undefined, axes: readonly Axis[]): Type {
  if (dim !== undefined)
    return resized(x, { dim, by: 1 / sizeOfAll(mesh, axes), split: [...splitOf(x.layout, dim), ...axes] })
  return axes.length === 0 ? x : { ...x, layout: { ...x.layout, flat: axes } }
}

/** All parts of the line side by side. Those of some axes only are no part of a coarser cut: each cut rounds up. */
function gatheredLine(x: Type, axes: readonly Axis[]): Type | undefined {
  if (flatAxes(x.layout).join() !== axes.join()) return undefined
  const { flat: _, ...layout } = x.layout
  return { ...x, layout }
}

const uneven = (axes: readonly Axis[]) => clause('.not-flat-over', { axes: axes.join() })

/** A dim grown or cut, with its new split. */
function resized(type: Type, { dim, by, split }: { dim: string; by: number; split: readonly Axis[] }): Type {
  const dims = type.dims.map(d => (d.name === dim ? { name: dim, size: d.size * by } : d))
  return { ...type, dims, layout: { ...type.layout, splits: { ...type.layout.splits, [dim]: split } } }
}

const without = (partial: Partial, axes: readonly Axis[]): Partial =>
  Object.fromEntries(Object.entries(partial).filter(([axis]) => !axes.some(name => name === axis)))

/** What is loaded lies as the program says of the input. */
export function loaded({ inputs, mesh }: Program, { input }: InstrOf<'load'>, claimed: Type): Type {
  const found = inputs.find(({ name }) => name === input)
  if (!found) return claimed
  const layout = plain(mesh, found.layout)
  const dims = found.dims.map(({ name, size }) => ({ name, size: size / sizeOfAll(mesh, splitOf(layout, name)) }))
  return { dtype: found.dtype, dims, layout }
}
