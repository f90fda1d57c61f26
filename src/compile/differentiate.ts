/**
 * Reverse mode on the logical graph of a block: forward nodes first, then gradient nodes, in one graph.
 * Gradient nodes are split in two: those that the gradient of the block's inputs needs (I), and the rest,
 * which only weight gradients need (W). Zero-bubble schedules run the two apart.
 */
import { type Graph, GraphBuilder, gradientsOf, shapeOf, type Value, type ValueId } from '../model/index.js'

export interface DerivedGraph {
  readonly graph: Graph
  /** Nodes before this are the forward. */
  readonly forward: number
  /** Gradient nodes that the gradient of the carry needs. */
  readonly inputSide: ReadonlySet<number>
  /** The graph's name of a parameter -> its gradient, or what is counted for it. */
  readonly paramGrads: Readonly<Record<string, ValueId>>
  /** The gradient of what entered; of a name the block only hands through, the gradient of what left. */
  readonly carryGrads: Readonly<Record<string, ValueId>>
}

export interface Derivation {
  /** Gradients of losses are multiplied with the scale. */
  readonly scaled?: boolean
  /** The graph's names of parameters that have no gradient. */
  readonly frozen?: ReadonlySet<string>
}

export function differentiate(graph: Graph, { scaled = false, frozen = new Set() }: Derivation = {}): DerivedGraph {
  const build = new GraphBuilder(shapeOf, graph)
  const pending = new Map<ValueId, Value[]>()
  const give = (to: Value, gradient: Value | undefined) => {
    if (gradient && to.dtype !== 'i32') pending.set(to.id, [...(pending.get(to.id) ?? []), gradient])
  }
  /** The sum of a value's gradients; asked for once all its consumers have given theirs. */
  const total = (value: Value): Value | undefined => {
    const [first, ...others] = pending.get(value.id) ?? []
    return others.length === 0 ? first : build.emit({ kind: 'add' }, [first, ...others], `d.${value.name}.sum`)[0]
  }
  const count = () => build.source({ kind: 'count' }, 'count', [])
  const scale = () => (scaled ? [build.source({ kind: 'scale' }, 'scale', [])] : [])

  const losses = new Set([...(graph.loss === undefined ? [] : [graph.loss]), ...(graph.terms ?? [])])

  for (const [name, id] of Object.entries(graph.exports)) {
    const value = graph.values[id]
    give(value, build.source({ kind: 'dcarry', name }, `d.${name}.out`, value.dims))
  }
  for (const node of [...graph.nodes].reverse()) {
    const outs = node.outs.map(id => graph.values[id])
    const douts = outs.map(total)
    if (douts.every(dout => dout === undefined) && !losses.has(node.outs[0])) continue
    const ins = node.ins.map(id => graph.values[id])
    for (const [value, gradient] of gradientsOf({ build, node, ins, outs, douts, count, scale })) give(value, gradient)
  }
  /** 0 for what the loss does not depend on: the block before must find a gradient of all it handed on. */
  const zero = (value: Value) => build.emit({ kind: 'zero' }, [], `d.${value.name}`, [value.dims])[0]
  const gradOf = (value: Value, name: string) => graph.tallies?.[name] ?? (total(value) ?? zero(value)).id
  const gradsOf = (kind: 'param' | 'carry') =>
    Object.fromEntries(
      graph.values.flatMap(value =>
        value.source.kind === kind && !(kind === 'param' && frozen.has(value.source.name))
          ? [[value.source.name, gradOf(value, value.source.name)]]
          : [],
      ),
    )
  const [carryGrads, paramGrads] = [gradsOf('carry'), gradsOf('param')]
  const derived = { ...graph, values: build.values, nodes: build.nodes }
  const needed = reach(derived, Object.values(carryGrads), graph.nodes.length)
  const inputSide = new Set([...needed, ...tallied(derived, graph.nodes.length, needed)])
  const all = { graph: derived, forward: graph.nodes.length, inputSide, paramGrads, carryGrads }
  return frozen.size > 0 ? onlyRead(all) : all
}

/** Without the nodes whose results nobody reads: what only gradients of frozen parameters were made from, or for. */
function onlyRead(derived: DerivedGraph): DerivedGraph {
  const { graph, forward, inputSide, paramGrads, carryGrads } = derived
  const { exports, loss, count, terms = [], tallies = {} } = graph
  const given = [loss, count, ...terms].filter(id => id !== undefined)
  const roots = [exports, tallies, paramGrads, carryGrads].flatMap(ids => Object.values(ids))
  const read = reach(graph, [...given, ...roots], 0)
  const places = new Map([...read].sort((a, b) => a - b).map((node, i) => [node, i]))
  const kept = graph.values.filter(({ source }) => source.kind !== 'node' || read.has(source.node))
  const ids = new Map(kept.map(({ id }, i) => [id, i]))
  const now = (id: ValueId) => ids.get(id)!
  const renamed = (of: Readonly<Record<string, ValueId>>) =>
    Object.fromEntries(Object.entries(of).map(([name, id]) => [name, now(id)]))
  const values = kept.map(({ source, ...value }): Value => {
    const place = source.kind === 'node' ? { ...source, node: places.get(source.node)! } : source
    return { ...value, id: now(value.id), source: place }
  })
  const nodes = [...places.keys()].map(node => {
    const { op, ins, outs } = graph.nodes[node]
    return { op, ins: ins.map(now), outs: outs.map(now) }
  })
  return {
    graph: {
      ...{ ...graph, values, nodes, exports: renamed(exports) },
      ...(loss !== undefined && { loss: now(loss) }),
      ...(count !== undefined && { count: now(count) }),
      ...(graph.terms && { terms: terms.map(now) }),
      ...(graph.tallies && { tallies: renamed(tallies) }),
    },
    forward: [...places.keys()].filter(node => node < forward).length,
    inputSide: new Set([...inputSide].flatMap(node => places.get(node) ?? [])),
    paramGrads: renamed(paramGrads),
    carryGrads: renamed(carryGrads),
  }
}

/** What is greatest in something that the input side has is found there: it need not be held for that. */
function tallied({ nodes, values }: Graph, first: number, has: ReadonlySet<number>): number[] {
  const isThere = ({ source }: Value) => source.kind !== 'node' || has.has(source.node)
  return nodes.flatMap(({ op, ins }, i) => (i >= first && op.kind === 'absMax' && isThere(values[ins[0]]) ? [i] : []))
}

/** Nodes from `first` on that these values need. */
function reach(graph: Graph, values: readonly ValueId[], first: number): Set<number> {
  const found = new Set<number>()
  const visit = (id: ValueId) => {
    const { source } = graph.values[id]
    if (source.kind !== 'node' || source.node < first || found.has(source.node)) return
    found.add(source.node)
    graph.nodes[source.node].ins.forEach(visit)
  }
  values.forEach(visit)
  return found
}
