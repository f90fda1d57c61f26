/**
 * Ranks on named axes. A rank is an argument, never ambient: everything here is a pure function of (mesh, rank).
 * An axis may be factored (`tp` = `tp.0` x `tp.1`, major first), so that grouped-query attention with few
 * key-value heads is an ordinary layout; the factors are then the mesh's axes and `tp` is their product.
 */
import type { Axis } from './axis.js'

export type Rank = number

export interface Mesh {
  /** Fastest varying first: rank = c0 + size0 * (c1 + size1 * (c2 + ...)). Axes of size 1 may be left out. */
  readonly axes: readonly { readonly name: Axis; readonly size: number }[]
  /**
   * The split of this dim over this axis, of c ranks, is not in order: rank r holds chunks r and 2c-1-r of 2c, so that
   * causal attention gives every rank as much to do. Axes that split the dim further cut what a rank holds in its order.
   * `documents`: each document of a sequence is split in zigzag by itself. Document boundaries are data, so a rank holds a run of
   * *slots*, and the token of each slot is data too: `order`.
   */
  readonly zigzag?: { readonly dim: string; readonly axis: Axis; readonly documents?: true }
}

export type Coordinates = Readonly<Record<string, number>>

/** The number of ranks of a mesh. */
export const worldOf = (mesh: Mesh): number => mesh.axes.reduce((world, axis) => world * axis.size, 1)

export const sizeOf = (mesh: Mesh, axis: Axis): number => mesh.axes.find(({ name }) => name === axis)?.size ?? 1

/** The number of shards of a dim that these axes split together: their sizes multiplied. */
export const sizeOfAll = (mesh: Mesh, axes: readonly Axis[]): number =>
  axes.reduce((product, axis) => product * sizeOf(mesh, axis), 1)

/** The coordinates of a rank on the mesh. */
export function coordinatesOf(mesh: Mesh, rank: Rank): Coordinates {
  const at: Record<string, number> = {}
  for (const { name, size } of mesh.axes) {
    at[name] = rank % size
    rank = Math.floor(rank / size)
  }
  return at
}

/** Missing coordinates are 0. */
export const rankAt = (mesh: Mesh, at: Coordinates): Rank =>
  mesh.axes.reduceRight((rank, { name, size }) => rank * size + (at[name] ?? 0), 0)

/** The position of a rank along several axes read as one, major axis first. */
export const indexAlong = (mesh: Mesh, axes: readonly Axis[], at: Coordinates): number =>
  axes.reduce((index, axis) => index * sizeOf(mesh, axis) + (at[axis] ?? 0), 0)

/** The coordinates along several axes read as one, from a position along them. */
export function coordinatesAlong(mesh: Mesh, axes: readonly Axis[], index: number): Coordinates {
  const at: Record<string, number> = {}
  for (const axis of axes.toReversed()) {
    const size = sizeOf(mesh, axis)
    at[axis] = index % size
    index = Math.floor(index / size)
  }
  return at
}

/** The ranks that differ from `rank` along `axes` only, in order of `indexAlong`: member i has index i. */
export function groupOf(mesh: Mesh, rank: Rank, axes: readonly Axis[]): Rank[] {
  const at = coordinatesOf(mesh, rank)
  return Array.from({ length: sizeOfAll(mesh, axes) }, (_, index) =>
    rankAt(mesh, { ...at, ...coordinatesAlong(mesh, axes, index) }),
  )
}
