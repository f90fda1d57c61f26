/**
 * How models are written: blocks over named dims, in the words of the domain. Families (mlp, gpt, llama) are a page
 * each on top of this, and so is a user's own model (examples/). A repeated block is written once and shared by its
 * layers; nothing here knows of ranks.
 *
 * The dims' names carry meaning for plans: `batch` is split over data-parallel ranks, `seq` over sequence-parallel
 * ones, `kvHeads`, `group`, `ffn` and `vocab` over tensor-parallel ones. Other names are never split.
 */
import {
  type AttentionOptions,
  type Dim,
  error,
  type Op,
  type ProblemCode,
  ProblemsError,
  type RopeScaling,
} from '../base/index.js'
import {
  type Block,
  type DType,
  type Graph,
  GraphBuilder,
  type Init,
  type InputSpec,
  type Model,
  type ParamSpec,
  type Value,
} from './graph.js'
import { shapeOf } from './ops.js'
import type { Placed } from './transformer.js'

export type Carry = Readonly<Record<string, Value>>
/** Reads what the block before handed on, returns what this one hands on. */
export type Write<D extends string> = (block: BlockBuilder<D>, carry: Carry) => Carry

/** Initializes a parameter from a normal distribution with mean 0 and this standard deviation. */
export const normal = (std: number): Init => ({ kind: 'normal', std })
/** Evenly between -bound and bound. */
export const uniformWithin = (bound: number): Init => ({ kind: 'uniform', bound })
/** Initializes a parameter with zeros. */
export const zeros: Init = { kind: 'zeros' }
/** Initializes a parameter with ones. */
export const ones: Init = { kind: 'ones' }

/** Defines a model of your own as a list of blocks over named dims. See examples/02. */
export function defineModel<const D extends string>(
  name: string,
  dims: Readonly<Record<D, number>>,
  write: (model: ModelBuilder<D>) => void,
): Model {
  const builder = new ModelBuilder<D>(dims)
  write(builder)
  const { inputs, params, blocks } = builder
  return { name, dims, inputs: [...inputs.values()], params: [...params.values()], blocks }
}

export class ModelBuilder<D extends string> {
  readonly dims: Readonly<Record<D, number>>
  readonly inputs = new Map<string, InputSpec>()
  readonly params = new Map<string, ParamSpec>()
  readonly blocks: Block[] = []
  readonly #kinds = new Map<string, WrittenKind>()
  #carry: Readonly<Record<string, readonly Dim[]>> = {}

  constructor(dims: Readonly<Record<D, number>>) {
    this.dims = dims
  }

  block(name: string, write: Write<D>): void {
    this.#append(name, name, write)
  }

  /** `times` blocks of one kind, named name.0, name.1, ... What they hand on must look like what they are handed. */
  repeat(name: string, times: number, write: Write<D>): void {
    this.layers(name, new Array<string>(times).fill(name), () => write)
  }

  /** Blocks of several kinds, named name.0, name.1, ...; `write` gives the block of a kind, which is written once. */
  layers(name: string, kinds: readonly string[], write: (kind: string) => Write<D>): void {
    const taken = kinds.find(kind => this.#kinds.has(kind))
    if (taken !== undefined) throw new Error(`there is a block named ${taken} already`)
    for (const [i, kind] of kinds.entries()) this.#append(`${name}.${i}`, kind, write(kind), { layer: true })
  }

  sizes(names: readonly D[]): Dim[] {
    return names.map(name => {
      const size = this.dims[name]
      if (size === undefined)
        throw refusal('model/dims', `dim ${name} is not declared`, `the model has ${Object.keys(this.dims).join(', ')}`)
      if (!Number.isSafeInteger(size) || size < 1)
        throw refusal('model/dims', `dim ${name} is ${size}, not an integer of at least 1`)
      return { name, size }
    })
  }

  #append(name: string, kind: string, write: Write<D>, layer: Pick<Block, 'layer'> = {}): void {
    if (this.blocks.some(block => block.name === name || (block.kind === kind && !layer.layer)))
      throw new Error(`there is a block named ${name} already`)
    const { graph, own, ownInputs, shared, hands } = this.#written(name, kind, write)
    const params = Object.fromEntries([...own.keys()].map(local => [local, `${name}.${local}`]))
    for (const [local, spec] of own) this.params.set(params[local], { ...spec, name: params[local] })
    const tied = Object.fromEntries([...shared].map(n => [n, n]))
    const inputs = Object.fromEntries([...ownInputs.keys()].map(local => [local, `${name}.${local}`]))
    for (const [local, spec] of ownInputs) this.inputs.set(inputs[local], { ...spec, name: inputs[local] })
    const named = ownInputs.size > 0 ? { inputs } : {}
    this.blocks.push({ name, kind, graph, params: { ...params, ...tied }, ...named, ...layer })
    this.#carry = hands
  }

  /** A kind is written once: later blocks of it read what the first one read. */
  #written(name: string, kind: string, write: Write<D>): WrittenKind {
    const known = this.#kinds.get(kind)
    if (!known) return this.#write(name, kind, write)
    if (showCarry(known.reads) !== showCarry(this.#carry))
      throw refusal(
        'model/blocks',
        `block ${name} gets ${showCarry(this.#carry)}, but the first of its kind got ${showCarry(known.reads)}`,
        'return from a repeated block what it reads',
      )
    return known
  }

  #write(name: string, kind: string, write: Write<D>): WrittenKind {
    const block = new BlockBuilder<D>(this)
    const reads = this.#carry
    const carry = Object.fromEntries(Object.entries(reads).map(([name, dims]) => [name, block.carried(name, dims)]))
    const exports = write(block, readOnlyThere(carry, name))
    const hands = Object.fromEntries(Object.entries(exports).map(([name, value]) => [name, value.dims]))
    const { own, ownInputs, shared } = block
    const written = { graph: block.graph(exports), own, ownInputs, shared, reads, hands }
    this.#kinds.set(kind, written)
    return written
  }
}

/** The outputs of the block before. Reading one that it does not return is an error, not undefined. */
const readOnlyThere = (carry: Carry, block: string): Carry =>
  new Proxy(carry, {
    get(target, name) {
      if (typeof name !== 'string' || name in target) return Reflect.get(target, name)
      throw refusal(
        'model/blocks',
        `block ${block} reads ${name}, which the block before does not return`,
        `it returns ${Object.keys(target).join(', ') || 'nothing'}`,
      )
    },
  })

const refusal = (code: ProblemCode, message: string, suggestion?: string): ProblemsError =>
  new ProblemsError([error(code, 'model', message, suggestion)])

/** A kind of block, with the dims of its inputs from the block before and of its outputs. */
interface WrittenKind extends Pick<BlockBuilder<string>, 'own' | 'ownInputs' | 'shared'> {
  readonly graph: Graph
  readonly reads: Readonly<Record<string, readonly Dim[]>>
  readonly hands: Readonly<Record<string, readonly Dim[]>>
}

export class BlockBuilder<D extends string> {
  readonly own = new Map<string, Omit<ParamSpec, 'name'>>()
  readonly ownInputs = new Map<string, Omit<InputSpec, 'name'>>()
  readonly shared = new Set<string>()
  readonly #model: ModelBuilder<D>
  readonly #graph = new GraphBuilder(shapeOf)
  readonly #terms: Value[] = []
  readonly #tallies = new Map<string, Value>()
  #loss: Value | undefined
  #count: Value | undefined

  constructor(model: ModelBuilder<D>) {
    this.#model = model
  }

  /** A tensor of the training data, the same for every block that asks for it. `every`: see InputSpec. */
  input(name: string, dims: readonly D[], dtype: DType = 'f32', every?: number): Value {
    const sizes = this.#model.sizes(dims)
    const known = this.#model.inputs.get(name)
    if (known && !(known.dtype === dtype && sameDims(known.dims, sizes)))
      throw new Error(`input ${name} is asked for as ${dtype} ${show(sizes)} and as ${known.dtype} ${show(known.dims)}`)
    this.#model.inputs.set(name, { name, dtype, dims: sizes, ...(every && { every }) })
    return this.#graph.source({ kind: 'input', name }, name, sizes, dtype)
  }

  /** A tensor of the data that every block of this kind has one of, named after the block. */
  ownInput(name: string, dims: readonly D[], dtype: DType = 'f32'): Value {
    const sizes = this.#model.sizes(dims)
    this.ownInputs.set(name, { dtype, dims: sizes })
    return this.#graph.source({ kind: 'input', name }, name, sizes, dtype)
  }

  /** A tensor of several dims is a matrix, one of a single dim a bias, unless it is said. `inputs`: see ParamSpec. */
  param(name: string, dims: readonly D[], init: Init, how: Partial<Pick<ParamSpec, 'role' | 'inputs'>> = {}): Value {
    const { role = dims.length > 1 ? 'matrix' : 'bias', inputs = 1 } = how
    const sizes = this.#model.sizes(dims)
    if (this.own.has(name))
      throw refusal('model/blocks', `the block has two parameters named ${name}`, 'to use one twice, keep its value')
    this.own.set(name, { dims: sizes, init, role, inputs })
    return this.#graph.source({ kind: 'param', name }, name, sizes)
  }

  /** A parameter without a gradient, in f32: see ParamSpec.balance. `follow` gives it what it follows. */
  balanced(name: string, dims: readonly D[], balance: { rate: number; mean: number }): Value {
    const sizes = this.#model.sizes(dims)
    this.own.set(name, { dims: sizes, init: zeros, role: 'bias', inputs: 0, balance })
    return this.#graph.widen(this.#graph.source({ kind: 'param', name }, name, sizes))
  }

  /** What is counted for a balanced parameter in each microbatch. */
  follow(param: string, counts: Value): void {
    this.#tallies.set(param, counts)
  }

  /** A loss of this block beside the model's: a scalar that is added to the mean as it is. */
  term(loss: Value): void {
    this.#terms.push(loss)
  }

  /** Any op, with the dims of each result. */
  emit(op: Op, ins: readonly Value[], name: string, ...dims: readonly (readonly D[])[]): Value[] {
    return this.#graph.emit(
      op,
      ins,
      name,
      dims.map(names => this.#model.sizes(names)),
    )
  }

  /** The value, in f32 whatever a plan stores others in. */
  wide(value: Value): Value {
    return this.#graph.widen(value)
  }

  /** A parameter of an earlier block, by its full name (`embed.tokens`): one logical tensor used in two places. */
  tied(name: string): Value {
    const spec = this.#model.params.get(name)
    if (!spec)
      throw new Error(
        `no parameter named ${name} in the blocks before; there are ${[...this.#model.params.keys()].join(', ')}`,
      )
    this.shared.add(name)
    return this.#graph.source({ kind: 'param', name }, name, spec.dims)
  }

  /** Sum of products over every dim that `dims` leaves out: a matmul, by names. */
  contract(a: Value, b: Value, dims: readonly D[], name = 'contract'): Value {
    return this.#graph.emit({ kind: 'contract' }, [a, b], name, [this.#model.sizes(dims)])[0]
  }

  add(a: Value, ...others: Value[]): Value {
    return this.#one({ kind: 'add' }, [a, ...others], 'add')
  }

  mul(a: Value, b: Value): Value {
    return this.#one({ kind: 'mul' }, [a, b], 'mul')
  }

  scale(x: Value, by: number): Value {
    return this.#one({ kind: 'scale', by }, [x], 'scale')
  }

  gelu(x: Value, { approximate = false } = {}): Value {
    return this.#one({ kind: 'gelu', approximate }, [x], 'gelu')
  }

  swiglu(gate: Value, up: Value): Value {
    return this.#one({ kind: 'swiglu' }, [gate, up], 'swiglu')
  }

  /** Weight and bias are parameters `${name}.weight` and `${name}.bias` over the given dims. */
  layerNorm(x: Value, name: string, dims: readonly D[], eps: number): Value {
    return this.#one(
      { kind: 'layerNorm', eps },
      [
        x,
        this.param(`${name}.weight`, dims, ones, { role: 'norm' }),
        this.param(`${name}.bias`, dims, zeros, { role: 'norm' }),
      ],
      name,
    )
  }

  rmsNorm(x: Value, name: string, dims: readonly D[], eps: number): Value {
    return this.#one({ kind: 'rmsNorm', eps }, [x, this.param(`${name}.weight`, dims, ones, { role: 'norm' })], name)
  }

  /** Side by side along the last of `dims`: the last dim of a, then the last of b. What one of them lacks is repeated. */
  join(a: Value, b: Value, dims: readonly D[], name = 'join'): Value {
    return this.#graph.emit({ kind: 'join' }, [a, b], name, [this.#model.sizes(dims)])[0]
  }

  /** `positions` [batch seq]: of tokens within their documents, where a sequence holds several. */
  rope(x: Value, theta: number, options: RopeOptions = {}): Value {
    const { scaling, positions } = options
    const op: Op = { kind: 'rope', theta, inverse: false, ...(scaling && { scaling }) }
    return this.#one(op, [x, ...(positions ? [positions] : [])], `${x.name}.rope`)
  }

  /**
   * Causal attention: q [batch seq kvHeads group headDim], k and v without group; v may have a vHeadDim instead. With positions,
   * as those of rope, no query sees beyond its document; `order` [batch slot] says which token lies where, if not each at its place.
   */
  attention(
    q: Value,
    k: Value,
    v: Value,
    options: Omit<AttentionOptions, 'dropout'> & Placed & { readonly dropout?: number } = {},
  ): Value {
    const dropout = options.dropout ? { dropout: { rate: options.dropout, key: this.#key('attention') } } : {}
    const window = options.window ? { window: options.window } : {}
    const scale = options.scale ? { scale: options.scale } : {}
    const placed = [options.positions, options.order].filter(value => value !== undefined)
    return this.#one({ kind: 'attention', ...window, ...dropout, ...scale }, [q, k, v, ...placed], 'attention')
  }

  /** With an order, as that of attention, elements are those of the tokens that lie there. */
  dropout(x: Value, rate: number, { order }: Pick<Placed, 'order'> = {}): Value {
    if (rate === 0) return x
    const op: Op = { kind: 'dropout', dropout: { rate, key: this.#key('dropout') } }
    return this.#one(op, order ? [x, order] : [x], 'dropout')
  }

  embed(ids: Value, rows: Value): Value {
    return this.#one({ kind: 'embed' }, [ids, rows], 'embedded')
  }

  /** The model's loss: cross entropy of logits [.. vocab] with labels, the mean over labels that are not ignored (< 0). */
  crossEntropy(logits: Value, labels: Value): void {
    const [max] = this.#graph.emit({ kind: 'maxOver' }, [logits], 'max', [labels.dims])
    const sum = this.#one({ kind: 'sumExp' }, [logits, max], 'sumExp')
    const picked = this.#one({ kind: 'pick' }, [logits, labels], 'picked')
    this.#end({ kind: 'tokenLoss' }, [max, sum, picked, labels], { kind: 'countLabels' }, labels)
  }

  /** The model's loss: the mean square of x - target. */
  meanSquare(x: Value, target: Value): void {
    this.#end({ kind: 'squaredError' }, [x, target], { kind: 'countElements' }, target)
  }

  carried(name: string, dims: readonly Dim[]): Value {
    return this.#graph.source({ kind: 'carry', name }, name, dims)
  }

  graph(exports: Carry): Graph {
    const ids = Object.fromEntries(Object.entries(exports).map(([name, value]) => [name, value.id]))
    if (this.#loss && Object.keys(ids).length > 0)
      throw new Error(`the block with the loss must be the last: its outputs ${Object.keys(ids).join(', ')} are unused`)
    const end = this.#loss && this.#count ? { loss: this.#loss.id, count: this.#count.id } : {}
    const terms = this.#terms.length > 0 ? { terms: this.#terms.map(({ id }) => id) } : {}
    const counted = Object.fromEntries([...this.#tallies].map(([param, { id }]) => [param, id]))
    const tallies = this.#tallies.size > 0 ? { tallies: counted } : {}
    return { values: this.#graph.values, nodes: this.#graph.nodes, exports: ids, ...end, ...terms, ...tallies }
  }

  #end(loss: Op, ins: readonly Value[], count: Op, counted: Value): void {
    if (this.#loss) throw new Error('a model has one loss')
    this.#loss = this.#one(loss, ins, 'loss')
    this.#count = this.#one(count, [counted], 'count')
  }

  #one(op: Op, ins: readonly Value[], name: string): Value {
    return this.#graph.emit(op, ins, name)[0]
  }

  /** Masks within a block differ; the number of the node tells them apart. */
  #key(kind: string): string {
    return `${kind}${this.#graph.nodes.length}`
  }
}

interface RopeOptions {
  readonly scaling?: RopeScaling | undefined
  readonly positions?: Value | undefined
}

const showCarry = (carry: Readonly<Record<string, readonly Dim[]>>): string =>
  Object.keys(carry)
    .sort()
    .map(name => `${name} ${show(carry[name])}`)
    .join(', ') || 'nothing'

const show = (dims: readonly Dim[]): string => `[${dims.map(dim => dim.name).join(' ')}]`
const sameDims = (a: readonly Dim[], b: readonly Dim[]): boolean => show(a) === show(b)
