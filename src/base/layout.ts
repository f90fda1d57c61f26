/**
 * How one tensor lies on the mesh: per dim the ordered axes it is split over (major first), and the axes
 * over which every rank holds only an addend (`sum`) or a candidate (`max`) of the value. An axis that is
 * in neither is one on which the tensor is whole: every rank along it holds the same numbers.
 */
import type { Axis } from './axis.js'
import { type Coordinates, indexAlong, type Mesh, sizeOfAll } from './mesh.js'

export type Combine = 'sum' | 'max'

export interface Layout {
  readonly splits: Readonly<Record<string, readonly Axis[]>>
  readonly partial: Readonly<Partial<Record<Axis, Combine>>>
}

export interface Dim {
  readonly name: string
  readonly size: number
}

export const whole: Layout = { splits: {}, partial: {} }

export const splitOf = (layout: Layout, dim: string): readonly Axis[] => layout.splits[dim] ?? []

export const partialAxes = (layout: Layout): Axis[] => Object.keys(layout.partial) as Axis[]

/** A tensor's dims as one rank holds them. */
export const localDims = (mesh: Mesh, dims: readonly Dim[], layout: Layout): Dim[] =>
  dims.map(({ name, size }) => ({ name, size: size / sizeOfAll(mesh, splitOf(layout, name)) }))

/** Where the rank at `at` begins along a dim whose local size is `local`. */
export const originOf = (mesh: Mesh, layout: Layout, dim: Dim, at: Coordinates): number =>
  indexAlong(mesh, splitOf(layout, dim.name), at) * dim.size

export const elementsOf = (dims: readonly Dim[]): number => dims.reduce((n, dim) => n * dim.size, 1)

export const sameLayout = (a: Layout, b: Layout): boolean => layoutKey(a) === layoutKey(b)

/** One string per layout: equal layouts, whatever the order of their keys, give equal strings. */
export const layoutKey = (layout: Layout): string =>
  [
    ...Object.entries(layout.splits)
      .filter(([, axes]) => axes.length > 0)
      .map(([dim, axes]) => `${dim}/${axes.join('.')}`)
      .sort(),
    ...Object.entries(layout.partial)
      .map(([axis, combine]) => `${combine}:${axis}`)
      .sort(),
  ].join(' ')
