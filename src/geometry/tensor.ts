/**
 * Tensors as kernels see them: a run of cells with named dims, row-major in the order the buffer lists them.
 * Nothing may depend on that order, so every kernel asks for *offsets*: a table that says, for each element of
 * some dims in row-major order, how far into the tensor it lies. A dim the tensor lacks does not move it.
 */
import {
  type Coordinates,
  type Dim,
  type DimPart,
  homeOf,
  type Layout,
  type Mesh,
  partAlong,
  partStart,
  sizeOfAll,
  splitOf,
} from '../base/index.js'

/** A rank's memory: one cell per two bytes of the plan, whatever the precision. Integers lie in it as numbers. */
export type Cells = Float64Array | Float32Array

/** What is known of an operand before anything runs. */
export interface Shape {
  /** The dims one rank holds in one microbatch. */
  readonly dims: readonly Dim[]
  /** The same dims over all ranks and microbatches. */
  readonly whole: readonly Dim[]
  /** Of a part of a line: the dims of the block that the line is. */
  readonly block?: readonly Dim[]
}

/** A part of a line, as kernels see it: it has no dims to work along. Where it begins in the line is the origin of its one dim. */
export function lineShape(size: number, block: readonly Dim[]): Shape {
  const dims = [{ name: 'flat', size }]
  return { dims, whole: dims, block }
}

/** What is known of it while an instruction runs: its first cell, and the part of each dim that it is. */
export interface Place {
  at: number
  readonly parts: DimPart[]
}

export const sizeIn = (dims: readonly Dim[], name: string): number | undefined =>
  dims.find(dim => dim.name === name)?.size

export const has = (dims: readonly Dim[], name: string): boolean => dims.some(dim => dim.name === name)

/** The dims of `dims` that `others` lacks. */
export const without = (dims: readonly Dim[], others: readonly Dim[]): Dim[] =>
  dims.filter(({ name }) => !has(others, name))

/** How far apart neighbours along `name` are; 0 for a dim the tensor lacks. */
export function strideOf(dims: readonly Dim[], name: string): number {
  const at = dims.findIndex(dim => dim.name === name)
  return at < 0 ? 0 : dims.slice(at + 1).reduce((stride, dim) => stride * dim.size, 1)
}

/** Offsets into a tensor of `dims` for every element of `over`, the last dim of `over` fastest. */
export const offsets = (over: readonly Dim[], dims: readonly Dim[]): Int32Array => Int32Array.from(indices(over, dims))

/** Offsets of a rank's elements in the whole tensor, for tensors of any size. */
export function indices(over: readonly Dim[], dims: readonly Dim[]): Float64Array {
  let table = Float64Array.of(0)
  for (const { name, size } of over) {
    const stride = strideOf(dims, name)
    const next = new Float64Array(table.length * size)
    for (let i = 0; i < table.length; i++) for (let j = 0; j < size; j++) next[i * size + j] = table[i] + j * stride
    table = next
  }
  return table
}

/** The row-major index in a tensor of `whole` of the first element of a part. */
export const firstIndex = (dims: readonly Dim[], parts: readonly DimPart[], whole: readonly Dim[]): number =>
  dims.reduce((index, { name }, i) => index + parts[i].origin * strideOf(whole, name), 0)

/** For the parts a rank holds, the row-major index in a tensor of `whole` of each element, by its place among them. */
export function indexing(dims: readonly Dim[], whole: readonly Dim[]) {
  const table = indices(dims, whole)
  return (parts: readonly DimPart[]): ((element: number) => number) => {
    const first = firstIndex(dims, parts, whole)
    const broken = parts.findIndex(({ gap }) => gap > 0)
    if (broken < 0) return element => first + table[element]
    const [{ until, gap }, { name, size }] = [parts[broken], dims[broken]]
    const [stride, skipped] = [strideOf(dims, name), gap * strideOf(whole, name)]
    return element => first + table[element] + (Math.floor(element / stride) % size < until ? 0 : skipped)
  }
}

/** For each element that a rank holds of a tensor, flat or not, its row-major index in the whole. */
export function indexIn(
  mesh: Mesh,
  { dims, layout }: { readonly dims: readonly Dim[]; readonly layout: Layout },
  at: Coordinates,
): (element: number) => number {
  const { flat, ...block } = layout
  const indexOf = indexing(dims, wholeDims(mesh, dims, block))(partsOf(mesh, dims, block, at))
  const first = flat ? partStart(mesh, dims, layout, at) : 0
  return element => indexOf(first + element)
}

/** A tensor's dims over all ranks, from what one rank holds. */
export const wholeDims = (mesh: Mesh, dims: readonly Dim[], layout: Layout): Dim[] =>
  dims.map(({ name, size }) => ({ name, size: size * sizeOfAll(mesh, splitOf(layout, name)) }))

/** The batch dim of one microbatch is a run of the global batch's. */
export const acrossMicrobatches = (dims: readonly Dim[], microbatches: number): Dim[] =>
  dims.map(dim => (dim.name === 'batch' ? { ...dim, size: dim.size * microbatches } : dim))

/** The part of each of the local `dims` that the rank at `at` holds. */
export function partsOf(mesh: Mesh, dims: readonly Dim[], layout: Layout, at: Coordinates): DimPart[] {
  const home = homeOf(mesh, layout, at)
  return dims.map(dim => partAlong(mesh, splitOf(layout, dim.name), dim, home))
}

/** Every dim that two operands share must have one size. */
export function agree(shapes: readonly Shape[], except: readonly string[] = []): void {
  const sizes = new Map<string, number>()
  for (const { dims } of shapes)
    for (const { name, size } of dims) {
      const known = sizes.get(name) ?? size
      if (known !== size && !except.includes(name))
        throw new Error(`dim ${name} is ${known} in one operand and ${size} in another`)
      sizes.set(name, known)
    }
}

/** An operand of an elementwise op may lack dims of the result, but may not have more. */
export function within(operand: Shape, out: Shape): void {
  const extra = without(operand.dims, out.dims)
  if (extra.length > 0) throw new Error(`operand has dims the result lacks: ${extra.map(dim => dim.name).join(' ')}`)
}

/** The one dim of `dims` that `others` lacks: the rows of an embedding, the classes of a loss. */
export function missingDim(dims: readonly Dim[], others: readonly Dim[]): string {
  const missing = without(dims, others)
  if (missing.length !== 1)
    throw new Error(`expected one dim to be missing, not [${missing.map(dim => dim.name).join(' ')}]`)
  return missing[0].name
}

/** Without such a dim there is one element, the first. */
export const along = ({ dims }: Shape, { parts }: Place, name: string): DimPart =>
  parts[dims.findIndex(dim => dim.name === name)] ?? { origin: 0, until: 1, gap: 0 }
