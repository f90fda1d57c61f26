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
  const offsets = new Array<number>(leases.length).fill(0)
  const order = leases
    .map((_, i) => i)
    .sort((a, b) => leases[b].bytes - leases[a].bytes || leases[a].start - leases[b].start || a - b)
  /** Placed so far, by offset. */
  const placed: number[] = []
  let bytes = 0
  for (const i of order) {
    const { start, end } = leases[i]
    const size = align(leases[i].bytes)
    let offset = 0
    for (const j of placed) {
      if (leases[j].end <= start || end <= leases[j].start) continue
      if (offsets[j] >= offset + size) break
      offset = Math.max(offset, offsets[j] + align(leases[j].bytes))
    }
    offsets[i] = offset
    insert(placed, i, offsets)
    bytes = Math.max(bytes, offset + leases[i].bytes)
  }
  return { offsets, bytes }
}

function insert(placed: number[], i: number, offsets: readonly number[]): void {
  let [low, high] = [0, placed.length]
  while (low < high) {
    const middle = (low + high) >> 1
    if (offsets[placed[middle]] <= offsets[i]) low = middle + 1
    else high = middle
  }
  placed.splice(low, 0, i)
}
