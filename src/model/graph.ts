/**
 * The logical graph of one block, over whole tensors with named dims: no rank, no layout.
 * A model is a chain of blocks; what one block hands to the next is its *carry*, a record of named tensors.
 */
import { type Dim, type DType, type Init, type Op, opFacts, type ParamRole, type Tracking } from '../base/index.js'

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
  /** What the gradients of all losses are multiplied with. */
  | { readonly kind: 'scale' }
  | { readonly kind: 'node'; readonly node: number }

export interface Value {
  readonly id: ValueId
  readonly name: string
  readonly dtype: DType
  readonly dims: readonly Dim[]
  readonly source: Source
  /** Stored in f32 whatever the precision of a plan: what is rounded here is chosen differently there. */
  readonly wide?: true
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
  /** Further losses, of any block, each already what is to be added to the mean. */
  readonly terms?: readonly ValueId[]
  /** What is counted for a parameter that follows the load: the graph's name of it -> its counts. */
  readonly tallies?: Readonly<Record<string, ValueId>>
}

export interface ParamSpec {
  readonly name: string
  readonly dims: readonly Dim[]
  readonly init: Init
  readonly role: ParamRole
  /** Of a matrix: how many of its dims are summed over. They stand first, or behind the dim of experts. */
  readonly inputs: number
  /** It stays as it is: it has no gradient, and no optimizer's. */
  readonly frozen?: true
  /** It has no gradient: once a step it moves by `rate` towards where its tallies were below their mean. */
  readonly balance?: { readonly rate: number; readonly mean: number }
  /** It has no gradient: once a step it follows the greatest of its tallies, of which it remembers so many steps. */
  readonly track?: Tracking & { readonly length: number }
}

/** Whether a parameter follows tallies: it is small, in f32, whole on every rank and no optimizer's. */
export const isFollower = ({ balance, track }: Pick<ParamSpec, 'balance' | 'track'>): boolean =>
  balance !== undefined || track !== undefined

export interface Block {
  readonly name: string
  /** Blocks of one kind share one graph object. */
  readonly kind: string
  readonly graph: Graph
  /** The graph's name for a parameter -> the model's. */
  readonly params: Readonly<Record<string, string>>
  /** The graph's name for a data input that is the block's own -> the model's. */
  readonly inputs?: Readonly<Record<string, string>>
  /** One of the layers that plans cut into stages. */
  readonly layer?: true
}

/** The model's name for a data input of a block. */
export const inputOf = ({ inputs }: Pick<Block, 'inputs'>, name: string): string => inputs?.[name] ?? name

export interface InputSpec {
  readonly name: string
  readonly dtype: DType
  readonly dims: readonly Dim[]
  /** Of positions in documents: these begin at multiples of so many tokens. */
  readonly every?: number
}

/** A model as a graph of blocks over named dims, for one microbatch. */
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

  /** The same value, which no plan stores in fewer bits. */
  widen(value: Value): Value {
    const wide = { ...value, wide: true as const }
    this.values[value.id] = wide
    return wide
  }

  /** `want` gives the dims of results that the operands do not determine. */
  emit(op: Op, ins: readonly Value[], name: string, want: readonly (readonly Dim[])[] = []): Value[] {
    const shapes = this.#shape(
      op,
      ins.map(value => value.dims),
      want,
    )
    const node = this.nodes.length
    const { index = shapes.length } = opFacts[op.kind]
    const real: DType = op.kind === 'quantize' ? op.format : 'f32'
    const outs = shapes.map((dims, i) =>
      this.#value(i === 0 ? name : `${name}.${i}`, dims, i < index ? real : 'i32', { kind: 'node', node }),
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
  a.kind === b.kind && ('name' in a && 'name' in b ? a.name === b.name : a.kind === 'count' || a.kind === 'scale')
