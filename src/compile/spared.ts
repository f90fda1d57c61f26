/** Gradients of which less is sent than there is: how each becomes a sum, and what is kept of what was not sent. */
import {
  factorColumns,
  keptShare,
  type Layout,
  layoutKey,
  partialAxes,
  type States,
  sendsSigns,
  type Wire,
} from '../base/index.js'
import type { StateTensor } from '../ir/index.js'
import { isFollower } from '../model/index.js'
import { toldFor } from '../plan/index.js'
import { sendSigns, signStates } from './onebit.js'
import { factorStates, sendFactors } from './powersgd.js'
import type { SegmentWriter, Version } from './segment.js'
import { at, gradientOf, slotOf, stateSlot } from './slots.js'
import type { Gradient, ParamClass, ParamContext, Reduction } from './tail.js'
import { addendLayout, errorState, sendGreatest } from './topk.js'

/** Counts are few, and what is sent of a gradient is made step by step: neither flies. */
export function ownReduction(param: ParamClass, { compress }: ParamContext['plan']): Reduction | undefined {
  if (isFollower(param.spec)) return { kind: 'route' }
  const wire: Wire = compress?.waiting ? {} : (compress ?? {})
  const [columns, ratio] = [factorColumns(wire, param.spec), compress?.waiting ? undefined : shareSent(param, compress)]
  if (sendsSigns(wire)) return { kind: 'signs' }
  if (ratio !== undefined) return { kind: 'greatest', ratio }
  return columns === undefined ? undefined : { kind: 'factors', columns }
}

/** Of a gradient that lies in other blocks than its parameter (positions under sequence parallelism) all is sent: it is small, and no block is anybody's. */
function shareSent({ spec, produced, layouts }: ParamClass, compress: ParamContext['plan']['compress']) {
  const blocks = ({ splits }: Layout) => layoutKey({ splits, partial: {} })
  const isApart = produced === undefined || blocks(produced) !== blocks(layouts.compute)
  const isExact = isApart || compress?.virtual?.exact.includes(spec.name)
  return isExact ? undefined : keptShare(compress ?? {}, spec)
}

export const spares = (reduction: Reduction): boolean => reduction.kind === 'factors' || hasAddends(reduction)

/** What is sent depends on which rank adds what. */
export const hasAddends = ({ kind }: Reduction): boolean => kind === 'greatest' || kind === 'signs'

/** What is kept of what was not sent. */
export function rememberedOf(
  param: ParamClass,
  produced: Layout,
  { compress }: ParamContext['plan'],
): States<StateTensor> {
  const { spec, layouts } = param
  const wire: Wire = compress ?? {}
  if (wire.reduce === 'onebit') return signStates(spec, produced, layouts.ranks)
  if (shareSent(param, compress) !== undefined) return errorState(spec, produced, layouts.ranks)
  const columns = factorColumns(wire, spec)
  return columns === undefined ? {} : factorStates(spec, columns, produced)
}

/** The addend of a data rank, where it lies; of one that plays several, all of theirs side by side. */
export function addendsOf(w: SegmentWriter, param: ParamClass, own: Version, produced: Layout): Version {
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
  const lies = addendLayout(produced)
  const axes = partialAxes(produced).filter(axis => !(axis in lies.partial))
  return axes.length > 0 ? w.reduceInPlace('own', own, lies, { axes }) : own
}

/** What no flight sends. */
export function send(
  w: SegmentWriter,
  { spec, layouts, stateDtype }: ParamClass,
  sent: Gradient,
  gradient: Version,
  { s, plan, training }: ParamContext,
) {
  const { reduction, accumulated: produced } = sent
  const site = { w, spec, produced, gradient, sum: at('grad') }
  if (reduction.kind === 'factors') sendFactors({ ...site, columns: reduction.columns, stateSlot })
  const { optimizer } = toldFor(training, spec.role)
  if (reduction.kind === 'signs' && optimizer.kind === 'adamw') {
    const mean = { dtype: stateDtype, layout: plan.zero >= 1 ? layouts.storage : layouts.compute }
    sendSigns({ ...site, s, beta1: optimizer.beta1, played: layouts.ranks, mean, stateSlot })
  }
  if (reduction.kind === 'greatest') {
    const errorSlot = (is: 'state' | 'next') => stateSlot('error', is)
    sendGreatest({ ...site, s, ratio: reduction.ratio, played: layouts.ranks, errorSlot })
  }
}
