/**
 * *codes*: products of linear layers on 8 bits. Of a model as a plan stores it, every product of tokens with a matrix inside a layer
 * reads codes of both: what is greatest in a tensor, all of it, is found first, and says by what it is scaled. Gradients follow: that of
 * such a product is made of two of its kind. Embedding, head, norms, attention, routers and experts stay as they are.
 */
import type { CodeType } from '../base/index.js'
import type { Block, Graph, Model, Node, Value, ValueId } from '../model/index.js'
import type { Plan } from '../plan/index.js'

/** What goes forward needs digits more than range. */
const forward: CodeType = 'f8e4m3'

/** Blocks that share a graph go on sharing it. */
export function codedModel(model: Model, fp8: Plan['fp8']): Model {
  if (!fp8) return model
  const matrices = new Set(model.params.filter(({ role }) => role === 'matrix').map(({ name }) => name))
  const coded = new Map<Graph, Graph>()
  const graphOf = ({ graph, layer, params }: Block): Graph => {
    const isMatrix = ({ source }: Value) => source.kind === 'param' && matrices.has(params[source.name])
    if (layer && !coded.has(graph)) coded.set(graph, codedGraph(graph, isMatrix))
    return coded.get(graph) ?? graph
  }
  return { ...model, blocks: model.blocks.map(block => ({ ...block, graph: graphOf(block) })) }
}

/** The same graph, in which products with matrices read codes. What several of them read is coded once. */
function codedGraph(graph: Graph, isMatrix: (value: Value) => boolean): Graph {
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
  const coded = new Map<ValueId, readonly [codes: ValueId, amax: ValueId]>()
  const codesOf = (id: ValueId) => {
    const { name, dims } = values[id]
    const known = coded.get(id)
    if (known) return known
    const amax = made({ name: `${name}.amax`, dtype: 'f32', dims: [] }, { kind: 'absMax' }, [id])
    const codes = made({ name: `${name}.codes`, dtype: forward, dims }, { kind: 'quantize', format: forward }, [
      id,
      amax,
    ])
    coded.set(id, [codes, amax])
    return [codes, amax] as const
  }
  for (const node of graph.nodes) {
    const [x, w] = node.ins
    if (node.op.kind !== 'contract' || !isMatrix(values[w])) add(node)
    else {
      const [[a, aMax], [b, bMax]] = [codesOf(x), codesOf(w)]
      add({ op: { kind: 'scaledContract', formats: [forward, forward] }, ins: [a, b, aMax, bMax], outs: node.outs })
    }
  }
  return { ...graph, values, nodes }
}

/** The parameter that codes stand for. */
export function paramBehind({ values, nodes }: Graph, { source }: Value): string | undefined {
  if (source.kind !== 'node' || nodes[source.node].op.kind !== 'quantize') return undefined
  const { source: coded } = values[nodes[source.node].ins[0]]
  return coded.kind === 'param' ? coded.name : undefined
}
