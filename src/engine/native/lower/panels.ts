/**
 * Operands that are packed once for several products: above all weights, with which every microbatch of a step multiplies.
 * Whoever reads a frame that nobody has written in between reads the same, so the first product packs for those that
 * follow. What is packed lies beside the workspace of the kernels, not in the arena of the plan.
 */
import { roundUp } from '../../../base/index.js'
import { bytesPer } from '../../../ir/index.js'
import { type ListWriter, wordOf } from './list.js'

export interface PanelOptions {
  /** Columns of a panel: what a packed operand is filled up to. */
  readonly columns: number
  /** Bytes that a rank may spend on all of them. */
  readonly mostBytes: number
}

/** A product and its right operand, which lies in a frame. */
export interface PanelProduct {
  readonly frame: number
  /** Where in memory. */
  readonly at: number
  readonly m: number
  readonly n: number
  readonly k: number
  readonly transB: boolean
  /** The word at which its command starts. */
  readonly start: number
}

interface Shared {
  /** Of one place, one shape and one state of the frame. */
  readonly starts: number[]
  readonly place: string
  readonly elements: number
}

export class Panels {
  readonly #options: PanelOptions
  /** How often a frame was written so far. */
  readonly #written = new Map<number, number>()
  readonly #shared = new Map<string, Shared>()

  constructor(options: PanelOptions) {
    this.#options = options
  }

  /** Somebody writes the frame, or it becomes another's. */
  touch(frame: number): void {
    this.#written.set(frame, (this.#written.get(frame) ?? 0) + 1)
  }

  note({ frame, at, m, n, k, transB, start }: PanelProduct): void {
    const place = [at, m, n, k, transB].join()
    const key = `${frame} ${place} ${this.#written.get(frame) ?? 0}`
    const shared = this.#shared.get(key) ?? { starts: [], place, elements: k * roundUp(n, this.#options.columns) }
    shared.starts.push(start)
    this.#shared.set(key, shared)
  }

  /** Gives those that several products share a place, the first that were met while there is room. */
  settle(list: ListWriter, take: (bytes: number) => number): void {
    const places = new Map<string, number>()
    let left = this.#options.mostBytes
    for (const { starts, place, elements } of this.#shared.values()) {
      const bytes = elements * bytesPer.f32
      if (starts.length < 2 || (!places.has(place) && bytes > left)) continue
      const panels = places.get(place) ?? take(bytes)
      left -= places.has(place) ? 0 : bytes
      places.set(place, panels)
      for (const [i, start] of starts.entries()) {
        list.set(start + wordOf('matmulWith', 'panels'), panels)
        list.set(start + wordOf('matmulWith', 'packs'), Number(i === 0))
      }
    }
  }
}
