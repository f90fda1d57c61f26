/**
 * Parts of whole tensors: a box says where a part begins along each dim, and how far it reaches. Row-major, as everything.
 * Where ranks share a box, `line` says which of its elements, counted in that order, are the part.
 */
export interface Box {
  readonly start: readonly number[]
  readonly shape: readonly number[]
  /** From the first of these elements of the box up to, not including, the second. */
  readonly line?: readonly [begin: number, end: number]
}

export type Numbers = Float32Array | Float64Array

const volumeOf = (shape: readonly number[]): number => shape.reduce((n, size) => n * size, 1)

export const elementsIn = ({ shape, line }: Box): number => (line ? line[1] - line[0] : volumeOf(shape))

/** The shape a part has in a file: that of its box, or one row of elements. */
export const storedShape = (box: Box): readonly number[] => (box.line ? [elementsIn(box)] : box.shape)

/** A box, and where its elements begin in the part that it is a piece of. */
interface Piece extends Box {
  readonly at: number
}

/** A part as boxes without lines, in the order of its elements: at most two for each dim. */
export function piecesOf({ start, shape, line = [0, volumeOf(shape)] }: Box): Piece[] {
  const pieces: Piece[] = []
  let at = 0
  const add = (dim: number, from: readonly number[], sizes: readonly number[], begin: number, end: number): void => {
    if (begin >= end) return
    const row = volumeOf(sizes.slice(dim + 1))
    const [first, last] = [Math.ceil(begin / row), Math.floor(end / row)]
    const within = (index: number, inner: number, upTo: number) =>
      add(dim + 1, moved(from, dim, index), cut(sizes, dim, 1), inner, upTo)
    if (first > last) {
      within(last, begin - last * row, end - last * row)
      return
    }
    if (begin < first * row) within(first - 1, begin - (first - 1) * row, row)
    if (first < last) {
      const piece = { start: moved(from, dim, first), shape: cut(sizes, dim, last - first), at }
      pieces.push(piece)
      at += elementsIn(piece)
    }
    if (last * row < end) within(last, 0, end - last * row)
  }
  if (shape.length === 0) return line[1] > line[0] ? [{ start, shape, at }] : []
  add(0, start, shape, line[0], line[1])
  return pieces
}

const moved = (start: readonly number[], dim: number, by: number): number[] =>
  start.map((at, d) => (d === dim ? at + by : at))

const cut = (shape: readonly number[], dim: number, to: number): number[] =>
  shape.map((size, d) => (d === dim ? to : size))

/** Copies what two parts of one tensor share. Returns how many elements that is. */
export function copyShared(from: Box, source: Numbers, to: Box, target: Numbers): number {
  const targets = piecesOf(to)
  let copied = 0
  for (const piece of piecesOf(from))
    for (const into of targets) copied += copyBox(piece, source.subarray(piece.at), into, target.subarray(into.at))
  return copied
}

/** In runs as long as both have them. */
function copyBox(from: Box, source: Numbers, to: Box, target: Numbers): number {
  const begin = from.start.map((at, d) => Math.max(at, to.start[d]))
  const extent = begin.map((at, d) => Math.min(from.start[d] + from.shape[d], to.start[d] + to.shape[d]) - at)
  if (extent.some(size => size <= 0)) return 0
  const inner = firstOfRun(extent, from, to)
  const run = extent.slice(inner).reduce((n, size) => n * size, 1)
  const [ours, theirs] = [stridesOf(from), stridesOf(to)]
  const at = ({ start }: Box, strides: readonly number[]) =>
    begin.reduce((sum, first, d) => sum + (first - start[d]) * strides[d], 0)
  const walk = (dim: number, read: number, write: number): void => {
    if (dim === inner) target.set(source.subarray(read, read + run), write)
    else for (let i = 0; i < extent[dim]; i++) walk(dim + 1, read + i * ours[dim], write + i * theirs[dim])
  }
  walk(0, at(from, ours), at(to, theirs))
  return extent.reduce((n, size) => n * size, 1)
}

/** From this dim on the shared elements lie side by side in both: all dims after it are whole in both. */
function firstOfRun(extent: readonly number[], ...boxes: readonly Box[]): number {
  let dim = extent.length
  while (dim > 0) {
    dim--
    if (boxes.some(({ shape }) => shape[dim] !== extent[dim])) break
  }
  return dim
}

const stridesOf = ({ shape }: Box): number[] => shape.map((_, d) => shape.slice(d + 1).reduce((n, size) => n * size, 1))
