/**
 * *codes*: products of linear layers on 8 bits. Of a model as a plan stores it, every product of tokens with a matrix inside a layer
 * reads codes of both: what is greatest in a tensor, all of it or each block, is found first, and says by what it is scaled. Gradients
 * follow: that of such a product is made of two of its kind (model/codes.ts). Embedding, head, norms, attention, routers and experts stay as they are.
 */
import { type Blocks, blockDims, blocksAlong, blocksOfEach, type CodeType, type Dim } from '../base/index.js'
import type { Block, Graph, Model, Node, Value, ValueId } from '../model/index.js'
import type { Plan } from '../plan/index.js'

/** What goes forward needs digits more than range. */
const forward: CodeType = 'f8e4m3'

type Fp8 = NonNullable<Plan['fp8']>

/** Blocks that share a graph go on sharing it. */
export function codedModel(model: Model, fp8: Plan['fp8']): Model {
  if (!fp8) return model
  const matrices = new Set(model.params.filter(({ role }) => role === 'matrix').map(({ name }) => name))
  const coded = new Map<Graph, Graph>()
  const graphOf = ({ graph, layer, params }: Block): Graph => {
    const isMatrix = ({ source }: Value) => source.kind === 'param' && matrices.has(params[source.name])
    if (layer && !coded.has(graph)) coded.set(graph, codedGraph(graph, isMatrix, fp8))
    return coded.get(graph) ?? graph
  }
  return { ...model, blocks: model.blocks.map(block => ({ ...block, graph: graphOf(block) })) }
}

/** The same graph, in which products with matrices read codes. What several of them read is coded once. */
function codedGraph(graph: Graph, isMatrix: (value: Value) => boolean, fp8: Fp8): Graph {
  const values = [...graph.values]
  const nodes: Node[] = []
  const add = (node: Node) => {
    for (const id of node.outs) values[id] = { ...values[id], source: { kind: 'node', node: nodes.length } }
    nodes.push(node)
  }
  const made = (value: Omit<Value, 'id' | 'source'>, op: Node['op'], ins: readonly ValueId[]): ValueId => {
    const id = values.length
    values.push({ ...value, id, source: { kind: 'node', node: nodes.length } })
    add({ op, ins, outs: [id] })
    return id
  }
  const coded = new Map<string, readonly [codes: ValueId, amax: ValueId]>()
  const codesOf = (id: ValueId, blocks: Blocks | undefined) => {
    const { name, dims } = values[id]
    const key = JSON.stringify([id, blocks])
    const known = coded.get(key)
    if (known) return known
    const of = blocks ? { blocks } : {}
    const counted = blockDims(dims, blocks ?? {})
    const amax = made({ name: `${name}.amax`, dtype: 'f32', dims: counted }, { kind: 'absMax', ...of }, [id])
    const op = { kind: 'quantize', format: forward, ...of } as const
    const codes = made({ name: `${name}.codes`, dtype: forward, dims }, op, [id, amax])
    coded.set(key, [codes, amax])
    return [codes, amax] as const
  }
  for (const node of graph.nodes) {
    const [x, w] = node.ins
    if (node.op.kind !== 'contract' || !isMatrix(values[w])) add(node)
    else {
      const cut = fp8.recipe === 'blocks' ? blocksOfProduct(values[x], values[w], values[node.outs[0]], fp8.block) : {}
      const [[a, aMax], [b, bMax]] = [codesOf(x, cut.summed), codesOf(w, cut.weight)]
      const of = cut.summed && cut.weight ? { blocks: [cut.summed, cut.weight] } : {}
      const op = { kind: 'scaledContract', formats: [forward, forward], ...of } as const
      add({ op, ins: [a, b, aMax, bMax], outs: node.outs })
      if (cut.tokens) codesOf(x, cut.tokens)
    }
  }
  return { ...graph, values, nodes }
}

interface ProductBlocks {
  /** Of what meets a weight: along what is summed, and along tokens, which the gradient of the weight sums. */
  readonly summed?: Blocks
  readonly tokens?: Blocks
  /** Squares: they serve the product and the gradient alike. */
  readonly weight?: Blocks
}

/** A sample's blocks are its own: how samples are dealt out and grouped changes none. */
function blocksOfProduct(x: Value, w: Value, out: Value, size: number): ProductBlocks {
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
    weight: { ...blocksOfEach(shared), ...blocksAlong(summed, size), ...blocksAlong(free, size) },
  }
}

/** The parameter that codes stand for. */
export function paramBehind({ values, nodes }: Graph, { source }: Value): string | undefined {
  if (source.kind !== 'node' || nodes[source.node].op.kind !== 'quantize') return undefined
  const { source: coded } = values[nodes[source.node].ins[0]]
  return coded.kind === 'param' ? coded.name : undefined
}
