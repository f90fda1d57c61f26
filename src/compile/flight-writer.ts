/** Writes the segments of one flight: what packs, what moves and what unpacks. */
import { type Axis, type Elsewhere, type Layout, layoutKey } from '../base/index.js'
import type { DType, Holding, Instr, Kind, Phase, RoleName } from '../ir/index.js'
import type { Sharding } from './compiled.js'
import type { ShardedMesh } from './layouts.js'
import { awaySlot, draftMoves, type Moved } from './offload.js'
import { type SegmentDraft, SegmentWriter, type Slot, type Tensor, type Version } from './segment.js'

/**
 * What moves, what packs and unpacks it where it travels in another form, and for gradients of one call what adds them up. What lives
 * elsewhere is lifted first: to the part that is gathered, or to where it is read if nobody holds another part.
 */
export interface FlightSegments {
  readonly lifts?: SegmentDraft
  readonly packs?: SegmentDraft
  readonly moves: SegmentDraft
  readonly unpacks?: SegmentDraft
  readonly adds?: SegmentDraft
}

export const slotOf = (is: keyof typeof kindOf, of: string): Slot => ({ role: { is, of }, kind: kindOf[is], offset: 0 })

const kindOf = {
  param: 'parameters',
  full: 'parameters',
  grad: 'gradients',
  fresh: 'gradients',
  wire: 'workspace',
  arrived: 'workspace',
} as const satisfies Readonly<Partial<Record<RoleName['is'], Kind>>>

/** Writes the segments of one flight beside each other. */
export class FlightWriter {
  readonly s: ShardedMesh
  readonly packs: SegmentWriter
  readonly moves: SegmentWriter
  readonly unpacks: SegmentWriter
  readonly #lifted: Moved[] = []
  readonly #leaving = new Map<string, Together>()
  readonly #returning = new Map<string, Together>()
  readonly #last: Instr[] = []

  constructor({ s }: Sharding) {
    this.s = s
    this.packs = new SegmentWriter(s)
    this.moves = new SegmentWriter(s)
    this.unpacks = new SegmentWriter(s)
  }

  /** One more pair of a collective: pairs of one kind and the same axes travel together, and sums of one dtype. */
  travels(how: Together['how'], axes: readonly Axis[], { dtype }: Tensor, from: Version, to: Version): void {
    join(this.#leaving, how, { axes, dtype, from, to })
  }

  /** Of what arrived and was unpacked something travels again, and nothing may happen meanwhile. */
  returns(how: Together['how'], axes: readonly Axis[], { dtype }: Tensor, from: Version, to: Version): void {
    join(this.#returning, how, { axes, dtype, from, to })
  }

  /** What happens when all of that is there. */
  last(instr: Instr): void {
    this.#last.push(instr)
  }

  /** From where it lies by itself. */
  lifts(tensor: Tensor, { layout }: Holding, slot: Slot, space: Elsewhere): void {
    const from = { layout, slot: awaySlot(tensor.name, 'parameters', space) }
    this.#lifted.push({ tensor, from, to: { layout, slot } })
  }

  drafts(name: string, phase: Phase): FlightSegments {
    for (const each of this.#leaving.values()) this.moves.emit(collectiveOf(each))
    for (const each of this.#returning.values()) this.unpacks.emit(collectiveOf(each))
    for (const { outs } of this.#returning.values()) this.unpacks.emit({ kind: 'wait', on: outs[0] })
    for (const instr of this.#last) this.unpacks.emit(instr)
    const [packs, unpacks] = [this.packs.draft(`pack ${name}`, phase), this.unpacks.draft(`unpack ${name}`, phase)]
    const moves = this.moves.draft(name, phase)
    const lifts = this.#lifted.length > 0 && { lifts: draftMoves(this.s, `lift ${name}`, this.#lifted) }
    return packs.instrs.length === 0 ? { ...lifts, moves } : { ...lifts, packs, moves, unpacks }
  }
}

const collectiveOf = ({ how, axes, ins, outs }: Together): Instr => ({ ins, outs, group: { axes }, ...how })

interface Pair {
  readonly axes: readonly Axis[]
  readonly dtype: DType
  readonly from: Version
  readonly to: Version
}

function join(groups: Map<string, Together>, how: Together['how'], { axes, dtype, from, to }: Pair): void {
  // What is not added up need not be alike: codes and their units meet once.
  const added = how.kind === 'all-reduce' || how.kind === 'reduce-scatter' ? dtype : ''
  const key = `${JSON.stringify(how)} ${added} ${layoutKey({ splits: { all: axes }, partial: {} })}`
  const group = groups.get(key) ?? { how, axes, ins: [], outs: [] }
  group.ins.push(from.ref)
  group.outs.push(to.ref)
  groups.set(key, group)
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

export const whole = (tensor: Tensor): Tensor => ({ ...tensor, name: `${tensor.name}.whole` })

/** The sum where its addend lay: the rank's own part of it, or all of it. */
export const summed = (w: SegmentWriter, tensor: Tensor, layout: Layout, slot: Slot): Version => {
  const sum = { ...tensor, name: `${tensor.name}.sum` }
  return layout.flat ? w.own(tensor.name, sum, layout, slot) : w.given(tensor.name, sum, layout, slot)
}
