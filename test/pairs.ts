/** The grid of plans, and samples of it in which every pair of choices that is possible occurs. */
import { choices } from '../src/base/index.js'
import { contextOf, scheduleFacts, scheduleNames } from '../src/plan/index.js'
import { scheduleProblems } from '../src/schedule/index.js'
import { jobOf, type ModelName, models, shallow, titleOf } from './jobs.js'

const grid = {
  model: Object.keys(models) as ModelName[],
  schedule: scheduleNames,
  dp: [1, 2, 4],
  tp: [1, 2, 4],
  context: [
    { cp: 1 },
    { cp: 2, zigzag: false },
    { cp: 2, attention: 'ring' },
    { cp: 2, attention: 'ulysses' },
    { cp: 4, attention: 'ring', zigzag: false },
    { cp: 4, attention: { ulysses: 2, ring: 2 } },
  ],
  pp: [1, 2, 4],
  zero: [0, 1, 2, 3],
  sequenceParallel: [false, true],
  microbatches: [1, 2, 4, 8],
  precision: ['f32', 'bf16', 'pure-bf16'],
  recompute: ['none', 'cheap', 'selective', 'full', ['gelu', 'swiglu', 'rmsNorm', 'layerNorm']],
} as const

export type Point = { readonly [K in keyof typeof grid]: (typeof grid)[K][number] }
const names = Object.keys(grid) as (keyof typeof grid)[]

/** The sequence of four tokens can be split so, and so can four heads; an mlp has none. */
function splitsSequence({ model, context, tp, sequenceParallel }: Point): boolean {
  const { cp } = context
  const { ulysses } = contextOf({ attention: 'gather', ...context })
  return (cp === 1 || model !== 'mlp') && 4 % (ulysses * tp) === 0 && 4 % (cp * (sequenceParallel ? tp : 1)) === 0
}

/**
 * Within so many ranks, with samples for every microbatch, on a schedule that exists; more than two microbatches a stage only
 * repeat what two do.
 */
const possible = (p: Point, most: number): boolean =>
  p.dp * p.tp * p.context.cp * p.pp <= most &&
  p.microbatches <= 2 * p.pp &&
  splitsSequence(p) &&
  16 % (p.dp * p.microbatches) === 0 &&
  scheduleProblems(p.schedule, { ranks: p.pp, chunks: scheduleFacts[p.schedule].chunks, microbatches: p.microbatches })
    .length === 0

const drawn = ({ pick }: ReturnType<typeof choices>): Point =>
  Object.fromEntries(names.map(name => [name, pick(grid[name] as readonly unknown[])])) as unknown as Point // one of each

/** Points of the whole grid, one after the other. */
export function* draw(seed: number, most: number): Generator<Point> {
  const random = choices(seed)
  for (;;) {
    const point = drawn(random)
    if (possible(point, most)) yield point
  }
}

/** A few of the points (or so many) that hold every pair of choices that any of them has: each time the one with most news. */
export function covering<P extends object>(points: readonly P[], count = Infinity): P[] {
  const pairsOf = (point: P): string[] => {
    const entries = Object.entries(point)
    return entries.flatMap((a, i) => entries.slice(i + 1).map(b => JSON.stringify([a, b])))
  }
  const pool = points.map(point => ({ point, fresh: pairsOf(point) }))
  const seen = new Set<string>()
  const kept: P[] = []
  while (kept.length < count) {
    // What was news can only get less: where it was less than the best has now, nobody need look again.
    let best = pool[0]
    for (const each of pool) {
      if (each !== best && each.fresh.length <= best.fresh.length) continue
      each.fresh = each.fresh.filter(pair => !seen.has(pair))
      if (each.fresh.length > best.fresh.length) best = each
    }
    if (best.fresh.length === 0) break
    for (const pair of best.fresh) seen.add(pair)
    kept.push(best.point)
  }
  return kept
}

/** Of so many points that are drawn, a few that hold every pair of choices that is possible within so many ranks. */
export function pairwise(seed: number, tries: number, most: number): Point[] {
  const random = choices(seed)
  return covering(Array.from({ length: tries }, () => drawn(random)).filter(point => possible(point, most)))
}

export const jobAt = ({ model, context, ...plan }: Point) =>
  shallow(jobOf(model, { ...plan, ...context, recompute: plan.recompute as 'none' }))

export function titleAt({ model, context, ...plan }: Point): string {
  const told = Object.entries({ ...plan, ...context }).filter(
    ([, value]) => ![1, false, 0, 'none', 'f32'].some(usual => usual === value),
  )
  return `${model}: ${titleOf(Object.fromEntries(told))}`
}
