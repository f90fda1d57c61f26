/**
 * What a search begins with: every way to cut the devices, the groups that cut them so, and how fast these can be at best. Of most
 * cuts nothing more is ever found out.
 */
import { hasRoomFor } from './aways.js'
import { type CutPrices, commonPrices, cutBound } from './bounds.js'
import { type UnlaidPipeline, unlaid } from './laid.js'
import { once } from './once.js'
import { pipelinesOf } from './pipelines.js'
import type { Request } from './request.js'
import { type Batch, batchesOf, type DeviceCut, deviceCutsOf, type Group, type Saving, savingsOf } from './space.js'

export interface SavedGroup {
  readonly group: Group
  readonly savings: readonly Saving[]
}

export interface BoundedCut {
  /** Those with the smallest microbatches first. Made when it is their turn: most never are. */
  readonly groups: () => readonly SavedGroup[]
  readonly pipelines: readonly UnlaidPipeline[]
  readonly prices: CutPrices
  readonly plans: number
  /** Seconds. */
  readonly least: number
}

export interface BoundedCuts {
  readonly cuts: readonly BoundedCut[]
  readonly plans: number
}

export function boundedCuts(request: Request): BoundedCuts {
  const pipelinesFor = once((pp: number) => unlaid(request, pp, pipelinesOf(request, pp)))
  const batchesFor = once((dp: number) => batchesOf(request, dp))
  const [savingsIn, pricesIn] = [savingsInCuts(request), commonPrices(request)]
  const cuts: BoundedCut[] = []
  let all = 0
  for (const cut of deviceCutsOf(request)) {
    const [pipelines, batches, savingsOfBatch] = [pipelinesFor(cut.pp), batchesFor(cut.dp), savingsIn(cut)]
    let plans = 0
    for (const batch of batches) plans += pipelines.length * savingsOfBatch(batch).length
    all += plans
    const saved = (batch: Batch) => ({ group: { ...cut, ...batch }, savings: savingsOfBatch(batch) })
    const groups = () => batches.filter(batch => savingsOfBatch(batch).length > 0).map(saved)
    if (plans === 0) continue
    const prices = pricesIn(cut)
    cuts.push({ groups, pipelines, prices, plans, least: cutBound(request, cut, prices) })
  }
  return { cuts, plans: all }
}

export type Recomputed = Saving['recompute']

/** Savings by what is computed again. */
export function byRecompute(savings: readonly Saving[]): [Recomputed, Saving[]][] {
  const found = new Map<Recomputed, Saving[]>()
  for (const saving of savings) {
    const others = found.get(saving.recompute)
    if (others) others.push(saving)
    else found.set(saving.recompute, [saving])
  }
  return [...found]
}

/** They depend on whether there are copies, and several microbatches. */
function savingsInCuts(request: Request): (cut: DeviceCut) => (batch: Batch) => readonly Saving[] {
  const isKept = hasRoomFor(request)
  const known = new Map<string, readonly Saving[]>()
  const savingsFor = (cut: DeviceCut, microbatches: number): readonly Saving[] => {
    const key = `${cut.dp * cut.cp > 1} ${microbatches}`
    const all = known.get(key) ?? savingsOf({ ...cut, microbatches }, request.constraints)
    known.set(key, all)
    return all.filter(saving => isKept(cut, saving))
  }
  return cut => {
    const [ofOne, ofSeveral] = [savingsFor(cut, 1), savingsFor(cut, 2)]
    return ({ microbatches }) => (microbatches > 1 ? ofSeveral : ofOne)
  }
}
