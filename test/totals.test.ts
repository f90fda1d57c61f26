/** What a run remembers of its steps: the summary is that of all of them, the memory that of a few. */
import { deepEqual, equal, match } from 'node:assert/strict'
import { test } from 'node:test'
import { RunTotals, summaryOf } from '../src/cli/text/summary.js'
import { divergenceOf } from '../src/train/index.js'
import { jobOf } from './jobs.js'

const recordOf = (step: number) => ({
  ...{ step, loss: 10 / step, gradientNorm: 1, lr: 1, taken: step, counted: 4, seconds: 0.5 },
  ...{ tokensPerSecond: 100, flopsPerSecond: 1e9 },
  ...(step % 7 === 0 && { skipped: `norm ${step}` }),
  ...(step % 10 === 0 && { evalLoss: step, checkpoint: `saved/step-${step}` }),
  // What a line has beside these: the most of it.
  ...{ shares: { compute: 1, communication: 0, waiting: 0, bubble: 0 }, events: [] },
})

function totalsOf(steps: number): RunTotals {
  const totals = new RunTotals(3)
  for (let step = 1; step <= steps; step++) totals.add(recordOf(step))
  return totals
}

/** Everything that can be reached from a value, itself included. */
const countOf = (value: unknown): number =>
  typeof value === 'object' && value !== null
    ? Object.values(value).reduce((sum: number, part) => sum + countOf(part), 1)
    : 1

test('as much is kept of 20 000 steps as of 100', () => {
  equal(countOf(totalsOf(20_000)), countOf(totalsOf(100)))
})

test('the summary counts every step', () => {
  const totals = totalsOf(100)
  const job = jobOf('mlp', {}, { steps: 100 })
  const [what, rate, definition, skipped, saved] = summaryOf(job, totals, 0)
  match(definition, /^ {2}FLOP\/s count 6 x parameters/)
  match(what, /^trained 100 of 100 steps in 50 s: loss 10\.0000 -> 0\.1000, validation loss 100\.0000 after step 100$/)
  match(rate, /^500\.\d+ ms\/step, 100 tokens\/s, 1\.00 GFLOP\/s/)
  equal(skipped, 'skipped 14 steps (7, 14, 21, 28, 35, ...): norm 7')
  equal(saved, 'checkpoint: saved/step-100')
  deepEqual(totals.firstLosses, [10, 5, 10 / 3])
  deepEqual(
    totals.lastLosses,
    [95, 96, 97, 99, 100].map(step => 10 / step),
  )
  equal(divergenceOf(totals.lastLosses, 0.01).length, 1)
})
