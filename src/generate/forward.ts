/**
 * A model's own blocks as passes of a decoder: the graph of each block, of as many tokens as the pass has, without what
 * only a loss needs. Keys and values are kept in caches, which attention reads instead; the head sees the last token alone.
 * So a family that can be trained can be decoded, from one definition.
 */
import { type Dim, elementsOf } from '../base/index.js'
import type { DecodeOp, DecodePass, DecodePlace, DecodeRoom, DecodeValue } from '../engine/index.js'
import {
  type Adapters,
  type Block,
  buildModel,
  type Graph,
  inputOf,
  type Model,
  type ModelConfig,
  type Node,
  type ValueId,
  withAdapters,
  withoutTraining,
} from '../model/index.js'

export interface Forward {
  readonly room: DecodeRoom
  /** The pass of so many tokens; the same object every time. */
  pass(tokens: number): DecodePass
}

export interface ForwardOptions {
  /** Tokens that caches have room for, and that learned positions are there for. */
  readonly context: number
  /** Tokens of the largest pass. */
  readonly tokens: number
  /** Small matrices that are added to the model's, where it was trained with any. */
  readonly adapters?: Adapters | undefined
}

/** Experts take every token that chooses them: who else is in its sequence must not matter. */
function decoded(config: ModelConfig): ModelConfig {
  const model = withoutTraining(config)
  return model.family === 'llama' && model.moe ? { ...model, moe: { ...model.moe, capacity: undefined } } : model
}

export function forwardOf(config: ModelConfig, { context, tokens, adapters }: ForwardOptions): Forward {
  const models = new Map<number, Model>()
  const modelOf = (seq: number): Model => {
    // Where tokens stand is data, as it is in documents: the graph of a pass does not depend on what came before.
    const model =
      models.get(seq) ??
      withAdapters(
        buildModel(decoded(config), { batch: 1, seq, documents: {} }),
        adapters && { ...adapters, dropout: 0 },
      )
    models.set(seq, model)
    return model
  }
  const passes = new Map<number, DecodePass>()
  const pass = (count: number): DecodePass => {
    const known = passes.get(count) ?? passOf(modelOf(count), modelOf(1), { context, tokens: count })
    passes.set(count, known)
    return known
  }
  const largest = pass(tokens)
  const dimsOf = (kind: 'weight' | 'cache') =>
    Object.fromEntries(
      Object.values(largest.values).flatMap(({ place, dims }) =>
        place.kind === kind ? [[place.name, dims] as const] : [],
      ),
    )
  return { room: { weights: dimsOf('weight'), caches: dimsOf('cache'), largest }, pass }
}

/** What one block hands to the next. */
type Carried = Readonly<Record<string, DecodeValue>>

class PassWriter {
  readonly values: Record<string, DecodeValue> = {}
  readonly ops: DecodeOp[] = []
  readonly #context: number
  /** Blocks take turns: one writes where the one before the last wrote. */
  readonly #half: number
  #turn = 0

  constructor(context: number, half: number) {
    this.#context = context
    this.#half = half
  }

  /** Returns what the block exports, or its logits. */
  block(block: Block, carried: Carried): Carried {
    const { graph } = block
    const wanted = [...Object.values(graph.exports), ...logitsOf(graph)]
    let next = (this.#turn++ % 2) * this.#half
    const take = (elements: number): DecodePlace => {
      next += elements
      return { kind: 'scratch', first: next - elements }
    }
    const ref = (id: ValueId) => `${block.name}.${id}`
    const { nodes, values: needed } = neededFor(graph, wanted)
    for (const id of needed) this.values[ref(id)] = this.#value(block, id, carried, take)
    for (const { op, ins, outs } of nodes) {
      for (const id of outs) this.values[ref(id)] ??= this.#value(block, id, carried, take)
      const names = ins.map(ref)
      const operands = op.kind === 'attention' ? this.#attended(names) : names
      this.ops.push({ ...op, ins: operands, outs: outs.map(ref) })
    }
    const exported = Object.entries(graph.exports).map(([name, id]) => [name, this.values[ref(id)]] as const)
    const logits = logitsOf(graph).map(id => ['logits', this.values[ref(id)]] as const)
    return Object.fromEntries([...exported, ...logits])
  }

  /** Keys and values are kept, and those of all tokens so far are seen. A sequence is one document: places limit nothing. */
  #attended([q, k, v]: readonly string[]): readonly string[] {
    const caches = [k, v].map(ref => {
      const dims = this.values[ref].dims.map(dim => (dim.name === 'seq' ? { ...dim, size: this.#context } : dim))
      const name = `${ref}.cache`
      this.values[name] = { dims, dtype: 'f32', place: { kind: 'cache', name } }
      this.ops.push({ kind: 'keep', in: ref, cache: name })
      return name
    })
    return [q, ...caches]
  }

  #value(block: Block, id: ValueId, carried: Carried, take: (elements: number) => DecodePlace): DecodeValue {
    const { dims, dtype, source } = block.graph.values[id]
    const stored = dtype === 'i32' ? 'i32' : 'f32'
    switch (source.kind) {
      case 'carry':
        return carried[source.name]
      case 'param':
        return { dims: this.#weight(dims), dtype: stored, place: { kind: 'weight', name: block.params[source.name] } }
      case 'input':
        return { dims, dtype: stored, place: { kind: 'input', name: inputNamed(inputOf(block, source.name)) } }
      default:
        return { dims, dtype: stored, place: take(16 * Math.ceil(elementsOf(dims) / 16)) }
    }
  }

  /** Learned positions are those of the context, however few tokens a pass has. */
  #weight(dims: readonly Dim[]): readonly Dim[] {
    return dims.map(dim => (dim.name === 'position' ? { ...dim, size: this.#context } : dim))
  }
}

function inputNamed(name: string): 'tokens' | 'positions' {
  if (name === 'tokens' || name === 'positions') return name
  throw new Error(`internal: a decoder has no input ${name}`)
}

function passOf(model: Model, last: Model, { context, tokens }: ForwardOptions): DecodePass {
  const half = model.blocks.reduce((most, { graph }) => Math.max(most, roomFor(graph)), 0)
  const writer = new PassWriter(context, half)
  const head = last.blocks.at(-1)
  if (!head) throw new Error('internal: a model has blocks')
  const carried = model.blocks.slice(0, -1).reduce<Carried>((carry, block) => writer.block(block, carry), {})
  const { logits } = writer.block(head, tokens === 1 ? carried : ofLast(carried, tokens))
  const [name] = Object.entries(writer.values).find(([, value]) => value === logits) ?? ['']
  return { tokens, values: writer.values, ops: writer.ops, logits: name }
}

/** Of what was computed of all tokens, that of the last: the last rows, since there is one sequence. */
const ofLast = (carried: Carried, tokens: number): Carried =>
  Object.fromEntries(
    Object.entries(carried).map(([name, { dims, dtype, place }]) => {
      if (place.kind !== 'scratch') throw new Error('internal: what is carried was computed')
      const each = elementsOf(dims) / tokens
      const alone = dims.map(dim => (dim.name === 'seq' ? { ...dim, size: 1 } : dim))
      return [name, { dims: alone, dtype, place: { kind: 'scratch', first: place.first + (tokens - 1) * each } }]
    }),
  )

const roomFor = ({ values }: Graph): number =>
  values.reduce(
    (sum, { dims, source }) => (source.kind === 'node' ? sum + 16 * Math.ceil(elementsOf(dims) / 16) : sum),
    0,
  )

/** The logits of the block with the loss: what labels pick from. */
const logitsOf = ({ nodes }: Graph): readonly ValueId[] =>
  nodes.flatMap(({ op, ins }) => (op.kind === 'pick' ? [ins[0]] : []))

/** The nodes that some values depend on, in their order, and the values these nodes read. */
function neededFor({ nodes, values }: Graph, wanted: readonly ValueId[]) {
  const needed = new Set(wanted)
  const kept: Node[] = []
  for (const node of nodes.toReversed()) {
    if (!node.outs.some(id => needed.has(id))) continue
    for (const id of node.op.kind === 'attention' ? node.ins.slice(0, 3) : node.ins) needed.add(id)
    kept.push(node)
  }
  return { nodes: kept.toReversed(), values: [...needed].filter(id => values[id].source.kind !== 'node') }
}
