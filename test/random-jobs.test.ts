/** Any job that `check` finds sound compiles to a lawful program that computes what one rank computes. */
import { computesWhatOneRankComputes } from './jobs.js'
import { randomJob } from './random-job.js'
import { oneIn, test } from './share.js'

const seeds = process.env.SEED
  ? [Number(process.env.SEED)]
  : Array.from({ length: Number(process.env.SEEDS ?? 20) }, (_, i) => i + 1)
const tested = seeds.length > 1 ? oneIn(3) : test
for (const seed of seeds)
  tested(`any sound job computes what one rank computes (SEED=${seed})`, () =>
    computesWhatOneRankComputes(randomJob(seed)),
  )
