/** Failures and checkpoints: the intervals of Young and Daly, and the expected time held against drawing lots. */
import { equal, ok } from 'node:assert/strict'
import { test } from 'node:test'
import { uniform } from '../src/base/index.js'
import { runOf } from '../src/metrics/index.js'
import { type Failures, goodputOf, usefulShare } from '../src/simulate/index.js'

const near = (a: number, b: number, tolerance: number) => ok(Math.abs(a / b - 1) <= tolerance, `${a} is not ${b}`)

const hour = 3600
const large: Failures = { mtbf: 50_000 * hour, devices: 16_384, checkpoint: 60, restart: 600 }

test('16,384 devices of 50,000 hours fail every 3.05 hours; Young checkpoints every 19.1 minutes, Daly every 18.5', () => {
  const { mtbf, young, daly, interval } = goodputOf(large)
  near(mtbf / hour, 3.0518, 1e-4)
  near(young / 60, 19.14, 1e-3)
  near(daly / 60, 18.46, 1e-3)
  equal(interval, daly)
})

const cases: [string, Failures][] = [
  ['large', large],
  ['checkpoints that take long', { ...large, checkpoint: 600 }],
  ['few failures', { ...large, devices: 64 }],
  ['failures faster than checkpoints', { mtbf: hour, devices: 100, checkpoint: 80, restart: 5 }],
]
for (const [title, failures] of cases)
  test(`${title}: no interval leaves more than Daly's by a thousandth`, () => {
    const { mtbf, daly, share } = goodputOf(failures)
    for (let factor = 0.05; factor < 20; factor *= 1.1)
      ok(usefulShare(failures, mtbf, daly * factor) <= share + 1e-3, `${factor} x ${daly}`)
    ok(share > 0 && share < 1)
  })

for (const [title, failures] of cases.slice(0, 3))
  test(`${title}: lots drawn for 20,000 intervals agree to 2 % (seed 1)`, () => {
    const { mtbf, interval, share } = goodputOf(failures)
    const luck = uniform({ seed: 1, name: title })
    let draws = 0
    let time = 0
    for (let done = 0; done < 20_000; ) {
      const failsAfter = -mtbf * Math.log(1 - luck(draws++))
      const needed = interval + failures.checkpoint
      if (failsAfter >= needed) {
        time += needed
        done++
        continue
      }
      // A restart can fail too.
      time += failsAfter
      for (;;) {
        const again = -mtbf * Math.log(1 - luck(draws++))
        time += Math.min(again, failures.restart)
        if (again >= failures.restart) break
      }
    }
    near((20_000 * interval) / time, share, 0.02)
  })

test('nothing to write, nothing lost but restarts', () =>
  near(goodputOf({ ...large, checkpoint: 0 }).share, Math.exp(-600 / ((50_000 * hour) / 16_384)), 1e-12))

test('a run in days and dollars: 1 T tokens, 4 M a step of 2 s, on 1000 devices at 2 dollars, a tenth lost', () => {
  const work = { devices: 1000, tokens: 4e6, modelFlops: 0, peak: 1 }
  const run = runOf(2, work, { tokens: 1e12, price: 2, goodput: 0.9 })
  equal(run.steps, 250_000)
  near(run.days, 500_000 / 0.9 / 86_400, 1e-12)
  near(run.dollars!, (500_000 / 0.9 / 3600) * 1000 * 2, 1e-12)
})
