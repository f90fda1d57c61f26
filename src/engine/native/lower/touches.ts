/**
 * What the instructions of a segment touch, as they are done by now, and where what they write lies: so that one of them may
 * be done elsewhere, or write another place than was planned, only where nobody notices.
 */
import { bytesPer, type Ref, type Segment, traitsOf } from '../../../ir/index.js'
import { same } from './shapes.js'

export interface Touch {
  readonly reads: readonly Ref[]
  readonly writes: readonly Ref[]
}

export const untouched: Touch = { reads: [], writes: [] }

export class Touches {
  /** Results that lie where another buffer was planned to. */
  readonly places = new Map<Ref, Ref>()
  readonly #segment: Segment
  readonly #touched: Touch[]

  constructor(segment: Segment) {
    this.#segment = segment
    this.#touched = touchesOf(segment)
  }

  at(index: number): Touch {
    return this.#touched[index]
  }

  set(index: number, touch: Touch): void {
    this.#touched[index] = touch
  }

  /** What is touched by those behind `from` and before `until`. */
  between(from: number, until: number): readonly Touch[] {
    return this.#touched.slice(from + 1, until)
  }

  /** Of the last instruction that reads it; -1 where nobody does. */
  lastRead(ref: Ref): number {
    return this.#touched.findLastIndex(({ reads }) => reads.includes(ref))
  }

  alike(a: Ref, b: Ref): boolean {
    const { buffers } = this.#segment
    return buffers[a].dtype === buffers[b].dtype && same(buffers[a].dims, buffers[b].dims)
  }

  overlap(a: Ref, b: Ref): boolean {
    const [one, two] = [this.#placed(a), this.#placed(b)]
    return one.role === two.role && one.offset < two.end && two.offset < one.end
  }

  /** Element for element at the same place. */
  coincide(a: Ref, b: Ref): boolean {
    const [one, two] = [this.#placed(a), this.#placed(b)]
    return this.alike(a, b) && one.role === two.role && one.offset === two.offset
  }

  #placed(ref: Ref) {
    const { role, offset, dims, dtype } = this.#segment.buffers[this.places.get(ref) ?? ref]
    return { role, offset, end: offset + bytesPer[dtype] * dims.reduce((n, { size }) => n * size, 1) }
  }
}

/** A collective may touch its operands from its start to its wait: at both. */
function touchesOf({ instrs }: Segment): Touch[] {
  const open = new Map<Ref, Touch>()
  return instrs.map(instr => {
    const { reads, writes, starts, finishes } = traitsOf(instr)
    if (finishes !== undefined) return open.get(finishes) ?? { reads, writes }
    const touch = { reads, writes }
    if (starts) open.set(writes[0], touch)
    return touch
  })
}
