/**
 * Where the elements of one of our tensors lie in a tensor of somebody else. Its axes are written in our dims, as many as
 * an axis is made of, the slowest first:
 *
 *     (kvHeads group headDim) embed      two axes; the first is three of our dims
 *     embed (1/3 kvHeads headDim)        the second axis is three parts side by side, ours the second of them
 *     (kvHeads qkNopeHeadDim+vHeadDim) latent every head has two parts one after the other; ours is the one whose dim we have
 *     (group+1+kvHeads headDim) embed    behind a part of as many as `group`, and one more
 *     (kvHeads ~qkRopeHeadDim) embed           pairs that turn lie side by side there, and half of the dim apart here
 *     position.. embed                   there may be more rows there
 *
 * Whatever is written, an element of ours lies at a base plus, for each dim, its index times a stride.
 */
import { type Dim, elementsOf } from '../base/index.js'
import type { Box, Numbers } from '../checkpoint/index.js'

/** One of our dims, or half of one: how often, and how far apart there. */
interface Loop {
  readonly dim: string
  readonly size: number
  readonly stride: number
}

/** What a part of ours, `box`, is in a tensor there. */
export interface Place {
  readonly tensor: string
  /** Of the tensor there; its first axis may be longer where it is `open`. */
  readonly shape: readonly number[]
  readonly open: boolean
  readonly box: Box
  readonly base: number
  /** In the order of our dims. */
  readonly loops: readonly Loop[]
  /** How its axes are written. */
  readonly axes: string
}

/** `sizes`: of all dims that may be named, ours or not. */
export function placeOf(
  { tensor, axes }: { readonly tensor: string; readonly axes: string },
  dims: readonly Dim[],
  sizes: Readonly<Record<string, number>>,
): Omit<Place, 'box'> {
  const written = axesOf(axes).map(factors => factors.map(factor => factorOf(factor, dims, sizes)))
  const shape = written.map(factors => factors.reduce((n, { all }) => n * all, 1))
  let [base, stride] = [0, 1]
  const loops = new Map<string, readonly Loop[]>()
  for (const { all, offset, dim, paired } of written.flat().reverse()) {
    base += offset * stride
    const size = dims.find(({ name }) => name === dim)?.size ?? 0
    if (dim !== undefined)
      loops.set(
        dim,
        paired
          ? [
              { dim, size: 2, stride },
              { dim, size: size / 2, stride: 2 * stride },
            ]
          : [{ dim, size, stride }],
      )
    stride *= all
  }
  const missing = dims.filter(({ name }) => !loops.has(name))
  if (missing.length > 0) throw new Error(`internal: ${axes} names no ${missing.map(({ name }) => name).join(', ')}`)
  return { tensor, axes, shape, open: /\.\./.test(axes), base, loops: dims.flatMap(({ name }) => loops.get(name)!) }
}

/** '(a b) c' -> [[a, b], [c]] */
const axesOf = (axes: string): string[][] =>
  [...axes.matchAll(/\(([^)]*)\)|(\S+)/g)].map(([, several, one]) => (several ?? one).split(' '))

interface Factor {
  /** Elements there. */
  readonly all: number
  readonly offset: number
  readonly dim?: string
  readonly paired: boolean
}

function factorOf(text: string, dims: readonly Dim[], sizes: Readonly<Record<string, number>>): Factor {
  const [, part, parts] = /^(\d+)\/(\d+)$/.exec(text) ?? []
  if (part !== undefined) return { all: Number(parts), offset: Number(part), paired: false }
  const names = text.replace('..', '').split('+')
  const plain = names.map(name => name.replace('~', ''))
  const ownSizes = new Map(dims.map(({ name, size }) => [name, size]))
  const own = plain.findIndex(name => ownSizes.has(name))
  const widths = plain.map(name => ownSizes.get(name) ?? (/^\d+$/.test(name) ? Number(name) : sizes[name]))
  const sum = (of: readonly number[]) => of.reduce((n, size) => n + size, 0)
  return {
    all: sum(widths),
    offset: sum(widths.slice(0, own)),
    dim: plain[own],
    paired: names[own].startsWith('~'),
  }
}

/** Places whose ranges there have at most so many elements: along the dim of the longest stride. */
export function slabsOf(place: Place, most: number): Place[] {
  const [first, last] = rangeOf(place)
  if (last - first <= most) return [place]
  const widest = place.loops.reduce((a, b) => (b.stride > a.stride ? b : a))
  const isPaired = place.loops.filter(({ dim }) => dim === widest.dim).length > 1
  const each = Math.max(1, Math.floor(most / widest.stride))
  if (isPaired || each >= widest.size) return [place]
  const at = [...new Set(place.loops.map(({ dim }) => dim))].indexOf(widest.dim) + leading(place)
  return Array.from({ length: Math.ceil(widest.size / each) }, (_, i): Place => {
    const size = Math.min(each, widest.size - i * each)
    return {
      ...place,
      base: place.base + i * each * widest.stride,
      loops: place.loops.map(loop => (loop === widest ? { ...loop, size } : loop)),
      box: {
        start: place.box.start.map((from, d) => (d === at ? from + i * each : from)),
        shape: place.box.shape.map((n, d) => (d === at ? size : n)),
      },
    }
  })
}

/** Dims of the box that are no loops: of stacked experts that lie apart there, which expert it is. */
const leading = ({ box, loops }: Place): number => box.shape.length - new Set(loops.map(({ dim }) => dim)).size

/** The elements there among which all of ours lie. */
export function rangeOf({ base, loops }: Place): readonly [begin: number, end: number] {
  return [base, 1 + loops.reduce((at, { size, stride }) => at + (size - 1) * stride, base)]
}

/** Calls back with where runs begin there and here, how many elements one has, and how far apart they are there. */
function eachRun(
  { base, loops }: Place,
  run: (there: number, here: number, size: number, stride: number) => void,
): void {
  const joined = joinedLoops(loops)
  const inner = joined.at(-1) ?? { size: 1, stride: 1 }
  const walk = (depth: number, there: number, here: number): number => {
    if (depth >= joined.length - 1) {
      run(there, here, inner.size, inner.stride)
      return here + inner.size
    }
    const { size, stride } = joined[depth]
    for (let i = 0; i < size; i++) here = walk(depth + 1, there + i * stride, here)
    return here
  }
  walk(0, base, 0)
}

/** Loops that follow each other there as they do here are one. */
function joinedLoops(loops: readonly Loop[]): Pick<Loop, 'size' | 'stride'>[] {
  const joined: Pick<Loop, 'size' | 'stride'>[] = []
  for (const { size, stride } of loops) {
    const outer = joined.at(-1)
    if (outer && outer.stride === size * stride) joined[joined.length - 1] = { size: outer.size * size, stride }
    else joined.push({ size, stride })
  }
  return joined
}

/** Ours, in our order; `theirs` begins with element `first` of the tensor there. */
export function gathered(place: Place, theirs: Numbers, first: number): Float64Array {
  const ours = new Float64Array(place.loops.reduce((n, { size }) => n * size, 1))
  eachRun(place, (there, here, size, stride) => {
    for (let i = 0; i < size; i++) ours[here + i] = theirs[there - first + i * stride]
  })
  return ours
}

/** Puts ours where it belongs in the whole tensor there. */
export function scatter(place: Place, ours: Numbers, theirs: Numbers): void {
  eachRun(place, (there, here, size, stride) => {
    for (let i = 0; i < size; i++) theirs[there + i * stride] = ours[here + i]
  })
}

export const sizeOf = (shape: readonly number[]): number => shape.reduce((n, size) => n * size, 1)

/** All of a tensor. */
export const wholeBox = (dims: readonly Dim[]): Box => ({
  start: dims.map(() => 0),
  shape: dims.map(({ size }) => size),
})

/** One slice of the first dim. */
export const sliceBox = (dims: readonly Dim[], index: number): Box => ({
  start: dims.map((_, d) => (d === 0 ? index : 0)),
  shape: dims.map(({ size }, d) => (d === 0 ? 1 : size)),
})

export const slices = (dims: readonly Dim[]): number => elementsOf(dims.slice(0, 1))
