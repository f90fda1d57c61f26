/**
 * Where blocks of memory go when their lifetimes are known: greedy, largest first, each at the lowest place that is
 * free for as long as it lives. Where that wastes memory, other orders are tried: by lifetimes, and other sizes first.
 */
export interface Lease {
  readonly bytes: number
  /** Alive from start up to, not including, end. */
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

export function pack(leases: readonly Lease[]): Packing {
  const order = Array.from({ length: leases.length }, (_, i) => i)
  order.sort((a, b) => leases[b].bytes - leases[a].bytes || leases[a].start - leases[b].start || a - b)
  const packed = packInOrder(leases, order)!
  const { bytes, at } = fullestMoment(leases)
  const tries = new Tries(leases, packed, tolerated * bytes)
  tries.lift(byLife(leases, at))
  tries.rearrange(order)
  return tries.best
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
  readonly #enough: number
  #left: number

  constructor(leases: readonly Lease[], packed: Packing, enough: number) {
    this.#leases = leases
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
        const packed = packInOrder(this.#leases, ordered, this.best.bytes)
        if (!packed) continue
        this.best = packed
        sizes = tried
        helped = true
      }
    }
  }

  #goesOn(): boolean {
    return this.best.bytes > this.#enough && this.#left-- > 0
  }

  #try(order: readonly number[]): Packing {
    const packed = packInOrder(this.#leases, order)!
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

/** Undefined: not below so many bytes. */
function packInOrder(
  leases: readonly Lease[],
  order: readonly number[],
  below = Number.POSITIVE_INFINITY,
): Packing | undefined {
  const offsets = new Array<number>(leases.length).fill(0)
  const slots: Stretch[] = []
  let bytes = 0
  for (const i of order) {
    const size = align(leases[i].bytes)
    const offset = lowestFree(slots, leases[i], size)
    occupy(slots, leases[i], offset, offset + size)
    offsets[i] = offset
    bytes = Math.max(bytes, offset + leases[i].bytes)
    if (bytes >= below) return undefined
  }
  return { offsets, bytes }
}

/** A run of bytes and who has it when. Layers are alike, so a few slots serve thousands of leases. */
interface Stretch {
  readonly from: number
  readonly to: number
  /** Disjoint and ascending. */
  readonly starts: number[]
  readonly ends: number[]
  /** The time that was asked for last, and the first end after it: leases of one size come in the order of their starts. */
  asked: number
  next: number
}

function lowestFree(slots: readonly Stretch[], lease: Lease, size: number): number {
  let offset = 0
  for (let at = 0; at < slots.length; at++) {
    const slot = slots[at]
    if (slot.from >= offset + size) break
    if (slot.to > offset && taken(slot, lease)) offset = slot.to
  }
  return offset
}

function taken(slot: Stretch, { start, end }: Lease): boolean {
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

/** Slots are kept in order of their first byte. */
function occupy(slots: Stretch[], { start, end }: Lease, from: number, to: number): void {
  let at = 0
  while (at < slots.length && (slots[at].from < from || (slots[at].from === from && slots[at].to !== to))) at++
  if (slots[at]?.from !== from || slots[at].to !== to)
    slots.splice(at, 0, { from, to, starts: [], ends: [], asked: 0, next: 0 })
  const slot = slots[at]
  const place = firstAbove(slot.ends, start)
  slot.starts.splice(place, 0, start)
  slot.ends.splice(place, 0, end)
  slot.asked = start
  slot.next = place
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
