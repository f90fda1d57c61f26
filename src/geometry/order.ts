/**
 * The order in which the tokens of a sequence lie where each document is cut in zigzag by itself: rank after rank, and of each rank
 * its two chunks of one document after the other. Where documents begin is data; so is the order.
 */
import type { Dim } from '../base/index.js'
import { strideOf } from './tensor.js'

/** The token at each slot of a sequence whose tokens have these positions in their documents, cut over so many ranks. */
export function orderOf(positions: ArrayLike<number>, ranks: number): Int32Array {
  const order = new Int32Array(positions.length)
  if (ranks === 1) return order.map((_, slot) => slot)
  const begins = Array.from(positions).flatMap((position, token) => (position === 0 ? [token] : []))
  const documents = begins.map((first, i) => [first, (begins[i + 1] ?? positions.length) - first])
  let slot = 0
  for (let rank = 0; rank < ranks; rank++)
    for (const [first, length] of documents)
      for (const chunk of [rank, 2 * ranks - 1 - rank])
        for (let i = (chunk * length) / (2 * ranks); i < ((chunk + 1) * length) / (2 * ranks); i++)
          order[slot++] = first + i
  return order
}

/** The same of all sequences, one after the other. */
export function ordersOf(positions: ArrayLike<number>, seq: number, ranks: number): Int32Array {
  const all = Int32Array.from(positions)
  for (let first = 0; first < all.length; first += seq) all.set(orderOf(all.subarray(first, first + seq), ranks), first)
  return all
}

/** Values of [batch seq ..], which follow each other, as they lie in these orders. */
export function laid(values: ArrayLike<number>, dims: readonly Dim[], orders: Int32Array): ArrayLike<number> {
  const seq = dims[1]
  if (seq?.name !== 'seq') return values
  const each = strideOf(dims, 'seq')
  const token = (slot: number) => slot - (slot % seq.size) + orders[slot]
  return Float64Array.from({ length: values.length }, (_, i) => values[token(Math.floor(i / each)) * each + (i % each)])
}
