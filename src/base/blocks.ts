/** Blocks of a tensor that share a scale: how many elements of each dim lie in one. */
import type { Dim } from './layout.js'

/** Of a dim that is not named a block holds all; where a size is no multiple of its block the last one is short. */
export type Blocks = Readonly<Record<string, number>>

/** Of a tensor whose blocks these are, one number of each: a dim counts blocks, and a dim that every block holds all of is missing. */
export const blockDims = (dims: readonly Dim[], blocks: Blocks): Dim[] =>
  dims.flatMap(({ name, size }) => (name in blocks ? [{ name, size: Math.ceil(size / blocks[name]) }] : []))

/** Blocks of `size` along these dims taken as one: the last fills a block first, then the one before it as often as it goes in. */
export function blocksAlong(dims: readonly Dim[], size: number): Blocks {
  const blocks: Record<string, number> = {}
  let room = size
  for (const dim of dims.toReversed()) {
    if (dim.size > room) blocks[dim.name] = room
    room = Math.max(1, Math.floor(room / dim.size))
  }
  return blocks
}

/** Every index of these dims has blocks of its own. */
export const blocksOfEach = (dims: readonly Dim[]): Blocks => Object.fromEntries(dims.map(({ name }) => [name, 1]))

/** Those of some dims only. */
export const blocksWithin = (blocks: Blocks, dims: readonly Dim[]): Blocks =>
  Object.fromEntries(Object.entries(blocks).filter(([name]) => dims.some(dim => dim.name === name)))

export const sameBlocks = (a: Blocks = {}, b: Blocks = {}): boolean =>
  Object.keys(a).length === Object.keys(b).length && Object.entries(a).every(([name, size]) => b[name] === size)
