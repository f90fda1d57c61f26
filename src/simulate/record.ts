/** What is written down of one class of ranks: columns of numbers, since a step has hundreds of thousands of spans. */
import { type Rank, seconds } from '../base/index.js'
import type { Lane } from '../ir/index.js'
import type { Span } from '../trace/index.js'
import type { Work } from './score.js'

const lanes: readonly Lane[] = ['compute', 'network', 'host']

export class Recorder {
  #steps = new Int32Array(1024)
  #instrs = new Int32Array(1024)
  /** The lane; for the network, 3 more for each link. */
  #lanes = new Uint8Array(1024)
  #times = new Float64Array(2048)
  #count = 0

  /** `instr` -1: the step itself. What takes no time is not written down. */
  add(where: { step: number; instr: number; lane: Lane; link?: number }, start: number, end: number): void {
    if (end <= start) return
    if (this.#count === this.#steps.length) this.#grow()
    this.#steps[this.#count] = where.step
    this.#instrs[this.#count] = where.instr
    this.#lanes[this.#count] = lanes.indexOf(where.lane) + 3 * (where.link ?? 0)
    this.#times[2 * this.#count] = start
    this.#times[2 * this.#count + 1] = end
    this.#count++
  }

  /** A run of instructions, each its share of the time: what ran beside it slowed them all alike. */
  work(step: number, { lane, instrs, ends, seconds }: Work, from: number, to: number): void {
    if (to <= from) return
    const stretch = (to - from) / seconds
    for (const [i, instr] of instrs.entries())
      this.add({ step, instr, lane }, from + stretch * (i === 0 ? 0 : ends[i - 1]), from + stretch * ends[i])
  }

  spansOf(rank: Rank, links: readonly string[]): Span[] {
    return Array.from({ length: this.#count }, (_, i) => {
      const lane = lanes[this.#lanes[i] % 3]
      return {
        rank,
        lane,
        ...(lane === 'network' ? { link: links[Math.floor(this.#lanes[i] / 3)] } : {}),
        step: this.#steps[i],
        instr: this.#instrs[i],
        start: seconds(this.#times[2 * i]),
        end: seconds(this.#times[2 * i + 1]),
      }
    })
  }

  #grow(): void {
    const copy = <T extends Int32Array | Uint8Array | Float64Array>(from: T, to: T): T => {
      to.set(from)
      return to
    }
    this.#steps = copy(this.#steps, new Int32Array(2 * this.#count))
    this.#instrs = copy(this.#instrs, new Int32Array(2 * this.#count))
    this.#lanes = copy(this.#lanes, new Uint8Array(2 * this.#count))
    this.#times = copy(this.#times, new Float64Array(4 * this.#count))
  }
}
