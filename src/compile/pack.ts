/**
 * Where blocks of memory go when their lifetimes are known: greedy, largest first, each at the lowest place that is
 * free for as long as it lives. Where that wastes memory, other sizes go first.
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
/** Sizes that may go first, and leases that are placed once more to find out, all packings together. */
const mostSizes = 10
const mostPlaced = 40_000

export function pack(leases: readonly Lease[]): Packing {
  const order = Array.from({ length: leases.length }, (_, i) => i)
  order.sort((a, b) => leases[b].bytes - leases[a].bytes || leases[a].start - leases[b].start || a - b)
  const packed = packInOrder(leases, order)!
  return packed.bytes <= tolerated * livePeak(leases) ? packed : betterPacking(leases, order, packed)
}

/** Changes of the order of sizes, as long as one of them helps. */
function betterPacking(leases: readonly Lease[], order: readonly number[], packed: Packing): Packing {
  let best = packed
  let sizes = [...new Set(order.map(i => leases[i].bytes))]
  const enough = tolerated * livePeak(leases)
  let left = Math.floor(mostPlaced / leases.length)
  for (let helped = true; helped; ) {
    helped = false
    for (const changed of changesOf(sizes.length)) {
      if (best.bytes <= enough || left-- <= 0) return best
      const tried = changed(sizes)
      const places = new Map(tried.map((size, place) => [size, place]))
      const next = order.toSorted((a, b) => places.get(leases[a].bytes)! - places.get(leases[b].bytes)!)
      const repacked = packInOrder(leases, next, best.bytes)
      if (!repacked) continue
      best = repacked
      sizes = tried
      helped = true
    }
  }
  return best
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

/** The greatest sum of bytes alive at one time: no packing has fewer. */
function livePeak(leases: readonly Lease[]): number {
  const starts = leases.toSorted((a, b) => a.start - b.start)
  const ends = leases.toSorted((a, b) => a.end - b.end)
  let [live, peak, gone] = [0, 0, 0]
  for (const { start, bytes } of starts) {
    for (; ends[gone].end <= start; gone++) live -= ends[gone].bytes
    live += bytes
    peak = Math.max(peak, live)
  }
  return peak
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
  if (start < slot.asked) at = firstAbove(ends, start)
  else while (at < ends.length && ends[at] <= start) at++
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
