/**
 * Which forward values a block keeps for its backward, and what each phase therefore runs: a value that is not kept is
 * computed again by the phase that first needs it (I, else W; or B). A recomputed value keeps its identity: the phase
 * simply holds the forward node once more, so masks drawn by counter and collectives repeat by themselves.
 */
import { opFacts, opKinds } from '../base/index.js'
import type { Graph, ValueId } from '../model/index.js'
import type { recomputePolicies } from '../plan/index.js'
import { paramBehind } from './codes.js'
import type { DerivedGraph } from './differentiate.js'

export type Recompute = (typeof recomputePolicies)[number] | readonly string[]

export interface Phases {
  /** Nodes that make codes of parameters, where that is done once a step. */
  readonly C: readonly number[]
  /** Nodes each phase runs, in order. */
  readonly F: readonly number[]
  readonly I: readonly number[]
  readonly W: readonly number[]
  readonly B: readonly number[]
  /** Forward values kept until I (nobody later needs them) and until W. */
  readonly keptForI: readonly ValueId[]
  readonly keptForW: readonly ValueId[]
  /** Computed by I, needed again by W. */
  readonly held: readonly ValueId[]
}

/** Selective recomputation repeats the attention core: little arithmetic, much memory (Korthikanti et al. 2022). */
const selective = opKinds.filter(kind => opFacts[kind].recomputed === 'selective')

/** `once`: a parameter is whole for the length of a step, and so are its codes. */
export function recompute(derived: DerivedGraph, what: Recompute, once: boolean): Phases {
  const { graph, forward, inputSide } = derived
  const asked = what === 'cheap' ? cheaply(derived) : named(derived, what)
  // A parameter is there anyway: its codes would be kept for every microbatch under way.
  const isCodeOfParam = (node: number) => paramBehind(graph, graph.values[graph.nodes[node].outs[0]]) !== undefined
  const repeats = (node: number) => asked(node) || isCodeOfParam(node)
  const C = once ? codesOfParams(derived) : []
  const isRepeated = (node: number) => !C.includes(node) && repeats(node)
  const all = range(0, forward).filter(node => graph.nodes[node].outs[0] !== graph.count && !C.includes(node))
  const backward = range(forward, graph.nodes.length)

  const I = close(
    graph,
    backward.filter(node => inputSide.has(node)),
    isRepeated,
    forward,
    new Set(),
  )
  const rest = backward.filter(node => !inputSide.has(node))
  const W = close(graph, rest, isRepeated, forward, new Set(I))
  const B = close(graph, backward, isRepeated, forward, new Set())

  const madeBy = (nodes: readonly number[]) => new Set(nodes.flatMap(node => graph.nodes[node].outs))
  const [madeF, madeI, madeW, madeB] = [madeBy(all), madeBy(I), madeBy(W), madeBy(B)]
  const needs = (nodes: readonly number[]) => new Set(nodes.flatMap(node => graph.nodes[node].ins))
  const [needF, needI, needW, needB] = [needs(all), needs(I), needs(W), needs(B)]
  const stashed = (id: ValueId) => madeF.has(id) && !madeB.has(id) && needB.has(id)
  const isForBackward = (node: number) => isCodeOfParam(node) && !graph.nodes[node].outs.some(id => needF.has(id))
  const keptForW = new Set([...madeF].filter(id => stashed(id) && needW.has(id) && !madeI.has(id)))
  return {
    C,
    F: all.filter(node => !isForBackward(node)),
    I,
    W,
    B,
    keptForI: [...madeF].filter(id => stashed(id) && needI.has(id) && !keptForW.has(id)),
    keptForW: [...keptForW],
    held: [...madeI].filter(id => needW.has(id) && !madeW.has(id)),
  }
}

/** What is greatest in a parameter, and its codes. What scales of later steps follow is found in every microbatch. */
function codesOfParams({ graph, forward }: DerivedGraph): number[] {
  const isParam = (id: ValueId) => graph.values[id].source.kind === 'param'
  const tallied = new Set(Object.values(graph.tallies ?? {}))
  return range(0, forward).filter(node => {
    const { op, ins, outs } = graph.nodes[node]
    return (op.kind === 'absMax' || op.kind === 'quantize') && isParam(ins[0]) && !tallied.has(outs[0])
  })
}

/** Of forward nodes those that an evaluation needs: what is counted for a parameter, or coded for backward, nobody reads there. */
export function neededIn({ nodes, exports, loss, terms = [] }: Graph, forward: readonly number[]): number[] {
  const read = new Set([...Object.values(exports), ...(loss === undefined ? [] : [loss]), ...terms])
  const needed = forward.toReversed().filter(node => {
    const isRead = nodes[node].outs.some(id => read.has(id))
    if (isRead) for (const id of nodes[node].ins) read.add(id)
    return isRead
  })
  return needed.reverse()
}

/** Whether a forward node is computed again, by the kind of its op. */
function named({ graph }: DerivedGraph, what: Exclude<Recompute, 'cheap'>): (node: number) => boolean {
  const names = what === 'none' ? [] : what === 'selective' ? selective : what
  return node => {
    const { kind: own } = graph.nodes[node].op
    const kind = own === 'scaledContract' ? 'contract' : own === 'scaledExpertContract' ? 'expertContract' : own // a product, whatever it reads
    return !opFacts[kind].kept && (names === 'full' || names.includes(kind))
  }
}

/**
 * Norms, activations and rotations, which take one pass over memory: those made of what is there anyway. Another would
 * only keep its operand instead of its result.
 */
function cheaply({ graph, forward }: DerivedGraph): (node: number) => boolean {
  const needed = new Set(graph.nodes.slice(forward).flatMap(({ ins }) => ins))
  const again = new Set<number>()
  const isThere = (id: ValueId) => {
    const { source } = graph.values[id]
    return source.kind !== 'node' || needed.has(id) || again.has(source.node)
  }
  for (const [node, { op, ins }] of graph.nodes.slice(0, forward).entries())
    if (opFacts[op.kind].recomputed === 'cheap' && ins.every(isThere)) again.add(node)
  return node => again.has(node)
}

/** The nodes plus the forward nodes whose results they need and nobody kept; forward ones first, each in its order. */
function close(
  graph: Graph,
  nodes: readonly number[],
  repeats: (node: number) => boolean,
  forward: number,
  done: ReadonlySet<number>,
): number[] {
  const found = new Set<number>()
  const visit = (node: number) => {
    found.add(node)
    for (const id of graph.nodes[node].ins) {
      const { source } = graph.values[id]
      if (source.kind !== 'node' || source.node >= forward || found.has(source.node) || done.has(source.node)) continue
      if (repeats(source.node)) visit(source.node)
    }
  }
  nodes.forEach(visit)
  return [...found].sort((a, b) => a - b)
}

const range = (from: number, to: number): number[] => Array.from({ length: to - from }, (_, i) => from + i)
