/** Segments made ready for replay: buffers become slots, types become numbers, each segment once per pattern of binding. */
import { layoutKey, localDims, type StateName, whole } from '../../base/index.js'
import type { Instr } from '../instr.js'
import { type Call, dtypeOfGradient, type Param, type Program, type StateTensor, stateTensor } from '../program.js'
import { showShaped } from '../text/codec.js'
import { traitsOf } from '../traits.js'
import { type Act, actsOf } from './acts.js'
import type { Flow, Flows } from './buffers.js'
import type { BufferSpot, Spot } from './spots.js'
import { plain, type Type, typeOf } from './type.js'

/** A buffer of a segment: its slot, its role, its bytes in the role's frame, its type. */
export interface Slot extends BufferSpot {
  readonly ref: string
  readonly slot: number
  readonly type: number
  /** The own part among all parts. */
  readonly inside: boolean
  /** Left whole by a gather in place. */
  readonly gathered: boolean
  /** Read and written by one instruction: it adds to what others left, and belongs to no one microbatch. */
  readonly gathers: boolean
}

/** How a value lies: a type by its number, and whether it lies among all parts. */
export type HeldType = Pick<Slot, 'type' | 'inside'>

export interface Ready {
  readonly acts: readonly Act[]
  /** Buffers read from frames, with the instruction that reads them first. */
  readonly takes: readonly (Slot & { readonly instr: number })[]
  /** Buffers left in frames. */
  readonly leaves: readonly Slot[]
  /** Bytes written. */
  readonly wipes: readonly Spot[]
  readonly slots: readonly Slot[]
  /** Meets other streams, so that it may have to wait in the middle. */
  readonly crosses: boolean
}

const gatheredBy = (instr: Instr): readonly string[] => {
  const { reads, writes } = traitsOf(instr)
  return writes.filter(ref => reads.includes(ref))
}

export class Shelf {
  readonly #types: Type[] = []
  readonly #ids = new Map<string, number>()
  readonly #byFlow = new Map<Flow, Ready>()
  readonly #flows: Flows
  readonly #program: Program

  constructor(program: Program, flows: Flows) {
    this.#program = program
    this.#flows = flows
  }

  ready({ segment, bind }: Call): Ready {
    const flow = this.#flows.of(segment, bind)
    const made = this.#byFlow.get(flow) ?? this.#make(segment, flow)
    this.#byFlow.set(flow, made)
    return made
  }

  /** Equal types have equal numbers. */
  numberOf(type: Type): number {
    const key = `${type.dtype} ${type.dims.map(dim => `${dim.name}:${dim.size}`).join()} ${layoutKey(type.layout)}`
    const id = this.#ids.get(key) ?? this.#types.push(type) - 1
    this.#ids.set(key, id)
    return id
  }

  typeOf = (id: number): Type => this.#types[id]
  show = ({ type, inside }: HeldType): string =>
    `${this.#types[type].dtype} ${showShaped(this.#types[type])}${inside ? ' inside' : ''}`

  /** The type of what a part is a part of. */
  wholeOf(id: number): number {
    const { layout, ...type } = this.#types[id]
    const { flat: _, ...whole } = layout
    return this.numberOf({ ...type, layout: whole })
  }

  /** A parameter as a rank holds it, its gradient as an update needs it, and what is kept of it. */
  ofParam = (param: Param): HeldType => ({
    type: this.#typeOfPart({ ...param, layout: param.kept }),
    inside: param.keptInside === true,
  })
  ofGradient = (param: Param): HeldType => ({
    type: this.#typeOfPart({ dtype: dtypeOfGradient(param), dims: param.dims, layout: param.state }),
    inside: false,
  })
  ofState = (param: Param, state: StateName): HeldType => ({
    type: this.#typeOfPart(stateTensor(param, state)),
    inside: false,
  })

  ofScalar = (): HeldType => ({ type: this.numberOf({ dtype: 'f32', dims: [], layout: whole }), inside: false })

  #typeOfPart({ dtype, dims, ...kept }: StateTensor): number {
    const { mesh } = this.#program
    const layout = plain(mesh, kept.layout)
    return this.numberOf({ dtype, dims: localDims(mesh, dims, layout), layout })
  }

  #make(name: string, flow: Flow): Ready {
    const segment = this.#program.segments[name]
    const gathering = new Set(segment.instrs.flatMap(gatheredBy))
    const slots = Object.entries(segment.buffers).map(([ref, buffer], slot) => ({
      ref,
      slot,
      gathers: gathering.has(ref),
      inside: buffer.inside === true,
      gathered: flow.gathered.has(ref),
      type: this.numberOf(typeOf(this.#program.mesh, buffer)),
      ...flow.spots[ref],
    }))
    const slotOf = new Map(slots.map(slot => [slot.ref, slot.slot]))
    const acts = actsOf(this.#program, segment, { slotOf, slicings: flow.slicings })
    const at = (ref: string) => slots[slotOf.get(ref) ?? -1]
    return {
      acts,
      takes: [...flow.takes].map(([ref, instr]) => ({ ...at(ref), instr })),
      leaves: flow.leaves.map(at),
      wipes: flow.wipes,
      slots,
      crosses: acts.some(act => act.op === 'arrive'),
    }
  }
}
