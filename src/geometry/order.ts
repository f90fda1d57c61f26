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
  if (dims[1]?.name !== 'seq') return values
  const from = tokensOf(dims, orders)
  return Float64Array.from({ length: values.length }, (_, i) => values[from(i)])
}

/** The inverse: values that lie in these orders, as they follow each other. */
export function followed(values: Int32Array, dims: readonly Dim[], orders: Int32Array): Int32Array {
  const to = tokensOf(dims, orders)
  const all = new Int32Array(values.length)
  for (let i = 0; i < values.length; i++) all[to(i)] = values[i]
  return all
}

/** For each value of [batch seq ..] as they lie, which it is of those that follow each other. */
function tokensOf(dims: readonly Dim[], orders: Int32Array): (value: number) => number {
  const [each, { size }] = [strideOf(dims, 'seq'), dims[1]]
  return value => {
    const slot = Math.floor(value / each)
    return (slot - (slot % size) + orders[slot]) * each + (value % each)
  }
}
