/**
 * Spans of one rank as columns of numbers. A step has hundreds of thousands of spans: as columns they are written down without
 * an object each, handed to another thread whole, and drawn. `Span` objects are made from them where somebody wants to read one.
 */
import { type Rank, seconds } from '../base/index.js'
import type { Lane } from '../ir/index.js'
import type { Span } from './span.js'

/** The lanes of a rank, in the order of their numbers in the column `lane`. */
export const lanes: readonly Lane[] = ['compute', 'network', 'host']

/** The value in column `link` if no network is involved, or an unknown one. */
export const noLink = 255

/** Spans as typed arrays of one length, which can be transferred to another thread; `step` and `instr` as in `Span`. */
export interface SpanColumns {
  readonly start: Float64Array<ArrayBuffer>
  readonly end: Float64Array<ArrayBuffer>
  readonly step: Int32Array<ArrayBuffer>
  readonly instr: Int32Array<ArrayBuffer>
  /** Index into `lanes`. */
  readonly lane: Uint8Array<ArrayBuffer>
  /** Index into `links`, or `noLink`. */
  readonly link: Uint8Array<ArrayBuffer>
  readonly links: readonly string[]
}

/** A span to be written down; `lane` is an index into `lanes`. */
export interface SpanEntry {
  readonly step: number
  readonly instr: number
  readonly lane: number
  readonly link?: number
}

export const spansIn = (columns: SpanColumns, rank: Rank): Span[] =>
  Array.from(columns.start, (start, i) => ({
    rank,
    lane: lanes[columns.lane[i]],
    ...(columns.link[i] === noLink ? {} : { link: columns.links[columns.link[i]] }),
    step: columns.step[i],
    instr: columns.instr[i],
    start: seconds(start),
    end: seconds(columns.end[i]),
  }))

/** Of all ranks, whose columns stand in their order. */
export const spansOfRanks = (all: readonly SpanColumns[]): Span[] => all.flatMap(spansIn)

/** Writes spans down, however many come. */
export class SpanWriter {
  #start = new Float64Array(1024)
  #end = new Float64Array(1024)
  #step = new Int32Array(1024)
  #instr = new Int32Array(1024)
  #lane = new Uint8Array(1024)
  #link = new Uint8Array(1024)
  #count = 0

  add({ step, instr, lane, link = noLink }: SpanEntry, start: number, end: number): void {
    const at = this.#count++
    if (at === this.#start.length) this.#grow()
    this.#start[at] = start
    this.#end[at] = end
    this.#step[at] = step
    this.#instr[at] = instr
    this.#lane[at] = lane
    this.#link[at] = link
  }

  /** A copy of what was written so far. */
  columns(links: readonly string[]): SpanColumns {
    const count = this.#count
    return {
      ...{ start: this.#start.slice(0, count), end: this.#end.slice(0, count) },
      ...{ step: this.#step.slice(0, count), instr: this.#instr.slice(0, count) },
      ...{ lane: this.#lane.slice(0, count), link: this.#link.slice(0, count) },
      links,
    }
  }

  #grow(): void {
    const length = 2 * this.#start.length
    const copy = <T extends Int32Array | Uint8Array | Float64Array>(from: T, to: T): T => {
      to.set(from)
      return to
    }
    this.#start = copy(this.#start, new Float64Array(length))
    this.#end = copy(this.#end, new Float64Array(length))
    this.#step = copy(this.#step, new Int32Array(length))
    this.#instr = copy(this.#instr, new Int32Array(length))
    this.#lane = copy(this.#lane, new Uint8Array(length))
    this.#link = copy(this.#link, new Uint8Array(length))
  }
}
