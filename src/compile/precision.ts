/**
 * *precision*: what each value is stored in. Under bf16, what belongs to a token is bf16 (activations, their gradients,
 * the parameters they meet); what belongs to a parameter is f32 (its gradient as produced, its master and moments), and
 * so is every statistic (the log-sum-exp of attention, the parts of the loss, counts). Under pure-bf16 statistics alone
 * are f32, and parameters need no masters. Models are written and differentiated in f32; nothing else in the compiler
 * asks which precision it is.
 */
import type { DType, OpKind } from '../base/index.js'
import type { Graph, Model, Node, Value, ValueId } from '../model/index.js'
import type { Plan } from '../plan/index.js'
import type { Derived } from './differentiate.js'

type Precision = Plan['precision']

export interface ParamDtypes {
  /** What a parameter is computed with. */
  readonly dtype: DType
  /** What its gradient and its optimizer state are in. Where that is wider, a master is part of the state. */
  readonly stateDtype: DType
}

export const paramDtypes: Readonly<Record<Precision, ParamDtypes>> = {
  f32: { dtype: 'f32', stateDtype: 'f32' },
  bf16: { dtype: 'bf16', stateDtype: 'f32' },
  'pure-bf16': { dtype: 'bf16', stateDtype: 'bf16' },
}

/** Results that many numbers went into, or that others are divided by: op -> the first result that is one. */
const statistics: Readonly<Partial<Record<OpKind, number>>> = {
  attention: 1,
  maxOver: 0,
  sumExp: 0,
  pick: 0,
  tokenLoss: 0,
  countLabels: 0,
  squaredError: 0,
  countElements: 0,
}

const dtypeOf = ({ id, dtype, source }: Value, nodes: readonly Node[]): DType => {
  if (dtype === 'i32' || source.kind === 'count') return dtype
  if (source.kind !== 'node') return 'bf16'
  const { op, outs } = nodes[source.node]
  return outs.indexOf(id) >= (statistics[op.kind] ?? outs.length) ? 'f32' : 'bf16'
}

const inBf16 = ({ values, nodes }: Pick<Graph, 'values' | 'nodes'>): Value[] =>
  values.map(value => ({ ...value, dtype: dtypeOf(value, nodes) }))

/** A model as a plan of this precision stores it. Blocks that share a graph go on sharing it. */
export function storedModel(model: Model, precision: Precision): Model {
  if (precision === 'f32') return model
  const graphs = new Map(model.blocks.map(({ graph }) => [graph, { ...graph, values: inBf16(graph) }]))
  return {
    ...model,
    inputs: model.inputs.map(input => (input.dtype === 'i32' ? input : { ...input, dtype: 'bf16' })),
    blocks: model.blocks.map(block => ({ ...block, graph: graphs.get(block.graph)! })),
  }
}

/** Gradients of activations as activations are, those of parameters as their state from the op that makes them on. */
export function storedGradients(derived: Derived, precision: Precision): Derived {
  if (precision === 'f32') return derived
  const { graph } = derived
  if (precision === 'pure-bf16') return { ...derived, graph: { ...graph, values: inBf16(graph) } }
  const wide = new Map(Object.entries(derived.paramGrads).map(([param, id]) => [param, wideFrom(derived, id, 0)]))
  const widened = new Set([...wide.values()].flat())
  const values = inBf16(graph).map(value => (widened.has(value.id) ? { ...value, dtype: 'f32' as const } : value))
  const nodes = [...graph.nodes]
  /** What somebody else reads too, or nobody here computes, is copied: `accumulate` adds f32 to f32. */
  const copied = (id: ValueId): ValueId => {
    const copy = { ...values[id], id: values.length, name: `${values[id].name}.f32`, dtype: 'f32' as const }
    values.push({ ...copy, source: { kind: 'node', node: nodes.length } })
    nodes.push({ op: { kind: 'scale', by: 1 }, ins: [id], outs: [copy.id] })
    return copy.id
  }
  const paramGrads = Object.fromEntries(
    Object.entries(derived.paramGrads).map(([param, id]) => [param, wide.get(param)!.length > 0 ? id : copied(id)]),
  )
  return { ...derived, graph: { ...graph, values, nodes }, paramGrads }
}

/**
 * The values that may be f32 so that this one is: itself and, where it is a sum, its addends. None where a value has
 * more readers than these, to whom it belongs to a token.
 */
function wideFrom(derived: Derived, id: ValueId, readers: number): readonly ValueId[] {
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
