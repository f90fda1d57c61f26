/**
 * Any plan computes what one rank computes. The whole grid is too large for every run (over 100,000 plans), so a seeded
 * sample holds every *pair* of choices at least once; GRID=2000 draws that many more plans from the whole grid.
 */
import { test } from 'node:test'
import { choices } from '../src/base/index.js'
import { scheduleProblems } from '../src/compile/index.js'
import { scheduleNames, scheduleTraits } from '../src/plan/index.js'
import { computesWhatOneRankComputes, jobOf, type ModelName, models, titleOf } from './jobs.js'

const grid = {
  model: Object.keys(models) as ModelName[],
  schedule: scheduleNames,
  dp: [1, 2, 4],
  tp: [1, 2, 4],
  pp: [1, 2, 4],
  zero: [0, 1, 2, 3],
  sequenceParallel: [false, true],
  microbatches: [1, 2, 4, 8],
  recompute: ['none', 'selective', 'full', ['gelu', 'swiglu', 'rmsNorm', 'layerNorm']],
} as const

type Point = { readonly [K in keyof typeof grid]: (typeof grid)[K][number] }
const names = Object.keys(grid) as (keyof typeof grid)[]

/** The interpreter runs every rank in one thread: worlds above 32 ranks are left to the long run. */
const possible = (p: Point, most: number): boolean =>
  p.dp * p.tp * p.pp <= most &&
  16 % (p.dp * p.microbatches) === 0 &&
  scheduleProblems(p.schedule, { ranks: p.pp, chunks: scheduleTraits[p.schedule].chunks, microbatches: p.microbatches })
    .length === 0

const drawn = ({ pick }: ReturnType<typeof choices>): Point =>
  Object.fromEntries(names.map(name => [name, pick(grid[name] as readonly unknown[])])) as unknown as Point // one of each

/** Draws points until every pair of choices that any possible point has was seen, keeping those that show a new pair. */
function pairwise(seed: number, tries: number): Point[] {
  const random = choices(seed)
  const seen = new Set<string>()
  const pairs = (p: Point) => names.flatMap((a, i) => names.slice(i + 1).map(b => JSON.stringify([a, p[a], b, p[b]])))
  const kept: Point[] = []
  for (let i = 0; i < tries; i++) {
    const point = drawn(random)
    if (!possible(point, 32)) continue
    const fresh = pairs(point).filter(pair => !seen.has(pair))
    // Early on every point is news; ask for more of it then, and for less as pairs run out.
    if (fresh.length < Math.max(1, 24 - i / 200)) continue
    for (const pair of fresh) seen.add(pair)
    kept.push(point)
  }
  return kept
}

function run({ model, ...plan }: Point, note: string): void {
  const told = Object.fromEntries(
    Object.entries(plan).filter(([, value]) => value !== 1 && value !== false && value !== 0 && value !== 'none'),
  )
  test(`${model}: ${titleOf(told)}${note}`, () =>
    computesWhatOneRankComputes(jobOf(model, { ...plan, recompute: plan.recompute as 'none' })))
}

for (const point of pairwise(1, 20_000)) run(point, '')

const more = Number(process.env.GRID ?? 0)
const seed = Number(process.env.SEED ?? 2)
const random = choices(seed)
for (let i = 0; i < more; ) {
  const point = drawn(random)
  if (!possible(point, 64)) continue
  run(point, ` (SEED=${seed} #${i})`)
  i++
}
