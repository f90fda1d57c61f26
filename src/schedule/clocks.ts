/**
 * When each rank looks again at what to do, and who is first. Ranks lie in blocks whose earliest time is kept, so that a
 * step looks at about two square roots of them instead of all.
 */
export class Clocks {
  readonly #times: Float64Array
  readonly #tolerance: number
  readonly #size: number
  /** The earliest time of each block. */
  readonly #blocks: Float64Array

  /** Times that differ by no more than `tolerance` are the same. */
  constructor(ranks: number, tolerance: number) {
    this.#times = new Float64Array(ranks)
    this.#tolerance = tolerance
    this.#size = Math.ceil(Math.sqrt(ranks))
    this.#blocks = new Float64Array(Math.ceil(ranks / this.#size))
  }

  at(rank: number): number {
    return this.#times[rank]
  }

  set(rank: number, time: number): void {
    this.#times[rank] = time
    const block = Math.floor(rank / this.#size)
    this.#blocks[block] = this.#earliestIn(block)
  }

  #earliestIn(block: number): number {
    const end = Math.min(this.#times.length, (block + 1) * this.#size)
    let earliest = Number.POSITIVE_INFINITY
    for (let rank = block * this.#size; rank < end; rank++)
      if (this.#times[rank] < earliest) earliest = this.#times[rank]
    return earliest
  }

  /** The rank that `#byScan` finds: the first one near the earliest time, unless another before it is neither near nor far. */
  earliest(): number {
    let least = this.#blocks[0]
    for (let block = 1; block < this.#blocks.length; block++)
      if (this.#blocks[block] < least) least = this.#blocks[block]
    const [near, far] = [least + 0.5 * this.#tolerance, least + 2.5 * this.#tolerance]
    let block = 0
    for (; this.#blocks[block] > near; block++) if (this.#blocks[block] <= far) return this.#byScan()
    let rank = block * this.#size
    for (; this.#times[rank] > near; rank++) if (this.#times[rank] <= far) return this.#byScan()
    return rank
  }

  /** The definition: one rank after the other, each later one must be clearly earlier. */
  #byScan(): number {
    let first = 0
    for (let rank = 1; rank < this.#times.length; rank++)
      if (this.#times[rank] < this.#times[first] - this.#tolerance) first = rank
    return first
  }
}
