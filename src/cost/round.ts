/** What attention has to do where keys go round: at a turn, the pairs of a query and a key of the rank that has most of them. */
import {
  type Axis,
  type Coordinates,
  coordinatesAlong,
  homeOf,
  type Mesh,
  partAlong,
  sizeOfAll,
  splitOf,
} from '../base/index.js'
import type { Buffer } from '../ir/index.js'

/**
 * Keys that a query sees on average on that rank; undefined where keys do not go round. Documents that are cut one by one are
 * counted as one that is.
 */
export function keysOfTurn(on: Mesh, queries: Buffer, keys: Buffer, window = Infinity): number | undefined {
  const mesh: Mesh = on.zigzag?.documents ? { ...on, zigzag: { dim: on.zigzag.dim, axis: on.zigzag.axis } } : on
  const [asked, held] = [splitOf(queries.layout, 'seq'), splitOf(keys.layout, 'seq')]
  if (asked.length === 0 || held.join() !== asked.join()) return undefined
  const size = keys.dims.find(({ name }) => name === 'seq')?.size ?? 1
  const pairsOf = (rank: number) => {
    const at = coordinatesAlong(mesh, asked, rank)
    const [runs, seen] = [at, homeOf(mesh, keys.layout, at)].map(place => runsOf(mesh, asked, size, place))
    return runs.flatMap(query => seen.map(key => pairsSeen(query, key, window))).reduce((a, b) => a + b, 0)
  }
  return Math.max(...Array.from({ length: sizeOfAll(mesh, asked) }, (_, rank) => pairsOf(rank))) / size
}

/** Tokens that follow each other. */
export interface TokenRun {
  readonly first: number
  readonly length: number
}

function runsOf(mesh: Mesh, axes: readonly Axis[], size: number, at: Coordinates): TokenRun[] {
  const { origin, until, gap } = partAlong(mesh, axes, { name: 'seq', size }, at)
  const early = { first: origin, length: Math.min(until, size) }
  return until < size ? [early, { first: origin + until + gap, length: size - until }] : [early]
}

/** Pairs whose key is at most window - 1 positions before the query, and not after it. */
export function pairsSeen(query: TokenRun, key: TokenRun, window: number): number {
  const most = query.first + query.length - key.first
  return within(query, key, Math.min(window, most) - 1) - within(query, key, -1)
}

/** Pairs in which the query is at most `distance` positions after the key: a trapezium, as a sum of triangles. */
function within(query: TokenRun, key: TokenRun, distance: number): number {
  const most = key.first + key.length - query.first + distance
  const triangle = (side: number) => (side > 0 ? (side * (side + 1)) / 2 : 0)
  return (
    triangle(most) -
    triangle(most - query.length) -
    triangle(most - key.length) +
    triangle(most - query.length - key.length)
  )
}
