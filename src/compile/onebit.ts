/**
 * 1-bit Adam (Tang et al. 2021): once v stands still, each data rank makes its addend of the mean m from its own gradient, adds the error of the step before,
 * and sends the signs, with one number for all of them. The owner of a part adds up what arrives, adds its own error, and sends signs again: that
 * is the m of all. Every rank remembers what its signs did not say, every owner what those of the sum did not.
 */
import { type Coding, codedSizes, elementsOf, type Layout, localDims, type States, sizeOfAll } from '../base/index.js'
import type { DType, StateTensor } from '../ir/index.js'
import type { ParamSpec } from '../model/index.js'
import { type Coded, type CodedTensors, codedTensors, refsOf, scratchCodes } from './flight-codes.js'
import type { ShardedMesh } from './layouts.js'
import type { SegmentWriter, Slot, Tensor, Version } from './segment.js'
import { addendAxes, addendLayout, besides, errorState, type PlayedRanks } from './topk.js'

/** The parts of a sum that data ranks own; one rank has all of it. */
const ownedLayout = (produced: Layout): Layout => {
  const flat = addendAxes(produced)
  return { ...produced, partial: {}, ...(flat.length > 0 && { flat }) }
}

/** What is kept of a parameter: the error of every addend, and that of the sum. */
export const signStates = (spec: ParamSpec, produced: Layout, played?: PlayedRanks): States<StateTensor> => ({
  ...errorState(spec, produced, played),
  sumError: { dtype: 'f32', dims: spec.dims, layout: ownedLayout(produced) },
})

export interface Signing {
  readonly w: SegmentWriter
  readonly s: ShardedMesh
  readonly spec: ParamSpec
  readonly beta1: number
  /** The layout of the gradient's addends. */
  readonly produced: Layout
  readonly played: PlayedRanks | undefined
  /** How m lies. */
  readonly mean: { readonly dtype: DType; readonly layout: Layout }
  /** The gradient of this rank, or of all that it plays side by side; where m goes; where states lie, and what they become. */
  readonly gradient: Version
  readonly sum: Slot
  readonly stateSlot: (state: 'm' | 'error' | 'sumError', is: 'state' | 'next') => Slot
}

/** Writes what brings addends of the mean to their sum, and leaves what the errors become. */
export function sendSigns(site: Signing): void {
  const { w, s, spec, beta1, produced, played, mean, gradient, stateSlot } = site
  const [lies, axes] = [addendLayout(produced), addendAxes(produced)]
  const ranks = played?.addends ?? sizeOfAll(s.mesh, axes)
  const elements = elementsOf(localDims(s.mesh, spec.dims, lies))
  const cut = { parts: ranks, ...(played && { blocks: played.blocks }) }
  const { part } = codedSizes(elements, { run: 1, ...cut })
  const coding: Coding = { ...cut, run: part }
  const tensor = (name: string, addends = false): Tensor => ({
    ...{ name, dtype: 'f32', dims: addends ? besides(spec.dims, played) : spec.dims },
  })
  w.given('m', { name: 'm', dtype: mean.dtype, dims: spec.dims }, mean.layout, stateSlot('m', 'state'))
  w.emit({ kind: 'blend', beta1, ranks, ins: [w.demand('m', { ...lies, partial: {} }).ref], outs: [gradient.ref] })
  const error = w.given('error', tensor('error', true), lies, stateSlot('error', 'state'))
  const rest = w.given('rest', tensor('rest', true), lies, stateSlot('error', 'next'))
  w.emit({ kind: 'add', ins: [gradient.ref, error.ref], outs: [rest.ref] })
  const tensors = codedTensors(s, tensor('x'), lies, { ...coding, signs: 'line' }, ranks)
  const leaving = (dim: string): Layout => ({ splits: { addend: axes, [dim]: tensors.split }, partial: {} })
  const own = scratchCodes(w, tensors, leaving)
  w.emit({ kind: 'pack', ...coding, signs: 'line', ins: [rest.ref], outs: refsOf(own) })
  const sent = w.make('sent', tensor('sent', true), lies, 'workspace')
  w.emit({ kind: 'unpack', ...coding, signs: 'line', ins: refsOf(own), outs: [sent.ref] })
  w.emit({ kind: 'deduct', ins: [sent.ref], outs: [rest.ref] })
  const arrived = axes.length > 0 ? exchanged(site, tensors, own) : own
  const owned = w.make('owned', tensor('owned'), ownedLayout(produced), 'workspace')
  const ofPart: Coding = axes.length > 0 ? { run: part, parts: 1 } : coding
  w.emit({ kind: 'unpack', ...ofPart, signs: 'line', ins: refsOf(arrived), outs: [owned.ref] })
  sendBack(site, owned, coding, ofPart)
}

/** The codes of every addend, to the owners of their parts. */
function exchanged({ w, produced }: Signing, tensors: CodedTensors, own: Coded): Coded {
  const axes = addendAxes(produced)
  const owned = (dim: string): Layout => ({ splits: { [dim]: [...tensors.split, ...axes] }, partial: {} })
  const arrived = scratchCodes(w, tensors, owned)
  for (const [each, to] of [
    ['codes', 'line'],
    ['units', 'unit'],
  ] as const) {
    const pair = { ins: [own[each].ref], outs: [arrived[each].ref] }
    w.emit({ kind: 'all-to-all', from: 'addend', to, group: { axes }, ...pair })
    w.emit({ kind: 'wait', on: arrived[each].ref })
  }
  return arrived
}

/** The signs of the sum, from its owners to every rank. */
function sendBack(site: Signing, owned: Version, coding: Coding, ofPart: Coding): void {
  const { w, s, spec, produced, sum, stateSlot } = site
  const [lies, axes] = [ownedLayout(produced), addendAxes(produced)]
  const whole: Layout = { ...produced, partial: {} }
  const tensor = (name: string): Tensor => ({ name, dtype: 'f32', dims: spec.dims })
  const error = w.given('sumError', tensor('sumError'), lies, stateSlot('sumError', 'state'))
  const rest = w.given('sumRest', tensor('sumRest'), lies, stateSlot('sumError', 'next'))
  w.emit({ kind: 'add', ins: [owned.ref, error.ref], outs: [rest.ref] })
  const tensors = codedTensors(s, tensor('total'), whole, { ...coding, signs: 'part' })
  const layoutOf = (dim: string): Layout => ({ splits: { [dim]: tensors.split }, partial: {} })
  const own = scratchCodes(w, tensors, dim => ({ ...layoutOf(dim), ...(axes.length > 0 && { flat: axes }) }))
  w.emit({ kind: 'pack', ...ofPart, signs: 'part', ins: [rest.ref], outs: refsOf(own) })
  const made = w.given('sum', tensor('sum'), whole, sum)
  if (axes.length === 0) {
    w.emit({ kind: 'unpack', ...coding, signs: 'part', ins: refsOf(own), outs: [made.ref] })
    return void w.emit({ kind: 'deduct', ins: [made.ref], outs: [rest.ref] })
  }
  const back = w.make('back', tensor('back'), lies, 'workspace')
  w.emit({ kind: 'unpack', ...ofPart, signs: 'part', ins: refsOf(own), outs: [back.ref] })
  w.emit({ kind: 'deduct', ins: [back.ref], outs: [rest.ref] })
  const all = scratchCodes(w, tensors, layoutOf)
  w.emit({ kind: 'all-gather', group: { axes }, ins: refsOf(own), outs: refsOf(all) })
  w.emit({ kind: 'wait', on: refsOf(all)[0] })
  w.emit({ kind: 'unpack', ...coding, signs: 'part', ins: refsOf(all), outs: [made.ref] })
}
