/**
 * *codes*: products of linear layers on 8 bits. Of a model as a plan stores it, every product of tokens with a matrix inside a layer
 * reads codes of both: what is greatest in a tensor, all of it or each block, is found first, and says by what it is scaled. Gradients
 * follow: that of such a product is made of two of its kind (model/codes.ts). Embedding, head, norms, attention, routers and experts stay as they are.
 */
import {
  type Blocks,
  blockDims,
  blocksAlong,
  blocksOfEach,
  type CodeType,
  type Dim,
  type Scaled,
} from '../base/index.js'
import {
  type Block,
  formatOfGradients,
  type Graph,
  type Model,
  type Node,
  type ParamSpec,
  scaleName,
  type Value,
  type ValueId,
} from '../model/index.js'
import { blockSize, inBlocks, type Plan } from '../plan/index.js'

/** What goes forward needs digits more than range. */
const forward: CodeType = 'f8e4m3'

type Fp8 = NonNullable<Plan['fp8']>

/** Blocks that share a graph go on sharing it. Where scales follow the steps before, each block has parameters for them. */
export function codedModel(model: Model, fp8: Plan['fp8']): Model {
  if (!fp8) return model
  const matrices = new Set(model.params.filter(({ role }) => role === 'matrix').map(({ name }) => name))
  const coded = new Map<Graph, CodedGraph>()
  const made = model.blocks.map((block): { block: Block; scales: ParamSpec[] } => {
    const { graph, layer, params, name } = block
    if (!layer) return { block, scales: [] }
    const isMatrix = ({ source }: Value) => source.kind === 'param' && matrices.has(params[source.name])
    if (!coded.has(graph)) coded.set(graph, codedGraph(graph, isMatrix, fp8))
    const { graph: own, scales } = coded.get(graph)!
    const named = scales.map(({ name: local, ...spec }) => ({ ...spec, local, name: `${name}.${local}` }))
    const all = { ...params, ...Object.fromEntries(named.map(({ local, name: of }) => [local, of])) }
    return { block: { ...block, graph: own, params: all }, scales: named.map(({ local: _, ...spec }) => spec) }
  })
  return {
    ...model,
    params: [...model.params, ...made.flatMap(({ scales }) => scales)],
    blocks: made.map(({ block }) => block),
  }
}

interface CodedGraph {
  readonly graph: Graph
  /** What scales follow, by the graph's names. */
  readonly scales: readonly ParamSpec[]
}

/** The same graph, in which products with matrices read codes. What several of them read is coded once. */
function codedGraph(graph: Graph, isMatrix: (value: Value) => boolean, fp8: Fp8): CodedGraph {
  const build = new CodedBuilder(graph, fp8)
  for (const node of graph.nodes) {
    const [x, w, ofExperts] = node.ins.map(id => graph.values[id])
    if (node.op.kind === 'contract' && isMatrix(w)) build.product(node, x, w)
    else if (node.op.kind === 'expertContract' && fp8.experts && isMatrix(ofExperts))
      build.expertProduct(node, x, ofExperts)
    else build.add(node)
  }
  return build.done()
}

/** Codes, and what says how they were scaled. */
type CodedTensor = readonly [codes: ValueId, scale: ValueId]

class CodedBuilder {
  readonly #graph: Graph
  readonly #fp8: Fp8
  readonly #values: Value[]
  readonly #nodes: Node[] = []
  readonly #coded = new Map<string, CodedTensor>()
  readonly #tallies: Record<string, ValueId>
  readonly #scales: ParamSpec[] = []

  constructor(graph: Graph, fp8: Fp8) {
    this.#graph = graph
    this.#fp8 = fp8
    this.#values = [...graph.values]
    this.#tallies = { ...graph.tallies }
  }

  add(node: Node): void {
    for (const id of node.outs)
      this.#values[id] = { ...this.#values[id], source: { kind: 'node', node: this.#nodes.length } }
    this.#nodes.push(node)
  }

  product(node: Node, x: Value, w: Value): void {
    const [out] = node.outs.map(id => this.#values[id])
    const cut = inBlocks(this.#fp8) ? blocksOfProduct(x, w, out, this.#fp8) : {}
    const [[a, ofA], [b, ofB]] = [this.#codesOf(x.id, cut.summed), this.#codesOf(w.id, cut.weight)]
    const blocks = cut.summed && cut.weight ? { blocks: [cut.summed, cut.weight] } : {}
    const op = { kind: 'scaledContract', formats: [forward, forward], ...blocks, ...this.#by() } as const
    this.add({ op, ins: [a, b, ofA, ofB], outs: node.outs })
    if (cut.tokens) this.#codesOf(x.id, cut.tokens)
    if (cut.across) this.#codesOf(w.id, cut.across)
    if (this.#fp8.recipe === 'delayed') this.#scale(`d.${out.name}`, formatOfGradients(undefined))
  }

  /** Rows meet the weights of their experts. */
  expertProduct(node: Node, rows: Value, w: Value): void {
    const [out] = node.outs.map(id => this.#values[id])
    const cut = inBlocks(this.#fp8) ? blocksOfExperts(rows, w, this.#fp8) : {}
    const [[a, ofA], [b, ofB]] = [this.#codesOf(rows.id, cut.summed), this.#codesOf(w.id, cut.weight)]
    const blocks = cut.summed && cut.weight ? { blocks: [cut.summed, cut.weight] } : {}
    const op = { kind: 'scaledExpertContract', formats: [forward, forward], ...blocks, ...this.#by() } as const
    this.add({ op, ins: [a, node.ins[1], b, ofA, ofB], outs: node.outs })
    if (cut.across) this.#codesOf(w.id, cut.across)
    if (this.#fp8.recipe === 'delayed') this.#scale(`d.${out.name}`, formatOfGradients(undefined))
  }

  done(): CodedGraph {
    const tallies = Object.keys(this.#tallies).length > 0 ? { tallies: this.#tallies } : {}
    return { graph: { ...this.#graph, values: this.#values, nodes: this.#nodes, ...tallies }, scales: this.#scales }
  }

  #by(): Scaled {
    const { recipe, scales } = this.#fp8
    return recipe === 'delayed' ? { by: 'scale' } : scales === 'powers' ? {} : { by: scales }
  }

  #codesOf(id: ValueId, blocks: Blocks | undefined): CodedTensor {
    const { name, dims } = this.#values[id]
    const key = JSON.stringify([id, blocks])
    const known = this.#coded.get(key)
    if (known) return known
    const of = blocks ? { blocks } : {}
    const counted = blockDims(dims, blocks ?? {})
    const amax = this.#made({ name: `${name}.amax`, dtype: 'f32', dims: counted }, { kind: 'absMax', ...of }, [id])
    const scale = this.#fp8.recipe === 'delayed' ? this.#scale(name, forward, amax) : amax
    const op = { kind: 'quantize', format: forward, ...of, ...this.#by() } as const
    const codes = this.#made({ name: `${name}.codes`, dtype: forward, dims }, op, [id, scale])
    this.#coded.set(key, [codes, scale])
    return [codes, scale]
  }

  /** A parameter of one number, which follows what is greatest in each step: of a gradient that is known only in backward. */
  #scale(of: string, format: CodeType, amax?: ValueId): ValueId {
    const { margin, history: length, algo } = this.#fp8
    const name = scaleName(of)
    if (this.#scales.some(scale => scale.name === name)) throw new Error(`internal: two tensors are called ${of}`)
    const track = { format, margin, algo, length }
    this.#scales.push({ name, dims: [], init: { kind: 'ones' }, role: 'bias', inputs: 0, track })
    if (amax !== undefined) this.#tallies[name] = amax
    const id = this.#values.length
    this.#values.push({ id, name, dtype: 'f32', dims: [], source: { kind: 'param', name }, wide: true })
    return id
  }

  #made(value: Omit<Value, 'id' | 'source'>, op: Node['op'], ins: readonly ValueId[]): ValueId {
    const id = this.#values.length
    this.#values.push({ ...value, id, source: { kind: 'node', node: this.#nodes.length } })
    this.add({ op, ins, outs: [id] })
    return id
  }
}

interface ProductBlocks {
  /** Of what meets a weight: along what is summed, and along tokens, which the gradient of the weight sums. */
  readonly summed?: Blocks
  readonly tokens?: Blocks
  /** Squares, which serve the product and the gradient alike; or along what is summed, and along what the gradient of the other operand sums. */
  readonly weight?: Blocks
  readonly across?: Blocks
}

/** A sample's blocks are its own: how samples are dealt out and grouped changes none. */
function blocksOfProduct(x: Value, w: Value, out: Value, fp8: Fp8): ProductBlocks {
  const size = blockSize(fp8)
  const has = ({ dims }: Value) => new Set(dims.map(({ name }) => name))
  const [ofX, ofW, ofOut] = [x, w, out].map(has)
  const only = ({ dims }: Value, test: (name: string) => boolean) => dims.filter(({ name }) => test(name))
  const summed = only(x, name => ofW.has(name) && !ofOut.has(name))
  const tokens = only(x, name => !ofW.has(name) && name !== 'batch')
  const others = (dims: readonly Dim[]) => blocksOfEach(only(x, name => !dims.some(dim => dim.name === name)))
  const free = only(w, name => !ofX.has(name))
  const shared = only(w, name => ofX.has(name) && ofOut.has(name))
  return {
    summed: { ...others(summed), ...blocksAlong(summed, size) },
    tokens: { ...others(tokens), ...blocksAlong(tokens, size) },
    ...(fp8.recipe === 'mx'
      ? {
          weight: { ...blocksOfEach([...shared, ...free]), ...blocksAlong(summed, size) },
          across: { ...blocksOfEach([...shared, ...summed]), ...blocksAlong(free, size) },
        }
      : { weight: { ...blocksOfEach(shared), ...blocksAlong(summed, size), ...blocksAlong(free, size) } }),
  }
}

/** Along rows there are none: which rows follow each other depends on the plan. */
function blocksOfExperts(rows: Value, w: Value, fp8: Fp8): ProductBlocks {
  const size = blockSize(fp8)
  const [summed, free] = [true, false].map(isSummed =>
    w.dims.filter(({ name }) => name !== 'expert' && rows.dims.some(dim => dim.name === name) === isSummed),
  )
  const along = (dims: readonly Dim[], others: readonly Dim[]) => ({
    ...{ expert: 1, ...blocksOfEach(others) },
    ...blocksAlong(dims, size),
  })
  return {
    summed: { row: 1, ...blocksAlong(summed, size) },
    ...(fp8.recipe === 'mx'
      ? { weight: along(summed, free), across: along(free, summed) }
      : { weight: { ...along(summed, []), ...blocksAlong(free, size) } }),
  }
}

/** A parameter is there as a whole from its first reader to its last: it is coded for the first, once a step. */
export const codesOnce = ({ zero, gather, offload }: Pick<Plan, 'zero' | 'gather' | 'offload'>): boolean =>
  (zero < 3 || gather === 'step') && offload?.parameters !== 'host'

/** The parameter that codes stand for. */
export function paramBehind({ values, nodes }: Graph, { source }: Value): string | undefined {
  if (source.kind !== 'node' || nodes[source.node].op.kind !== 'quantize') return undefined
  const { source: coded } = values[nodes[source.node].ins[0]]
  return coded.kind === 'param' ? coded.name : undefined
}
