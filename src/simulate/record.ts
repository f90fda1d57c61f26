/** What is written down of one class of ranks. What takes no time is not. */
import type { Lane } from '../ir/index.js'
import { lanes, type SpanColumns, SpanWriter } from '../trace/index.js'
import type { Work } from './score.js'

const codes: Readonly<Record<Lane, number>> = {
  compute: lanes.indexOf('compute'),
  network: lanes.indexOf('network'),
  host: lanes.indexOf('host'),
}

export class Recorder {
  readonly #writer = new SpanWriter()

  /** Something on a link; `instr` -1: the step itself. */
  carry(where: { step: number; instr: number; link: number }, start: number, end: number): void {
    if (end > start) this.#writer.add({ ...where, lane: codes.network }, start, end)
  }

  /** A run of instructions, each its share of the time: what ran beside it slowed them all alike. */
  work(step: number, { lane, instrs, ends, seconds }: Work, from: number, to: number): void {
    if (to <= from) return
    const stretch = (to - from) / seconds
    const code = codes[lane]
    let start = from
    for (let i = 0; i < instrs.length; i++) {
      const end = from + stretch * ends[i]
      if (end > start) this.#writer.add({ step, instr: instrs[i], lane: code }, start, end)
      start = end
    }
  }

  columns(links: readonly string[]): SpanColumns {
    return this.#writer.columns(links)
  }
}
