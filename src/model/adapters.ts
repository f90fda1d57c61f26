/**
 * LoRA (Hu et al. 2021): a model whose parameters are frozen, with *adapters* beside some of its matrices. A product x W becomes
 * x W + (alpha / rank) (x A) B, where A [what W sums over, adapterRank] starts as PEFT starts it and B [adapterRank, what W makes] from
 * zeros. Both have the dims of W, so every plan lays them as it lays W. Experts have a pair each: A [expert, ...] and B [expert, ...].
 */
import { type Dim, elementsOf, type Op } from '../base/index.js'
import { uniformWithin, zeros } from './builder.js'
import { type Block, type Graph, GraphBuilder, type Model, type ParamSpec, type Value, type ValueId } from './graph.js'
import { shapeOf } from './ops.js'

/** Matrices by what they make. */
export const adapterTargets = ['q', 'k', 'v', 'out', 'gate', 'up', 'down'] as const
export type AdapterTarget = (typeof adapterTargets)[number]

export interface Adapters {
  readonly rank: number
  readonly alpha: number
  readonly targets: readonly AdapterTarget[]
  /** The share of what meets A that is left out in each step. */
  readonly dropout: number
}

/**
 * A block's names of the matrices. In latent attention queries and keys are made by several; the latent of keys and values is the keys'.
 * A routed layer has those of its experts and of what every token passes beside them.
 */
const matrices: Readonly<Record<AdapterTarget, readonly string[]>> = {
  q: ['attn.q', 'attn.q.down', 'attn.q.plain', 'attn.q.rope'],
  k: ['attn.k', 'attn.kv.down', 'attn.k.plain', 'attn.k.rope'],
  ...{ v: ['attn.v'], out: ['attn.out'] },
  gate: ['mlp.gate', 'mlp.experts.gate', 'mlp.shared.gate'],
  up: ['mlp.up', 'up', 'mlp.experts.up', 'mlp.shared.up'],
  down: ['mlp.down', 'down', 'mlp.experts.down', 'mlp.shared.down'],
}

const namesOf = ({ targets }: Pick<Adapters, 'targets'>): ReadonlySet<string> =>
  new Set(targets.flatMap(target => matrices[target]))

/** What a matrix may be called by, of a parameter of a model or of a block. */
export const targetOf = (name: string): AdapterTarget | undefined =>
  adapterTargets.find(target => matrices[target].some(own => own === name || name.endsWith(`.${own}`)))

/** The names of the adapters of a matrix. */
export const adapterNames = (matrix: string) => ({ a: `${matrix}.lora.a`, b: `${matrix}.lora.b` })

export const alphaOverRank = ({ alpha, rank }: Pick<Adapters, 'alpha' | 'rank'>): number => alpha / rank

/** Everything else is frozen. Blocks that share a graph go on sharing it. */
export function withAdapters(model: Model, adapters: Adapters | undefined): Model {
  if (!adapters) return model
  const specs = new Map(model.params.map(spec => [spec.name, spec]))
  const graphs = new Map<Graph, Adapted>()
  const made = model.blocks.map((block): { block: Block; own: ParamSpec[] } => {
    if (!block.layer) return { block, own: [] }
    const adapted = graphs.get(block.graph) ?? adaptedGraph(block, specs, adapters)
    graphs.set(block.graph, adapted)
    const named = adapted.params.map(spec => [spec.name, `${block.name}.${spec.name}`] as const)
    return {
      block: { ...block, graph: adapted.graph, params: { ...block.params, ...Object.fromEntries(named) } },
      own: adapted.params.map((spec, i) => ({ ...spec, name: named[i][1] })),
    }
  })
  return {
    ...model,
    dims: { ...model.dims, adapterRank: adapters.rank },
    params: [...model.params.map((spec): ParamSpec => ({ ...spec, frozen: true })), ...made.flatMap(({ own }) => own)],
    blocks: made.map(({ block }) => block),
  }
}

interface Adapted {
  readonly graph: Graph
  /** The adapters, by the graph's names. */
  readonly params: readonly ParamSpec[]
}

function adaptedGraph(block: Block, specs: ReadonlyMap<string, ParamSpec>, adapters: Adapters): Adapted {
  const { graph } = block
  const targets = namesOf(adapters)
  const build = new GraphBuilder(shapeOf, { ...graph, nodes: [] })
  const params: ParamSpec[] = []
  const instead = new Map<ValueId, ValueId>()
  const now = (id: ValueId) => instead.get(id) ?? id
  for (const node of graph.nodes) {
    const operands = node.ins.map(id => build.values[now(id)])
    const [x, w] = [operands[0], operands[node.ins.length - 1]]
    for (const id of node.outs)
      build.values[id] = { ...build.values[id], source: { kind: 'node', node: build.nodes.length } }
    build.nodes.push({ ...node, ins: node.ins.map(now) })
    if (!isProduct(node.op) || w.source.kind !== 'param' || !targets.has(w.source.name)) continue
    const spec = specs.get(block.params[w.source.name])!
    const product = { op: node.op, x, routes: operands.slice(1, -1), y: build.values[node.outs[0]] }
    const site = { build, product, name: w.source.name, spec, adapters }
    const { value, own } = adaptedProduct(site)
    params.push(...own)
    instead.set(node.outs[0], value.id)
  }
  const mapped = (ids: Readonly<Record<string, ValueId>>) =>
    Object.fromEntries(Object.entries(ids).map(([name, id]) => [name, now(id)]))
  // What is frozen follows nothing: its tallies go.
  const { tallies: _, ...rest } = graph
  return { graph: { ...rest, values: build.values, nodes: build.nodes, exports: mapped(graph.exports) }, params }
}

type Product = Extract<Op, { readonly kind: 'contract' | 'expertContract' }>

const isProduct = (op: Op): op is Product => op.kind === 'contract' || op.kind === 'expertContract'

interface Site {
  readonly build: GraphBuilder
  readonly product: {
    readonly op: Product
    readonly x: Value
    /** Of experts: how many rows each of them has. */
    readonly routes: readonly Value[]
    readonly y: Value
  }
  /** The block's name of the matrix. */
  readonly name: string
  readonly spec: ParamSpec
  readonly adapters: Adapters
}

/** What stands for the product from here on, and the adapters it has. */
function adaptedProduct({ build, product: { op, x, routes, y }, name, spec, adapters }: Site) {
  const rank: Dim = { name: 'adapterRank', size: adapters.rank }
  const [a, b] = factorsOf(name, spec, rank)
  const [ofA, ofB] = [a, b].map(own => build.source({ kind: 'param', name: own.name }, own.name, own.dims))
  const kept = x.dims.filter(dim => !a.dims.some(({ name: summed }) => summed === dim.name))
  const seen = dropped(build, x, a.name, adapters.dropout)
  const [low] = build.emit(op, [seen, ...routes, ofA], `${y.name}.low`, [[...kept, rank]])
  const [scaled] = build.emit({ kind: 'scale', by: alphaOverRank(adapters) }, [low], `${y.name}.scaled`)
  const [added] = build.emit(op, [scaled, ...routes, ofB], `${y.name}.added`, [y.dims])
  return { value: build.emit({ kind: 'add' }, [y, added], `${y.name}.adapted`)[0], own: [a, b] }
}

/** Of experts each has its own. */
function factorsOf(matrix: string, { dims, inputs }: ParamSpec, rank: Dim): readonly [a: ParamSpec, b: ParamSpec] {
  const each = dims.filter(({ name }) => name === 'expert')
  const [given, made] = [dims.slice(each.length, each.length + inputs), dims.slice(each.length + inputs)]
  const bound = 1 / Math.sqrt(elementsOf(given))
  const names = adapterNames(matrix)
  return [
    { name: names.a, dims: [...each, ...given, rank], init: uniformWithin(bound), role: 'adapter', inputs },
    { name: names.b, dims: [...each, rank, ...made], init: zeros, role: 'adapter', inputs: 1 },
  ]
}

/** Where tokens do not lie in their order, masks go by the tokens all the same. */
function dropped(build: GraphBuilder, x: Value, key: string, rate: number): Value {
  if (rate === 0) return x
  const order = build.values.find(({ source }) => source.kind === 'input' && source.name === 'order')
  return build.emit({ kind: 'dropout', dropout: { rate, key } }, order ? [x, order] : [x], `${x.name}.dropped`)[0]
}
