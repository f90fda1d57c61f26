/**
 * Schedules on a V, under a memory limit: zb-v (Qi et al. 2023), v-half and v-min (Qi et al. 2024).
 *
 * A microbatch goes down the ranks and up again, twice: forward (chunk 0, chunk 1), then input gradients (chunk 1,
 * chunk 0). The *building block* says when one microbatch would pass each rank if a new one started every six ticks;
 * steeper slopes keep activations alive longer and leave more slack. Its times are then only priorities: ranks run
 * tick by tick (see ticks.ts) and never hold more activations than the limit. Which recipe is best depends on p, m and
 * the limit, so all are tried and the shortest schedule wins. zb-v, v-half and v-min differ in the limit only.
 */
import type { RowByRow } from './numbered.js'
import type { Counts } from './task.js'
import { type Patience, period, runTicks, type TickRun } from './ticks.js'

/** When one microbatch would pass, and what a rank does when the pass it is due for cannot run. */
interface Recipe {
  /** Ticks between neighbouring ranks, on each of the four ways. */
  readonly slopes: readonly [number, number, number, number]
  /** Ticks lost at the bottom of the V, and at its top between forward and backward. */
  readonly bottom: number
  readonly top: number
  readonly patience: Patience
}

const all = [0, 1, 2, 3] as const
const patient: Patience = { before: [1, 2, 3], after: [], spare: 0 }
const eager = (spare: number): Patience => ({ before: [], after: all, spare })
const homeward: Patience = { before: [3], after: all, spare: 2 }

/**
 * Found by trying 330 of them on 180 combinations of limit, p and m, and keeping those without which some schedule
 * became longer. The last three are for limits of at most p. None takes longer than what the authors' own search finds.
 */
const recipes: readonly Recipe[] = [
  { slopes: [1, 4, 1, 2], bottom: 0, top: 0, patience: eager(0) },
  { slopes: [1, 4, 1, 2], bottom: 0, top: 1, patience: patient },
  { slopes: [1, 2, 2, 1], bottom: 0, top: 0, patience: patient },
  { slopes: [1, 1, 2, 1], bottom: 1, top: 0, patience: eager(1) },
  { slopes: [1, 1, 2, 1], bottom: 1, top: 0, patience: eager(2) },
  { slopes: [1, 1, 2, 1], bottom: 1, top: 0, patience: homeward },
  { slopes: [2, 1, 2, 3], bottom: 0, top: 1, patience: homeward },
  { slopes: [1, 1, 1, 1], bottom: 0, top: 2, patience: eager(2) },
  { slopes: [1, 1, 1, 1], bottom: 0, top: 0, patience: patient },
  { slopes: [1, 1, 1, 1], bottom: 1, top: 1, patience: patient },
]

/** When microbatch 0 is due on each rank for each pass; no two passes of a rank fall on one tick of the period. */
function dueTimes(ranks: number, { slopes, bottom, top }: Recipe): number[][] {
  const due = Array.from({ length: ranks }, (): number[] => [])
  let at = 0
  for (const pass of [0, 1, 2, 3]) {
    for (let step = 0; step < ranks; step++) {
      const times = due[pass % 2 === 0 ? step : ranks - 1 - step]
      while (times.some(time => (at - time) % period === 0)) at++
      times.push(at)
      at += step < ranks - 1 ? slopes[pass] : 1
    }
    at += pass === 1 ? top : bottom
  }
  return due
}

/** In the order tried, mostly the best first: what takes longer is soon given up. */
const inOrder = [0, 1, 2, 3, 4, 5, 6].map(numbered)
const tightFirst = [2, 0, 1, 3, 4, 5, 6].map(numbered)
const tightest = [7, 8, 9, 2].map(numbered)

function numbered(at: number) {
  return { ...recipes[at], at }
}

const recipesFor = (ranks: number, limit: number) =>
  limit <= ranks ? tightest : limit < 2 * ranks ? tightFirst : inOrder

interface TriedRun extends TickRun {
  readonly at: number
}

/** No rank ever holds more than `limit` chunk activations; 2 is the least that can move. Of equals the first recipe wins. */
export function vShaped(counts: Counts, limit: number): RowByRow {
  let best: TriedRun | undefined
  for (const { at, ...recipe } of recipesFor(counts.ranks, limit)) {
    const due = dueTimes(counts.ranks, recipe)
    const run = { ...runTicks(counts, { limit, due, patience: recipe.patience }, best?.ticks), at }
    if (!best || isBetter(run, best)) best = run
    if (isPerfect(counts, best)) break
  }
  const rows = best?.rows() ?? []
  return { stages: 2 * counts.ranks, microbatches: counts.microbatches, row: rank => rows[rank] }
}

/**
 * By rank: forwards of chunk 0 that it surely does before anything else, whichever recipe wins. They come one a tick, and are due before
 * the first microbatch is due on its way up; out of turn, others are done until that one can be there. The limit keeps a place for it.
 */
export function leadsOnV({ ranks, microbatches }: Counts, limit: number): number[] {
  const leads = new Array<number>(ranks).fill(microbatches)
  for (const recipe of recipesFor(ranks, limit)) {
    const { after, spare } = recipe.patience
    dueTimes(ranks, recipe).forEach(([down, up], rank) => {
      const inTurn = Math.min(limit - 1, Math.ceil((up - down) / period))
      const untilUp = 2 * (ranks - rank) - 1
      const lead = Math.max(inTurn, after.includes(0) ? Math.min(limit - 1 - spare, untilUp) : 0)
      leads[rank] = Math.min(leads[rank], lead)
    })
  }
  return leads
}

/** The last rank begins after all others have, and nobody waits after that: no other recipe can do better. */
const isPerfect = ({ ranks, microbatches }: Counts, { at, ticks, inside }: TriedRun): boolean =>
  at === 0 && inside === 0 && ticks === period * microbatches + ranks - 1

function isBetter(a: TriedRun, b: TriedRun): boolean {
  if (a.ticks !== b.ticks) return a.ticks < b.ticks
  return a.inside !== b.inside ? a.inside < b.inside : a.at < b.at
}

/** The limit of zb-v is what 1f1b holds on its first rank: p stages, which is 2p chunks. */
export const zbVLimit = (ranks: number): number => 2 * ranks
/** A little more than half of it: p + 2 chunks, or p + 1 where p is odd. */
export const vHalfLimit = (ranks: number): number => 2 * Math.floor(ranks / 2) + 2
/** About a third of it: two chunks for every three ranks, and two more. */
export const vMinLimit = (ranks: number): number => 2 * Math.floor((ranks + 4) / 3)
