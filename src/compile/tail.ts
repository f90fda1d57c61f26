/**
 * What happens once a step, per parameter: clear its gradient, reduce it, add its share to the norm, update it.
 * ZeRO is no pass: it is which of gradient, optimizer state and parameter lie in the storage layout, and the
 * collectives are what falls out where layouts do not match. Parameters that are alike share their segments.
 */
import { type Layout, optimizerFacts, type StateName, sameLayout, statesKept, statesOf, whole } from '../base/index.js'
import type { Kind, Ref, RoleName } from '../ir/index.js'
import type { ParamSpec } from '../model/index.js'
import type { Plan, Training } from '../plan/index.js'
import type { ParamLayouts } from './compiled.js'
import { type Sharded, wholeAxes } from './layouts.js'
import type { ParamDtypes } from './precision.js'
import { route } from './reshard.js'
import { type SegmentDraft, SegmentWriter, type Slot, type Version } from './segment.js'

export interface ParamContext {
  readonly s: Sharded
  readonly plan: Pick<Plan, 'zero' | 'gather'>
  readonly training: Pick<Training, 'optimizer' | 'clip'>
}

export interface ParamClass extends ParamDtypes {
  readonly name: string
  readonly spec: ParamSpec
  readonly layouts: ParamLayouts
  /** The layout its gradient is accumulated in; absent where nothing is trained. */
  readonly grad?: Layout
  /** Pipeline coordinates that hold it, where there are several: tied weights, stages held twice. */
  readonly holders: readonly number[]
}

export interface ParamDrafts {
  readonly begin?: SegmentDraft
  readonly gather?: SegmentDraft
  readonly reduce?: SegmentDraft
  readonly norm?: SegmentDraft
  readonly update?: SegmentDraft
  readonly kept: Layout
  readonly state: Layout
  /** What is kept of it from step to step. */
  readonly states: readonly StateName[]
}

const scalar = (name: string) => ({ name, dtype: 'f32' as const, dims: [] })
const slotOf = (role: RoleName, kind: Kind): Slot => ({ role, kind, offset: 0 })
const at = (is: 'param' | 'full' | 'grad' | 'reduced', kind: Kind): Slot => slotOf({ is }, kind)

export function draftParam(param: ParamClass, context: ParamContext): ParamDrafts {
  const { plan, training } = context
  const state = plan.zero >= 1 ? param.layouts.storage : param.layouts.compute
  const kept = plan.zero >= 3 ? param.layouts.storage : param.layouts.compute
  const held = {
    ...(plan.gather === 'step' && !sameLayout(kept, param.layouts.compute)
      ? { gather: gather(param, kept, context) }
      : {}),
    kept,
    state,
  }
  if (!trained(param)) return { ...held, states: [] }
  const { slot, ...reduction } = reduce(param, state, context)
  const grad = { layout: state, slot }
  return {
    ...held,
    begin: begin(param, context),
    ...reduction,
    norm: norm(param, grad, context),
    update: update(param, { grad, kept, state }, context),
    states: statesKept(training.optimizer, hasMaster(param)),
  }
}

const hasMaster = ({ dtype, stateDtype }: ParamClass): boolean => dtype !== stateDtype

/** The gradient as a tensor: as wide as the state it meets. */
const gradientOf = ({ spec, stateDtype }: ParamClass) => ({ ...spec, name: 'grad', dtype: stateDtype })

type Trained = ParamClass & Required<Pick<ParamClass, 'grad'>>
const trained = (param: ParamClass): param is Trained => param.grad !== undefined

interface Located {
  readonly layout: Layout
  readonly slot: Slot
}

function begin(param: Trained, { s }: ParamContext): SegmentDraft {
  const w = new SegmentWriter(s)
  const { ref } = w.given('grad', gradientOf(param), param.grad, at('grad', 'gradients'))
  w.emit({ kind: 'zero', ins: [], outs: [ref] })
  return w.draft(`begin ${param.name}`, 'begin')
}

/** The whole parameter for the length of a step. */
function gather(param: ParamClass, kept: Layout, { s }: ParamContext): SegmentDraft {
  const w = new SegmentWriter(s)
  w.given('param', { ...param.spec, name: 'param', dtype: param.dtype }, kept, at('param', 'parameters'))
  const full = w.demand('param', param.layouts.compute)
  w.settle(full.ref, at('full', 'parameters'))
  return w.draft(`gather ${param.name}`, 'gather')
}

/** The accumulated gradient in the layout of the optimizer state; in place where one all-reduce does it. */
function reduce(param: Trained, state: Layout, { s }: ParamContext): { reduce?: SegmentDraft; slot: Slot } {
  const w = new SegmentWriter(s)
  const grad = w.given('grad', gradientOf(param), param.grad, at('grad', 'gradients'))
  const moves = route(param.spec.dims, param.grad, state)
  const [only] = moves
  let reduced = grad
  if (moves.length === 1 && only.kind === 'all-reduce')
    reduced = w.reduceInPlace('grad', grad, state, { axes: only.axes })
  else if (moves.length > 0) {
    reduced = w.demand('grad', state)
    w.settle(reduced.ref, at('reduced', 'gradients'))
  }
  if (param.holders.length > 1) w.reduceInPlace('grad', reduced, state, { axes: ['pp'], stages: param.holders })
  const segment = w.draft(`reduce ${param.name}`, 'reduce')
  return {
    slot: w.slotOf(reduced.ref)!,
    ...(segment.instrs.length > 0 ? { reduce: segment } : {}),
  }
}

/** Every logical element counts once: ranks along axes on which the gradient is whole leave it to the first of them. */
function norm(param: ParamClass, grad: Located, { s }: ParamContext): SegmentDraft {
  const w = new SegmentWriter(s)
  const { ref } = w.given('grad', gradientOf(param), grad.layout, grad.slot)
  const addend: Layout = { splits: {}, partial: Object.fromEntries(normAxes(s).map(axis => [axis, 'sum'])) }
  const total = w.given('norm', scalar('normSquared'), addend, slotOf({ is: 'result', of: 'normSquared' }, 'workspace'))
  w.emit({ kind: 'sumSquares', once: wholeAxes(s, grad.layout), ins: [ref], outs: [total.ref] })
  return w.draft(`norm ${param.name}`, 'norm')
}

/** Every axis of more than one rank, the pipeline too, major first. */
export const normAxes = (s: Sharded) =>
  s.mesh.axes
    .filter(({ size }) => size > 1)
    .map(({ name }) => name)
    .reverse()

const scalarSlot = (of: string): Slot =>
  of === 'normSquared' ? slotOf({ is: 'result', of }, 'workspace') : slotOf({ is: 'named', of }, 'data')

interface UpdateLayouts {
  readonly grad: Located
  readonly kept: Layout
  readonly state: Layout
}

/** Each rank updates its part of the state; where the parameter is kept whole, the parts are gathered back into it. */
function update(param: ParamClass, { grad, kept, state }: UpdateLayouts, { s, training }: ParamContext): SegmentDraft {
  const w = new SegmentWriter(s)
  const { spec, dtype, stateDtype } = param
  const ofState = (name: StateName) =>
    w.given(name, { ...spec, name, dtype: stateDtype }, state, slotOf({ is: 'state', of: name }, 'optimizer')).ref
  const whence = (name: string) => w.given(name, scalar(name), whole, scalarSlot(name)).ref
  const gradient = w.given('grad', gradientOf(param), grad.layout, grad.slot).ref
  const own = w.given('param', { ...spec, name: 'param', dtype }, kept, at('param', 'parameters'))
  const updated = hasMaster(param) ? ofState('master') : w.demand('param', state).ref
  const outs = [updated, ...statesOf(training.optimizer).map(ofState)]
  const { lr: _, ...optimizer } = training.optimizer
  const settings = { weightDecay: spec.decay ? optimizer.weightDecay : 0, clip: training.clip ?? 0 }
  const { scalars } = optimizerFacts[optimizer.kind]
  w.emit({ ...optimizer, ...settings, ins: [gradient, ...scalars.map(whence)], outs })
  const part = hasMaster(param) ? rounded(w, param, updated, { own, kept, state }) : updated
  if (!sameLayout(kept, state)) {
    const [back] = route(spec.dims, state, kept)
    if (back.kind !== 'all-gather') throw new Error(`internal: ${param.name} cannot be gathered from its parts`)
    w.emit({ kind: 'all-gather', ins: [part], outs: [own.ref], dim: back.dim, group: { axes: back.axes } })
    w.emit({ kind: 'wait', on: own.ref })
  }
  return w.draft(`update ${param.name}`, 'update')
}

/** The master as the parameter's dtype can hold it: the parameter itself, or the part of it that is to be gathered. */
function rounded(
  w: SegmentWriter,
  { spec, dtype }: ParamClass,
  master: Ref,
  { own, kept, state }: { own: Version; kept: Layout; state: Layout },
): Ref {
  const out = sameLayout(kept, state)
    ? own.ref
    : w.make('part', { ...spec, name: 'part', dtype }, state, 'parameters').ref
  w.emit({ kind: 'scale', by: 1, ins: [master], outs: [out] })
  return out
}
