/** What one parameter does where matrices are dealt out before its update: its part of the mean is made, and rounds of alike ones are drafted. */
import { sizeOfAll, whole } from '../base/index.js'
import { toldFor } from '../plan/index.js'
import { dealtOver, draftDeal, isShared } from './dealt.js'
import { type Muon, meanOf } from './directions.js'
import { type SegmentDraft, SegmentWriter, scalar } from './segment.js'
import { gradientOf, readSlot, slotOf } from './slots.js'
import type { ParamClass, ParamContext, UpdateSources } from './tail.js'

/** What is to be dealt out, and a round of so many alike ones of so many that a stage has. */
export interface Dealing {
  readonly mean: SegmentDraft
  readonly most: (matrices: number) => number
  readonly round: (count: number, matrices: number) => SegmentDraft
}

/** Matrices that several ranks hold parts of, where each must be whole for once. */
export function dealingOf(
  param: ParamClass,
  sources: UpdateSources,
  { s, training }: ParamContext,
): Dealing | undefined {
  const { optimizer } = toldFor(training, param.spec.role)
  if (optimizer.kind !== 'muon' || !isShared(param, s)) return undefined
  const over = (matrices: number) => dealtOver(param, s, matrices)
  return {
    mean: draftMean(optimizer, param, sources, { s, training }),
    most: matrices => sizeOfAll(s.mesh, over(matrices)),
    round: (count, matrices) => draftDeal(param, optimizer, s, count, over(matrices)),
  }
}

function draftMean(
  optimizer: Muon,
  param: ParamClass,
  { reduced, state, states }: UpdateSources,
  { s, training }: Pick<ParamContext, 's' | 'training'>,
): SegmentDraft {
  const w = new SegmentWriter(s)
  const gradient = w.held('grad', gradientOf(param), reduced, reduced.slot).ref
  const normSquared = w.given('normSquared', scalar('normSquared'), whole, readSlot('normSquared', training)).ref
  const { layout, ...tensor } = states.m! // Muon keeps it
  const m = w.given('m', { name: 'm', ...tensor }, layout, slotOf({ is: 'state', of: 'm' }, 'optimizer')).ref
  meanOf(optimizer, { w, s, param, state, gradient, scalars: { normSquared }, clip: training.clip ?? 0 }, m)
  w.settle(w.demand('mean', param.layouts.storage).ref, slotOf({ is: 'dealt' }, 'workspace'))
  return w.draft(`mean ${param.name}`, 'update')
}
