/**
 * What a search begins with: every way to cut the devices, the groups that cut them so, and how fast these can be at best. Of most
 * cuts nothing more is ever found out.
 */
import { hasRoomFor } from './aways.js'
import { type CommonPrices, commonPrices, cutBound } from './bounds.js'
import { type UnlaidPipeline, unlaid } from './laid.js'
import type { Request } from './request.js'
import { deviceCutsOf, type Group, groupsIn, pipelinesOf, type Saving, savingsOf } from './space.js'

export interface SavedGroup {
  readonly group: Group
  readonly savings: readonly Saving[]
}

export interface BoundedCut {
  /** Those with the smallest microbatches first. */
  readonly groups: readonly SavedGroup[]
  readonly pipelines: readonly UnlaidPipeline[]
  readonly plans: number
  /** Seconds. */
  readonly least: number
}

export interface BoundedCuts {
  readonly cuts: readonly BoundedCut[]
  readonly plans: number
  /** What groups that cut layers alike share. */
  readonly priceOf: CommonPrices
}

export function boundedCuts(request: Request): BoundedCuts {
  const [pipelinesFor, savingsFor] = [pipelinesOnce(request), savingsOnce(request)]
  const [priceOf, isKept] = [commonPrices(request), hasRoomFor(request)]
  const cuts: BoundedCut[] = []
  let all = 0
  for (const cut of deviceCutsOf(request)) {
    const pipelines = pipelinesFor(cut.pp)
    const groups: SavedGroup[] = []
    let plans = 0
    for (const group of groupsIn(request, cut)) {
      const savings = savingsFor(group).filter(saving => isKept(group, saving))
      if (savings.length > 0) groups.push({ group, savings })
      plans += pipelines.length * savings.length
    }
    all += plans
    if (plans > 0) cuts.push({ groups, pipelines, plans, least: cutBound(request, cut, priceOf) })
  }
  return { cuts, plans: all, priceOf }
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

function pipelinesOnce(request: Request): (pp: number) => readonly UnlaidPipeline[] {
  const known = new Map<number, readonly UnlaidPipeline[]>()
  return pp => {
    const pipelines = known.get(pp) ?? unlaid(request, pp, pipelinesOf(request, pp))
    known.set(pp, pipelines)
    return pipelines
  }
}

/** They depend on whether there are copies, and several microbatches. */
function savingsOnce({ constraints }: Request): (group: Group) => readonly Saving[] {
  const known = new Map<string, readonly Saving[]>()
  return group => {
    const key = `${group.dp * group.cp > 1} ${group.microbatches > 1}`
    const savings = known.get(key) ?? savingsOf(group, constraints)
    known.set(key, savings)
    return savings
  }
}
