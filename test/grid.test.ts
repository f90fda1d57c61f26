/**
 * Any plan computes what one rank computes. The whole grid is too large for every run (over 100,000 plans), so a seeded
 * sample holds every *pair* of choices at least once; GRID=2000 draws that many more plans from the whole grid.
 * The interpreter runs every rank in one thread: worlds above 16 ranks are left to the long run, and every pair fits in these.
 */

import { family } from './families.js'
import { computesWhatOneRankComputes } from './jobs.js'
import { draw, jobAt, type Point, pairwise, titleAt } from './pairs.js'

const tested = family('grid: pairs of choices', process.env.GRID ? 1 : 12)
const run = (point: Point, note: string) =>
  tested(`${titleAt(point)}${note}`, () => computesWhatOneRankComputes(jobAt(point)))

for (const point of pairwise(1, 20_000, 16)) run(point, '')

const more = Number(process.env.GRID ?? 0)
const seed = Number(process.env.SEED ?? 2)
const points = draw(seed, 64)
for (let i = 0; i < more; i++) run(points.next().value as Point, ` (SEED=${seed} #${i})`)
