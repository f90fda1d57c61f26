/**
 * Top-k with error feedback (Aji and Heafield 2017): of every data rank's gradient, with the error of the step before, the numbers that are greatest
 * travel with their places, and all that arrive are added up where they belong. What a rank does not send it keeps. How a rank cuts its numbers
 * decides which are kept: one rank that plays others has the addends of all, and keeps of each what that rank would.
 */
import {
  type Axis,
  baseOf,
  type Dim,
  elementsOf,
  keptSizes,
  type Layout,
  partialAxes,
  type States,
  sizeOfAll,
} from '../base/index.js'
import type { StateTensor } from '../ir/index.js'
import type { ParamSpec } from '../model/index.js'
import type { ShardedMesh } from './layouts.js'
import type { SegmentWriter, Slot, Tensor, Version } from './segment.js'

/** The ranks that one rank plays: how many there are, and how they split the dims of a parameter. */
export interface PlayedRanks {
  readonly addends: number
  readonly blocks: readonly number[]
}

/** The axes whose ranks have addends; what others add is added up before. */
export const addendAxes = (produced: Layout): Axis[] => partialAxes(produced).filter(axis => baseOf(axis) === 'dp')

/** The layout of one rank's addend. */
export const addendLayout = (produced: Layout): Layout => ({
  ...produced,
  partial: Object.fromEntries(addendAxes(produced).map(axis => [axis, 'sum'])),
})

export const besides = (dims: readonly Dim[], played: PlayedRanks | undefined): readonly Dim[] =>
  played ? [{ name: 'addend', size: played.addends }, ...dims] : dims

/** What is kept of a parameter: the error as addends of the ranks, or side by side on one that plays them. */
export const errorState = ({ dims }: ParamSpec, produced: Layout, played?: PlayedRanks): States<StateTensor> => ({
  error: { dtype: 'f32', dims: besides(dims, played), layout: addendLayout(produced) },
})

export interface Sparing {
  readonly w: SegmentWriter
  readonly s: ShardedMesh
  readonly spec: ParamSpec
  readonly ratio: number
  /** The layout of the gradient's addends. */
  readonly produced: Layout
  readonly played: PlayedRanks | undefined
  /** The gradient of this rank, or of all that it plays side by side; where that of all goes; where the error lies, and what it becomes. */
  readonly gradient: Version
  readonly sum: Slot
  readonly errorSlot: (is: 'state' | 'next') => Slot
}

/** Writes what brings a gradient to its sum, and leaves what the error becomes. */
export function sendGreatest({ w, s, spec, ratio, produced, played, gradient, sum, errorSlot }: Sparing): void {
  const [lies, axes] = [addendLayout(produced), addendAxes(produced)]
  const all = besides(spec.dims, played)
  const tensor = (name: string, dims: readonly Dim[]): Tensor => ({ name, dtype: 'f32', dims })
  const error = w.given('error', tensor('error', all), lies, errorSlot('state'))
  const rest = w.given('rest', tensor('rest', all), lies, errorSlot('next'))
  w.emit({ kind: 'add', ins: [gradient.ref, error.ref], outs: [rest.ref] })
  const how = { ratio, ...(played && { blocks: played.blocks }) }
  const split = spec.dims.flatMap(({ name }) => lies.splits[name] ?? [])
  const ways = sizeOfAll(s.mesh, split)
  const { lines, kept } = keptSizes(elementsOf(spec.dims) / ways, how)
  const dims = [
    { name: 'addend', size: played?.addends ?? sizeOfAll(s.mesh, axes) },
    { name: 'kept', size: ways * lines * kept },
  ]
  const everybodys: Layout = { splits: { kept: split }, partial: {} }
  const own: Layout = { splits: { ...everybodys.splits, addend: axes }, partial: {} }
  const values = w.make('values', tensor('values', dims), own, 'workspace')
  const places = w.make('places', { name: 'places', dtype: 'i32', dims }, own, 'workspace')
  w.emit({ kind: 'greatest', ...how, ins: [rest.ref], outs: [values.ref, places.ref] })
  const sent = w.make('sent', tensor('sent', all), lies, 'workspace')
  w.emit({ kind: 'scatter', ...how, ins: [values.ref, places.ref], outs: [sent.ref] })
  w.emit({ kind: 'deduct', ins: [sent.ref], outs: [rest.ref] })
  const arrived = ['values', 'places'].map(name => w.demand(name, everybodys).ref)
  const made = w.given('sum', tensor('sum', spec.dims), { ...lies, partial: {} }, sum)
  w.emit({ kind: 'scatter', ...how, ins: arrived, outs: [made.ref] })
}
