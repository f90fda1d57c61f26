/**
 * A rank's arenas, one behind the other: which frames are alive, how many bytes of each kind in each space, and the most there
 * ever were. What is not alive is NaN, and so is what has been allocated and not yet written.
 */
import { type Space, spaces } from '../../base/index.js'
import type { Cells } from '../../geometry/index.js'
import { bytesPer, type Frame, noBytes, type Program, roomIn, type Stream, spaceOf } from '../../ir/index.js'

export type Precision = 'f64' | 'f32'

/**
 * Bytes of a cell, which is as wide as the narrowest dtype there is, or 2: a wider tensor fills the first of the cells its bytes give
 * it, and no others.
 */
export const cellWidth = ({ segments }: Pick<Program, 'segments'>): number =>
  Object.values(segments).some(({ buffers }) => Object.values(buffers).some(({ dtype }) => bytesPer[dtype] === 1))
    ? 1
    : 2

/** What frames are aligned to, so that nearly all have lines of their own. */
const lineBytes = 64

export class Memory {
  readonly cells: Cells
  readonly peaks = { device: noBytes(), host: noBytes(), disk: noBytes() }
  readonly #stream: Stream
  readonly #cellBytes: number
  readonly #live = new Map<number, Frame>()
  readonly #resident: ReadonlySet<number>
  /** Live frames in each line of all arenas: where there is none, a frame lies over no other, and need not be compared with all. */
  readonly #lines: Uint8Array
  readonly #bytes = { device: noBytes(), host: noBytes(), disk: noBytes() }
  /** The byte at which the arena of each space begins. */
  readonly #base: Readonly<Record<Space, number>>

  constructor(stream: Stream, precision: Precision, cellBytes: number) {
    const ends: number[] = []
    for (const space of spaces) ends.push((ends.at(-1) ?? 0) + roomIn(stream, space).arena)
    const size = Math.ceil(ends[2] / cellBytes)
    this.#cellBytes = cellBytes
    this.#base = { device: 0, host: ends[0], disk: ends[1] }
    this.#stream = stream
    this.#resident = new Set(stream.resident)
    this.#lines = new Uint8Array(Math.ceil(ends[2] / lineBytes) + 1)
    this.cells = (precision === 'f64' ? new Float64Array(size) : new Float32Array(size)).fill(NaN)
    for (const frame of stream.resident) this.alloc(frame)
  }

  alloc(index: number): void {
    const frame = this.#frame(index)
    const end = frame.offset + frame.bytes
    if (this.#live.has(index)) throw new Error(`frame ${frame.name} is already allocated`)
    const space = spaceOf(frame)
    const { arena } = roomIn(this.#stream, space)
    if (frame.offset < 0 || end > arena)
      throw new Error(`frame ${frame.name} ends at byte ${end} of an arena of ${arena}`)
    if (frame.offset % this.#cellBytes !== 0)
      throw new Error(`frame ${frame.name} begins at byte ${frame.offset}, not a multiple of ${this.#cellBytes}`)
    if (this.#linesOf(frame).some(live => live > 0))
      for (const other of this.#live.values())
        if (overlap(frame, other)) throw new Error(`frame ${frame.name} is allocated over the live frame ${other.name}`)
    this.#live.set(index, frame)
    this.#count(frame, 1)
    const [live, peak] = [this.#bytes[space], this.peaks[space]]
    live[frame.kind] += frame.bytes
    peak[frame.kind] = Math.max(peak[frame.kind], live[frame.kind])
    this.poison(index)
  }

  free(index: number): void {
    const frame = this.#frame(index)
    if (this.#resident.has(index)) throw new Error(`frame ${frame.name} is resident and may not be freed`)
    if (!this.#live.delete(index)) throw new Error(`frame ${frame.name} is freed but not allocated`)
    this.#count(frame, -1)
    this.#bytes[spaceOf(frame)][frame.kind] -= frame.bytes
    this.poison(index)
  }

  /** The first cell of a frame, which must be alive and have room for `bytes`. */
  at(index: number, bytes = 0): number {
    const frame = this.#frame(index)
    if (!this.#live.has(index)) throw new Error(`frame ${frame.name} is used but not allocated`)
    if (frame.bytes < bytes) throw new Error(`frame ${frame.name} of ${frame.bytes} bytes is asked to hold ${bytes}`)
    return this.#cell(frame)
  }

  /** The cells of a live frame, as they are: not a copy. */
  view(index: number): Cells {
    const at = this.at(index)
    return this.cells.subarray(at, at + this.cellsOf(this.#frame(index).bytes))
  }

  cellsOf(bytes: number): number {
    return bytes / this.#cellBytes
  }

  poison(index: number): void {
    const frame = this.#frame(index)
    const at = this.#cell(frame)
    this.cells.fill(NaN, at, at + this.cellsOf(frame.bytes))
  }

  #linesOf(frame: Frame): Uint8Array {
    const begin = this.#base[spaceOf(frame)] + frame.offset
    return frame.bytes > 0
      ? this.#lines.subarray(Math.floor(begin / lineBytes), Math.ceil((begin + frame.bytes) / lineBytes))
      : this.#lines.subarray(0, 0)
  }

  #count(frame: Frame, by: 1 | -1): void {
    const lines = this.#linesOf(frame)
    for (let i = 0; i < lines.length; i++) lines[i] += by
  }

  #cell = (frame: Frame): number => this.cellsOf(this.#base[spaceOf(frame)] + frame.offset)

  #frame(index: number) {
    const frame = this.#stream.frames[index]
    if (!frame) throw new Error(`there is no frame ${index}`)
    return frame
  }
}

const overlap = (a: Frame, b: Frame): boolean =>
  spaceOf(a) === spaceOf(b) &&
  a.bytes > 0 &&
  b.bytes > 0 &&
  a.offset < b.offset + b.bytes &&
  b.offset < a.offset + a.bytes
