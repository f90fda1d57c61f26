/**
 * Between a whole tensor and what each rank holds of it. What a rank holds is a list of runs of the whole; assembling is
 * the same list read backwards, with addends combined over partial axes, or where they lie side by side, and replicas compared.
 */
import {
  addendsIn,
  type Combine,
  type Coordinates,
  coordinatesOf,
  type Dim,
  elementsOf,
  heldElements,
  indexAlong,
  type Layout,
  localDims,
  type Mesh,
  normal,
  partialAxes,
  partStart,
  type Rank,
  sizeOfAll,
  summedDims,
  uniform,
} from '../base/index.js'
import type { Param } from '../ir/index.js'
import { firstIndex, indexing, indices, partsOf } from './tensor.js'

/** Elements that lie side by side both in what a rank holds and in the whole tensor. */
export interface HeldRun {
  /** The first of them, as the rank counts and as the whole does. */
  readonly held: number
  readonly index: number
  readonly length: number
}

/** Where the elements that the rank at `at` holds lie in the whole tensor of `dims`, in its own order, without padding. */
export function heldRuns(mesh: Mesh, dims: readonly Dim[], layout: Layout, at: Coordinates): HeldRun[] {
  const local = localDims(mesh, dims, layout)
  // What follows the last dim that is cut is dense, and so is the own part of that dim.
  const inner = Math.max(
    0,
    local.findLastIndex(({ size }, i) => size !== dims[i].size),
  )
  const length = elementsOf(local.slice(inner))
  const parts = partsOf(mesh, local, layout, at)
  if (parts.some(({ gap }) => gap > 0)) return brokenRuns(mesh, dims, layout, at)
  const first = firstIndex(local, parts, dims)
  const rows = indices(local.slice(0, inner), dims)
  const begin = partStart(mesh, local, layout, at)
  const end = Math.min(elementsOf(local), begin + heldElements(mesh, local, layout))
  const runs: HeldRun[] = []
  for (let row = Math.floor(begin / length); row * length < end; row++) {
    const [from, to] = [Math.max(begin, row * length), Math.min(end, (row + 1) * length)]
    runs.push({ held: from - begin, index: first + rows[row] + from - row * length, length: to - from })
  }
  return runs
}

/** The same where some dim has a gap: element by element, as far as they follow each other. */
function brokenRuns(mesh: Mesh, dims: readonly Dim[], layout: Layout, at: Coordinates): HeldRun[] {
  const local = localDims(mesh, dims, layout)
  const indexOf = indexing(local, dims)(partsOf(mesh, local, layout, at))
  const begin = partStart(mesh, local, layout, at)
  const end = Math.min(elementsOf(local), begin + heldElements(mesh, local, layout))
  const runs: { held: number; index: number; length: number }[] = []
  for (let element = begin; element < end; element++) {
    const [index, last] = [indexOf(element), runs.at(-1)]
    if (last && last.index + last.length === index) last.length++
    else runs.push({ held: element - begin, index, length: 1 })
  }
  return runs
}

/** The row-major index in the whole tensor of each element the rank holds, in its own order, without padding. */
export function indicesOf(mesh: Mesh, dims: readonly Dim[], layout: Layout, rank: Rank): Float64Array {
  const runs = heldRuns(mesh, dims, layout, coordinatesOf(mesh, rank))
  const all = new Float64Array(runs.reduce((n, { length }) => n + length, 0))
  for (const { held, index, length } of runs) for (let i = 0; i < length; i++) all[held + i] = index + i
  return all
}

/** What the rank at `at` holds of a whole tensor, zeros in the padding. Of addends the first has the sum: of the first rank, or of those that it has. */
export function partOf({ mesh, dims, layout }: HeldTensor, at: Coordinates, whole: ArrayLike<number>): Float64Array {
  const part = new Float64Array(heldElements(mesh, localDims(mesh, dims, layout), layout))
  if (indexAlong(mesh, partialAxes(layout), at) > 0) return part
  for (const { held, index, length } of heldRuns(mesh, summedDims(dims), layout, at))
    for (let i = 0; i < length; i++) part[held + i] = whole[index + i]
  return part
}

/** A whole tensor, and how ranks hold it; `inside`: each at its own place among all parts. */
export interface HeldTensor {
  readonly mesh: Mesh
  readonly dims: readonly Dim[]
  readonly layout: Layout
  readonly inside?: true | undefined
}

interface Sliced {
  subarray(begin: number, end: number): unknown
}

/** Where the own part of the rank at `at` begins and ends in its frame of a tensor. */
export function ownRange({ mesh, dims, layout, inside }: HeldTensor, at: Coordinates): readonly [number, number] {
  const local = localDims(mesh, dims, layout)
  const begin = inside ? partStart(mesh, local, layout, at) : 0
  return [begin, begin + heldElements(mesh, local, layout)]
}

/** The elements of a tensor's frame that are the own part of the rank at `at`. */
export const ownPart = <T extends Sliced>(held: HeldTensor, at: Coordinates, frame: T): T =>
  frame.subarray(...ownRange(held, at)) as T // of the same class

export interface Whole {
  readonly values: Float64Array
  /** The greatest difference between two ranks that should hold the same numbers. */
  readonly spread: number
}

/** The whole tensor from the parts of the ranks that hold it, each row-major in the order of `dims`. What nobody holds is NaN. */
export function assemble(
  mesh: Mesh,
  dims: readonly Dim[],
  layout: Layout,
  parts: ReadonlyMap<Rank, ArrayLike<number>>,
): Whole {
  const axes = partialAxes(layout)
  const addends = Array.from({ length: sizeOfAll(mesh, axes) }, () => blank(elementsOf(dims)))
  let spread = 0
  for (const [rank, part] of parts) {
    const addend = addends[indexAlong(mesh, axes, coordinatesOf(mesh, rank))]
    spread = Math.max(spread, lay(addend, indicesOf(mesh, dims, layout, rank), part))
  }
  const values = addends.map(addend => addend.values).reduce(combining(layout))
  return { values: summedAddends(values, addendsIn(dims)), spread }
}

/** The sum of so many that lie side by side. */
function summedAddends(values: Float64Array, addends: number): Float64Array {
  const each = values.length / addends
  const lines = Array.from({ length: addends }, (_, a) => values.subarray(a * each, (a + 1) * each))
  return lines.reduce((sum, line) => sum.map((value, i) => value + line[i]))
}

interface Sheet {
  readonly values: Float64Array
  readonly written: Uint8Array
}

const blank = (elements: number): Sheet => ({
  values: new Float64Array(elements).fill(NaN),
  written: new Uint8Array(elements),
})

/** Writes a part where it belongs; returns how far it is from what another rank has written there. */
function lay({ values, written }: Sheet, where: Float64Array, part: ArrayLike<number>): number {
  let spread = 0
  for (let i = 0; i < where.length; i++) {
    const index = where[i]
    if (written[index]) spread = Math.max(spread, Math.abs(values[index] - part[i]))
    else values[index] = part[i]
    written[index] = 1
  }
  return spread
}

function combining(layout: Layout): (a: Float64Array, b: Float64Array) => Float64Array {
  const combines = new Set(Object.values(layout.partial))
  if (combines.size > 1) throw new Error('a tensor that is partial both in sum and in max has no one value')
  const combine: Combine = combines.has('max') ? 'max' : 'sum'
  return (a, b) => a.map((value, i) => (combine === 'max' ? Math.max(value, b[i]) : value + b[i]))
}

/** A parameter's first values by index in the whole tensor, rounded to f32: every precision starts from the same. */
export function initial({ name, init }: Pick<Param, 'name' | 'init'>, seed: number): (index: number) => number {
  if (init.kind === 'zeros') return () => 0
  if (init.kind === 'ones') return () => 1
  if (init.kind === 'uniform') {
    const share = uniform({ seed, name })
    return index => Math.fround((2 * share(index) - 1) * init.bound)
  }
  const noise = normal({ seed, name })
  return index => Math.fround(noise(index) * init.std)
}
