/**
 * What a decoder computes, as engines see it: the forward of a few tokens that follow others, whose keys and values lie
 * in *caches*. A pass is ops over values, each with its place; the same ops under the same rules as those of a program, and
 * `keep`, which puts what was computed of these tokens behind what a cache holds.
 */
import { type Dim, elementsOf } from '../base/index.js'
import type { Compute, Ref } from '../ir/index.js'

export type DecodePlace =
  | { readonly kind: 'weight'; readonly name: string }
  /** The keys or values of all tokens of the context, of which those before the pass are there. */
  | { readonly kind: 'cache'; readonly name: string }
  /** The ids of the pass, and where its tokens stand. */
  | { readonly kind: 'input'; readonly name: 'tokens' | 'positions' }
  /** So many elements into room that every pass uses anew. */
  | { readonly kind: 'scratch'; readonly first: number }

export interface DecodeValue {
  readonly dims: readonly Dim[]
  readonly dtype: 'f32' | 'i32'
  readonly place: DecodePlace
}

export type DecodeOp = Compute | { readonly kind: 'keep'; readonly in: Ref; readonly cache: Ref }

/** The forward of so many tokens. */
export interface DecodePass {
  readonly tokens: number
  readonly values: Readonly<Record<Ref, DecodeValue>>
  readonly ops: readonly DecodeOp[]
  /** Of the last token. */
  readonly logits: Ref
}

/** What is there before the first pass. */
export interface DecodeRoom {
  readonly weights: Readonly<Record<string, readonly Dim[]>>
  readonly caches: Readonly<Record<string, readonly Dim[]>>
  /** No pass needs more room, or has more tokens. */
  readonly largest: DecodePass
}

/** A room on some kernels. */
export interface DecodeEngine {
  /** A description for people: kernels and threads. */
  readonly description: string
  /** The elements of a weight, to be filled before the first pass. */
  weight(name: string): Float32Array | Float64Array
  /** The logits of the last of these tokens, which follow `past` others. */
  run(pass: DecodePass, ids: readonly number[], past: number): Promise<Float32Array | Float64Array>
  stop(): Promise<void>
}

/** All that is in a room, as an engine lays it out: `take` gives room for so many elements. */
export function regionsOf<T>({ weights, caches, largest }: DecodeRoom, take: (elements: number) => T) {
  const all = (dimsOf: DecodeRoom['weights']): ReadonlyMap<string, T> =>
    new Map(Object.entries(dimsOf).map(([name, dims]) => [name, take(elementsOf(dims))]))
  return {
    ...{ weights: all(weights), caches: all(caches), scratch: take(scratchOf(largest)) },
    inputs: { tokens: take(largest.tokens), positions: take(largest.tokens) },
  }
}

const scratchOf = ({ values }: DecodePass): number =>
  Object.values(values).reduce(
    (most, { place, dims }) => (place.kind === 'scratch' ? Math.max(most, place.first + elementsOf(dims)) : most),
    0,
  )

export const tokensIn = (dims: readonly Dim[]): number => dims.find(({ name }) => name === 'seq')?.size ?? 1
