/** Bytes that are live, over the steps of a stream and over time. */
import { deepEqual, equal, ok } from 'node:assert/strict'
import { test } from 'node:test'
import { clusterOf } from '../src/cluster/index.js'
import { compileJob } from '../src/compile/index.js'
import { type Kind, kinds, liveBytes, roomIn } from '../src/ir/index.js'
import { clusterPrices, simulate } from '../src/simulate/index.js'
import { memoryOf, memoryTrack, roundsOf } from '../src/trace/index.js'
import { jobOf } from './jobs.js'

const greatest = (columns: Readonly<Record<Kind, Float64Array>>) =>
  Object.fromEntries(kinds.map(kind => [kind, columns[kind].reduce((most, bytes) => Math.max(most, bytes), 0)]))

const plans = [
  { pp: 2, dp: 2, microbatches: 4, zero: 1 },
  { pp: 2, dp: 2, zero: 3, microbatches: 4, schedule: 'zb-h1' },
  { tp: 2, recompute: 'full' },
  { dp: 2, zero: 1, precision: 'bf16', offload: { optimizer: 'host' } },
] as const

for (const plan of plans)
  test(`the greatest are the peaks of the stream: ${JSON.stringify(plan)}`, () => {
    const program = compileJob(jobOf('gpt', plan))
    for (const stream of program.streams) {
      deepEqual(greatest(liveBytes(stream)), stream.peak)
      equal(liveBytes(stream).data.length, stream.steps.length)
      deepEqual(greatest(liveBytes(stream, 'host')), roomIn(stream, 'host').peak)
    }
  })

test('over time they are the same, of columns as of spans, and what a pipeline holds falls again', () => {
  const program = compileJob(jobOf('gpt', plans[0]))
  const { columnsOf, spansOf } = simulate(program, clusterPrices(program, clusterOf('h100', 4)))
  for (const pp of [0, 1]) {
    const rank = 2 * pp
    const { time, bytes } = memoryTrack(program, pp, columnsOf(rank))
    const points = memoryOf(program, roundsOf(spansOf(rank))[0])
    deepEqual(
      points.map(({ time }) => time),
      [...time],
    )
    for (const [i, point] of points.entries())
      for (const kind of kinds) equal(bytes[kind][i], point.bytes[kind], `${kind} at ${i}`)
    ok(time.every((at, i) => i === 0 || at > time[i - 1]))
    equal(Math.max(...bytes.activations), program.streams[pp].peak.activations)
    ok(bytes.activations.at(-1)! < program.streams[pp].peak.activations)
  }
})
