/**
 * The segments of a flight. Where a plan compresses, what travels is narrower than what is computed with: it is packed into
 * frames of its own before the flight starts and unpacked when it has ended; sums are sums of what was packed.
 */
import {
  type Axis,
  type Coding,
  codedSizes,
  elementsOf,
  flatAxes,
  type Layout,
  layoutKey,
  localDims,
  roundUp,
  sizeOfAll,
  splitOf,
  wireOf,
} from '../base/index.js'
import type { Holding, Kind, Phase, RoleName } from '../ir/index.js'
import type { Plan } from '../plan/index.js'
import type { CompiledParam, ParamLayouts, Sharding } from './compiled.js'
import type { ShardedMesh } from './layouts.js'
import { awaySlot, draftMoves, type Moved } from './offload.js'
import { type SegmentDraft, SegmentWriter, type Slot, type Tensor, type Version } from './segment.js'

/**
 * What moves, what packs and unpacks it where it travels in another form, and for gradients of one call what adds them up. What lives on
 * the host is lifted first: to the part that is gathered, or to where it is read if nobody holds another part.
 */
export interface FlightSegments {
  readonly lifts?: SegmentDraft
  readonly packs?: SegmentDraft
  readonly moves: SegmentDraft
  readonly unpacks?: SegmentDraft
  readonly adds?: SegmentDraft
}

/** The name each parameter of a flight has in its segment: that of its class, told apart where blocks are alike. */
export function namesIn(params: readonly CompiledParam[]): string[] {
  const times = new Map<string, number>()
  return params.map(({ of }) => {
    const n = times.get(of) ?? 0
    times.set(of, n + 1)
    return n === 0 ? of : `${of}.${n}`
  })
}

const slotOf = (is: keyof typeof kindOf, of: string): Slot => ({ role: { is, of }, kind: kindOf[is], offset: 0 })

const kindOf = {
  param: 'parameters',
  full: 'parameters',
  grad: 'gradients',
  fresh: 'gradients',
  wire: 'workspace',
  arrived: 'workspace',
} as const satisfies Readonly<Partial<Record<RoleName['is'], Kind>>>

/** Writes the segments of one flight beside each other. */
class FlightWriter {
  readonly s: ShardedMesh
  readonly packs: SegmentWriter
  readonly moves: SegmentWriter
  readonly unpacks: SegmentWriter
  readonly #lifted: Moved[] = []
  readonly #together = new Map<string, Together>()

  constructor({ s }: Sharding) {
    this.s = s
    this.packs = new SegmentWriter(s)
    this.moves = new SegmentWriter(s)
    this.unpacks = new SegmentWriter(s)
  }

  /** One more pair of a collective: pairs of one kind, dtype and axes travel together. */
  travels(how: Together['how'], axes: readonly Axis[], { dtype }: Tensor, from: Version, to: Version): void {
    const key = `${JSON.stringify(how)} ${dtype} ${layoutKey({ splits: { all: axes }, partial: {} })}`
    const group = this.#together.get(key) ?? { how, axes, ins: [], outs: [] }
    group.ins.push(from.ref)
    group.outs.push(to.ref)
    this.#together.set(key, group)
  }

  /** From the host, where it lies by itself. */
  lifts(tensor: Tensor, { layout }: Holding, slot: Slot): void {
    const from = { layout, slot: awaySlot(tensor.name, 'parameters', 'host') }
    this.#lifted.push({ tensor, from, to: { layout, slot } })
  }

  drafts(name: string, phase: Phase): FlightSegments {
    for (const { how, axes, ins, outs } of this.#together.values())
      this.moves.emit({ ins, outs, group: { axes }, ...how })
    const [packs, unpacks] = [this.packs.draft(`pack ${name}`, phase), this.unpacks.draft(`unpack ${name}`, phase)]
    const moves = this.moves.draft(name, phase)
    const lifts = this.#lifted.length > 0 && { lifts: draftMoves(this.s, `lift ${name}`, this.#lifted) }
    return packs.instrs.length === 0 ? { ...lifts, moves } : { ...lifts, packs, moves, unpacks }
  }
}

interface Together {
  readonly how:
    | { readonly kind: 'all-gather' | 'reduce-scatter' }
    | { readonly kind: 'all-reduce'; readonly combine: 'sum' }
    | { readonly kind: 'all-to-all'; readonly from: string; readonly to: string }
  readonly axes: readonly Axis[]
  readonly ins: string[]
  readonly outs: string[]
}

/** The same in another dtype. */
const cast = (w: SegmentWriter, from: Version, to: Version) =>
  w.emit({ kind: 'scale', by: 1, ins: [from.ref], outs: [to.ref] })

/** Whether ranks hold parts of it, or one rank plays those that do, so that what is gathered is coded. */
export const travels = (
  { compress }: Pick<Plan, 'compress'>,
  { segments: { kept }, layouts: { played } }: CompiledParam,
): boolean => kept.layout.flat !== undefined || (played !== undefined && compress?.gather === 'int8')

/** Parameters whose parts are of the same ranks travel together. */
export function draftGather(sharding: Sharding, params: readonly CompiledParam[], name: string): FlightSegments {
  const w = new FlightWriter(sharding)
  const { compress } = sharding.plan
  for (const [i, of] of namesIn(params).entries()) {
    const { spec, dtype, layouts, segments } = params[i]
    const { kept, space } = segments
    const { layout, inside } = kept
    const tensor: Tensor = { ...spec, name: of, dtype }
    const slot = slotOf('param', of)
    const full = inside ? slot : slotOf('full', of)
    // Inside the whole a part would be overwritten by what is left of it.
    const wire = inside ? undefined : wireOf(dtype, compress?.gather)
    const isSent = travels(sharding.plan, params[i])
    if (space) w.lifts(tensor, kept, isSent ? slot : full)
    if (!isSent) continue
    if (wire === 'int8') {
      gatherCodes(w, tensor, layouts, { run: compress!.run })
      continue
    }
    const sent = wire ? { ...tensor, dtype: wire } : tensor
    const part = wire
      ? w.moves.given(of, sent, layout, slotOf('wire', of))
      : w.moves.held(of, tensor, segments.kept, slot)
    const to = w.moves.given(of, whole(sent), layouts.compute, wire ? slotOf('arrived', of) : full)
    w.moves.makeRoom(to.ref, layout)
    w.travels({ kind: 'all-gather' }, flatAxes(layout), sent, part, to)
    if (!wire) continue
    const packed = w.packs.given(of, { ...sent, name: `${of}.wire` }, layout, slotOf('wire', of))
    cast(w.packs, w.packs.held(of, tensor, segments.kept, slot), packed)
    const arrived = w.unpacks.given(of, { ...sent, name: `${of}.wire` }, layouts.compute, slotOf('arrived', of))
    cast(w.unpacks, arrived, w.unpacks.given(of, whole(tensor), layouts.compute, full))
  }
  return w.drafts(name, 'gather')
}

const whole = (tensor: Tensor): Tensor => ({ ...tensor, name: `${tensor.name}.whole` })

/** Codes and units as they lie in one frame: of a part, of all parts, or of the addends of all ranks. */
interface Coded {
  readonly codes: Version
  readonly units: Version
}

/** Each as a tensor of lines, with what else there is of it. */
interface CodedTensors {
  readonly codes: Tensor
  readonly units: Tensor
  /** The axes that split the dims of what is coded. */
  readonly split: readonly Axis[]
}

function codedTensors({ mesh }: ShardedMesh, { name, dims }: Tensor, layout: Layout, coding: Coding): CodedTensors {
  const split = dims.flatMap(dim => [...splitOf(layout, dim.name)])
  const { codes, allUnits } = codedSizes(elementsOf(localDims(mesh, dims, layout)), coding)
  const ways = sizeOfAll(mesh, split)
  return {
    codes: { name: `${name}.codes`, dtype: 'i8', dims: [{ name: 'line', size: ways * codes }] },
    units: { name: `${name}.units`, dtype: 'f32', dims: [{ name: 'unit', size: ways * allUnits }] },
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

const refsOf = ({ codes, units }: Coded) => [codes.ref, units.ref]

/** A parameter in codes: of its part, gathered, and back to numbers. One rank that plays several codes what they would. */
function gatherCodes(w: FlightWriter, tensor: Tensor, layouts: ParamLayouts, { run }: Pick<Coding, 'run'>): void {
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

/** Gradients that are scattered, and those that are summed, each over the same axes, travel together. */
export function draftReduce(
  sharding: Sharding,
  params: readonly CompiledParam[],
  is: 'grad' | 'fresh',
  name: string,
): FlightSegments {
  const w = new FlightWriter(sharding)
  for (const [i, of] of namesIn(params).entries()) {
    const { spec, gradientDtype, layouts, segments } = params[i]
    const { produced, reduction } = segments.gradient!
    if (!('axes' in reduction)) throw new Error(`internal: ${of} does not fly`)
    const tensor: Tensor = { ...spec, name: of, dtype: gradientDtype }
    const [slot, wire] = [slotOf(is, of), wireOf(gradientDtype, sharding.plan.compress?.reduce)]
    const sent = wire && wire !== 'int8' ? { ...tensor, dtype: wire } : tensor
    const scatters = reduction.kind === 'scatter'
    const into = scatters ? layouts.storage : { ...produced, partial: {} }
    const from = w.moves.given(of, sent, produced, wire ? slotOf('wire', of) : slot)
    if (scatters) w.moves.makeRoom(from.ref, layouts.storage)
    const to = summed(w.moves, sent, into, wire ? slotOf('wire', of) : slot)
    w.travels(
      scatters ? { kind: 'reduce-scatter' } : { kind: 'all-reduce', combine: 'sum' },
      reduction.axes,
      sent,
      from,
      to,
    )
    if (!wire) continue
    const packed = w.packs.given(of, { ...sent, name: `${of}.wire` }, produced, slotOf('wire', of))
    cast(w.packs, w.packs.given(of, tensor, produced, slot), packed)
    const arrived = summed(w.unpacks, { ...sent, name: `${of}.wire` }, into, slotOf('wire', of))
    cast(w.unpacks, arrived, summed(w.unpacks, tensor, into, slot))
  }
  return w.drafts(name, 'reduce')
}

/** The sum where its addend lay: the rank's own part of it, or all of it. */
const summed = (w: SegmentWriter, tensor: Tensor, layout: Layout, slot: Slot): Version => {
  const sum = { ...tensor, name: `${tensor.name}.sum` }
  return layout.flat ? w.own(tensor.name, sum, layout, slot) : w.given(tensor.name, sum, layout, slot)
}

/** The rank's own part of what arrived, added to the sums of the step. */
export function draftAdd({ s }: Sharding, params: readonly CompiledParam[], name: string): SegmentDraft {
  const w = new SegmentWriter(s)
  for (const [i, of] of namesIn(params).entries()) {
    const { spec, gradientDtype, layouts, segments } = params[i]
    const { produced, reduction } = segments.gradient!
    const tensor: Tensor = { ...spec, name: of, dtype: gradientDtype }
    const slot = slotOf('fresh', of)
    if (reduction.kind === 'scatter') w.own(of, tensor, layouts.storage, slot)
    else w.given(of, tensor, { ...produced, partial: {} }, slot)
    const part = w.demand(of, layouts.storage)
    const total = w.given(of, { ...tensor, name: `${of}.total` }, layouts.storage, slotOf('grad', of))
    w.emit({ kind: 'accumulate', ins: [part.ref], outs: [total.ref] })
  }
  return w.draft(name, 'add')
}
