/**
 * How one tensor lies on the mesh: per dim the ordered axes it is split over (major first), and the axes
 * over which every rank holds only an addend (`sum`) or a candidate (`max`) of the value. An axis that is
 * in neither is one on which the tensor is whole: every rank along it holds the same numbers.
 *
 * A *flat* layout cuts further: the block that `splits` leaves a rank, row-major in the order of the tensor's dims, is
 * one line of N elements, cut over the flat axes into n equal parts of ceil(N / n). So any number of ranks can share any
 * tensor. The last parts may be shorter or empty; beyond the last element a part holds zeros.
 *
 * Parts may go round: with a *turn* of n along axes read as one a rank holds the part of the rank n before it. An op that sees the
 * parts of others one turn after the other gives a *share* of its results at each; the shares of all turns make the value.
 */
import type { Axis } from './axis.js'
import { type Coordinates, coordinatesAlong, indexAlong, type Mesh, sizeOfAll } from './mesh.js'

export type Combine = 'sum' | 'max'

export interface Layout {
  readonly splits: Readonly<Record<string, readonly Axis[]>>
  readonly partial: Readonly<Partial<Record<Axis, Combine>>>
  /** Axes over which the line of the block is cut, major first. */
  readonly flat?: readonly Axis[]
  readonly turn?: Turn
  /** It is not the value yet, but the shares of some turns. */
  readonly shares?: Shares
}

/** How far parts have gone round along the axes that split a dim first, read as one. */
export interface Turn {
  readonly axes: readonly Axis[]
  readonly by: number
}

/** Shares of the turns `held`, of all those that are `needed`, along axes read as one; both ascend. */
export interface Shares {
  readonly axes: readonly Axis[]
  readonly held: readonly number[]
  readonly needed: readonly number[]
}

export interface Dim {
  readonly name: string
  readonly size: number
}

export const whole: Layout = { splits: {}, partial: {} }

/** How many addends lie side by side along the dim of that name. Where several do, their sum is what the tensor stands for. */
export const addendsIn = (dims: readonly Dim[]): number => dims.find(({ name }) => name === 'addend')?.size ?? 1

/** The dims of that sum. */
export const summedDims = (dims: readonly Dim[]): readonly Dim[] => dims.filter(({ name }) => name !== 'addend')

export const splitOf = (layout: Layout, dim: string): readonly Axis[] => layout.splits[dim] ?? []

export const partialAxes = (layout: Layout): Axis[] => Object.keys(layout.partial) as Axis[]

export const flatAxes = (layout: Layout): readonly Axis[] => layout.flat ?? []

/** A tensor's dims as one rank holds them; of a flat layout those of the block that is cut. */
export const localDims = (mesh: Mesh, dims: readonly Dim[], layout: Layout): Dim[] =>
  dims.map(({ name, size }) => ({ name, size: size / sizeOfAll(mesh, splitOf(layout, name)) }))

/** A rank's part of a dim: its first `until` elements follow each other from `origin` on, then `gap` are skipped. */
export interface DimPart {
  readonly origin: number
  readonly until: number
  readonly gap: number
}

/** The part of a dim, of local size `size`, that the rank at `at` holds where the dim is split over `axes`. */
export function partAlong(mesh: Mesh, axes: readonly Axis[], { name, size }: Dim, at: Coordinates): DimPart {
  const turning = isBroken(mesh, name) ? zigzagAxes(mesh, axes) : []
  if (turning.length === 0) return { origin: indexAlong(mesh, axes, at) * size, until: size, gap: 0 }
  const [ranks, rank, minor] = [sizeOfAll(mesh, turning), indexAlong(mesh, turning, at), axes.slice(turning.length)]
  const chunk = (size * sizeOfAll(mesh, minor)) / 2
  const first = indexAlong(mesh, minor, at) * size
  const gap = 2 * (ranks - 1 - rank) * chunk
  return {
    origin: rank * chunk + first + (first < chunk ? 0 : gap),
    ...(first < chunk && chunk < first + size && gap > 0 ? { until: chunk - first, gap } : { until: size, gap: 0 }),
  }
}

/** Whether ranks hold two runs of the dim: documents that are cut one by one lie in runs of slots. */
const isBroken = ({ zigzag }: Mesh, dim: string | undefined): boolean => zigzag?.dim === dim && !zigzag?.documents

/**
 * Those of the axes, from the first on, that are the axis of the zigzag or factors of it. The minor factors alone are a zigzag
 * too, of what a rank of the major ones holds.
 */
export function zigzagAxes({ zigzag }: Mesh, axes: readonly Axis[]): readonly Axis[] {
  const turns = (axis: Axis) => axis === zigzag?.axis || axis.startsWith(`${zigzag?.axis}.`)
  const end = axes.findIndex(axis => !turns(axis))
  return end < 0 ? axes : axes.slice(0, end)
}

/** How many ranks each document is cut over; 1: tokens lie as they follow each other. */
export function documentRanks(mesh: Mesh): number {
  const axes = mesh.axes.map(({ name }) => name).filter(name => zigzagAxes(mesh, [name]).length > 0)
  return mesh.zigzag?.documents ? sizeOfAll(mesh, axes) : 1
}

/** Where the part that a rank holds belongs: to the rank so many turns before it. */
export function homeOf(mesh: Mesh, { turn }: Layout, at: Coordinates): Coordinates {
  if (!turn) return at
  const { axes, by } = turn
  const ranks = sizeOfAll(mesh, axes)
  return { ...at, ...coordinatesAlong(mesh, axes, (indexAlong(mesh, axes, at) + ranks - (by % ranks)) % ranks) }
}

/** Whether a cut of the dim along these axes is not in order. */
export const isZigzagCut = (mesh: Mesh, axes: readonly Axis[], dim: string | undefined): boolean =>
  mesh.zigzag !== undefined && isBroken(mesh, dim) && zigzagAxes(mesh, axes).length > 0

/** Where the element at `index` of a part lies in the whole dim. */
export const positionIn = ({ origin, until, gap }: DimPart, index: number): number =>
  origin + index + (index < until ? 0 : gap)

export const elementsOf = (dims: readonly Dim[]): number => dims.reduce((n, dim) => n * dim.size, 1)

/** How many elements a rank holds of a tensor whose local dims are `dims`, padding included. */
export const heldElements = (mesh: Mesh, dims: readonly Dim[], layout: Layout): number =>
  Math.ceil(elementsOf(dims) / sizeOfAll(mesh, flatAxes(layout)))

/** Where the part of the rank at `at` begins in the line of its block; 0 where the layout is not flat. */
export const partStart = (mesh: Mesh, dims: readonly Dim[], layout: Layout, at: Coordinates): number =>
  indexAlong(mesh, flatAxes(layout), at) * heldElements(mesh, dims, layout)

/** Elements of all parts side by side: the room that the whole side of a flat collective needs. */
export const lineElements = (mesh: Mesh, dims: readonly Dim[], layout: Layout): number =>
  sizeOfAll(mesh, flatAxes(layout)) * heldElements(mesh, dims, layout)

export const sameDims = (a: readonly Dim[], b: readonly Dim[]): boolean =>
  a.length === b.length && a.every((dim, i) => dim.name === b[i].name && dim.size === b[i].size)

export const sameLayout = (a: Layout, b: Layout): boolean => a === b || layoutKey(a) === layoutKey(b)

/** One string per layout: equal layouts, whatever the order of their keys, give equal strings. */
export const layoutKey = (layout: Layout): string =>
  [
    ...Object.entries(layout.splits)
      .filter(([, axes]) => axes.length > 0)
      .map(([dim, axes]) => `${dim}/${axes.join('.')}`)
      .sort(),
    ...(flatAxes(layout).length > 0 ? [`flat/${flatAxes(layout).join('.')}`] : []),
    ...(layout.turn ? [`turn:${layout.turn.axes.join('.')}+${layout.turn.by}`] : []),
    ...(layout.shares ? [`share:${layout.shares.axes.join('.')}=${layout.shares.held}/${layout.shares.needed}`] : []),
    ...Object.entries(layout.partial)
      .map(([axis, combine]) => `${combine}:${axis}`)
      .sort(),
  ].join(' ')
