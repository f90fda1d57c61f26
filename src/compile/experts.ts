/**
 * How what has rows is laid out. Every axis is one of three for experts: it splits each of them (etp: tokens are whole there), or
 * its ranks hold different ones (ep: rows move to theirs), or the same ones (on other tokens: gradients are summed). Rows are
 * split over all axes but etp, and so are tokens when they become rows: slicing them is free where they are whole.
 */
import { type Axis, type Layout, type Op, type OpKind, sizeOfAll, splitsDim, whole } from '../base/index.js'
import type { Block, Graph, Model, Node } from '../model/index.js'
import type { Plan } from '../plan/index.js'
import type { Candidate, ElectedLayouts } from './elect.js'
import { isSpare, type ShardedMesh } from './layouts.js'

const kinds = [
  'rowsOf',
  'dispatch',
  'combine',
  'expertContract',
  'expertWeightGrad',
  'scaledExpertContract',
  'scaledExpertWeightGrad',
] as const satisfies readonly OpKind[]
type RowKind = (typeof kinds)[number]

export const hasRows = (op: Op): op is Extract<Op, { kind: RowKind }> => kinds.some(kind => kind === op.kind)

/** Layouts of what has rows, by what a tensor is. */
class RowLayouts {
  readonly #s: ShardedMesh
  readonly #rows: readonly Axis[]
  readonly #copies: readonly Axis[]

  constructor(s: ShardedMesh) {
    this.#s = s
    this.#rows = s.axes.filter(axis => !s.experts.etp.includes(axis))
    this.#copies = this.#rows.filter(axis => !s.experts.ep.includes(axis))
  }

  /** Tokens as they become rows, or as the choices of others must be known: together with all that share the experts. */
  tokens(of: 'own' | 'all', partial: Layout['partial'] = {}): Layout {
    const axes = of === 'own' ? this.#rows : this.#copies
    const batch = axes.filter(axis => splitsDim(axis, 'batch'))
    const seq = axes.filter(axis => splitsDim(axis, 'seq') || isSpare(axis, 'seq'))
    return { splits: nonEmpty({ batch, seq }), partial }
  }

  rows({ dims }: Pick<Candidate, 'dims'>, partial: Layout['partial'] = {}): Layout {
    const inner = dims.includes('expertFfn') ? { expertFfn: this.#s.experts.etp } : {}
    return { splits: nonEmpty({ row: this.#rows, ...inner }), partial }
  }

  /** What ranks with the same experts count, or make of weights, is a part of the sum. */
  counts(): Layout {
    return { splits: nonEmpty({ expert: this.#s.experts.ep }), partial: sums(this.#copies) }
  }

  weights({ dims }: Pick<Candidate, 'dims'>, partial: Layout['partial'] = {}): Layout {
    const inner = dims.includes('expertFfn') ? { expertFfn: this.#s.experts.etp } : {}
    return { splits: nonEmpty({ expert: this.#s.experts.ep, ...inner }), partial }
  }

  /** What says how codes were scaled: all of them alike, or each block. */
  scale(of: Pick<Candidate, 'dims'>): Layout {
    return of.dims.includes('row') ? this.rows(of) : of.dims.includes('expert') ? this.weights(of) : whole
  }

  gradient = (of: Pick<Candidate, 'dims'>, partial: Layout['partial'] = {}): Layout =>
    this.weights(of, { ...partial, ...sums(this.#copies) })
}

const nonEmpty = (splits: Layout['splits']): Layout['splits'] =>
  Object.fromEntries(Object.entries(splits).filter(([, axes]) => axes.length > 0))

const sums = (axes: readonly Axis[]): Layout['partial'] => Object.fromEntries(axes.map(axis => [axis, 'sum']))

/** A sum over the split width of experts is partial until tokens have it back; what adapters make of it stays so on its way. */
export function rowLayouts(
  s: ShardedMesh,
  { kind }: { kind: RowKind },
  ins: readonly Candidate[],
  outs: readonly Candidate[],
): ElectedLayouts {
  const of = new RowLayouts(s)
  const routes = [of.tokens('own'), of.rows({ dims: ['row'] }), of.counts()]
  const scales = ins.slice(3).map(scale => of.scale(scale))
  switch (kind) {
    case 'rowsOf':
      return { ins: [of.tokens('all')], outs: [of.tokens('all'), ...routes.slice(1)] }
    case 'dispatch':
      return { ins: [of.tokens('own'), ...routes], outs: [of.rows(outs[0])] }
    case 'combine': {
      const { partial } = ins[0].layout
      return { ins: [of.rows(ins[0], partial), ...routes], outs: [of.tokens('own', partial)] }
    }
    case 'expertContract':
    case 'scaledExpertContract': {
      const { partial } = ins[0].layout
      const summed = ins[0].dims.includes('expertFfn') ? sums(s.experts.etp) : partial
      const operands = [of.rows(ins[0], partial), of.counts(), of.weights(ins[2]), ...scales]
      return { ins: operands, outs: [of.rows(outs[0], summed)] }
    }
    case 'expertWeightGrad':
    case 'scaledExpertWeightGrad': {
      const { partial } = ins[0].layout
      // A product of two sums is no sum of products: one of them may be in addends.
      const other = Object.keys(partial).length > 0 ? {} : ins[1].layout.partial
      const operands = [of.rows(ins[0], partial), of.rows(ins[1], other), of.counts(), ...scales]
      return { ins: operands, outs: [of.gradient(outs[0], { ...partial, ...other })] }
    }
  }
}

/** The room a rank has for rows, and the most it could need. */
interface Room {
  readonly room: number
  readonly worst: number
}

/**
 * A plan says how many rows a rank has room for, over what it would have if all experts were chosen equally often; never more
 * than if all tokens chose the experts of one rank. Capacity is a limit too.
 */
function roomFor(
  { dims }: Pick<Model, 'dims'>,
  { expertCapacity }: Pick<Plan, 'expertCapacity'>,
  s: ShardedMesh,
  capacity: number,
): Room {
  const { batch, seq, choice, expert } = dims
  const ranks = ranksWithRows(s)
  const sharing = sizeOfAll(s.mesh, s.experts.ep)
  const [tokens, own] = [(batch * seq) / ranks, expert / sharing]
  const worst = tokens * sharing * Math.min(choice, own)
  const asked = expertCapacity === 'worst' ? worst : Math.ceil(expertCapacity * tokens * choice)
  return { room: Math.min(worst, asked, own * capacity), worst }
}

/** The `row` dim of a microbatch before sharding: the capacity of each rank times the ranks with expert rows. The graph is of a routed layer. */
export const rowsOf = (
  model: Pick<Model, 'dims'>,
  { nodes }: Pick<Graph, 'nodes'>,
  plan: Pick<Plan, 'expertCapacity'>,
  s: ShardedMesh,
): number => roomFor(model, plan, s, capacityOf(nodes, model.dims)).room * ranksWithRows(s)

const ranksWithRows = (s: ShardedMesh): number => sizeOfAll(s.mesh, s.axes) / sizeOfAll(s.mesh, s.experts.etp)

/** The model with as many rows as the plan has room for, guarded where there could be more. */
export function boundRows(model: Model, plan: Pick<Plan, 'expertCapacity'>, s: ShardedMesh): Model {
  if (model.dims.row === undefined) return model
  const bound = ({ values, nodes, ...graph }: Graph): Graph => {
    const { room, worst } = roomFor(model, plan, s, capacityOf(nodes, model.dims))
    const dims = (all: Graph['values'][number]['dims']) =>
      all.map(dim => (dim.name === 'row' ? { ...dim, size: room * ranksWithRows(s) } : dim))
    const guard = (node: Node): Node =>
      node.op.kind === 'rowsOf' ? { ...node, op: { ...node.op, guarded: room < worst } } : node
    return { ...graph, values: values.map(value => ({ ...value, dims: dims(value.dims) })), nodes: nodes.map(guard) }
  }
  const graphs = new Map(model.blocks.map(({ graph }) => [graph, bound(graph)]))
  return { ...model, blocks: model.blocks.map((block): Block => ({ ...block, graph: graphs.get(block.graph)! })) }
}

/** Choices that one expert takes of a microbatch, where its room is limited. */
function capacityOf(nodes: readonly Node[], { batch, seq }: Readonly<Record<string, number>>): number {
  const assign = nodes.find(({ op }) => op.kind === 'assign')?.op
  return assign?.kind === 'assign' ? ((batch * seq) / assign.tokens) * assign.room : Number.POSITIVE_INFINITY
}
