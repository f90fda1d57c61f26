/**
 * Residuals of error feedback, from a checkpoint of one number of data ranks to another. Each rank has its own, and only their sum is owed: residual i of a
 * checkpoint is added to that of rank i mod n. So the same plan is given back what it had, more ranks begin with zeros, and fewer share the rest.
 */
import { addendsIn, type Dim } from '../base/index.js'
import { type Box, elementsIn } from './box.js'
import type { Target } from './checkpoint.js'
import type { Shard } from './shards.js'

/** What is read of a checkpoint for a shard: into its own values, or to be added to them. */
export interface Term extends Target {
  readonly values: Float64Array
  readonly addTo?: Float64Array
}

const isStacked = (dims: readonly Dim[]): boolean => dims.some(({ name }) => name === 'addend')

/** The terms of a shard's `values`, which are zeros, in a tensor of these dims. */
export function termsOf(shard: Shard, values: Float64Array, dims: readonly Dim[]): Term[] {
  const { start, shape, line } = shard
  const [own, held] = [addendsIn(shard.dims), addendsIn(dims)]
  if (own === held && isStacked(shard.dims) === isStacked(dims))
    return [{ start, shape, ...(line && { line }), values }]
  const [first, rows] = isStacked(shard.dims) ? [start[0], shape[0]] : [0, 1]
  const block = isStacked(shard.dims) ? { start: start.slice(1), shape: shape.slice(1) } : { start, shape }
  const boxOf = (addend: number): Box => ({
    ...(isStacked(dims) ? { start: [addend, ...block.start], shape: [1, ...block.shape] } : block),
    ...(line && { line }),
  })
  return Array.from({ length: rows }, (_, row) => {
    const size = elementsIn(shard) / rows
    const addTo = values.subarray(row * size, (row + 1) * size)
    const sources = Array.from({ length: held }, (_, addend) => addend).filter(i => i % own === first + row)
    return sources.map(i => ({ ...boxOf(i), values: new Float64Array(size), addTo }))
  }).flat()
}
