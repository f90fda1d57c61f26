/**
 * What happens once a step, per parameter: clear its gradient, bring it to its sum where no flight does, add its share to
 * the norm, update it. ZeRO is not a pass: it is which of gradient, optimizer state and parameter lie in parts, and the
 * collectives are what follows where layouts do not match. Parameters that are alike share their segments.
 */
import {
  type Axis,
  type Guard,
  type Layout,
  layoutKey,
  partialAxes,
  type StateName,
  type States,
  type StepScalar,
  scalarsOf,
  sendsSigns,
  stateEntries,
  statesKept,
  statesOf,
  weighedLimit,
  whole,
} from '../base/index.js'
import type { Holding, Kind, StateTensor } from '../ir/index.js'
import { isFollower, type ParamSpec } from '../model/index.js'
import {
  type Plan,
  paramSpace,
  type Residence,
  stateSpace,
  type Training,
  toldFor,
  updateSpace,
} from '../plan/index.js'
import { ownTensors, settled } from './adafactor.js'
import type { ParamLayouts, TrainedBy } from './compiled.js'
import { type Dealing, dealingOf } from './dealing.js'
import { directions } from './directions.js'
import { type ShardedMesh, wholeAxes } from './layouts.js'
import { awaySlot, draftMoves, type Moved, onHost } from './offload.js'
import type { ParamDtypes } from './precision.js'
import { type SegmentDraft, SegmentWriter, type Slot, scalar } from './segment.js'
import { at, gradientOf, normSlot, readSlot, scalarSlot, slotOf, stateSlot, weighs } from './slots.js'
import { addendsOf, blendMean, hasAddends, meanBlended, ownReduction, rememberedOf, send, spares } from './spared.js'

export interface ParamContext {
  readonly s: ShardedMesh
  readonly plan: Pick<Plan, 'zero' | 'reduce' | 'offload' | 'rounding' | 'compress'>
  readonly training: TrainedBy
}

export interface ParamClass extends ParamDtypes {
  readonly name: string
  readonly spec: ParamSpec
  readonly layouts: ParamLayouts
  /** The layout in which blocks leave or accumulate its gradient; absent where nothing is trained. */
  readonly produced?: Layout
  /** Pipeline coordinates that hold it, where there are several: tied weights, stages held twice. */
  readonly holders: readonly number[]
}

export interface ParamDrafts extends Residence {
  readonly begin?: SegmentDraft
  readonly reduce?: SegmentDraft
  /** Ranks agree on what was greatest for it, together with others: it is that of a part so far, on these axes and on these holders. */
  readonly agrees?: Layout
  readonly norm?: SegmentDraft
  readonly update?: SegmentDraft
  /** Where whole matrices are dealt out before the update. */
  readonly deal?: Dealing
  /** Where something of it lives elsewhere: what takes to the update what it needs, and what takes back what it made. */
  readonly down?: SegmentDraft
  readonly up?: SegmentDraft
  /** How the parameter lies in its frame between steps. */
  readonly kept: Holding
  /** The layout of the optimizer state. */
  readonly state: Layout
  /** Its state across steps. */
  readonly states: States<StateTensor>
  /** Absent where nothing is trained. */
  readonly gradient?: Gradient
}

/** A parameter's gradient from block to optimizer. */
export interface Gradient {
  /** The gradient as blocks leave or accumulate it. */
  readonly produced: Layout
  /** The gradient as it lies in its own frame until it is reduced. */
  readonly accumulated: Layout
  readonly reduction: Reduction
}

/** How a gradient becomes a sum over the ranks: in place, scattered (and its parts summed over replicas) or as a whole, as factors of so many columns, as the greatest of its numbers, as signs of Adam's mean, or by a route of several moves. */
export type Reduction =
  | { readonly kind: 'scatter'; readonly axes: readonly Axis[]; readonly replicas: readonly Axis[] }
  | { readonly kind: 'sum'; readonly axes: readonly Axis[] }
  | { readonly kind: 'factors'; readonly columns: number }
  | { readonly kind: 'greatest'; readonly ratio: number }
  | { readonly kind: 'route' | 'none' | 'signs' }

export function draftParam(param: ParamClass, context: ParamContext): ParamDrafts {
  const { plan, training } = context
  const { compute, storage } = param.layouts
  // What no step changes need not be gathered again: only ZeRO-3 keeps parts of it.
  const state = plan.zero >= (param.spec.frozen ? 3 : 1) ? storage : compute
  const inside = (plan.zero === 1 || plan.zero === 2) && state.flat !== undefined
  const held = {
    kept: { layout: state, ...(inside && { inside: true as const }) },
    state,
    ...paramSpace(plan, param.spec),
  }
  if (param.produced === undefined) return { ...held, states: {} }
  const reduction = ownReduction(param, context) ?? reductionOf(param, state, context)
  const gradient: Gradient = {
    produced: param.produced,
    accumulated: param.layouts.fresh ? scatteredTo(storage, reduction) : param.produced,
    reduction,
  }
  const begin = draftBegin(param, gradient, context)
  if (isFollower(param.spec)) return { ...held, begin, ...draftFollower(param, param.produced, context), gradient }
  const reduced = reducedAt(gradient, state)
  const states = { ...statesOfParam(param, state, training), ...rememberedOf(param, param.produced, context) }
  const reduce = draftReduce(param, gradient, reduced, context)
  return {
    ...held,
    begin,
    ...(reduce.instrs.length > 0 ? { reduce } : {}),
    norm: draftNorm(param, reduced, context),
    ...draftUpdates(param, { reduced, ...held, states }, context),
    states,
    gradient,
  }
}

/** Each as the parameter's gradient lies when it is summed, or as a tensor of its own. */
function statesOfParam(param: ParamClass, layout: Layout, training: TrainedBy): States<StateTensor> {
  const { spec, stateDtype } = param
  const optimizer = settled(toldFor(training, spec.role).optimizer, spec)
  const own = ownTensors(optimizer, spec, layout)
  const usual = { dtype: stateDtype, dims: spec.dims, layout }
  const kept = statesKept(optimizer, param.hasMaster).map(state => [state, own[state] ?? usual])
  // What moves little by little needs more digits than what it follows.
  return Object.fromEntries([...kept, ...(training.ema ? [['ema', { ...usual, dtype: 'f32' }]] : [])])
}

/** A part of the gradient as a reduction of its own axes leaves it: its addends are those of the replicas. */
export const scatteredTo = (storage: Layout, reduction: Reduction): Layout =>
  reduction.kind === 'scatter'
    ? { ...storage, partial: Object.fromEntries(reduction.replicas.map(axis => [axis, 'sum'])) }
    : storage

function reductionOf(
  { produced = whole, layouts: { dealt } }: ParamClass,
  state: Layout,
  { s }: ParamContext,
): Reduction {
  if (dealt !== undefined) return { kind: 'sum', axes: [] } // of the ranks that one plays
  const axes = partialAxes(produced)
  if (layoutKey({ ...produced, partial: {} }) !== layoutKey({ splits: state.splits, partial: {} }))
    return { kind: 'route' }
  if (axes.length === 0) return { kind: 'none' }
  const [replicas, own] = [
    axes.filter(axis => s.replicas.includes(axis)),
    axes.filter(axis => !s.replicas.includes(axis)),
  ]
  const scatters = state.flat?.length === own.length && state.flat.every(axis => own.includes(axis))
  return scatters ? { kind: 'scatter', axes: state.flat, replicas } : { kind: 'sum', axes }
}

export interface SlotHolding extends Holding {
  readonly slot: Slot
}

/**
 * Where the sum lies when all reductions are done, in the layout of the optimizer state. What was scattered lies inside
 * the whole; the own part of what was summed as a whole is copied, since nobody wrote zeros behind the last element.
 */
function reducedAt({ accumulated, reduction }: Gradient, state: Layout): SlotHolding {
  if (accumulated.flat) return { layout: state, slot: at('grad') }
  const lies = layoutKey({ ...accumulated, partial: {} }) === layoutKey(state)
  if (reduction.kind === 'route' || (spares(reduction) && !lies) || (state.flat && reduction.kind !== 'scatter'))
    return { layout: state, slot: at('reduced') }
  return { layout: state, ...(state.flat && { inside: true }), slot: at('grad') }
}

const paramSlot = slotOf({ is: 'param' }, 'parameters')

function draftBegin(param: ParamClass, { accumulated }: Gradient, { s }: ParamContext): SegmentDraft {
  const w = new SegmentWriter(s)
  const { ref } = w.given('grad', gradientOf(param), accumulated, at('grad'))
  w.emit({ kind: 'zero', ins: [], outs: [ref] })
  return w.draft(`begin ${param.name}`, 'begin')
}

/**
 * What no flight does: the sum over the pipeline coordinates that hold the parameter, in place, the division by the scale,
 * and moves after or instead of a flight.
 */
function draftReduce(param: ParamClass, gradient: Gradient, reduced: SlotHolding, context: ParamContext): SegmentDraft {
  const w = new SegmentWriter(context.s)
  const { accumulated, reduction } = gradient
  const [moves, meets] = [reduced.slot.role.is === 'reduced', param.holders.length > 1]
  const scaled = context.training.lossScale !== undefined
  const spared = spares(reduction)
  const arrived = reduction.kind === 'sum' ? { ...accumulated, partial: {} } : accumulated
  const from: SlotHolding = moves || spared ? { layout: arrived, slot: at('grad') } : reduced
  const blends = meanBlended(param, reduction, context)
  if (moves || meets || scaled || spared || blends) {
    const own = w.held('own', gradientOf(param), from, from.slot)
    const met = meets ? w.reduceInPlace('all', own, from.layout, { axes: ['pp'], stages: param.holders }) : own
    const all = hasAddends(reduction) ? addendsOf(w, param, met, accumulated, context) : met
    if (scaled) w.emit({ kind: 'unscale', ins: [scaleIn(w)], outs: [all.ref] })
    if (blends) blendMean(w, param, { gradient: all, lies: from.layout, ...blends }, context)
    send(w, param, gradient, all, context)
    const summed = spared ? 'sum' : meets ? 'all' : 'own'
    if (moves) w.settle(w.demand(summed, reduced.layout).ref, reduced.slot)
  }
  return w.draft(`reduce ${param.name}`, 'reduce')
}

/** Every logical element counts once: ranks along axes on which the gradient is whole leave it to the first of them. */
function draftNorm(param: ParamClass, reduced: SlotHolding, { s }: ParamContext): SegmentDraft {
  const w = new SegmentWriter(s)
  const { ref } = w.held('grad', gradientOf(param), reduced, reduced.slot)
  const addend: Layout = { splits: {}, partial: Object.fromEntries(normAxes(s).map(axis => [axis, 'sum'])) }
  const total = w.given('norm', scalar('normSquared'), addend, normSlot)
  w.emit({ kind: 'sumSquares', once: wholeAxes(s, reduced.layout), ins: [ref], outs: [total.ref] })
  return w.draft(`norm ${param.name}`, 'norm')
}

/** Every axis of more than one rank, the pipeline too, major first. */
export const normAxes = (s: ShardedMesh) =>
  s.mesh.axes
    .filter(({ size }) => size > 1)
    .map(({ name }) => name)
    .reverse()

/** What gradients are multiplied with, as an operand. */
export const scaleIn = (w: SegmentWriter): string => w.given('scale', scalar('scale'), whole, scalarSlot('scale')).ref

/** What the gradient of the loss is divided by: the count, or where gradients are scaled count / scale. */
export const divisorSlot = ({ lossScale }: Pick<Training, 'lossScale'>): Slot =>
  slotOf(lossScale ? { is: 'named', of: 'divisor' } : { is: 'result', of: 'count' }, 'workspace')

/** Whatever a step changes for the next one, it changes under the same condition. */
export function guardOf(training: Pick<Training, 'skipAbove' | 'spikes'>): Guard {
  const { skipAbove = weighs(training) ? weighedLimit : undefined } = training
  return skipAbove === undefined ? {} : { limit: skipAbove }
}

export interface UpdateSources extends Residence {
  readonly reduced: SlotHolding
  readonly kept: Holding
  readonly state: Layout
  readonly states: States<StateTensor>
}

/** Tallies of the whole step and of all ranks, brought together where they lie, move what follows them. */
function draftFollower(
  param: ParamClass,
  produced: Layout,
  { s, training }: ParamContext,
): Pick<ParamDrafts, 'reduce' | 'agrees' | 'update' | 'states'> {
  const { spec, dtype, holders, layouts } = param
  const sum = new SegmentWriter(s)
  const axes = partialAxes(produced)
  let counts = sum.given('grad', gradientOf(param), produced, at('grad'))
  if (axes.length > 0) counts = sum.reduceInPlace('grad', counts, layouts.compute, { axes })
  if (holders.length > 1) sum.reduceInPlace('grad', counts, layouts.compute, { axes: ['pp'], stages: holders })
  const reduce = sum.draft(`reduce ${param.name}`, 'reduce')
  const w = new SegmentWriter(s)
  const own = { ...spec, name: 'param', dtype }
  const summed = w.given('grad', gradientOf(param), layouts.compute, at('grad')).ref
  const norm = w.given('normSquared', scalar('normSquared'), whole, readSlot('normSquared', training)).ref
  const followed = w.given('param', own, layouts.compute, paramSlot).ref
  const told = { ...guardOf(training), ins: [summed, norm] }
  const states: States<StateTensor> = spec.track ? { history: historyOf(spec.track) } : {}
  if (spec.balance) w.emit({ kind: 'balance', ...spec.balance, ...told, outs: [followed] })
  if (spec.track && states.history) {
    const { length: _, ...track } = spec.track
    const slot = stateSlot('history', 'state')
    const history = w.given('history', { name: 'history', ...states.history }, whole, slot).ref
    w.emit({ kind: 'track', ...track, ...told, outs: [followed, history] })
  }
  const update = w.draft(`update ${param.name}`, 'update')
  if (spec.track) return { update, states, agrees: produced }
  return { update, states, ...(reduce.instrs.length > 0 && { reduce }) }
}

const historyOf = ({ length }: { readonly length: number }): StateTensor => ({
  ...{ dtype: 'f32', dims: [{ name: 'history', size: length }], layout: whole },
})

/** States that other ops than the optimizer move. */
const feedbackStates = ['error', 'sumError', 'basis'] as const

/**
 * The state says where: what else the update needs goes there before, and goes back after. The host has nothing but the rank's part of
 * anything: there it lies by itself.
 */
function draftUpdates(
  param: ParamClass,
  sources: UpdateSources,
  context: ParamContext,
): Pick<ParamDrafts, 'update' | 'down' | 'up' | 'deal'> {
  const { s, plan } = context
  const { name } = param
  const { reduced, state, states } = sources
  const isAway = isUpdatedAway(param, context)
  const here = isAway
    ? { reduced: { layout: state, slot: onHost(at('grad')) }, kept: { layout: state }, state, states }
    : sources
  const gradient: Moved = { tensor: gradientOf(param), from: reduced, to: awayAt('grad', 'gradients', state) }
  const [own, ofStates] = [ownMoved(param, sources, isAway), statesMoved(states, plan, isAway)]
  const down = [...(isAway ? [gradient] : []), ...(param.hasMaster ? [] : own), ...ofStates]
  const up = [...own, ...ofStates].map(({ tensor, from, to }) => ({ tensor, from: to, to: from }))
  const deal = down.length + up.length > 0 ? undefined : dealingOf(param, sources, context)
  return {
    update: draftUpdate(param, here, context, deal !== undefined),
    ...(deal && { deal }),
    ...(down.length > 0 && { down: draftMoves(s, `down ${name}`, down) }),
    ...(up.length > 0 && { up: draftMoves(s, `up ${name}`, up) }),
  }
}

const awayAt = (of: string, kind: Kind, layout: Layout, space: Slot['space'] = 'host') => ({
  layout,
  slot: awaySlot(of, kind, space),
})

/** The parameter, where it does not live where it is updated. */
function ownMoved({ spec, dtype }: ParamClass, { kept, state, space }: UpdateSources, isAway: boolean): Moved[] {
  if (space === (isAway ? 'host' : undefined)) return []
  const [onDevice, there] = [{ ...kept, slot: paramSlot }, awayAt('param', 'parameters', state, space)]
  const updated = isAway ? { layout: state, slot: onHost(paramSlot) } : onDevice
  const [from, to] = space === undefined ? [onDevice, there] : [there, updated]
  return [{ tensor: { ...spec, name: 'param', dtype }, from, to }]
}

const isUpdatedAway = ({ spec }: ParamClass, { plan, training }: ParamContext): boolean =>
  updateSpace(plan, toldFor(training, spec.role).optimizer).space !== undefined

/** From the disk to the host, or from either to the device. */
function statesMoved(states: States<StateTensor>, plan: ParamContext['plan'], isAway: boolean): Moved[] {
  const { space } = stateSpace(plan)
  const visits = space === 'disk' || (space === 'host' && !isAway)
  return (visits ? stateEntries(states) : []).map(([of, { layout, ...tensor }]): Moved => {
    const slot = stateSlot(of, 'state')
    const [from, to] = [awaySlot(of, 'optimizer', space), isAway ? onHost(slot) : slot]
    return { tensor: { name: of, ...tensor }, from: { layout, slot: from }, to: { layout, slot: to } }
  })
}

/** Each rank updates its part of the state, and its part of the parameter where that lies. */
function draftUpdate(param: ParamClass, sources: UpdateSources, context: ParamContext, isDealt: boolean): SegmentDraft {
  const { s, plan, training } = context
  const w = new SegmentWriter(s)
  const { spec, dtype } = param
  const { reduced, kept, state, states } = sources
  const { optimizer: usual, weightDecay, rate } = toldFor(training, spec.role)
  const optimizer = usual.kind === 'adamw' && sendsSigns(plan.compress ?? {}) ? { ...usual, frozen: true } : usual
  const lying = isUpdatedAway(param, context) ? onHost : (slot: Slot) => slot
  const ofState = (name: StateName) => {
    const { layout, ...tensor } = states[name]! // what is kept is what is updated
    return w.given(name, { name, ...tensor }, layout, lying(stateSlot(name, 'state'))).ref
  }
  const scalarAt = (name: StepScalar) => w.given(name, scalar(name), whole, lying(readSlot(name, training))).ref
  const gradient = w.held('grad', gradientOf(param), reduced, reduced.slot).ref
  const own = w.held('param', { ...spec, name: 'param', dtype }, kept, lying(paramSlot)).ref
  const outs = [param.hasMaster ? ofState('master') : own, ...statesOf(settled(optimizer, spec)).map(ofState)]
  const scalars = scalarsOf(optimizer).map(name => [name, scalarAt(name)] as const)
  const site = { w, s, param, state, gradient, outs, scalars: Object.fromEntries(scalars), clip: training.clip ?? 0 }
  const { settings, given } = directions(optimizer, weightDecay, site, isDealt)
  const stochastic = plan.rounding === 'stochastic' && dtype !== 'f32' && !param.hasMaster
  const rounding = stochastic ? { stochastic } : {}
  const told = { weightDecay, clip: site.clip, ...(rate !== 1 && { rate }), ...guardOf(training), ...rounding }
  w.emit({ ...settings, ...told, ins: [gradient, ...scalars.map(([, ref]) => ref), ...given], outs })
  // The master as the parameter's dtype can hold it.
  if (param.hasMaster) w.emit({ kind: 'scale', by: 1, ins: [outs[0]], outs: [own] })
  if (training.ema) {
    const ins = [outs[0], ...(['normSquared', 'taken'] as const).map(name => site.scalars[name] ?? scalarAt(name))]
    w.emit({ kind: 'average', ...training.ema, ...guardOf(training), ins, outs: [ofState('ema')] })
  }
  for (const state of plan.compress?.waiting ? [] : feedbackStates) {
    if (!states[state]) continue
    const { layout, ...tensor } = states[state]
    const next = w.given(`next.${state}`, { name: `next.${state}`, ...tensor }, layout, stateSlot(state, 'next')).ref
    const ins = [next, site.scalars.normSquared ?? scalarAt('normSquared')]
    w.emit({ kind: 'become', ...guardOf(training), ins, outs: [ofState(state)] })
  }
  return w.draft(`update ${param.name}`, 'update')
}
