/** The closed forms of the bubble against the schedules themselves, also with fewer microbatches than stages. */
import { ok } from 'node:assert/strict'
import { test } from 'node:test'
import { bubbleOf } from '../src/estimate/schedules/pipeline.js'
import { type ScheduleName, scheduleFacts } from '../src/plan/index.js'
import { makeSchedule, timing } from '../src/schedule/index.js'

/** Largest differences of the step time over all cases, and of the mean: what the closed form is trusted to. */
const forms: Readonly<Record<ScheduleName, readonly [worst: number, mean: number]>> = {
  gpipe: [1e-9, 1e-9],
  '1f1b': [1e-9, 1e-9],
  'looped-bfs': [1e-9, 1e-9],
  interleaved: [1e-9, 1e-9],
  'interleaved-zb': [0.11, 0.03],
  'zb-h1': [0.07, 0.02],
  'zb-h2': [0.13, 0.03],
  'zb-v': [0.12, 0.03],
  'v-half': [0.2, 0.06],
  'v-min': [0.2, 0.05],
  'dualpipe-v': [0.1, 0.02],
  dualpipe: [0.14, 0.03],
}

const tasks = [
  [1, 1, 1],
  [1, 1.3, 0.7],
  [1, 0.8, 1.2],
] as const

/** What closed form and schedule differ by, as a share of the step. */
function difference(schedule: ScheduleName, ranks: number, chunks: number, microbatches: number): number {
  const shares = tasks.map(([F, I, W]) => {
    const busiest = { forward: F * chunks, input: I * chunks, weight: W * chunks }
    const sum = { forward: ranks * busiest.forward, input: ranks * busiest.input, weight: ranks * busiest.weight }
    const step = microbatches * chunks * (F + I + W) + bubbleOf(schedule, { ranks, chunks, microbatches, busiest, sum })
    return Math.abs(
      step / timing(makeSchedule(schedule, { ranks, chunks, microbatches }), { F, I, W, C: 0 }).makespan - 1,
    )
  })
  return Math.max(...shares)
}

for (const [name, [worst, mean]] of Object.entries(forms))
  test(`${name}: at most ${100 * worst} % from the schedule, ${100 * mean} % on average`, () => {
    const schedule = name as ScheduleName // a key of the table above
    const { chunks, chunksFixed } = scheduleFacts[schedule]
    // DualPipe is made for an even number of microbatches, half from each end.
    const counts = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64].filter(m => schedule !== 'dualpipe' || m % 2 === 0)
    const found = [2, 4, 8, 16].flatMap(ranks =>
      (chunksFixed ? [chunks] : [2, 4, 8]).flatMap(chunks => counts.map(m => difference(schedule, ranks, chunks, m))),
    )
    ok(Math.max(...found) <= worst, `worst ${Math.max(...found)}`)
    const average = found.reduce((a, b) => a + b, 0) / found.length
    ok(average <= mean, `mean ${average}`)
  })
