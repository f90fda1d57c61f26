/**
 * Where blocks of memory go when their lifetimes are known: greedy, largest first, each at the lowest place that is
 * free for as long as it lives. Where that wastes memory, other orders are tried: by lifetimes, and other sizes first.
 */
export interface Lease {
  readonly bytes: number
  /** Alive from start up to, not including, end: whole numbers. */
  readonly start: number
  readonly end: number
}

export interface Packing {
  readonly offsets: readonly number[]
  readonly bytes: number
}

/** Everything begins at a multiple of 64 bytes. */
export const align = (bytes: number): number => Math.ceil(bytes / 64) * 64

/** Of the greatest sum of live bytes: more than this is waste. */
const tolerated = 1.01
/** Leases that are placed once more to find a better packing, all tries together; of these, so many tries move what lies on top. */
const mostPlaced = 40_000
const mostLifted = 60
/** Sizes that may go first. */
const mostSizes = 10

/** A packing of so many bytes is good enough, though a better one might be found. */
export function pack(leases: readonly Lease[], enough = 0): Packing {
  if (enough === Infinity) return oneBehindTheOther(leases)
  const order = Array.from({ length: leases.length }, (_, i) => i)
  order.sort((a, b) => leases[b].bytes - leases[a].bytes || leases[a].start - leases[b].start || a - b)
  const packer = new Packer(leases)
  const packed = packer.inOrder(order)!
  if (packed.bytes <= enough) return packed
  const { bytes, at } = fullestMoment(leases)
  const tries = new Tries(leases, packer, packed, Math.max(enough, tolerated * bytes))
  if (tries.areWanted) {
    tries.lift(byLife(leases, at))
    tries.rearrange(order)
  }
  return tries.best
}

function oneBehindTheOther(leases: readonly Lease[]): Packing {
  let bytes = 0
  const offsets = leases.map(lease => {
    const offset = bytes
    bytes += align(lease.bytes)
    return offset
  })
  return { offsets, bytes }
}

/** What is alive at this moment first, and what lives longest: gaps between those are filled by what comes and goes. */
function byLife(leases: readonly Lease[], at: number): number[] {
  const isThere = ({ start, end }: Lease) => (start <= at && at < end ? 0 : 1)
  const life = ({ start, end }: Lease) => end - start
  const before = (a: Lease, b: Lease) => isThere(a) - isThere(b) || life(b) - life(a) || b.bytes - a.bytes
  return leases.map((_, i) => i).sort((a, b) => before(leases[a], leases[b]) || a - b)
}

/** Other orders, until one wastes little or they have taken long enough. */
class Tries {
  best: Packing
  readonly #leases: readonly Lease[]
  readonly #packer: Packer
  readonly #enough: number
  #left: number

  constructor(leases: readonly Lease[], packer: Packer, packed: Packing, enough: number) {
    this.#leases = leases
    this.#packer = packer
    this.best = packed
    this.#enough = enough
    this.#left = Math.floor(mostPlaced / leases.length)
  }

  /** The lease that reaches highest is placed sooner, again and again. */
  lift(first: readonly number[]): void {
    const order = [...first]
    for (let lifted = 0; lifted < mostLifted && this.#goesOn(); lifted++) {
      const { offsets, bytes } = this.#try(order)
      const highest = order.findIndex(i => offsets[i] + this.#leases[i].bytes === bytes)
      order.splice(Math.floor(highest / 2), 0, ...order.splice(highest, 1))
    }
  }

  /** Changes of the order of sizes, as long as one of them helps. */
  rearrange(order: readonly number[]): void {
    let sizes = [...new Set(order.map(i => this.#leases[i].bytes))]
    for (let helped = true; helped; ) {
      helped = false
      for (const changed of changesOf(sizes.length)) {
        if (!this.#goesOn()) return
        const tried = changed(sizes)
        const places = new Map(tried.map((size, place) => [size, place]))
        const place = (i: number) => places.get(this.#leases[i].bytes)!
        const ordered = order.toSorted((a, b) => place(a) - place(b))
        const packed = this.#packer.inOrder(ordered, this.best.bytes)
        if (!packed) continue
        this.best = packed
        sizes = tried
        helped = true
      }
    }
  }

  get areWanted(): boolean {
    return this.best.bytes > this.#enough
  }

  #goesOn(): boolean {
    return this.areWanted && this.#left-- > 0
  }

  #try(order: readonly number[]): Packing {
    const packed = this.#packer.inOrder(order)!
    if (packed.bytes < this.best.bytes) this.best = packed
    return packed
  }
}

type Rearrangement = (sizes: readonly number[]) => number[]

/** One of the large sizes goes first, or changes places with the next. */
function changesOf(count: number): Rearrangement[] {
  const some = Array.from({ length: Math.min(mostSizes, count) - 1 }, (_, i) => i)
  return [
    ...some.map(
      (i): Rearrangement =>
        sizes => [sizes[i + 1], ...sizes.toSpliced(i + 1, 1)],
    ),
    ...some.map(
      (i): Rearrangement =>
        sizes =>
          sizes.toSpliced(i, 2, sizes[i + 1], sizes[i]),
    ),
  ]
}

/** When most bytes are alive, and how many: no packing has fewer. */
function fullestMoment(leases: readonly Lease[]): { readonly bytes: number; readonly at: number } {
  const starts = leases.toSorted((a, b) => a.start - b.start)
  const ends = leases.toSorted((a, b) => a.end - b.end)
  let [live, peak, at, gone] = [0, 0, 0, 0]
  for (const { start, bytes } of starts) {
    for (; ends[gone].end <= start; gone++) live -= ends[gone].bytes
    live += bytes
    if (live > peak) [peak, at] = [live, start]
  }
  return { bytes: peak, at }
}

/** Leases in columns, to be placed in one order after the other. */
class Packer {
  readonly #bytes: Float64Array
  readonly #sizes: Float64Array
  readonly #starts: Float64Array
  readonly #ends: Float64Array
  /** Time in 32 parts, a bit each: those in which a lease is alive, and those all through which it is. */
  readonly #touched: Int32Array
  readonly #filled: Int32Array

  constructor(leases: readonly Lease[]) {
    const column = () => new Float64Array(leases.length)
    this.#bytes = column()
    this.#sizes = column()
    this.#starts = column()
    this.#ends = column()
    this.#touched = new Int32Array(leases.length)
    this.#filled = new Int32Array(leases.length)
    let [first, last] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY]
    for (const { start, end } of leases) [first, last] = [Math.min(first, start), Math.max(last, end)]
    const part = (time: number) => Math.floor((32 * (time - first)) / (last - first))
    for (const [i, { bytes, start, end }] of leases.entries()) {
      this.#bytes[i] = bytes
      this.#sizes[i] = align(bytes)
      this.#starts[i] = start
      this.#ends[i] = end
      this.#touched[i] = bits(part(start), part(end - 1) + 1)
      this.#filled[i] = bits(part(start - 1) + 1, part(end))
    }
  }

  /** Undefined: not below so many bytes. */
  inOrder(order: readonly number[], below = Number.POSITIVE_INFINITY): Packing | undefined {
    const offsets = new Array<number>(order.length).fill(0)
    const slots = new Slots()
    let bytes = 0
    for (const i of order) {
      const [start, end, size] = [this.#starts[i], this.#ends[i], this.#sizes[i]]
      const offset = slots.lowestFree(size, start, end, this.#touched[i], this.#filled[i])
      slots.occupy(offset, offset + size, start, end, this.#touched[i])
      offsets[i] = offset
      bytes = Math.max(bytes, offset + this.#bytes[i])
      if (bytes >= below) return undefined
    }
    return { offsets, bytes }
  }
}

/** From one bit up to, not including, another. */
const bits = (from: number, to: number): number =>
  to <= from ? 0 : (to - from === 32 ? -1 : (1 << (to - from)) - 1) << from

/** Who has a run of bytes when. Layers are alike, so a few slots serve thousands of leases. */
interface Holders {
  /** Disjoint and ascending. */
  readonly starts: number[]
  readonly ends: number[]
  /** The time that was asked for last, and the first end after it: leases of one size come in the order of their starts. */
  asked: number
  next: number
}

/** Runs of bytes, in the order of their first byte. In columns: nearly all the time of packing is spent looking through them. */
class Slots {
  #count = 0
  #from = new Float64Array(64)
  #to = new Float64Array(64)
  /** Parts of time in which somebody has the slot. */
  #touched = new Int32Array(64)
  readonly #holders: Holders[] = []

  lowestFree(size: number, start: number, end: number, touched: number, filled: number): number {
    const [from, to, held, count] = [this.#from, this.#to, this.#touched, this.#count]
    let offset = 0
    for (let at = 0; at < count && from[at] < offset + size; at++) {
      if (to[at] <= offset || (held[at] & touched) === 0) continue
      if ((held[at] & filled) !== 0 || isTaken(this.#holders[at], start, end)) offset = to[at]
    }
    return offset
  }

  occupy(from: number, to: number, start: number, end: number, touched: number): void {
    let at = this.#firstFrom(from)
    while (at < this.#count && this.#from[at] === from && this.#to[at] !== to) at++
    if (at === this.#count || this.#from[at] !== from || this.#to[at] !== to) this.#insert(at, from, to)
    this.#touched[at] |= touched
    const holders = this.#holders[at]
    const place = firstAbove(holders.ends, start)
    holders.starts.splice(place, 0, start)
    holders.ends.splice(place, 0, end)
    holders.asked = start
    holders.next = place
  }

  /** The first slot that begins here or later. */
  #firstFrom(from: number): number {
    let [low, high] = [0, this.#count]
    while (low < high) {
      const middle = (low + high) >> 1
      if (this.#from[middle] < from) low = middle + 1
      else high = middle
    }
    return low
  }

  #insert(at: number, from: number, to: number): void {
    if (this.#count === this.#from.length) this.#grow()
    for (const column of [this.#from, this.#to, this.#touched]) column.copyWithin(at + 1, at, this.#count)
    this.#from[at] = from
    this.#to[at] = to
    this.#touched[at] = 0
    this.#holders.splice(at, 0, { starts: [], ends: [], asked: 0, next: 0 })
    this.#count++
  }

  #grow(): void {
    const longer = <Column extends Float64Array | Int32Array>(column: Column, made: Column): Column => {
      made.set(column)
      return made
    }
    this.#from = longer(this.#from, new Float64Array(2 * this.#count))
    this.#to = longer(this.#to, new Float64Array(2 * this.#count))
    this.#touched = longer(this.#touched, new Int32Array(2 * this.#count))
  }
}

function isTaken(slot: Holders, start: number, end: number): boolean {
  const { starts, ends } = slot
  let at = slot.next
  // The same end as before, or the next one, or any.
  if (start < slot.asked) at = firstAbove(ends, start)
  else if (at < ends.length && ends[at] <= start && ++at < ends.length && ends[at] <= start)
    at = firstAbove(ends, start)
  slot.asked = start
  slot.next = at
  return at < ends.length && starts[at] < end
}

/** The index of the first number greater than `value` in an ascending list. */
function firstAbove(numbers: readonly number[], value: number): number {
  let [low, high] = [0, numbers.length]
  while (low < high) {
    const middle = (low + high) >> 1
    if (numbers[middle] <= value) low = middle + 1
    else high = middle
  }
  return low
}
