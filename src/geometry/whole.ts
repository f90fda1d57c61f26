/**
 * Between a whole tensor and what each rank holds of it. Cutting is a list of indices; assembling is the same list
 * read backwards, with addends combined over partial axes and replicas compared.
 */
import {
  type Combine,
  coordinatesOf,
  type Dim,
  elementsOf,
  indexAlong,
  type Layout,
  localDims,
  type Mesh,
  normal,
  partialAxes,
  type Rank,
  sizeOfAll,
} from '../base/index.js'
import type { Param } from '../ir/index.js'
import { indexOf, indices, originsOf } from './tensor.js'

/** The row-major index in the whole tensor of each element the rank holds, in its own order. */
export function indicesOf(mesh: Mesh, dims: readonly Dim[], layout: Layout, rank: Rank): Float64Array {
  const local = localDims(mesh, dims, layout)
  const first = indexOf(local, originsOf(mesh, local, layout, coordinatesOf(mesh, rank)), dims)
  return indices(local, dims).map(index => first + index)
}

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
  return { values: addends.map(addend => addend.values).reduce(combining(layout)), spread }
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
  const noise = normal({ seed, name })
  return index => Math.fround(noise(index) * init.std)
}
