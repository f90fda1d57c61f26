/**
 * Where blocks of memory go when their lifetimes are known: greedy, largest first, each at the lowest place that is
 * free for as long as it lives.
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

const align = (bytes: number): number => Math.ceil(bytes / 64) * 64

export function pack(leases: readonly Lease[]): Packing {
  const n = leases.length
  const order = Array.from({ length: n }, (_, i) => i)
  order.sort((a, b) => leases[b].bytes - leases[a].bytes || leases[a].start - leases[b].start || a - b)
  const offsets = new Array<number>(n).fill(0)
  // Columns of what is placed, by offset: the inner loop below is most of the compiler's time.
  const [start, end, from, to] = Array.from({ length: 4 }, () => new Float64Array(n))
  let bytes = 0
  for (const [placed, i] of order.entries()) {
    const lease = leases[i]
    const size = align(lease.bytes)
    let offset = 0
    for (let j = 0; j < placed; j++) {
      if (end[j] <= lease.start || lease.end <= start[j]) continue
      if (from[j] >= offset + size) break
      if (to[j] > offset) offset = to[j]
    }
    const at = lowerBound(from, placed, offset)
    for (const column of [start, end, from, to]) column.copyWithin(at + 1, at, placed)
    start[at] = lease.start
    end[at] = lease.end
    from[at] = offset
    to[at] = offset + size
    offsets[i] = offset
    bytes = Math.max(bytes, offset + lease.bytes)
  }
  return { offsets, bytes }
}

/** The first of `count` ascending numbers that is greater than `value`. */
function lowerBound(numbers: Float64Array, count: number, value: number): number {
  let [low, high] = [0, count]
  while (low < high) {
    const middle = (low + high) >> 1
    if (numbers[middle] <= value) low = middle + 1
    else high = middle
  }
  return low
}
