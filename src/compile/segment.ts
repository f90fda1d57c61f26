/**
 * Writes one segment: instructions over buffers, one node or reshard at a time. A logical value may exist in several
 * layouts (*versions*), remembered for the length of the segment; what a consumer needs is made from the cheapest one.
 * A buffer either lies in a frame the segment shares with others (a *slot*: role, offset) or is scratch, placed at the end.
 */
import { type Dim, heldElements, type Layout, localDims, sameLayout } from '../base/index.js'
import {
  type Buffer,
  bytesPer,
  type DType,
  type Group,
  type Instr,
  type Kind,
  type Phase,
  type Ref,
  type Role,
  type RoleName,
  type Segment,
  showRole,
  traitsOf,
} from '../ir/index.js'
import type { Sharded } from './layouts.js'
import { overlap } from './overlap.js'
import { pack } from './pack.js'
import { route, trafficOf } from './reshard.js'

export interface Tensor {
  readonly name: string
  readonly dtype: DType
  /** Whole. */
  readonly dims: readonly Dim[]
}

export interface Version {
  readonly ref: Ref
  readonly layout: Layout
}

/** A place in a frame other segments see too. */
export interface Slot {
  readonly role: RoleName
  readonly kind: Kind
  readonly offset: number
}

interface Draft {
  readonly tensor: Tensor
  readonly layout: Layout
  readonly bytes: number
  /** Where it lies, or the kind of scratch it is. */
  slot: Slot | Kind
}

export const align = (bytes: number): number => Math.ceil(bytes / 64) * 64

export const localBytes = (s: Sharded, tensor: Tensor, layout: Layout): number =>
  heldElements(s.mesh, localDims(s.mesh, tensor.dims, layout), layout) * bytesPer[tensor.dtype]

export class SegmentWriter {
  readonly #s: Sharded
  readonly #drafts = new Map<Ref, Draft>()
  readonly #instrs: Instr[] = []
  readonly #versions = new Map<string, Version[]>()

  constructor(s: Sharded) {
    this.#s = s
  }

  /** A tensor that is there already, in a shared frame. */
  given(key: string, tensor: Tensor, layout: Layout, slot: Slot): Version {
    return this.#remember(key, { ref: this.#draft(tensor, layout, slot), layout })
  }

  /** A new buffer for a result. */
  make(key: string, tensor: Tensor, layout: Layout, kind: Kind): Version {
    return this.#remember(key, { ref: this.#draft(tensor, layout, kind), layout })
  }

  emit(instr: Instr): void {
    this.#instrs.push(instr)
  }

  versions(key: string): readonly Version[] {
    return this.#versions.get(key) ?? []
  }

  /** The value in this layout, made now if it is not there yet. */
  demand(key: string, want: Layout): Version {
    const versions = this.versions(key)
    const there = versions.find(({ layout }) => sameLayout(layout, want))
    if (there) return there
    const { tensor } = this.#drafts.get(versions[0].ref)!
    const cost = (v: Version) => trafficOf(this.#s.mesh, tensor.dims, route(tensor.dims, v.layout, want))
    const possible = versions.filter(v => Object.keys(want.partial).every(axis => axis in v.layout.partial))
    const source = possible.reduce((best, v) => (cost(v) < cost(best) ? v : best))
    return this.#follow(key, source, want)
  }

  /** All-reduce in place: gradients, whose accumulators are as large as the weights. */
  reduceInPlace(key: string, from: Version, to: Layout, group: Group): Version {
    const { tensor, slot } = this.#drafts.get(from.ref)!
    const version = this.#remember(key, { ref: this.#draft(tensor, to, slot), layout: to })
    this.emit({ kind: 'all-reduce', ins: [from.ref], outs: [version.ref], group, combine: 'sum' })
    this.emit({ kind: 'wait', on: version.ref })
    return version
  }

  bytesOf(ref: Ref): number {
    return this.#drafts.get(ref)!.bytes
  }

  isScratch(ref: Ref): boolean {
    return typeof this.#drafts.get(ref)!.slot === 'string'
  }

  slotOf(ref: Ref): Slot | undefined {
    const { slot } = this.#drafts.get(ref)!
    return typeof slot === 'string' ? undefined : slot
  }

  /** Moves a scratch buffer into a shared frame. */
  settle(ref: Ref, slot: Slot): void {
    this.#drafts.get(ref)!.slot = slot
  }

  finish(name: string, phase: Phase, overlapping: boolean): Segment {
    const instrs = overlapping ? overlap(this.#instrs) : this.#instrs
    const used = new Set(instrs.flatMap(instr => [...traitsOf(instr).reads, ...traitsOf(instr).writes]))
    const drafts = [...this.#drafts].filter(([ref]) => used.has(ref))
    const slots = this.#place(drafts, instrs)
    const roles = rolesOf(drafts, slots)
    const at = new Map(roles.map((role, i) => [showRole(role.name), i]))
    const buffers: Record<Ref, Buffer> = {}
    for (const [ref, { tensor, layout }] of drafts) {
      const slot = slots.get(ref)!
      const dims = localDims(this.#s.mesh, tensor.dims, layout)
      buffers[ref] = { dtype: tensor.dtype, dims, layout, role: at.get(showRole(slot.role))!, offset: slot.offset }
    }
    return { name, phase, roles, buffers, instrs }
  }

  /** Scratch of one kind is one frame; inside it buffers share bytes when they are not alive together. */
  #place(drafts: readonly (readonly [Ref, Draft])[], instrs: readonly Instr[]): Map<Ref, Slot> {
    const slots = new Map<Ref, Slot>()
    const spans = lifetimes(instrs)
    const scratch = new Map<Kind, Ref[]>()
    for (const [ref, { slot }] of drafts) {
      if (typeof slot === 'string') scratch.set(slot, [...(scratch.get(slot) ?? []), ref])
      else slots.set(ref, slot)
    }
    for (const [kind, refs] of scratch) {
      const { offsets } = pack(refs.map(ref => ({ bytes: this.bytesOf(ref), ...spans.get(ref)! })))
      for (const [i, ref] of refs.entries())
        slots.set(ref, { role: { is: 'scratch', of: kind }, kind, offset: offsets[i] })
    }
    return slots
  }

  #follow(key: string, source: Version, want: Layout): Version {
    const { tensor, slot } = this.#drafts.get(source.ref)!
    const kind = typeof slot === 'string' ? slot : slot.kind
    let version = source
    for (const move of route(tensor.dims, source.layout, want)) {
      const next = this.make(key, tensor, move.to, kind === 'data' ? 'workspace' : kind)
      this.#move(move, version.ref, next.ref)
      version = next
    }
    return version
  }

  #move(move: ReturnType<typeof route>[number], from: Ref, out: Ref): void {
    const pair = { ins: [from], outs: [out], group: { axes: move.axes } }
    if (move.kind === 'slice') {
      this.emit({ kind: 'slice', in: from, out, dim: move.dim, axes: move.axes })
      return
    }
    if (move.kind === 'all-reduce') this.emit({ kind: 'all-reduce', ...pair, combine: move.combine })
    else if (move.kind === 'all-to-all') this.emit({ kind: 'all-to-all', ...pair, from: move.from, to: move.into })
    else this.emit({ kind: move.kind, ...pair, dim: move.dim })
    this.emit({ kind: 'wait', on: out })
  }

  #draft(tensor: Tensor, layout: Layout, slot: Slot | Kind): Ref {
    let ref = tensor.name
    for (let n = 1; this.#drafts.has(ref); n++) ref = `${tensor.name}'${n}`
    this.#drafts.set(ref, { tensor, layout, bytes: localBytes(this.#s, tensor, layout), slot })
    return ref
  }

  #remember(key: string, version: Version): Version {
    this.#versions.set(key, [...this.versions(key), version])
    return version
  }
}

/** From the first write of a buffer to its last use. A collective holds its operand until it is waited for. */
function lifetimes(instrs: readonly Instr[]): Map<Ref, { start: number; end: number }> {
  const spans = new Map<Ref, { start: number; end: number }>()
  const inFlight = new Map<Ref, readonly Ref[]>()
  for (const [at, instr] of instrs.entries()) {
    const { reads, writes, starts, finishes } = traitsOf(instr)
    if (starts) inFlight.set(writes[0], reads)
    for (const ref of [...reads, ...writes, ...(finishes ? [finishes, ...(inFlight.get(finishes) ?? [])] : [])]) {
      const span = spans.get(ref)
      spans.set(ref, { start: span?.start ?? at, end: at + 1 })
    }
  }
  return spans
}

function rolesOf(drafts: readonly (readonly [Ref, Draft])[], slots: ReadonlyMap<Ref, Slot>): Role[] {
  const roles = new Map<string, Role>()
  for (const [ref, { bytes }] of drafts) {
    const { role, kind, offset } = slots.get(ref)!
    const key = showRole(role)
    roles.set(key, { name: role, kind, bytes: Math.max(roles.get(key)?.bytes ?? 0, offset + bytes) })
  }
  return [...roles.values()]
}
