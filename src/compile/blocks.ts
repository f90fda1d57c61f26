/**
 * The segments of one kind of block: forward, input gradient, weight gradient, both gradients. A block is compiled once
 * and called for every layer of its kind and every microbatch, so it meets the outside in agreed places only:
 * carries in canonical layout, parameters as they are kept, and a stash of what the forward keeps for the backward.
 */
import { type Dim, type Layout, partialAxes, sameLayout, whole } from '../base/index.js'
import { type Kind, type RoleName, type Segment, showRole } from '../ir/index.js'
import { type Block, type Node, shardingOf, type Value, type ValueId } from '../model/index.js'
import type { Plan } from '../plan/index.js'
import { type Derived, differentiate } from './differentiate.js'
import { elect } from './elect.js'
import { canonical, type Sharded } from './layouts.js'
import { storedGradients } from './precision.js'
import { planPhases } from './recompute.js'
import { align, SegmentWriter, type Slot } from './segment.js'

export type PhaseName = 'F' | 'I' | 'W' | 'B'

/** How a parameter is laid out: to compute with, and as its own frame holds it. */
export interface ParamLayouts {
  readonly compute: Layout
  readonly storage: Layout
  /** What segments find in the parameter's frame. */
  readonly found: Layout
}

export interface BlockContext {
  readonly s: Sharded
  readonly plan: Pick<Plan, 'zero' | 'reduce' | 'recompute' | 'overlap' | 'precision'>
  readonly phases: readonly PhaseName[]
  /** By the model's name of the parameter. */
  readonly layoutsOf: (param: string) => ParamLayouts
  readonly classOf: (param: string) => string
  /** By class: the layout gradients are accumulated in. The first segment that makes one decides. */
  readonly gradLayouts: Map<string, Layout>
}

export interface CompiledBlock {
  readonly segments: Readonly<Partial<Record<PhaseName, Segment>>>
  /** Carries handed through untouched: name out -> name in, and gradients likewise: name in -> name out. */
  readonly through: Readonly<Record<string, string>>
  readonly dthrough: Readonly<Record<string, string>>
  readonly lossLayout?: Layout
}

interface Stashed {
  readonly layout: Layout
  readonly slot: Slot
}

export function compileBlock(block: Block, context: BlockContext): CompiledBlock {
  const derived = storedGradients(differentiate(block.graph), context.plan.precision)
  const phases = planPhases(derived, context.plan.recompute)
  const forward = new PhaseWriter(block, derived, context, new Map())
  const segments: Partial<Record<PhaseName, Segment>> = {}

  forward.run(phases.F)
  const through = forward.hand(derived.graph.exports, 'out', 'carry')
  if (context.phases.every(phase => phase === 'F')) {
    const { lossLayout } = forward
    return { segments: { F: forward.finish('F') }, through, dthrough: {}, ...(lossLayout ? { lossLayout } : {}) }
  }
  // Frames end with their last reader: one stash if B reads it all, two if I is done with its part before W.
  const kept = context.phases.includes('I')
    ? new Map([
        ...forward.stash(phases.keptForI, { is: 'keep', of: 'I' }),
        ...forward.stash(phases.keptForW, { is: 'keep', of: 'W' }),
      ])
    : forward.stash([...phases.keptForI, ...phases.keptForW], { is: 'keep' })
  segments.F = forward.finish('F')

  let dthrough: Record<string, string> = {}
  const backward = (name: PhaseName, nodes: readonly number[], known: Map<ValueId, Stashed>, hands: boolean) => {
    const writer = new PhaseWriter(block, derived, context, known)
    writer.run(nodes)
    if (name !== 'I') writer.accumulateGiven()
    if (hands) dthrough = writer.hand(derived.carryGrads, 'dout', 'dcarry')
    const held = name === 'I' ? writer.stash(phases.held, { is: 'hold' }) : new Map<ValueId, Stashed>()
    segments[name] = writer.finish(name)
    return held
  }
  if (context.phases.includes('B')) backward('B', phases.B, kept, true)
  if (context.phases.includes('I')) {
    const held = backward('I', phases.I, kept, true)
    backward('W', phases.W, new Map([...kept, ...held]), false)
  }
  return { segments, through, dthrough, ...(forward.lossLayout ? { lossLayout: forward.lossLayout } : {}) }
}

class PhaseWriter {
  lossLayout: Layout | undefined
  readonly #block: Block
  readonly #derived: Derived
  readonly #context: BlockContext
  readonly #known: ReadonlyMap<ValueId, Stashed>
  readonly #writer: SegmentWriter
  readonly #gradOf: ReadonlyMap<ValueId, string[]>

  constructor(block: Block, derived: Derived, context: BlockContext, known: ReadonlyMap<ValueId, Stashed>) {
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

  /** Values other phases will need: the smallest version that is not partial, if there is one. */
  stash(values: readonly ValueId[], role: RoleName): Map<ValueId, Stashed> {
    const stashed = new Map<ValueId, Stashed>()
    let offset = 0
    for (const id of values) {
      const versions = this.#writer.versions(String(id))
      const resolved = versions.filter(({ layout }) => partialAxes(layout).length === 0)
      const bytes = (v: { ref: string }) => this.#writer.bytesOf(v.ref)
      const { ref, layout } = (resolved.length > 0 ? resolved : versions).reduce((a, b) =>
        bytes(b) < bytes(a) ? b : a,
      )
      const slot = this.#writer.slotOf(ref) ?? { role, kind: 'activations' as const, offset }
      if (this.#writer.isScratch(ref)) offset += align(this.#writer.bytesOf(ref))
      this.#writer.settle(ref, slot)
      stashed.set(id, { layout, slot })
    }
    return stashed
  }

  finish(phase: PhaseName): Segment {
    return this.#writer.finish(`${this.#block.kind}.${phase}`, phase, this.#context.plan.overlap)
  }

  #value(id: ValueId): Value {
    return this.#derived.graph.values[id]
  }

  #node(node: Node): void {
    const { s } = this.#context
    const [ins, outs] = [node.ins, node.outs].map(ids => ids.map(id => this.#value(id)))
    const rule = shardingOf(
      node.op,
      ins.map(v => v.dims),
      outs.map(v => v.dims),
    )
    const elected = elect(
      s,
      rule,
      ins.map(v => this.#operand(v)),
      outs.map(v => this.#result(v)),
    )
    const refs = ins.map((value, i) => this.#writer.demand(String(value.id), elected.ins[i]).ref)
    const made = outs.map((value, i) =>
      this.#writer.make(String(value.id), value, elected.outs[i], this.#kindOf(value.id)),
    )
    this.#writer.emit({ ...node.op, ins: refs, outs: made.map(({ ref }) => ref) })
    for (const { id } of outs) this.#accumulate(id)
    if (this.#derived.graph.loss === node.outs[0]) this.#accumulateLoss(made[0].ref, elected.outs[0])
  }

  #kindOf(id: ValueId): Kind {
    return this.#gradOf.has(id) ? 'gradients' : 'activations'
  }

  /** Votes: a parameter's compute layout (the ZeRO split has none), another operand's layout as it arrived. */
  #operand(value: Value) {
    const dims = value.dims.map(dim => dim.name)
    this.#find(value)
    if (value.source.kind === 'param') return { dims, layout: this.#layouts(value.source.name).compute, param: true }
    return { dims, layout: this.#writer.versions(String(value.id))[0].layout, param: false }
  }

  #result(value: Value) {
    const dims = value.dims.map(dim => dim.name)
    const params = this.#gradOf.get(value.id)
    if (params) return { dims, layout: this.#layouts(params[0]).compute, param: true }
    return { dims, layout: canonical(this.#context.s, value.dims, 'value'), param: false }
  }

  #layouts(param: string): ParamLayouts {
    return this.#context.layoutsOf(this.#block.params[param])
  }

  /** A value that comes from outside the segment is looked up when it is first needed. */
  #find(value: Value): void {
    const key = String(value.id)
    if (this.#writer.versions(key).length > 0) return
    const { layout, slot } = this.#known.get(value.id) ?? this.#outside(value)
    this.#writer.given(key, value, layout, slot)
  }

  #outside({ source, dims, name: label }: Value): Stashed {
    const { s } = this.#context
    const at = (role: RoleName, kind: Kind): Slot => ({ role, kind, offset: 0 })
    const canon = (purpose: 'value' | 'input', d: readonly Dim[] = dims) => canonical(s, d, purpose)
    switch (source.kind) {
      case 'param':
        return { layout: this.#layouts(source.name).found, slot: at({ is: 'param', of: source.name }, 'parameters') }
      case 'input':
        return { layout: canon('input'), slot: at({ is: 'input', of: source.name }, 'data') }
      case 'carry':
        return { layout: canon('value'), slot: at({ is: 'in', of: source.name }, 'activations') }
      case 'dcarry':
        return { layout: canon('value'), slot: at({ is: 'din', of: source.name }, 'activations') }
      case 'count':
        return { layout: whole, slot: at({ is: 'result', of: 'count' }, 'workspace') }
      case 'node':
        throw new Error(`internal: ${label} was neither kept nor computed again`)
    }
  }

  #settle(id: ValueId, slot: Slot): void {
    const value = this.#value(id)
    this.#find(value)
    const { ref, layout } = this.#writer.demand(String(id), canonical(this.#context.s, value.dims, 'value'))
    if (this.#writer.isScratch(ref)) {
      this.#writer.settle(ref, slot)
      return
    }
    // Two names for one value, or a parameter handed on: each frame needs bytes of its own.
    const copy = this.#writer.make(`copy of ${id}`, value, layout, 'activations')
    this.#writer.emit({ kind: 'scale', by: 1, ins: [ref], outs: [copy.ref] })
    this.#writer.settle(copy.ref, slot)
  }

  #accumulate(id: ValueId): void {
    for (const param of this.#gradOf.get(id) ?? []) {
      const value = this.#value(id)
      this.#find(value)
      const { ref, layout } = this.#writer.demand(
        String(id),
        this.#gradLayout(param, this.#writer.versions(String(id))[0].layout),
      )
      const role: RoleName = { is: 'grad', of: param }
      const name = showRole(role)
      const into =
        this.#writer.versions(name)[0] ??
        this.#writer.given(name, { ...value, name }, layout, { role, kind: 'gradients', offset: 0 })
      this.#writer.emit({ kind: 'accumulate', ins: [ref], outs: [into.ref] })
    }
  }

  /** As produced, unless ZeRO keeps gradients split; the first segment that makes one decides for all. */
  #gradLayout(param: string, produced: Layout): Layout {
    const { plan, gradLayouts } = this.#context
    const name = this.#context.classOf(this.#block.params[param])
    if (plan.zero >= 2 && plan.reduce === 'microbatch') return this.#layouts(param).storage
    const agreed = gradLayouts.get(name)
    if (agreed === undefined) gradLayouts.set(name, produced)
    else if (!sameLayout(agreed, produced) && !Object.keys(agreed.partial).every(axis => axis in produced.partial))
      throw new Disagreement(name)
    return agreed ?? produced
  }

  #accumulateLoss(ref: string, layout: Layout): void {
    this.lossLayout = layout
    const tensor = { name: 'total', dtype: 'f32' as const, dims: [] }
    const total = this.#writer.given('loss', tensor, layout, {
      role: { is: 'result', of: 'loss' },
      kind: 'workspace',
      offset: 0,
    })
    this.#writer.emit({ kind: 'accumulate', ins: [ref], outs: [total.ref] })
  }
}

/** Two segments make one parameter's gradient as partial sums over different axes; a common layout must be agreed. */
export class Disagreement extends Error {
  readonly param: string
  constructor(param: string) {
    super(`internal: the gradient of ${param} is produced in layouts that do not agree`)
    this.param = param
  }
}
