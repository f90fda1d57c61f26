/**
 * The logical graph of one block, over whole tensors with named dims: no rank, no layout.
 * A model is a chain of blocks; what one block hands to the next is its *carry*, a record of named tensors.
 */
import type { Dim, DType, Init, Op } from '../base/index.js'

export type { DType, Init }

export type ValueId = number

/** Where a value comes from. `carry` enters from the block before, `dcarry` is the gradient of what leaves. */
export type Source =
  | { readonly kind: 'param'; readonly name: string }
  | { readonly kind: 'input'; readonly name: string }
  | { readonly kind: 'carry'; readonly name: string }
  | { readonly kind: 'dcarry'; readonly name: string }
  /** The number of tokens (elements) the loss is divided by: known before the first backward. */
  | { readonly kind: 'count' }
  | { readonly kind: 'node'; readonly node: number }

export interface Value {
  readonly id: ValueId
  readonly name: string
  readonly dtype: DType
  readonly dims: readonly Dim[]
  readonly source: Source
}

export interface Node {
  readonly op: Op
  readonly ins: readonly ValueId[]
  readonly outs: readonly ValueId[]
}

export interface Graph {
  readonly values: readonly Value[]
  readonly nodes: readonly Node[]
  /** What the block hands on. */
  readonly exports: Readonly<Record<string, ValueId>>
  /** The last block's: the summed loss, and the count it is to be divided by (a graph of data inputs alone). */
  readonly loss?: ValueId
  readonly count?: ValueId
}

export interface ParamSpec {
  readonly name: string
  readonly dims: readonly Dim[]
  readonly init: Init
  /** Norm gains and biases are not decayed. */
  readonly decay: boolean
}

export interface Block {
  readonly name: string
  /** Blocks of one kind share one graph object. */
  readonly kind: string
  readonly graph: Graph
  /** The graph's name for a parameter -> the model's. */
  readonly params: Readonly<Record<string, string>>
}

export interface InputSpec {
  readonly name: string
  readonly dtype: DType
  readonly dims: readonly Dim[]
}

export interface Model {
  readonly name: string
  /** The dims of one microbatch. */
  readonly dims: Readonly<Record<string, number>>
  readonly inputs: readonly InputSpec[]
  readonly params: readonly ParamSpec[]
  readonly blocks: readonly Block[]
}

/** Grows a graph. `emit` asks the op for the dims of its results, so a graph cannot hold an ill-shaped node. */
export class GraphBuilder {
  readonly values: Value[]
  readonly nodes: Node[]
  readonly #shape: ShapeOf
  readonly #names: Map<string, number>

  constructor(shape: ShapeOf, from?: Graph) {
    this.#shape = shape
    this.values = [...(from?.values ?? [])]
    this.nodes = [...(from?.nodes ?? [])]
    this.#names = new Map(this.values.map(value => [value.name, 1]))
  }

  /** A value that no node computes. The same source asked for twice is the same value. */
  source(source: Exclude<Source, { kind: 'node' }>, name: string, dims: readonly Dim[], dtype: DType = 'f32'): Value {
    const same = this.values.find(value => sameSource(value.source, source))
    return same ?? this.#value(name, dims, dtype, source)
  }

  /** `want` gives the dims of results that the operands do not determine. */
  emit(op: Op, ins: readonly Value[], name: string, want: readonly (readonly Dim[])[] = []): Value[] {
    const shapes = this.#shape(
      op,
      ins.map(value => value.dims),
      want,
    )
    const node = this.nodes.length
    const outs = shapes.map((dims, i) =>
      this.#value(i === 0 ? name : `${name}.${i}`, dims, 'f32', { kind: 'node', node }),
    )
    this.nodes.push({ op, ins: ins.map(value => value.id), outs: outs.map(value => value.id) })
    return outs
  }

  producer(value: Value): Node {
    if (value.source.kind !== 'node') throw new Error(`internal: ${value.name} is not computed`)
    return this.nodes[value.source.node]
  }

  #value(name: string, dims: readonly Dim[], dtype: DType, source: Source): Value {
    const times = this.#names.get(name) ?? 0
    this.#names.set(name, times + 1)
    const value = { id: this.values.length, name: times === 0 ? name : `${name}~${times}`, dtype, dims, source }
    this.values.push(value)
    return value
  }
}

export type ShapeOf = (
  op: Op,
  ins: readonly (readonly Dim[])[],
  want: readonly (readonly Dim[])[],
) => readonly (readonly Dim[])[]

const sameSource = (a: Source, b: Source): boolean =>
  a.kind === b.kind && ('name' in a && 'name' in b ? a.name === b.name : a.kind === 'count')
