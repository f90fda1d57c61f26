/** Parts of whole tensors: where a part begins along each dim, and how far it reaches. Row-major, as everything. */
export interface Box {
  readonly start: readonly number[]
  readonly shape: readonly number[]
}

export type Numbers = Float32Array | Float64Array

export const elementsIn = ({ shape }: Box): number => shape.reduce((n, size) => n * size, 1)

/** Copies what two parts of one tensor share, in runs as long as both have them. Returns how many elements that is. */
export function copyShared(from: Box, source: Numbers, to: Box, target: Numbers): number {
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
