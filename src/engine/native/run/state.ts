/** What lies in the memory of an engine, read and written between steps. */
import {
  coordinatesOf,
  elementsOf,
  type FaultOf,
  heldElements,
  mapStates,
  type Rank,
  type Scalars,
  type Space,
  type StateName,
  type States,
  stateEntries,
  summedDims,
} from '../../../base/index.js'
import {
  assemble,
  type Cells,
  type Kept,
  offsets,
  ownPart,
  parameterOf,
  partOf,
  startingAs,
  stateOf,
  type Whole,
  wholeDims,
} from '../../../geometry/index.js'
import {
  type Buffer,
  bytesPer,
  type DType,
  isUpdate,
  type Kind,
  kinds,
  type Param,
  type ParamFrames,
  type Program,
  spaceOf,
} from '../../../ir/index.js'
import { laneOf, lanes, type SpanColumns, SpanWriter } from '../../../trace/index.js'
import type { Choices } from '../../choices.js'
import type { BadState } from '../../look.js'
import type { Disagreement } from '../../replicas.js'
import { placedScalars, scalarStartsOf, scalarsIn, stepResultOf } from '../../result.js'
import type { Held, StepData, StepResult } from '../../runner.js'
import { type Elements, layNumbers, numbersIn, viewOf } from '../kernels/dtypes.js'
import { firstNotFinite } from '../kernels/finite.js'
import { countOf, counts, Status } from '../lower/commands.js'
import { type LoweredProgram, spanBytes } from '../lower/lowered.js'
import { type MemoryMap, streamOf } from '../lower/map.js'
import { type Rooms, writeTo } from './disk.js'
import type { Drawing } from './draw.js'
import { disagreementsIn } from './replicas.js'

/** A rank's own part of a tensor: where it begins, in memory or in its file, and its elements. */
interface OwnPart {
  readonly rank: Rank
  readonly at: number
  readonly file: number | undefined
  readonly elements: Elements
}

const bytesOf = ({ buffer, byteOffset, byteLength }: Elements): Uint8Array =>
  new Uint8Array(buffer, byteOffset, byteLength)

export class State {
  readonly #program: Program
  readonly #lowered: LoweredProgram
  readonly #map: MemoryMap
  readonly #buffer: SharedArrayBuffer
  readonly #coordinates: readonly number[]
  readonly #rooms: Rooms | undefined
  /** Of the commands of each rank that were measured. */
  readonly #lanes: number[][] = []

  constructor(program: Program, lowered: LoweredProgram, buffer: SharedArrayBuffer, rooms?: Rooms) {
    this.#rooms = rooms
    this.#program = program
    this.#lowered = lowered
    this.#map = lowered.map
    this.#buffer = buffer
    this.#coordinates = lowered.map.ranks.map((_, rank) => coordinatesOf(program.mesh, rank).pp ?? 0)
    for (const [rank, { words }] of lowered.lists.entries())
      new Float64Array(buffer, lowered.listAt[rank], words.length).set(words)
    for (const { list, at } of lowered.copiers) new Float64Array(buffer, at, list.words.length).set(list.words)
    for (const rank of this.#map.ranks.keys()) this.#residents(rank)
    this.setScalars(scalarStartsOf(program))
  }

  /** What ranks need to know to draw the initial weights. */
  drawing(seed: number): Drawing {
    const { mesh } = this.#program
    const params = this.#program.params.map(param => {
      const { name, init, dims } = param
      const kept = startingAs(param).map(one => ({
        ...{ dtype: one.dtype, layout: one.holding.layout },
        holders: this.#parts(param, one).map(({ rank, at, file }) => ({ rank, offset: at, file })),
      }))
      return { name, init, dims, kept }
    })
    return { seed, mesh, params }
  }

  /** What lives from step to step is counted from the start. */
  #residents(rank: Rank): void {
    const { frames, resident } = streamOf(this.#program, rank)
    const bytes = new Array<number>(counts).fill(0)
    for (const frame of resident) bytes[countOf(spaceOf(frames[frame]), frames[frame].kind)] += frames[frame].bytes
    new Float64Array(this.#buffer, this.#map.ranks[rank].status + Status.live, 2 * counts).set([...bytes, ...bytes])
  }

  /** The data of a step, its number where masks need it, and counters from 0. */
  prepare({ inputs, lr, step }: StepData): void {
    for (const [name, { offset, dtype, elements }] of this.#map.inputs) {
      if (name === 'lr') continue
      layNumbers(dtype, viewOf(dtype, this.#buffer, offset, elements), inputs(name))
    }
    new Float32Array(this.#buffer, this.#map.lr, 1)[0] = lr
    for (const [rank, { stepWords, words }] of this.#lowered.lists.entries()) {
      const list = new Float64Array(this.#buffer, this.#lowered.listAt[rank], words.length)
      for (const word of stepWords) list[word] = step
    }
    const { offset, bytes } = this.#lowered.sync
    new Uint8Array(this.#buffer, offset, bytes).fill(0)
  }

  #first = (rank: Rank, frame: number): number => this.frame(rank, frame, 'f32')[0]
  result = (before: Scalars<number>): StepResult => stepResultOf(this.#program, this.#first, before)
  scalars = (): Scalars<number> => scalarsIn(this.#program, this.#first)

  setScalars(scalars: Scalars<number>): void {
    for (const { pp, frame, value } of placedScalars(this.#program, scalars))
      for (const [rank, at] of this.#coordinates.entries()) if (at === pp) this.frame(rank, frame, 'f32')[0] = value
  }

  /** What lies in a frame, as it lies there; of one on a disk, a copy. */
  frame(rank: Rank, index: number, dtype: DType): Elements {
    const { offset, bytes, space = 'device' } = streamOf(this.#program, rank).frames[index]
    const [elements, rooms] = [bytes / bytesPer[dtype], this.#rooms]
    if (space === 'disk' && rooms) return viewOf(dtype, rooms.read(rank, offset, bytes), 0, elements)
    return viewOf(dtype, this.#buffer, this.#map.ranks[rank].arenas[space] + offset, elements)
  }

  /** Puts numbers into a frame, some elements from its beginning. */
  hold({ rank, frame, dtype, first }: Held, values: Cells): void {
    const elements = this.frame(rank, frame, dtype)
    layNumbers(dtype, elements, values, first)
    const { file, at } = this.#placeOf(rank, frame)
    if (file !== undefined) writeTo(file, bytesOf(elements), at)
  }

  /** Where a frame begins, in the memory or in a file. */
  #placeOf(rank: Rank, index: number): { readonly at: number; readonly file: number | undefined } {
    const { offset, space = 'device' } = streamOf(this.#program, rank).frames[index]
    if (space === 'disk' && this.#rooms) return { at: offset, file: this.#rooms.fileOf(rank) }
    return { at: this.#map.ranks[rank].arenas[space] + offset, file: undefined }
  }

  #param(name: string): Param {
    const param = this.#program.params.find(param => param.name === name)
    if (!param) throw new Error(`there is no parameter ${name}`)
    return param
  }

  #holders({ frames }: Pick<Param, 'frames'>): { rank: Rank; frames: ParamFrames }[] {
    return this.#coordinates.flatMap((pp, rank) => (frames[pp] ? [{ rank, frames: frames[pp] }] : []))
  }

  /** Each holder's own part of a tensor, in place, or of a file a copy. */
  #parts(param: Param, { dims, holding, dtype, frameOf }: Kept): OwnPart[] {
    const { mesh } = this.#program
    return this.#holders(param).flatMap(({ rank, frames }) => {
      const frame = frameOf(frames)
      if (frame === undefined) return []
      const all = this.frame(rank, frame, dtype)
      const elements = ownPart({ mesh, dims, ...holding }, coordinatesOf(mesh, rank), all)
      const { at, file } = this.#placeOf(rank, frame)
      return [{ rank, at: at + elements.byteOffset - all.byteOffset, file, elements }]
    })
  }

  #whole(param: Param, kept: Kept): Whole {
    const parts = this.#parts(param, kept).map(part => [part.rank, numbersIn(kept.dtype, part.elements)] as const)
    return assemble(this.#program.mesh, kept.dims, kept.holding.layout, new Map(parts))
  }

  #lay(param: Param, kept: Kept, values: ArrayLike<number>): void {
    const { mesh } = this.#program
    const { dims } = kept
    const count = elementsOf(summedDims(dims))
    if (values.length !== count) throw new Error(`${param.name} has ${count} elements, not ${values.length}`)
    for (const { rank, at, file, elements } of this.#parts(param, kept)) {
      layNumbers(kept.dtype, elements, partOf({ mesh, dims, ...kept.holding }, coordinatesOf(mesh, rank), values))
      if (file !== undefined) writeTo(file, bytesOf(elements), at)
    }
  }

  /** The first parameter, or state of one, that holds a number which is not finite, and who holds that. */
  firstBad(): BadState | undefined {
    for (const param of this.#program.params) {
      const states = Object.keys(Object.values(param.frames)[0].states) as StateName[] // its own keys
      for (const state of [undefined, ...states]) {
        const kept = state === undefined ? parameterOf(param) : stateOf(param, state)
        const bad = this.#parts(param, kept).filter(({ elements }) => firstNotFinite(kept.dtype, elements) >= 0)
        const ranks = bad.map(({ rank }) => rank)
        if (ranks.length > 0) return { parameter: param.name, ...(state !== undefined && { state }), ranks }
      }
    }
    return undefined
  }

  disagreements = (): Disagreement[] => disagreementsIn(this.#program, (param, kept) => this.#parts(param, kept))

  /** Turns one bit of a rank's own copy, as a memory that fails does. */
  flip({ rank, parameter, index = 0, bit = 6 }: FaultOf<'flip'>): void {
    const param = this.#param(parameter)
    const part = this.#parts(param, parameterOf(param)).find(part => part.rank === rank)
    if (!part) return
    const { elements, file, at } = part
    const bytes = bytesOf(elements)
    const bits = 8 * elements.BYTES_PER_ELEMENT
    const place = elements.BYTES_PER_ELEMENT * (index % elements.length) + ((bit % bits) >> 3)
    bytes[place] ^= 1 << (bit & 7)
    if (file !== undefined) writeTo(file, bytes, at)
  }

  parameter(name: string): Whole {
    const param = this.#param(name)
    return this.#whole(param, parameterOf(param))
  }

  setParameter(name: string, values: ArrayLike<number>): void {
    const param = this.#param(name)
    for (const kept of startingAs(param)) this.#lay(param, kept, values)
  }

  states(name: string): States<Whole> {
    const param = this.#param(name)
    const [holder] = Object.values(param.frames)
    return mapStates(holder.states, (_, state) => this.#whole(param, stateOf(param, state)))
  }

  setStates(name: string, states: States<ArrayLike<number>>): void {
    const param = this.#param(name)
    for (const [state, values] of stateEntries(states)) this.#lay(param, stateOf(param, state), values)
  }

  /** In the order of the parameter's dims, whatever the order of the buffer the optimizer read. */
  gradient(name: string): Float64Array {
    const { mesh } = this.#program
    const param = this.#param(name)
    const { dims, layout, dtype } = this.#gradientBuffer(name)
    const whole = wholeDims(mesh, dims, layout)
    const parts = new Map(
      this.#holders(param).map(({ rank }) => {
        const at = this.#map.ranks[rank].observed.get(name)
        if (at === undefined) throw new Error('gradients are kept only where observeGradients asks for them')
        const elements = viewOf(dtype, this.#buffer, at, heldElements(mesh, dims, layout))
        return [rank, numbersIn(dtype, elements)]
      }),
    )
    const { values } = assemble(mesh, whole, layout, parts)
    return Float64Array.from(offsets(param.dims, whole), index => values[index])
  }

  #gradientBuffer(name: string): Buffer {
    const { streams, segments } = this.#program
    for (const { steps } of streams)
      for (const step of steps) {
        if (step.kind !== 'call' || step.param !== name) continue
        const update = segments[step.segment].instrs.find(isUpdate)
        if (update) return segments[step.segment].buffers[update.ins[0]]
      }
    throw new Error(`no optimizer instruction was given a gradient of ${name}`)
  }

  peaks(): Record<Space, Record<Kind, number>>[] {
    return this.#map.ranks.map(({ status }) => {
      const peaks = new Float64Array(this.#buffer, status + Status.live + 8 * counts, counts)
      const of = (space: Space) =>
        Object.fromEntries(kinds.map(kind => [kind, peaks[countOf(space, kind)]])) as Record<Kind, number> // one entry per kind
      return { device: of('device'), host: of('host'), disk: of('disk') }
    })
  }

  choices(): Choices {
    return new Map(
      [...this.#map.choices].map(([layer, { offset, dims }]) => [
        layer,
        { dims, values: new Int32Array(this.#buffer, offset, elementsOf(dims)).slice() },
      ]),
    )
  }

  /** What spans are made from: (command, start, end), by rank. */
  rings(): Float64Array[] {
    const { lists, spansAt, spanCapacity } = this.#lowered
    return lists.map((_, rank) => {
      const { status } = this.#map.ranks[rank]
      const count = Math.min(new Int32Array(this.#buffer, status, 16)[Status.spans], spanCapacity)
      return new Float64Array(this.#buffer, spansAt[rank], (count * spanBytes) / 8)
    })
  }

  /** Spans of the commands that ran since this was last called, by rank. */
  columns(): SpanColumns[] {
    return this.rings().map((ring, rank) => {
      const { origins } = this.#lowered.lists[rank]
      const known = (this.#lanes[rank] ??= [])
      new Int32Array(this.#buffer, this.#map.ranks[rank].status, 16)[Status.spans] = 0
      const writer = new SpanWriter()
      for (let i = 0; i < ring.length; i += 3) {
        const command = ring[i]
        known[command] ??= lanes.indexOf(laneOf(this.#program, { rank, ...origins[command] }))
        writer.add({ ...origins[command], lane: known[command] }, ring[i + 1], ring[i + 2])
      }
      return writer.columns([])
    })
  }
}
