/**
 * Flights of codes. A parameter is coded part by part and gathered. Of a gradient every rank codes its addend: the codes of a part go to the
 * rank that owns it, which adds up what they stand for in f32; where every rank needs the whole sum, it is coded once more and gathered.
 */
import {
  type Axis,
  baseOf,
  type Coding,
  codedSizes,
  elementsOf,
  flatAxes,
  type Layout,
  localDims,
  roundUp,
  sizeOfAll,
  splitOf,
  wireOf,
} from '../base/index.js'
import type { Plan } from '../plan/index.js'
import type { CompiledParam, Dealt, ParamLayouts } from './compiled.js'
import { type FlightWriter, slotOf, summed, whole } from './flight-writer.js'
import type { ShardedMesh } from './layouts.js'
import type { SegmentWriter, Slot, Tensor, Version } from './segment.js'

/** Codes and units as they lie in one frame: of a part, of all parts, or of the addends of all ranks. */
export interface Coded {
  readonly codes: Version
  readonly units: Version
}

/** Each as a tensor of lines, with what else there is of it. */
export interface CodedTensors {
  readonly codes: Tensor
  readonly units: Tensor
  /** The axes that split the dims of what is coded. */
  readonly split: readonly Axis[]
}

export function codedTensors(
  { mesh }: ShardedMesh,
  { name, dims }: Tensor,
  layout: Layout,
  coding: Coding,
  addends = 0,
): CodedTensors {
  const split = dims.flatMap(dim => [...splitOf(layout, dim.name)])
  const { codes, allUnits } = codedSizes(elementsOf(localDims(mesh, dims, layout)), coding)
  const ways = sizeOfAll(mesh, split)
  const along = addends > 0 ? [{ name: 'addend', size: addends }] : []
  return {
    codes: { name: `${name}.codes`, dtype: 'i8', dims: [...along, { name: 'line', size: ways * codes }] },
    units: { name: `${name}.units`, dtype: 'f32', dims: [...along, { name: 'unit', size: ways * allUnits }] },
    split,
  }
}

/** Codes, and behind them their units. */
function codedAt(
  w: SegmentWriter,
  { codes, units }: CodedTensors,
  slot: Slot,
  layoutOf: (dim: string) => Layout,
): Coded {
  const lines = w.given(codes.name, codes, layoutOf('line'), slot)
  const offset = slot.offset + roundUp(w.bytesOf(lines.ref), 64)
  return { codes: lines, units: w.given(units.name, units, layoutOf('unit'), { ...slot, offset }) }
}

export const refsOf = ({ codes, units }: Coded) => [codes.ref, units.ref]

/** A parameter in codes: of its part, gathered, and back to numbers. One rank that plays several codes what they would. */
export function gatherCodes(
  w: FlightWriter,
  tensor: Tensor,
  layouts: ParamLayouts,
  { run }: Pick<Coding, 'run'>,
): void {
  const { name: of } = tensor
  const { compute, storage, played } = layouts
  const [flat, cut] = [flatAxes(storage), { run, parts: partsOf(w.s, storage), ...played }]
  const tensors = codedTensors(w.s, tensor, compute, cut)
  const { split } = tensors
  const gathered = (dim: string): Layout => ({ splits: { [dim]: split }, partial: {} })
  const layoutOf = (dim: string): Layout => ({ ...gathered(dim), ...(flat.length > 0 && { flat }) })
  const packed = codedAt(w.packs, tensors, slotOf('wire', of), layoutOf)
  const kept = w.packs.given(of, tensor, storage.flat ? storage : compute, slotOf('param', of))
  w.packs.emit({ kind: 'pack', ...(storage.flat ? { run, parts: 1 } : cut), ins: [kept.ref], outs: refsOf(packed) })
  if (storage.flat) {
    const [from, to] = [
      codedAt(w.moves, tensors, slotOf('wire', of), layoutOf),
      codedAt(w.moves, tensors, slotOf('arrived', of), gathered),
    ]
    for (const each of ['codes', 'units'] as const)
      w.travels({ kind: 'all-gather' }, flat, tensors[each], from[each], to[each])
  }
  const arrived = codedAt(w.unpacks, tensors, slotOf(storage.flat ? 'arrived' : 'wire', of), gathered)
  const full = w.unpacks.given(of, whole(tensor), compute, slotOf('full', of))
  w.unpacks.emit({ kind: 'unpack', ...cut, ins: refsOf(arrived), outs: [full.ref] })
}

const partsOf = ({ mesh }: ShardedMesh, layout: Layout): number => sizeOfAll(mesh, flatAxes(layout))

/**
 * Whether ranks send codes of this gradient: where its addends are those of the ranks that own its parts. What other axes add to, and what
 * several stages hold, is small or summed twice, and is sent as it is.
 */
export function sendsCodes({ compress, tp, ep, etp }: Plan, param: CompiledParam): boolean {
  const { spec, gradientDtype, layouts, holders, segments } = param
  if (compress?.reduce !== 'int8' || wireOf(gradientDtype, 'int8') === undefined) return false
  if (layouts.dealt !== undefined) return true
  const [reduction, flat] = [segments.gradient?.reduction, flatAxes(layouts.storage)]
  if (!reduction || !('axes' in reduction) || holders.length > 1) return false
  // Of experts ranks of tp may have copies too, each with a part of the tokens; and with ep, or an etp beyond tp, those of several ranks meet before.
  const isShared = (ep > 1 || tp % etp > 0) && spec.dims.some(({ name }) => name === 'expert')
  const ofWholeSequences = flat.length > 0 && flat.every(axis => baseOf(axis) === 'dp') && !isShared
  const replicated = reduction.kind === 'scatter' && reduction.replicas.length > 0
  return ofWholeSequences && !replicated && [...reduction.axes].sort().join() === [...flat].sort().join()
}

export interface CodedSum {
  readonly layouts: ParamLayouts
  /** The layout of the addends. */
  readonly produced: Layout
  /** Where the sum belongs. */
  readonly slot: Slot
  /** Every rank needs all of it. */
  readonly again: boolean
  readonly run: number
}

/** A gradient in codes: every rank's addend, to the owners of its parts, and what they stand for added up. */
export function reduceCodes(w: FlightWriter, tensor: Tensor, sum: CodedSum): void {
  if (sum.layouts.dealt === undefined) reduceParts(w, tensor, sum)
  else reducePlayed(w, tensor, sum, sum.layouts.dealt)
}

/** One rank has the addends of all those that it plays. */
function reducePlayed(
  w: FlightWriter,
  tensor: Tensor,
  { layouts, produced, slot, again, run }: CodedSum,
  { addends: dealt }: Dealt,
) {
  const { name: of } = tensor
  const cut = { run, ...layouts.played! } // who deals plays
  const tensors = codedTensors(w.s, tensor, produced, cut, dealt)
  const addends = Array.from({ length: dealt }, (_, rank) =>
    w.packs.given(of, tensor, produced, { role: { is: 'addend', of, rank }, kind: 'gradients', offset: 0 }),
  )
  const packed = codedAt(w.packs, tensors, slotOf('wire', of), plainly)
  w.packs.emit({ kind: 'pack', ...cut, ins: addends.map(({ ref }) => ref), outs: refsOf(packed) })
  let codes = codedAt(w.unpacks, tensors, slotOf('wire', of), plainly)
  if (again) {
    const part = w.unpacks.make(of, partOf(tensor), produced, 'workspace')
    w.unpacks.emit({ kind: 'unpack', ...cut, ins: refsOf(codes), outs: [part.ref] })
    codes = scratchCodes(w.unpacks, codedTensors(w.s, partOf(tensor), produced, cut), plainly)
    w.unpacks.emit({ kind: 'pack', ...cut, ins: [part.ref], outs: refsOf(codes) })
  }
  const total = summed(w.unpacks, tensor, produced, slot)
  w.unpacks.emit({ kind: 'unpack', ...cut, ins: refsOf(codes), outs: [total.ref] })
}

const plainly = (): Layout => ({ splits: {}, partial: {} })

/** The sum as its owner has it before it is coded again. */
const partOf = (tensor: Tensor): Tensor => ({ ...tensor, name: `${tensor.name}.part`, dtype: 'f32' })

export function scratchCodes(
  w: SegmentWriter,
  { codes, units }: CodedTensors,
  layoutOf: (dim: string) => Layout,
): Coded {
  const make = (tensor: Tensor, dim: string) => w.make(tensor.name, tensor, layoutOf(dim), 'workspace')
  return { codes: make(codes, 'line'), units: make(units, 'unit') }
}

function reduceParts(w: FlightWriter, tensor: Tensor, { layouts, produced, slot, again, run }: CodedSum): void {
  const { name: of } = tensor
  const { storage } = layouts
  const [flat, cut] = [flatAxes(storage), { run, parts: partsOf(w.s, storage) }]
  const tensors = codedTensors(w.s, tensor, produced, cut, cut.parts)
  const { split } = tensors
  const leaving = (dim: string): Layout => ({ splits: { addend: flat, [dim]: split }, partial: {} })
  const owned = (dim: string): Layout => ({ splits: { [dim]: [...split, ...flat] }, partial: {} })
  const packed = codedAt(w.packs, tensors, slotOf('wire', of), leaving)
  w.packs.emit({ kind: 'pack', ...cut, ins: [w.packs.given(of, tensor, produced, slot).ref], outs: refsOf(packed) })
  const [from, to] = [
    codedAt(w.moves, tensors, slotOf('wire', of), leaving),
    codedAt(w.moves, tensors, slotOf('arrived', of), owned),
  ]
  for (const [each, dim] of [
    ['codes', 'line'],
    ['units', 'unit'],
  ] as const)
    w.travels({ kind: 'all-to-all', from: 'addend', to: dim }, flat, tensors[each], from[each], to[each])
  const arrived = codedAt(w.unpacks, tensors, slotOf('arrived', of), owned)
  const part = again
    ? w.unpacks.make(of, partOf(tensor), storage, 'workspace')
    : summed(w.unpacks, tensor, storage, slot)
  w.unpacks.emit({ kind: 'unpack', run, parts: 1, ins: refsOf(arrived), outs: [part.ref] })
  if (again) gatherSum(w, tensor, part, { layouts, produced, slot, run })
}

/** The sum, coded again by the owners of its parts, to every rank. */
function gatherSum(
  w: FlightWriter,
  tensor: Tensor,
  part: Version,
  { layouts, produced, slot, run }: Omit<CodedSum, 'again'>,
) {
  const { storage } = layouts
  const [flat, cut] = [flatAxes(storage), { run, parts: partsOf(w.s, storage) }]
  const tensors = codedTensors(w.s, partOf(tensor), produced, cut)
  const whole = (dim: string): Layout => ({ splits: { [dim]: tensors.split }, partial: {} })
  const own = scratchCodes(w.unpacks, tensors, dim => ({ ...whole(dim), flat }))
  const all = scratchCodes(w.unpacks, tensors, whole)
  w.unpacks.emit({ kind: 'pack', run, parts: 1, ins: [part.ref], outs: refsOf(own) })
  for (const each of ['codes', 'units'] as const)
    w.returns({ kind: 'all-gather' }, flat, tensors[each], own[each], all[each])
  const total = summed(w.unpacks, tensor, { ...produced, partial: {} }, slot)
  w.last({ kind: 'unpack', ...cut, ins: refsOf(all), outs: [total.ref] })
}
