/** Gradients of which less is sent than there is: how each becomes a sum, and what is kept of what was not sent. */
import {
  baseOf,
  factorColumns,
  keptShare,
  type Layout,
  layoutKey,
  partialAxes,
  type States,
  sendsSigns,
  sizeOfAll,
  type Wire,
} from '../base/index.js'
import type { StateTensor } from '../ir/index.js'
import { isFollower } from '../model/index.js'
import { toldFor } from '../plan/index.js'
import { copyAxes } from './layouts.js'
import { sendSigns, signStates } from './onebit.js'
import { factorStates, sendFactors } from './powersgd.js'
import type { SegmentWriter, Version } from './segment.js'
import { at, gradientOf, slotOf, stateSlot } from './slots.js'
import type { Gradient, ParamClass, ParamContext, Reduction } from './tail.js'
import { addendAxes, addendLayout, errorState, sendGreatest } from './topk.js'

/** Counts are few, and what is sent of a gradient is made step by step: neither flies. */
export function ownReduction(param: ParamClass, context: ParamContext): Reduction | undefined {
  const { compress } = context.plan
  if (isFollower(param.spec)) return { kind: 'route' }
  const wire: Wire = compress?.waiting ? {} : (compress ?? {})
  const [columns, ratio] = [factorColumns(wire, param.spec), compress?.waiting ? undefined : shareSent(param, context)]
  if (sendsSigns(wire) && hasOwnAddends(param, context)) return { kind: 'signs' }
  if (ratio !== undefined) return { kind: 'greatest', ratio }
  return columns === undefined ? undefined : { kind: 'factors', columns }
}

/** Of what share of its numbers a gradient is sent. */
const shareSent = (param: ParamClass, context: ParamContext): number | undefined =>
  hasOwnAddends(param, context) ? keptShare(context.plan.compress ?? {}, param.spec) : undefined

/** Ranks of dp that split experts have parts of one addend, not addends of their own. */
const addedByData = (produced: Layout, { dims }: ParamClass['spec'], s: ParamContext['s']): Layout => {
  const copies = copyAxes(s, dims)
  const axes = partialAxes(produced).filter(axis => baseOf(axis) !== 'dp' || copies.includes(axis))
  return { ...produced, partial: Object.fromEntries(axes.map(axis => [axis, produced.partial[axis]])) }
}

/**
 * Whether data ranks have addends of their own, in blocks of the parameter. A gradient that lies in others (positions under sequence
 * parallelism) is small, and no block is anybody's; of experts that all ranks of dp share no rank has an addend: both are sent as they are.
 */
function hasOwnAddends({ spec, produced, layouts }: ParamClass, { s, plan }: ParamContext): boolean {
  if (produced === undefined) return false
  const { virtual } = plan.compress ?? {}
  const blocks = ({ splits }: Layout) => layoutKey({ splits, partial: {} })
  if (blocks(produced) !== blocks(layouts.compute)) return false
  if (virtual) return !virtual.exact.includes(spec.name)
  return addendAxes(addedByData(produced, spec, s)).length > 0 || !s.axes.some(axis => baseOf(axis) === 'dp')
}

/** Where signs are sent of other gradients: what is sent as it is becomes the mean of gradients as well, which is all that Adam is given then. */
export function meanBlended({ spec }: ParamClass, reduction: Reduction, { plan, training }: ParamContext) {
  const { optimizer } = toldFor(training, spec.role)
  const isGiven = sendsSigns(plan.compress ?? {}) && reduction.kind !== 'signs' && optimizer.kind === 'adamw'
  return isGiven ? { beta1: optimizer.beta1 } : undefined
}

interface Blending {
  readonly gradient: Version
  readonly lies: Layout
  readonly beta1: number
}

/** Every addend of a gradient takes in its share of the mean that is kept, where it lies. */
export function blendMean(
  w: SegmentWriter,
  param: ParamClass,
  { gradient, lies, beta1 }: Blending,
  { s, plan }: ParamContext,
): void {
  const { dtype, layout } = meanOf(param, plan)
  w.given('m', { name: 'm', dtype, dims: param.spec.dims }, layout, stateSlot('m', 'state'))
  const ranks = sizeOfAll(s.mesh, partialAxes(lies))
  w.emit({ kind: 'blend', beta1, ranks, ins: [w.demand('m', { ...lies, partial: {} }).ref], outs: [gradient.ref] })
}

/** How Adam's mean of gradients lies. */
const meanOf = ({ layouts, stateDtype }: ParamClass, { zero }: Pick<ParamContext['plan'], 'zero'>) => ({
  ...{ dtype: stateDtype, layout: zero >= 1 ? layouts.storage : layouts.compute },
})

export const spares = (reduction: Reduction): boolean => reduction.kind === 'factors' || hasAddends(reduction)

/** What is sent depends on which rank adds what. */
export const hasAddends = ({ kind }: Reduction): boolean => kind === 'greatest' || kind === 'signs'

/** What is kept of what was not sent. */
export function rememberedOf(param: ParamClass, produced: Layout, context: ParamContext): States<StateTensor> {
  const { spec, layouts } = param
  const wire: Wire = context.plan.compress ?? {}
  const added = addedByData(produced, spec, context.s)
  if (wire.reduce === 'onebit') return hasOwnAddends(param, context) ? signStates(spec, added, layouts.ranks) : {}
  if (shareSent(param, context) !== undefined) return errorState(spec, added, layouts.ranks)
  const columns = factorColumns(wire, spec)
  return columns === undefined ? {} : factorStates(spec, columns, produced)
}

/** The addend of a data rank, where it lies; of one that plays several, all of theirs side by side. */
export function addendsOf(
  w: SegmentWriter,
  param: ParamClass,
  own: Version,
  produced: Layout,
  { s }: ParamContext,
): Version {
  const { ranks } = param.layouts
  if (ranks) {
    const others = Array.from({ length: ranks.addends - 1 }, (_, i) =>
      w.given('own', gradientOf(param), produced, slotOf({ is: 'addend', of: 'grad', rank: i + 1 }, 'gradients')),
    )
    const dims = [{ name: 'addend', size: ranks.addends }, ...param.spec.dims]
    const all = w.make('addends', { name: 'addends', dtype: 'f32', dims }, produced, 'workspace')
    w.emit({ kind: 'beside', ins: [own, ...others].map(({ ref }) => ref), outs: [all.ref] })
    return all
  }
  const lies = addendLayout(addedByData(produced, param.spec, s))
  const axes = partialAxes(produced).filter(axis => !(axis in lies.partial))
  return axes.length > 0 ? w.reduceInPlace('own', own, lies, { axes }) : own
}

/** What no flight sends. */
export function send(
  w: SegmentWriter,
  param: ParamClass,
  sent: Gradient,
  gradient: Version,
  { s, plan, training }: ParamContext,
) {
  const { spec, layouts } = param
  const { reduction, accumulated: produced } = sent
  const site = { w, spec, produced, gradient, sum: at('grad') }
  if (reduction.kind === 'factors') sendFactors({ ...site, columns: reduction.columns, stateSlot })
  const added = { ...site, produced: addedByData(produced, spec, s) }
  const { optimizer } = toldFor(training, spec.role)
  if (reduction.kind === 'signs' && optimizer.kind === 'adamw') {
    const mean = meanOf(param, plan)
    sendSigns({ ...added, s, beta1: optimizer.beta1, played: layouts.ranks, mean, stateSlot })
  }
  if (reduction.kind === 'greatest') {
    const errorSlot = (is: 'state' | 'next') => stateSlot('error', is)
    sendGreatest({ ...added, s, ratio: reduction.ratio, played: layouts.ranks, errorSlot })
  }
}
