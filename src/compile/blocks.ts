/**
 * The segments of one kind of block: forward, input gradient, weight gradient, both gradients. A block is compiled once
 * and called for every layer of its kind and every microbatch, so it meets the outside in agreed places only:
 * carries in canonical layout, parameters as they are kept, and a stash of what the forward keeps for the backward.
 */
import { claimOf, type Dim, type Layout, type Op, partialAxes, whole } from '../base/index.js'
import { type Kind, type Ref, type RoleName, showRole } from '../ir/index.js'
import { type Block, type Node, type Sharding, shardingOf, type Value, type ValueId } from '../model/index.js'
import { paramBehind } from './codes.js'
import type { ByKind, ParamLayouts, TrainedBy } from './compiled.js'
import type { DerivedGraph } from './differentiate.js'
import { elect } from './elect.js'
import { hasRows, rowLayouts } from './experts.js'
import { canonical, type ShardedMesh, termLayout } from './layouts.js'
import { align } from './pack.js'
import { neededIn, type Phases } from './recompute.js'
import { isAttention, writeRing } from './ring.js'
import { type SegmentDraft, SegmentWriter, type Slot, type Version } from './segment.js'
import { scalarSlot } from './slots.js'
import { divisorSlot } from './tail.js'

export type PhaseName = 'F' | 'I' | 'W' | 'B'

export interface BlockContext {
  readonly s: ShardedMesh
  readonly training: Pick<TrainedBy, 'lossScale'>
  /** The model's dims, of one microbatch. */
  readonly sizes: Readonly<Record<string, number>>
  readonly graphs: ByKind<DerivedGraph>
  readonly nodes: ByKind<Phases>
  /** Sharding rules of nodes, found when first needed: they do not depend on the plan. */
  readonly rules: WeakMap<Node, Sharding>
  readonly phases: readonly PhaseName[]
  /** Layouts by the model's name for the parameter. */
  readonly layouts: ReadonlyMap<string, ParamLayouts>
  readonly classes: ReadonlyMap<string, string>
  /** The layout in which gradients of a class are accumulated: as produced, where nothing has been agreed. */
  readonly gradients: ReadonlyMap<string, Layout>
}

/** The gradient of a parameter of class `of`, in the layout in which some segment makes it. */
export interface ProducedGradient {
  readonly of: string
  readonly layout: Layout
}

export interface BlockDrafts {
  readonly segments: Readonly<Partial<Record<PhaseName, SegmentDraft>>>
  /** What makes the codes of its parameters, once a step; it does nothing where that is done in every phase. */
  readonly codes: SegmentDraft
  readonly produced: readonly ProducedGradient[]
  /** Carries handed through untouched: name out -> name in, and gradients likewise: name in -> name out. */
  readonly through: Readonly<Record<string, string>>
  readonly dthrough: Readonly<Record<string, string>>
  readonly lossLayout?: Layout
}

interface StashedValue {
  readonly layout: Layout
  readonly slot: Slot
}

/** Where ranks exchange sequence for heads, what both attention and others will read is kept as each of them needs it. */
type Stash = Map<ValueId, readonly StashedValue[]>

export function draftBlock(block: Block, context: BlockContext): BlockDrafts {
  const [{ graph }, { C, F, B }] = [context.graphs[block.kind], context.nodes[block.kind]]
  const needed = trains(context) ? [...C, ...F] : neededIn(graph, [...C, ...F])
  const coder = new PhaseWriter(block, context)
  coder.run(needed.filter(node => C.includes(node)))
  const made = C.filter(node => needed.includes(node)).flatMap(node => graph.nodes[node].outs)
  const coded = coder.stash(made, trains(context) ? [...F, ...B] : F, { is: 'coded' }, 'parameters')
  const forward = new PhaseWriter(block, context, coded)
  forward.run(needed.filter(node => !C.includes(node)))
  const through = forward.hand(graph.exports, 'out', 'carry')
  const backward = trains(context) ? draftBackward(block, context, forward, coded) : undefined
  const { lossLayout } = forward
  return {
    segments: { F: forward.draft('F'), ...backward?.segments },
    codes: coder.draft('C'),
    produced: [...forward.produced, ...(backward?.produced ?? [])],
    through,
    dthrough: backward?.dthrough ?? {},
    ...(lossLayout ? { lossLayout } : {}),
  }
}

const trains = ({ phases }: BlockContext): boolean => phases.some(phase => phase !== 'F')

/** B; or I and then W, where the schedule runs them apart; or all three. */
function draftBackward(block: Block, context: BlockContext, forward: PhaseWriter, coded: Stash) {
  const { phases } = context
  const { carryGrads } = context.graphs[block.kind]
  const { B, I, W, keptForI, keptForW, held } = context.nodes[block.kind]
  // Frames end with their last reader: one stash if B reads it all, two if I is done with its part before W.
  const stashed = phases.includes('I')
    ? new Map([
        ...forward.stash(keptForI, B, { is: 'keep', of: 'I' }),
        ...forward.stash(keptForW, B, { is: 'keep', of: 'W' }),
      ])
    : forward.stash([...keptForI, ...keptForW], B, { is: 'keep' })
  const kept = new Map([...coded, ...stashed])
  const run = (nodes: readonly number[], known: Stash) => {
    const writer = new PhaseWriter(block, context, known)
    writer.run(nodes)
    return writer
  }
  const segments: Partial<Record<PhaseName, SegmentDraft>> = {}
  const produced: ProducedGradient[] = []
  let dthrough: Record<string, string> = {}
  const finish = (phase: PhaseName, writer: PhaseWriter) => {
    segments[phase] = writer.draft(phase)
    produced.push(...writer.produced)
  }
  if (phases.includes('B')) {
    const writer = run(B, kept)
    writer.accumulateGiven()
    dthrough = writer.hand(carryGrads, 'dout', 'dcarry')
    finish('B', writer)
  }
  if (phases.includes('I')) {
    const writer = run(I, kept)
    dthrough = writer.hand(carryGrads, 'dout', 'dcarry')
    const holding = writer.stash(held, W, { is: 'hold' })
    finish('I', writer)
    const weights = run(W, new Map([...kept, ...holding]))
    weights.accumulateGiven()
    finish('W', weights)
  }
  return { segments, produced, dthrough }
}

class PhaseWriter {
  lossLayout: Layout | undefined
  readonly produced: ProducedGradient[] = []
  readonly #block: Block
  readonly #derived: DerivedGraph
  readonly #context: BlockContext
  readonly #known: Stash
  readonly #writer: SegmentWriter
  readonly #gradOf: ReadonlyMap<ValueId, string[]>

  constructor(block: Block, context: BlockContext, known: Stash = new Map()) {
    const derived = context.graphs[block.kind]
    this.#block = block
    this.#derived = derived
    this.#context = context
    this.#known = known
    this.#writer = new SegmentWriter(context.s)
    const gradOf = new Map<ValueId, string[]>()
    for (const [param, id] of Object.entries(derived.paramGrads)) gradOf.set(id, [...(gradOf.get(id) ?? []), param])
    this.#gradOf = gradOf
  }

  run(nodes: readonly number[]): void {
    for (const node of nodes) this.#node(this.#derived.graph.nodes[node])
  }

  /** Gradients of parameters that no node makes: a parameter added to what leaves has the gradient that arrives. */
  accumulateGiven(): void {
    for (const id of this.#gradOf.keys()) if (this.#value(id).source.kind !== 'node') this.#accumulate(id)
  }

  /** Values leave in canonical layout, each in a frame of its own; one that only passes through keeps the frame it has. */
  hand(
    values: Readonly<Record<string, ValueId>>,
    is: 'out' | 'dout',
    entered: 'carry' | 'dcarry',
  ): Record<string, string> {
    const through: Record<string, string> = {}
    for (const [name, id] of Object.entries(values)) {
      const { source } = this.#value(id)
      if (source.kind === entered) through[name] = source.name
      else this.#settle(id, { role: { is, of: name }, kind: 'activations', offset: 0 })
    }
    return through
  }

  /** Values other phases will need, in the smallest versions that those who read them can use. */
  stash(values: readonly ValueId[], readers: readonly number[], role: RoleName, kind: Kind = 'activations'): Stash {
    const stashed: Stash = new Map()
    let offset = 0
    const settle = ({ ref, layout }: Version): StashedValue => {
      const slot = this.#writer.slotOf(ref) ?? { role, kind, offset }
      if (this.#writer.isScratch(ref)) offset += align(this.#writer.bytesOf(ref))
      this.#writer.settle(ref, slot)
      return { layout, slot }
    }
    for (const id of values) stashed.set(id, this.#smallest(id, readers).map(settle))
    return stashed
  }

  /**
   * The smallest version that is not partial, if there is one. Of several that are as small, which an exchange makes, the
   * one by heads for readers that work by heads, and another for the others.
   */
  #smallest(id: ValueId, readers: readonly number[]): Version[] {
    const versions = this.#writer.versions(String(id))
    const resolved = versions.filter(({ layout }) => partialAxes(layout).length === 0)
    const some = resolved.length > 0 ? resolved : versions
    const bytes = ({ ref }: Version) => this.#writer.bytesOf(ref)
    const least = Math.min(...some.map(bytes))
    const small = some.filter(version => bytes(version) === least)
    const ways = new Set(this.#readersOf(id, readers).map(node => this.#ruleOf(node).byHeads))
    const found = [...ways].map(byHeads => small.find(({ layout }) => isByHeads(layout) === byHeads) ?? small[0])
    return found.length > 0 ? [...new Set(found)] : [small[0]]
  }

  #readersOf(id: ValueId, nodes: readonly number[]): Node[] {
    return nodes.map(node => this.#derived.graph.nodes[node]).filter(({ ins }) => ins.includes(id))
  }

  #ruleOf(node: Node): Sharding {
    const dims = (ids: readonly ValueId[]) => ids.map(id => this.#value(id).dims)
    const { rules } = this.#context
    const rule = rules.get(node) ?? shardingOf(node.op, dims(node.ins), dims(node.outs))
    rules.set(node, rule)
    return rule
  }

  draft(phase: PhaseName | 'C'): SegmentDraft {
    return this.#writer.draft(`${this.#block.kind}.${phase}`, phase)
  }

  #value(id: ValueId): Value {
    return this.#derived.graph.values[id]
  }

  #node(node: Node): void {
    const { s } = this.#context
    const [ins, outs] = [node.ins, node.outs].map(ids => ids.map(id => this.#value(id)))
    const [operands, results] = [ins.map(v => this.#operand(v)), outs.map(v => this.#result(v))]
    const elected = hasRows(node.op)
      ? rowLayouts(s, node.op, operands, results)
      : elect(s, this.#ruleOf(node), operands, results)
    const { op } = node
    if (s.ring !== undefined && isAttention(op)) {
      writeRing({ s, writer: this.#writer, op, ins, outs, elected }, s.ring)
      return
    }
    const refs = ins.map((value, i) => this.#writer.demand(String(value.id), elected.ins[i]).ref)
    const made = outs.map((value, i) =>
      this.#writer.make(String(value.id), value, elected.outs[i], this.#kindOf(value.id)),
    )
    this.#emit(
      node.op,
      refs,
      made.map(({ ref }) => ref),
    )
    for (const { id } of outs) this.#accumulate(id)
    if (this.#derived.graph.loss === node.outs[0]) this.#accumulateLoss(made[0].ref, elected.outs[0])
    if (this.#derived.graph.terms?.includes(node.outs[0])) this.#accumulateTerm(node.outs[0])
  }

  /** Rows that ranks share move between them. */
  #emit(op: Op, ins: readonly Ref[], outs: readonly Ref[]): void {
    const { ep } = this.#context.s.experts
    const kind = op.kind === 'dispatch' ? 'all-dispatch' : op.kind === 'combine' ? 'all-combine' : undefined
    if (kind === undefined || ep.length === 0) this.#writer.emit({ ...op, ins, outs })
    else {
      this.#writer.emit({ kind, ins, outs, group: { axes: ep } })
      this.#writer.emit({ kind: 'wait', on: outs[0] })
    }
  }

  #kindOf(id: ValueId): Kind {
    return this.#gradOf.has(id) ? 'gradients' : 'activations'
  }

  /** Votes: the compute layout of a parameter, or of what it is coded in (the ZeRO split has none), another operand's layout as it arrived. */
  #operand(value: Value) {
    const dims = value.dims.map(dim => dim.name)
    this.#find(value)
    const param = value.source.kind === 'param' ? value.source.name : paramBehind(this.#derived.graph, value)
    if (param !== undefined) return { dims, layout: this.#layouts(param).compute, param: true }
    return { dims, layout: this.#writer.versions(String(value.id))[0].layout, param: false }
  }

  #result(value: Value) {
    const dims = value.dims.map(dim => dim.name)
    const params = this.#gradOf.get(value.id)
    if (params) return { dims, layout: this.#layouts(params[0]).compute, param: true }
    return { dims, layout: canonical(this.#context.s, value.dims, 'value'), param: false }
  }

  #layouts(param: string): ParamLayouts {
    return this.#context.layouts.get(this.#block.params[param])!
  }

  /** A value that comes from outside the segment is looked up when it is first needed. */
  #find(value: Value): void {
    const key = String(value.id)
    if (this.#writer.versions(key).length > 0) return
    const found = this.#known.get(value.id) ?? [this.#outside(value)]
    for (const { layout, slot } of found) this.#writer.given(key, value, layout, slot)
  }

  #outside({ source, dims, name: label }: Value): StashedValue {
    const { s } = this.#context
    const at = (role: RoleName, kind: Kind): Slot => ({ role, kind, offset: 0 })
    const canon = (purpose: 'value' | 'input', d: readonly Dim[] = dims) => canonical(s, d, purpose)
    switch (source.kind) {
      case 'param':
        return { layout: this.#layouts(source.name).compute, slot: at({ is: 'param', of: source.name }, 'parameters') }
      case 'input':
        return { layout: canon('input'), slot: at({ is: 'input', of: source.name }, 'data') }
      case 'carry':
        return { layout: canon('value'), slot: at({ is: 'in', of: source.name }, 'activations') }
      case 'dcarry':
        return { layout: canon('value'), slot: at({ is: 'din', of: source.name }, 'activations') }
      case 'count':
        return { layout: whole, slot: divisorSlot(this.#context.training) }
      case 'scale':
        return { layout: whole, slot: scalarSlot('scale') }
      case 'node':
        throw new Error(`internal: ${label} was neither kept nor recomputed`)
    }
  }

  #settle(id: ValueId, slot: Slot): void {
    const value = this.#value(id)
    this.#find(value)
    const { ref, layout } = this.#writer.demand(String(id), canonical(this.#context.s, value.dims, 'value'))
    this.#settleOrCopy(ref, value, layout, slot)
  }

  /** Two names for one value, or a parameter handed on: each frame needs bytes of its own. */
  #settleOrCopy(ref: Ref, value: Value, layout: Layout, slot: Slot): Ref {
    if (this.#writer.isScratch(ref)) {
      this.#writer.settle(ref, slot)
      return ref
    }
    const copy = this.#writer.make(`copy of ${value.id}`, value, layout, slot.kind)
    this.#writer.emit({ kind: 'scale', by: 1, ins: [ref], outs: [copy.ref] })
    this.#writer.settle(copy.ref, slot)
    return copy.ref
  }

  #accumulate(id: ValueId): void {
    for (const param of this.#gradOf.get(id) ?? []) {
      const value = this.#value(id)
      this.#find(value)
      const produced = this.#gradLayout(param, this.#writer.versions(String(id))[0].layout)
      // What is a sum already has nothing to wait for: the rank adds its own part.
      const { fresh, dealt } = this.#layouts(param)
      const isSum = fresh && dealt === undefined && partialAxes(produced).length === 0
      const { ref, layout } = this.#writer.demand(String(id), isSum ? this.#layouts(param).storage : produced)
      if (fresh && !isSum) this.#leave(param, value, { ref, layout })
      else {
        const role: RoleName = { is: 'grad', of: param }
        const name = showRole(role)
        const into = this.#writer.given(name, { ...value, name }, layout, { role, kind: 'gradients', offset: 0 })
        const isMax = this.#layouts(param).tracks ? { combine: 'max' as const } : {}
        this.#writer.emit({ kind: 'accumulate', ...isMax, ins: [ref], outs: [into.ref] })
      }
    }
  }

  /** A gradient in a frame of its own, with room to be scattered there. */
  #leave(param: string, value: Value, { ref, layout }: Version): void {
    const slot: Slot = { role: { is: 'fresh', of: param }, kind: 'gradients', offset: 0 }
    const own = this.#settleOrCopy(ref, value, layout, slot)
    this.#writer.makeRoom(own, this.#layouts(param).storage)
  }

  /** The agreed layout, else the produced one; what others reduce keeps its partial sums, and otherwise lies as it is computed with. */
  #gradLayout(param: string, layout: Layout): Layout {
    const { classes, gradients } = this.#context
    const { compute, fresh } = this.#layouts(param)
    const of = classes.get(this.#block.params[param])!
    const agreed = gradients.get(of) ?? layout
    const wanted = fresh ? { ...compute, partial: agreed.partial } : agreed
    this.produced.push({ of, layout: gradients.has(of) ? layout : wanted })
    return wanted
  }

  #accumulateLoss(ref: string, layout: Layout): void {
    this.lossLayout = layout
    this.#addTo('loss', ref, layout)
  }

  #accumulateTerm(id: ValueId): void {
    const { s, sizes } = this.#context
    const { ref, layout } = this.#writer.demand(String(id), termLayout(s, sizes))
    this.#addTo('terms', ref, layout)
  }

  #addTo(of: 'loss' | 'terms', ref: string, layout: Layout): void {
    const tensor = { name: 'total', dtype: 'f32' as const, dims: [] }
    const slot: Slot = { role: { is: 'result', of }, kind: 'workspace', offset: 0 }
    const total = this.#writer.versions(of)[0] ?? this.#writer.given(of, tensor, layout, slot)
    this.#writer.emit({ kind: 'accumulate', ins: [ref], outs: [total.ref] })
  }
}

/** Whether an axis that splits the sequence elsewhere has claimed heads. */
const isByHeads = ({ splits }: Layout): boolean =>
  Object.entries(splits).some(([dim, axes]) => axes.some(axis => claimOf(axis) === dim))
