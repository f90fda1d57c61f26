/**
 * The segments of a flight. Where a plan compresses, what travels is narrower than what is computed with: it is packed into
 * frames of its own before the flight starts and unpacked when it has ended; sums are sums of what was packed.
 */
import { type Axis, flatAxes, type Layout, layoutKey, wireOf } from '../base/index.js'
import type { Kind, Phase, RoleName } from '../ir/index.js'
import type { CompiledParam, Sharding } from './compiled.js'
import { type SegmentDraft, SegmentWriter, type Slot, type Tensor, type Version } from './segment.js'

/** What moves, what packs and unpacks it where it travels in another form, and for gradients of one call what adds them up. */
export interface FlightSegments {
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
  readonly packs: SegmentWriter
  readonly moves: SegmentWriter
  readonly unpacks: SegmentWriter
  readonly #together = new Map<string, Together>()

  constructor({ s }: Sharding) {
    this.packs = new SegmentWriter(s)
    this.moves = new SegmentWriter(s)
    this.unpacks = new SegmentWriter(s)
  }

  /** One more pair of a collective: pairs of one kind, dtype and axes travel together. */
  travels(kind: Together['kind'], axes: readonly Axis[], { dtype }: Tensor, from: Version, to: Version): void {
    const key = `${kind} ${dtype} ${layoutKey({ splits: { all: axes }, partial: {} })}`
    const group = this.#together.get(key) ?? { kind, axes, ins: [], outs: [] }
    group.ins.push(from.ref)
    group.outs.push(to.ref)
    this.#together.set(key, group)
  }

  drafts(name: string, phase: Phase): FlightSegments {
    for (const { kind, axes, ins, outs } of this.#together.values()) {
      const pairs = { ins, outs, group: { axes } }
      this.moves.emit(kind === 'all-reduce' ? { kind, ...pairs, combine: 'sum' } : { kind, ...pairs })
    }
    const [packs, unpacks] = [this.packs.draft(`pack ${name}`, phase), this.unpacks.draft(`unpack ${name}`, phase)]
    const moves = this.moves.draft(name, phase)
    return packs.instrs.length === 0 ? { moves } : { packs, moves, unpacks }
  }
}

interface Together {
  readonly kind: 'all-gather' | 'reduce-scatter' | 'all-reduce'
  readonly axes: readonly Axis[]
  readonly ins: string[]
  readonly outs: string[]
}

/** The same in another dtype. */
const cast = (w: SegmentWriter, from: Version, to: Version) =>
  w.emit({ kind: 'scale', by: 1, ins: [from.ref], outs: [to.ref] })

/** Parameters whose parts are of the same ranks travel together. */
export function draftGather(sharding: Sharding, params: readonly CompiledParam[], name: string): FlightSegments {
  const w = new FlightWriter(sharding)
  for (const [i, of] of namesIn(params).entries()) {
    const { spec, dtype, layouts, segments } = params[i]
    const { layout, inside } = segments.kept
    const tensor: Tensor = { ...spec, name: of, dtype }
    const slot = slotOf('param', of)
    // Inside the whole a part would be overwritten by what is left of it.
    const wire = inside ? undefined : wireOf(dtype, sharding.plan.compress?.gather)
    const full = inside ? slot : slotOf('full', of)
    const sent = wire ? { ...tensor, dtype: wire } : tensor
    const part = wire
      ? w.moves.given(of, sent, layout, slotOf('wire', of))
      : w.moves.held(of, tensor, segments.kept, slot)
    const to = w.moves.given(of, whole(sent), layouts.compute, wire ? slotOf('arrived', of) : full)
    w.moves.makeRoom(to.ref, layout)
    w.travels('all-gather', flatAxes(layout), sent, part, to)
    if (!wire) continue
    const packed = w.packs.given(of, { ...sent, name: `${of}.wire` }, layout, slotOf('wire', of))
    cast(w.packs, w.packs.held(of, tensor, segments.kept, slot), packed)
    const arrived = w.unpacks.given(of, { ...sent, name: `${of}.wire` }, layouts.compute, slotOf('arrived', of))
    cast(w.unpacks, arrived, w.unpacks.given(of, whole(tensor), layouts.compute, full))
  }
  return w.drafts(name, 'gather')
}

const whole = (tensor: Tensor): Tensor => ({ ...tensor, name: `${tensor.name}.whole` })

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
    const sent = wire ? { ...tensor, dtype: wire } : tensor
    const scatters = reduction.kind === 'scatter'
    const into = scatters ? layouts.storage : { ...produced, partial: {} }
    const from = w.moves.given(of, sent, produced, wire ? slotOf('wire', of) : slot)
    if (scatters) w.moves.makeRoom(from.ref, layouts.storage)
    const to = summed(w.moves, sent, into, wire ? slotOf('wire', of) : slot)
    w.travels(scatters ? 'reduce-scatter' : 'all-reduce', reduction.axes, sent, from, to)
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
