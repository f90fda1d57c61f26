/** What a rule of an op is made of, and what rules share; the rules are `ops.ts` and `expert-ops.ts`. */
import type { Combine, Dim, Op, OpKind, OpOf } from '../base/index.js'
import type { GraphBuilder, Node, Value } from './graph.js'

export type Dims = readonly Dim[]

export interface Sharding {
  /** Per operand and per result, the index each dim is. */
  readonly ins: readonly (readonly string[])[]
  readonly outs: readonly (readonly string[])[]
  readonly fixed: readonly string[]
  readonly linear: readonly (readonly number[])[]
  readonly combine: Combine
  /** Heads may be claimed: an axis that splits the sequence elsewhere may split them here (`claims` of the table of axes). */
  readonly byHeads: boolean
}

export interface Backward {
  readonly build: GraphBuilder
  readonly node: Node
  readonly ins: readonly Value[]
  readonly outs: readonly Value[]
  readonly douts: readonly (Value | undefined)[]
  readonly count: () => Value
  /** What the gradient of a loss is multiplied with, if anything; what is divided by the count is divided by count / scale. */
  readonly scale: () => readonly Value[]
}

export type Gradients = readonly (readonly [Value, Value | undefined])[]

type Renames = Readonly<Record<number, Readonly<Record<string, string>>>>

export interface Rule<K extends OpKind> {
  readonly shape: (ins: readonly Dims[], want: readonly Dims[], op: OpOf<K>) => readonly Dims[]
  readonly vjp?: (b: Backward, op: OpOf<K>) => Gradients
  /** Dims by which the op is not a plain map or sum. */
  readonly fixed?: (ins: readonly Dims[], outs: readonly Dims[]) => readonly string[]
  /** Sets of operands, or all of them together. */
  readonly linear?: readonly (readonly number[])[] | 'all'
  readonly combine?: Combine
  readonly byHeads?: true
  /** Operands and results, by place, whose dim of one name is another index: place -> { dim: index }. */
  readonly renames?: { readonly ins: Renames; readonly outs?: Renames }
}

export const names = (dims: Dims): string[] => dims.map(dim => dim.name)
export const like = (ins: readonly Dims[]): Dims[] => [ins[0]]
export const wanted = (_: readonly Dims[], want: readonly Dims[]): readonly Dims[] => want
export const scalar = (): Dims[] => [[]]
export const none = () => []

/** One result, which looks like `of`. */
export const one = (b: Backward, op: Op, ins: readonly Value[], of: Value): Value =>
  b.build.emit(op, ins, `d.${of.name}`, [of.dims])[0]
