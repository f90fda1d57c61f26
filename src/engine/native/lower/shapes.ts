/**
 * What a kernel that wants dense rows needs to know of tensors with named dims. Dims of size 1 say nothing about where
 * elements lie and are left out first. A shape no kernel fits is a Refusal: found before a run starts, never during it.
 */
import { type Dim, type DimPart, elementsOf } from '../../../base/index.js'
import { firstIndex, strideOf } from '../../../geometry/index.js'

/** What a backend cannot do, in words. */
export class Refusal extends Error {}

export const refuse = (reason: string): never => {
  throw new Refusal(reason)
}

/** The program uses features that this engine lacks: which, and on which rank. */
export class RefusalError extends Error {
  readonly refusals: readonly string[]
  constructor(refusals: readonly string[]) {
    super(`this backend cannot run the program:\n${refusals.map(line => `  ${line}`).join('\n')}`)
    this.name = 'RefusalError'
    this.refusals = refusals
  }
}

type Dims = readonly Dim[]

export const showDims = (dims: Dims): string => `[${dims.map(({ name, size }) => `${name} ${size}`).join(', ')}]`

const names = (dims: Dims): string[] => dims.filter(({ size }) => size !== 1).map(({ name }) => name)
const key = (list: readonly string[]): string => list.join(' ')

export const same = (a: Dims, b: Dims): boolean => key(names(a)) === key(names(b))

/** `part` is the last dims of `all`. */
export const isSuffix = (part: Dims, all: Dims): boolean =>
  names(part).length <= names(all).length &&
  key(names(all).slice(names(all).length - names(part).length)) === key(names(part))

export const isPrefix = (part: Dims, all: Dims): boolean =>
  key(names(all).slice(0, names(part).length)) === key(names(part))

/** The elements of a tensor that must lie as those of `like` do. */
export function dense(dims: Dims, like: Dims, what: string): number {
  if (!same(dims, like)) refuse(`${what} is ${showDims(dims)}, which does not have the layout of ${showDims(like)}`)
  return elementsOf(dims)
}

/** x as rows of `columns` dims that come last. */
export function rowsBy(x: Dims, columns: Dims, what: string): { rows: number; columns: number } {
  if (!isSuffix(columns, x))
    refuse(`${what} works over the last dims only, and ${showDims(columns)} are not those of ${showDims(x)}`)
  const width = elementsOf(columns)
  return { rows: elementsOf(x) / width, columns: width }
}

export interface Matmul {
  /** The operands change places. */
  readonly swap: boolean
  readonly m: number
  readonly n: number
  readonly k: number
  readonly transA: boolean
  readonly transB: boolean
  readonly batch: number
}

/** out[batch m n] = sum over k, as one matmul per batch index; undefined where dims interleave. */
function plainMatmul(a: Dims, b: Dims, out: Dims): Omit<Matmul, 'swap'> | undefined {
  const [inA, inB, inOut] = [a, b, out].map(dims => names(dims))
  const batch = inOut.filter(name => inA.includes(name) && inB.includes(name))
  const rows = inOut.filter(name => inA.includes(name) && !inB.includes(name))
  const cols = inOut.filter(name => inB.includes(name) && !inA.includes(name))
  const summed = inA.filter(name => !inOut.includes(name))
  const is = (list: readonly string[], ...parts: string[][]) => key(list) === key([...batch, ...parts.flat()])
  const [transA, transB] = [!is(inA, rows, summed), !is(inB, summed, cols)]
  if (!is(inOut, rows, cols) || (transA && !is(inA, summed, rows)) || (transB && !is(inB, cols, summed)))
    return undefined
  const sizeOf = (list: readonly string[], dims: Dims) => elementsOf(dims.filter(({ name }) => list.includes(name)))
  return { m: sizeOf(rows, a), n: sizeOf(cols, b), k: sizeOf(summed, a), batch: sizeOf(batch, a), transA, transB }
}

/** The contraction as a matmul, if it is one. */
export function findMatmul(a: Dims, b: Dims, out: Dims): Matmul | undefined {
  const plain = plainMatmul(a, b, out)
  if (plain) return { swap: false, ...plain }
  const swapped = plainMatmul(b, a, out)
  return swapped && { swap: true, ...swapped }
}

export const matmulOf = (a: Dims, b: Dims, out: Dims): Matmul =>
  findMatmul(a, b, out) ??
  refuse(`contracting ${showDims(a)} with ${showDims(b)} into ${showDims(out)} is not a matmul of dense rows`)

/** A dim as a copy sees it: how many, and how far apart on both sides. */
interface Level {
  readonly size: number
  readonly from: number
  readonly to: number
}

/** Dims that follow each other without a gap, on both sides, are one. */
function levelsOf(piece: Dims, from: Dims, to: Dims): Level[] {
  const levels: Level[] = []
  for (const { name, size } of piece) {
    if (size === 1) continue
    const level = { size, from: strideOf(from, name), to: strideOf(to, name) }
    const last = levels.at(-1)
    if (last && last.from === level.from * size && last.to === level.to * size)
      levels[levels.length - 1] = { ...level, size: last.size * size }
    else levels.push(level)
  }
  return levels
}

/** Rows of dense runs, in elements; offsets are those of the first element. */
export interface Run {
  readonly from: number
  readonly to: number
  readonly rows: number
  readonly columns: number
  readonly strideFrom: number
  readonly strideTo: number
}

/** A piece of a tensor `from` copied into its place in `to`. */
export function runsOf(piece: Dims, from: Dims, to: Dims): Run[] {
  const levels = levelsOf(piece, from, to)
  const last = levels.at(-1)
  const isDense = last === undefined || (last.from === 1 && last.to === 1)
  const columns = isDense ? (levels.pop()?.size ?? 1) : 1
  const row = levels.pop() ?? { size: 1, from: columns, to: columns }
  let runs = [{ from: 0, to: 0, rows: row.size, columns, strideFrom: row.from, strideTo: row.to }]
  for (const level of levels.toReversed())
    runs = Array.from({ length: level.size }, (_, i) =>
      runs.map(run => ({ ...run, from: run.from + i * level.from, to: run.to + i * level.to })),
    ).flat()
  return runs
}

/** What a rank holds of a tensor of `whole` dims, copied from there: dims with a gap give two pieces. */
export function partRuns(dims: Dims, parts: readonly DimPart[], whole: Dims): Run[] {
  const broken = parts.findIndex(({ gap }) => gap > 0)
  if (broken < 0) {
    const first = firstIndex(dims, parts, whole)
    return runsOf(dims, whole, dims).map(run => ({ ...run, from: run.from + first }))
  }
  const { origin, until, gap } = parts[broken]
  const { name, size } = dims[broken]
  const pieces = [
    { first: 0, origin, length: until },
    { first: until, origin: origin + until + gap, length: size - until },
  ]
  return pieces.flatMap(({ first, origin, length }) => {
    const piece = dims.map((dim, i) => (i === broken ? { name, size: length } : dim))
    const place = parts.map((part, i) => (i === broken ? { origin, until: length, gap: 0 } : part))
    const [from, to] = [firstIndex(piece, place, whole), first * strideOf(dims, name)]
    return runsOf(piece, whole, dims).map(run => ({ ...run, from: run.from + from, to: run.to + to }))
  })
}

/** The same runs the other way. */
export const backwards = (run: Run): Run => ({
  ...run,
  ...{ from: run.to, to: run.from, strideFrom: run.strideTo, strideTo: run.strideFrom },
})

/** Where elements lie in a whole tensor: index = base + i0 stride0 + i1 stride1 + i2, with a gap from i1 = until on. */
export interface Counter {
  readonly n0: number
  readonly n1: number
  readonly n2: number
  readonly stride0: number
  readonly stride1: number
  readonly until: number
  readonly gap: number
}

export function counterOf(dims: Dims, whole: Dims, parts: readonly DimPart[], ordered = false): Counter {
  const broken = ordered ? dims.findIndex(({ name }) => name === 'seq') : parts.findIndex(({ gap }) => gap > 0)
  if (broken >= 0) return brokenCounter(dims, whole, broken, parts[broken])
  const levels = levelsOf(dims, whole, whole)
  const last = levels.at(-1)
  const n2 = last === undefined || last.from === 1 ? (levels.pop()?.size ?? 1) : 1
  const [one, two, ...more] = levels.toReversed()
  if (more.length > 0) refuse(`a mask over ${showDims(dims)} of ${showDims(whole)} has more than three runs`)
  const n1 = one?.size ?? 1
  return { n0: two?.size ?? 1, n1, n2, stride0: two?.from ?? 0, stride1: one?.from ?? 0, until: n1, gap: 0 }
}

/** The dim with the gap, or with an order, is the middle one of three: what is before it and what is behind it must be one run each. */
function brokenCounter(dims: Dims, whole: Dims, broken: number, { until, gap }: DimPart): Counter {
  const [before, behind] = [dims.slice(0, broken), dims.slice(broken + 1)].map(some => levelsOf(some, whole, whole))
  if (before.length > 1 || behind.length > 1 || (behind[0]?.from ?? 1) !== 1)
    refuse(`a mask over ${showDims(dims)} of ${showDims(whole)} has more than three runs`)
  return {
    ...{ n0: before[0]?.size ?? 1, n1: dims[broken].size, n2: behind[0]?.size ?? 1 },
    ...{ stride0: before[0]?.from ?? 0, stride1: strideOf(whole, dims[broken].name), until, gap },
  }
}
