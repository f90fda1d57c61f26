/**
 * *precision*: what each value is stored in. Under bf16, what belongs to a token is bf16 (activations, their gradients,
 * the parameters they meet); what belongs to a parameter is f32 (its gradient as produced, its master and moments), and
 * so is every statistic (the log-sum-exp of attention, the parts of the loss, counts). Under pure-bf16 statistics alone
 * are f32, and parameters need no masters; some plans do without them though moments are f32. Gradients may be as narrow as tokens, or f32, whatever the state is in. Models are written and differentiated in f32; nothing else in the compiler
 * asks which precision it is.
 */
import {
  type DType,
  gradientIn,
  hasMaster,
  opFacts,
  type PlanPrecision,
  planPrecisionFacts,
  type Stored,
} from '../base/index.js'
import { type Graph, isFollower, type Model, type ParamSpec, type Value, type ValueId } from '../model/index.js'
import type { DerivedGraph } from './differentiate.js'

export interface ParamDtypes {
  /** What a parameter is computed with. */
  readonly dtype: DType
  readonly gradientDtype: DType
  /** What its optimizer state is in. */
  readonly stateDtype: DType
  /** What is updated is part of the state, and the parameter is rounded from it. */
  readonly hasMaster: boolean
}

export function paramDtypes(plan: Stored, spec: Pick<ParamSpec, 'balance' | 'track' | 'frozen'>): ParamDtypes {
  if (isFollower(spec)) return { dtype: 'f32', gradientDtype: 'f32', stateDtype: 'f32', hasMaster: false }
  const { token, state } = planPrecisionFacts[plan.precision]
  const master = hasMaster(plan.precision) && !spec.frozen
  return { dtype: token, gradientDtype: gradientIn(plan), stateDtype: state, hasMaster: master }
}

/** What is f32 whatever the precision: statistics, what a model says, and what only moves or adds up such values. */
function wideIn({ values, nodes }: Pick<Graph, 'values' | 'nodes'>): ReadonlySet<ValueId> {
  const wide = new Set<ValueId>()
  const isWide = ({ id, source, wide: asked }: Value): boolean => {
    if (asked || source.kind === 'count' || source.kind === 'scale') return true
    if (source.kind !== 'node') return false
    const { op, ins, outs } = nodes[source.node]
    const { statistic = outs.length, moves } = opFacts[op.kind]
    const real = ins.filter(operand => values[operand].dtype !== 'i32')
    return outs.indexOf(id) >= statistic || (moves === true && real.every(operand => wide.has(operand)))
  }
  for (const value of values) if (isWide(value)) wide.add(value.id)
  return wide
}

/** Real values that are no statistics, in the dtype of tokens. */
function narrowed(graph: Pick<Graph, 'values' | 'nodes'>, token: DType): Value[] {
  const wide = wideIn(graph)
  return graph.values.map(value => (value.dtype === 'f32' && !wide.has(value.id) ? { ...value, dtype: token } : value))
}

/** A model as a plan of this precision stores it. Blocks that share a graph go on sharing it. */
export function storedModel(model: Model, precision: PlanPrecision): Model {
  const { token } = planPrecisionFacts[precision]
  if (token === 'f32') return model
  const graphs = new Map(model.blocks.map(({ graph }) => [graph, { ...graph, values: narrowed(graph, token) }]))
  return {
    ...model,
    inputs: model.inputs.map(input => (input.dtype === 'f32' ? { ...input, dtype: token } : input)),
    blocks: model.blocks.map(block => ({ ...block, graph: graphs.get(block.graph)! })),
  }
}

/** Gradients of activations as activations are, those of parameters as the plan says from the op that makes them on. */
export function storedGradients(derived: DerivedGraph, plan: Stored): DerivedGraph {
  const { token } = planPrecisionFacts[plan.precision]
  const made = gradientIn(plan)
  if (token === 'f32') return derived
  const { graph } = derived
  if (made === token) return { ...derived, graph: { ...graph, values: narrowed(graph, token) } }
  const trained = Object.entries(derived.paramGrads).filter(([param]) => graph.tallies?.[param] === undefined)
  const wide = new Map(trained.map(([param, id]) => [param, wideFrom(derived, id, 0)]))
  const widened = new Set([...wide.values()].flat())
  const values = narrowed(graph, token).map(value => (widened.has(value.id) ? { ...value, dtype: made } : value))
  const nodes = [...graph.nodes]
  /** What somebody else reads too, or nobody here computes, is copied: `accumulate` adds what is equally wide. */
  const copied = (id: ValueId): ValueId => {
    const copy = { ...values[id], id: values.length, name: `${values[id].name}.${made}`, dtype: made }
    values.push({ ...copy, source: { kind: 'node', node: nodes.length } })
    nodes.push({ op: { kind: 'scale', by: 1 }, ins: [id], outs: [copy.id] })
    return copy.id
  }
  const paramGrads = Object.fromEntries(
    Object.entries(derived.paramGrads).map(([param, id]) => [param, wide.get(param)?.length === 0 ? copied(id) : id]),
  )
  return { ...derived, graph: { ...graph, values, nodes }, paramGrads }
}

/**
 * The values that may be as wide as the gradient so that this one is: itself and, where it is a sum, its addends. None where a value has
 * more readers than these, to whom it belongs to a token.
 */
function wideFrom(derived: DerivedGraph, id: ValueId, readers: number): readonly ValueId[] {
  const { graph, forward, carryGrads } = derived
  const { source } = graph.values[id]
  const reading = graph.nodes.flatMap(({ ins }) => ins.filter(operand => operand === id)).length
  if (source.kind !== 'node' || source.node < forward) return []
  if (reading !== readers || Object.values(carryGrads).includes(id)) return []
  const { op, ins } = graph.nodes[source.node]
  if (op.kind !== 'add') return [id]
  const addends = ins.map(operand => wideFrom(derived, operand, 1))
  return addends.every(found => found.length > 0) ? [id, ...addends.flat()] : []
}
