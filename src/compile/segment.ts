/**
 * Writes one segment: instructions over buffers, one node or reshard at a time. A logical value may exist in several
 * layouts (*versions*), remembered for the length of the segment; what a consumer needs is made from the cheapest one.
 * A buffer either lies in a frame the segment shares with others (a *slot*: role, offset) or is scratch, for which *place*
 * finds room.
 */
import {
  type Combine,
  type Dim,
  type Elsewhere,
  heldElements,
  type Layout,
  lineElements,
  localDims,
  sameLayout,
} from '../base/index.js'
import {
  bytesPer,
  type DType,
  type Group,
  type Holding,
  type Instr,
  type Kind,
  type Phase,
  type Ref,
  type RoleName,
} from '../ir/index.js'
import type { ShardedMesh } from './layouts.js'
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
  /** The own part, inside the whole. */
  readonly inside?: true
}

/** A place in a frame other segments see too. */
export interface Slot {
  readonly role: RoleName
  readonly kind: Kind
  readonly offset: number
  /** Absent: on the device. */
  readonly space?: Elsewhere
}

export interface BufferDraft {
  readonly tensor: Tensor
  readonly layout: Layout
  readonly inside?: true
  /** Bytes a rank holds; where all parts lie side by side, those of all of them. */
  readonly bytes: number
  /** Where it lies, or the kind of scratch it is. */
  readonly slot: Slot | Kind
}

/** A segment whose scratch has no place yet. */
export interface SegmentDraft {
  readonly name: string
  readonly phase: Phase
  readonly buffers: ReadonlyMap<Ref, BufferDraft>
  readonly instrs: readonly Instr[]
}

export const localBytes = ({ mesh }: ShardedMesh, { dims, dtype }: Omit<Tensor, 'name'>, layout: Layout): number =>
  heldElements(mesh, localDims(mesh, dims, layout), layout) * bytesPer[dtype]

/** A number of the whole step. */
export const scalar = (name: string): Tensor => ({ name, dtype: 'f32', dims: [] })

/** Bytes of the block that a flat layout cuts, with the room that all parts need side by side. */
export const lineBytes = ({ mesh }: ShardedMesh, { dims, dtype }: Tensor, layout: Layout): number =>
  lineElements(mesh, localDims(mesh, dims, layout), layout) * bytesPer[dtype]

export class SegmentWriter {
  readonly #s: ShardedMesh
  readonly #buffers = new Map<Ref, BufferDraft>()
  readonly #instrs: Instr[] = []
  readonly #versions = new Map<string, Version[]>()

  constructor(s: ShardedMesh) {
    this.#s = s
  }

  /** A tensor that is there already, in a shared frame. */
  given(key: string, tensor: Tensor, layout: Layout, slot: Slot): Version {
    return this.#remember(key, { ref: this.#add(tensor, layout, slot), layout })
  }

  /** The rank's own part of a tensor that is there, or has room to be there, whole. */
  own(key: string, tensor: Tensor, layout: Layout, slot: Slot): Version {
    const ref = this.#add(tensor, layout, slot)
    this.#buffers.set(ref, { ...this.#buffers.get(ref)!, inside: true, bytes: lineBytes(this.#s, tensor, layout) })
    return this.#remember(key, { ref, layout, inside: true })
  }

  /** A tensor as it lies in its frame. */
  held(key: string, tensor: Tensor, { layout, inside }: Holding, slot: Slot): Version {
    return inside ? this.own(key, tensor, layout, slot) : this.given(key, tensor, layout, slot)
  }

  /** Makes room for all parts of a flat layout where a block lies that is gathered from them or scattered to them. */
  makeRoom(ref: Ref, flat: Layout): void {
    const buffer = this.#buffers.get(ref)!
    this.#buffers.set(ref, { ...buffer, bytes: lineBytes(this.#s, buffer.tensor, flat) })
  }

  /** A new buffer for a result. */
  make(key: string, tensor: Tensor, layout: Layout, kind: Kind): Version {
    return this.#remember(key, { ref: this.#add(tensor, layout, kind), layout })
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
    const { tensor } = this.#buffers.get(versions[0].ref)!
    const cost = (v: Version) => trafficOf(this.#s.mesh, tensor.dims, route(tensor.dims, v.layout, want))
    const possible = versions.filter(v => Object.keys(want.partial).every(axis => axis in v.layout.partial))
    const source = possible.reduce((best, v) => (cost(v) < cost(best) ? v : best))
    return this.#follow(key, source, want)
  }

  /** All-reduce in place: gradients, whose accumulators are as large as the weights. */
  reduceInPlace(key: string, from: Version, to: Layout, group: Group, combine: Combine = 'sum'): Version {
    const { tensor, slot } = this.#buffers.get(from.ref)!
    const at = slot as Slot // only what others see is reduced in place
    const version = from.inside ? this.own(key, tensor, to, at) : this.given(key, tensor, to, at)
    this.emit({ kind: 'all-reduce', ins: [from.ref], outs: [version.ref], group, combine })
    this.emit({ kind: 'wait', on: version.ref })
    return version
  }

  bytesOf(ref: Ref): number {
    return this.#buffers.get(ref)!.bytes
  }

  isScratch(ref: Ref): boolean {
    return typeof this.#buffers.get(ref)!.slot === 'string'
  }

  slotOf(ref: Ref): Slot | undefined {
    const { slot } = this.#buffers.get(ref)!
    return typeof slot === 'string' ? undefined : slot
  }

  /** Moves a scratch buffer into a shared frame. */
  settle(ref: Ref, slot: Slot): void {
    this.#buffers.set(ref, { ...this.#buffers.get(ref)!, slot })
  }

  draft(name: string, phase: Phase): SegmentDraft {
    return { name, phase, buffers: new Map(this.#buffers), instrs: [...this.#instrs] }
  }

  #follow(key: string, source: Version, want: Layout): Version {
    const { tensor, slot } = this.#buffers.get(source.ref)!
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
    const along = 'dim' in move && move.dim !== undefined ? { dim: move.dim } : {}
    if (move.kind === 'slice') {
      this.emit({ kind: 'slice', in: from, out, ...along, axes: move.axes })
      return
    }
    if (move.kind === 'all-reduce') this.emit({ kind: 'all-reduce', ...pair, combine: move.combine })
    else if (move.kind === 'all-to-all') this.emit({ kind: 'all-to-all', ...pair, from: move.from, to: move.into })
    else this.emit({ kind: move.kind, ...pair, ...along })
    this.emit({ kind: 'wait', on: out })
    if (move.kind === 'all-gather' && move.dim === undefined) this.makeRoom(out, this.#buffers.get(from)!.layout)
    if (move.kind === 'reduce-scatter' && move.dim === undefined) this.makeRoom(from, move.to)
  }

  #add(tensor: Tensor, layout: Layout, slot: Slot | Kind): Ref {
    let ref = tensor.name
    for (let n = 1; this.#buffers.has(ref); n++) ref = `${tensor.name}'${n}`
    this.#buffers.set(ref, { tensor, layout, bytes: localBytes(this.#s, tensor, layout), slot })
    return ref
  }

  #remember(key: string, version: Version): Version {
    this.#versions.set(key, [...this.versions(key), version])
    return version
  }
}
