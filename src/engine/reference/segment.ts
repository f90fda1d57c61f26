/**
 * A segment made ready: what depends on shapes is made once for all ranks, what depends on a rank's place once for
 * each rank that calls it (its seat), and a call only adds the addresses of its frames and the microbatch.
 */
import {
  type Coordinates,
  elementsOf,
  flatAxes,
  heldElements,
  lineElements,
  partStart,
  sizeOfAll,
} from '../../base/index.js'
import {
  acrossMicrobatches,
  type Cells,
  indexing,
  lineShape,
  type Place,
  partsOf,
  type Shape,
  wholeDims,
} from '../../geometry/index.js'
import {
  type Buffer,
  bytesPer,
  type Call,
  type Compute,
  type InstrOf,
  type Program,
  pairsOf,
  type Ref,
  type Segment,
  showRole,
} from '../../ir/index.js'
import { cutMove, type Move, prepareMove, type Shaped } from './collective.js'
import type { Kernel } from './kernel.js'
import { prepare } from './kernels.js'
import type { Memory } from './memory.js'

type Indexing = ReturnType<typeof indexing>

/** A segment for all ranks. */
export class PreparedSegment {
  readonly segment: Segment
  readonly shapes: Readonly<Record<Ref, Shape>>
  readonly #program: Program
  readonly #made = new Map<object, Kernel | readonly Move[] | Indexing>()

  constructor(program: Program, segment: Segment) {
    this.#program = program
    this.segment = segment
    this.shapes = Object.fromEntries(
      Object.entries(segment.buffers).map(([ref, buffer]) => [ref, shapeOf(program, segment, ref, buffer)]),
    )
  }

  shape(ref: Ref): Shape {
    const shape = this.shapes[ref]
    if (!shape) throw new Error(`segment ${this.segment.name} has no buffer ${ref}`)
    return shape
  }

  kernel(instr: Compute): Kernel {
    const shapes = (refs: readonly Ref[]) => refs.map(ref => this.shape(ref))
    return this.#once(instr, () => prepare(instr, shapes(instr.ins), shapes(instr.outs)))
  }

  /** One per pair. */
  moves(instr: Shaped, members: number): readonly Move[] {
    const { mesh } = this.#program
    return this.#once(instr, () =>
      pairsOf(instr).map(pair => prepareMove(mesh, instr, [this.shape(pair.in), this.shape(pair.out)], members)),
    )
  }

  slice(instr: InstrOf<'slice'>): Move {
    const { mesh } = this.#program
    const members = { mesh, axes: instr.axes, count: sizeOfAll(mesh, instr.axes) }
    return this.#once(instr, () => [cutMove([this.shape(instr.in), this.shape(instr.out)], members, instr.dim)])[0]
  }

  /** For a rank's parts of the buffer's dims, where each element lies in the input's whole global batch. */
  load(instr: InstrOf<'load'>, whole: Shape['whole']): Indexing {
    return this.#once(instr, () => indexing(this.shape(instr.out).dims, whole))
  }

  #once<T extends Kernel | readonly Move[] | Indexing>(key: object, make: () => T): T {
    const known = this.#made.get(key) as T | undefined // one instruction is asked for one kind of thing only
    if (known) return known
    const made = make()
    this.#made.set(key, made)
    return made
  }
}

function shapeOf({ mesh, microbatches }: Program, segment: Segment, ref: Ref, buffer: Buffer): Shape {
  const held = heldElements(mesh, buffer.dims, buffer.layout)
  const room = buffer.inside ? lineElements(mesh, buffer.dims, buffer.layout) : held
  const end = buffer.offset + room * bytesPer[buffer.dtype]
  const role = segment.roles[buffer.role]
  if (!role || end > role.bytes)
    throw new Error(
      `buffer ${ref} of ${segment.name} ends at byte ${end} of role ${role ? showRole(role.name) : buffer.role}, ${role?.bytes} bytes`,
    )
  if (flatAxes(buffer.layout).length > 0) return lineShape(held, buffer.dims)
  const whole = acrossMicrobatches(wholeDims(mesh, buffer.dims, buffer.layout), microbatches)
  return { dims: buffer.dims, whole }
}

/** One buffer at one rank: the place kernels see, and what a call must add to it. */
interface Slot {
  readonly place: Place
  readonly role: number
  /** Cells from the start of the frame. */
  readonly offset: number
  /** Where the batch dim is, if there is one, and the samples of one microbatch over all ranks. */
  readonly batch: number
  readonly origin: number
  readonly samples: number
}

/** A segment at one rank. */
export class Seat {
  readonly prepared: PreparedSegment
  readonly #slots: ReadonlyMap<Ref, Slot>
  /** The same, to be gone through at every call. */
  readonly #all: readonly Slot[]

  constructor(program: Program, prepared: PreparedSegment, at: Coordinates, memory: Memory) {
    this.prepared = prepared
    this.#slots = new Map(
      Object.entries(prepared.segment.buffers).map(([ref, buffer]) => [
        ref,
        slotOf(program, { ...buffer, cell: memory.cellsOf(buffer.offset) }, prepared.shape(ref), at),
      ]),
    )
    this.#all = [...this.#slots.values()]
  }

  place(ref: Ref): Place {
    const slot = this.#slots.get(ref)
    if (!slot) throw new Error(`segment ${this.prepared.segment.name} has no buffer ${ref}`)
    return slot.place
  }

  /** The cells of a buffer, as they are: not a copy. */
  view(ref: Ref, cells: Cells): Cells {
    const { at } = this.place(ref)
    return cells.subarray(at, at + elementsOf(this.prepared.shape(ref).dims))
  }

  /** A copy of what a buffer holds. */
  read(ref: Ref, cells: Cells): Float64Array {
    return Float64Array.from(this.view(ref, cells))
  }

  /** Points every buffer into the frames of this call, and its batch dim at this microbatch. */
  enter({ bind, microbatch }: Call, memory: Memory): void {
    const { roles, name } = this.prepared.segment
    if (bind.length !== roles.length)
      throw new Error(`${name} has ${roles.length} roles, the call binds ${bind.length}`)
    const starts = bind.map((frame, role) => memory.at(frame, roles[role].bytes))
    for (const slot of this.#all) {
      slot.place.at = starts[slot.role] + slot.offset
      if (slot.batch < 0) continue
      const origin = slot.origin + Math.max(0, microbatch) * slot.samples
      slot.place.parts[slot.batch] = { ...slot.place.parts[slot.batch], origin }
    }
  }
}

function slotOf(
  { mesh, microbatches }: Program,
  { dims, layout, role, cell, inside }: Buffer & { readonly cell: number },
  shape: Shape,
  at: Coordinates,
): Slot {
  const batch = shape.dims.findIndex(dim => dim.name === 'batch')
  const parts = shape.block
    ? [{ origin: partStart(mesh, dims, layout, at), until: shape.dims[0].size, gap: 0 }]
    : partsOf(mesh, shape.dims, layout, at)
  const samples = batch < 0 ? 0 : shape.whole[batch].size / microbatches
  // Elements of the whole fill its first cells, one each, whatever their bytes: so does the part among them.
  const first = cell + (inside ? partStart(mesh, dims, layout, at) : 0)
  return { place: { at: 0, parts }, role, offset: first, batch, origin: parts[batch]?.origin ?? 0, samples }
}
