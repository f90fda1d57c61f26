/**
 * A calibration of a busy machine: samples of threads that waited for a core must not become what a kernel or a collective takes. Spans come
 * from a simulation of the probes on a machine that is known, so nothing here depends on the clock.
 */
import { equal, ok } from 'node:assert/strict'
import { test } from 'node:test'
import { seconds as toSeconds, worldOf } from '../src/base/index.js'
import { collectiveTimes } from '../src/calibrate/calibration.js'
import { type Machine, machineCluster } from '../src/calibrate/machine.js'
import { machinePrices } from '../src/calibrate/machine-prices.js'
import { merged, type Observation, observer } from '../src/calibrate/observe.js'
import { physical } from '../src/calibrate/physical.js'
import { simulateOn } from '../src/calibrate/prediction.js'
import { probesFor } from '../src/calibrate/probes.js'
import { inTurns } from '../src/calibrate/turns.js'
import type { Cluster, CollectivePoint } from '../src/cluster/index.js'
import { compileJob } from '../src/compile/index.js'
import { priceCollective } from '../src/cost/index.js'
import { Job } from '../src/plan/index.js'
import { simulateInTurns } from '../src/simulate/index.js'
import type { Span } from '../src/trace/index.js'

const machine: Machine = { title: 'two cores', kernels: 'plain', cores: 2, memory: 2 ** 33, date: '2026-01-01' }

/** What a collective takes on the machine: 3 us and 5 GB/s. */
const exact = (bytes: number): number => 3e-6 + bytes / 5e9
const sizes = [64, 2 ** 13, 2 ** 20]
const kinds = ['all-reduce', 'all-gather', 'reduce-scatter'] as const
const points = kinds.flatMap(kind =>
  sizes.map((bytes): CollectivePoint => ({ kind, ranks: 2, bytes, seconds: exact(bytes) })),
)
const observations: Observation[] = [
  { kernel: { kind: 'matmul', m: 256, n: 256, k: 256, batch: 1, precision: 'f32', resultBytes: 4 }, seconds: 6e-4 },
  { kernel: { kind: 'memory', op: 'adamw', read: 2 ** 18, written: 2 ** 17 }, seconds: 5e-5 },
]
const truth: Cluster = machineCluster(machine, observations, points)

/** The demo's plan. */
const job = Job.parse({
  model: { family: 'gpt', layers: 4, embed: 128, heads: 4, vocab: 256 },
  training: { seq: 128, globalBatch: 16 },
  plan: { dp: 2, tp: 2, zero: 1 },
})
const program = compileJob(job)

/** Uniform numbers below 1, the same for the same seed. */
function random(seed: number): () => number {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let t = Math.imul(state ^ (state >>> 15), 1 | state)
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32
  }
}

/** As `calibration` measures: nine samples of each kernel and collective. A share of them waits up to 20 ms for a core. */
function predicted(waiting: number, seed: number): number {
  const draw = random(seed)
  const wait = () => (draw() < waiting ? 1e-3 + 0.019 * draw() : 0)
  const seen = probesFor(2)
    .slice(0, 2)
    .map(probe => {
      const of = compileJob(probe)
      const ranks = Array.from({ length: worldOf(of.mesh) }, (_, rank) => rank)
      const { spansOf } = simulateInTurns(of, machinePrices(of, truth), 2, { watch: ranks })
      const spans = ranks.flatMap(spansOf)
      const kernels = observer(of)
      for (let step = 0; step < 9; step++)
        kernels.add(spans.map((span): Span => ({ ...span, end: toSeconds(span.end + wait()) })))
      return kernels
    })
  const collectives = collectiveTimes()
  for (const op of kinds)
    for (const bytes of sizes)
      for (let turn = 0; turn < 3; turn++) collectives.add({ op, ranks: 2, bytes, seconds: exact(bytes) + wait() })
  const found = merged(seen.flatMap(kernels => merged(kernels.observations())))
  return simulateOn(program, machineCluster(machine, found, collectives.points(), 4)).step
}

const quiet = predicted(0, 1)

test('a quiet machine: the probes predict about what the machine they were made with takes', () => {
  const { step } = simulateOn(program, { ...truth, devices: 4 })
  ok(Math.abs(quiet / step - 1) < 0.35, `${quiet} against ${step}`)
})

for (const waiting of [0.1, 0.3, 0.5])
  test(`${100 * waiting} % of the samples wait for a core: the prediction stays within 10 %`, () => {
    for (let seed = 1; seed <= 8; seed++) {
      const off = predicted(waiting, seed) / quiet - 1
      ok(Math.abs(off) < 0.1, `seed ${seed}: ${off}`)
    }
  })

test('one disturbed sample of few bytes says nothing about many', () => {
  const timed = sizes.map(
    (bytes): CollectivePoint => ({
      kind: 'all-reduce',
      ranks: 2,
      bytes,
      seconds: bytes === sizes[1] ? 0.01 : exact(bytes),
    }),
  )
  const cluster = machineCluster(machine, observations, timed)
  const seconds = (bytes: number) =>
    priceCollective({ kind: 'all-reduce', bytes, group: { size: 2, stride: 1 } }, cluster)
  ok(seconds(sizes[1]) <= 2 * exact(sizes[2]))
  ok(seconds(4 * sizes[2]) < 1e-2)
})

test('work takes no longer than larger work, nor than the pieces that cover it', () => {
  const times = (seconds: readonly number[]) =>
    physical(
      seconds.map((seconds, i) => ({ seconds, bytes: 2 ** i })),
      ({ bytes }) => ({ kind: 'copy', sizes: [bytes] }),
    ).map(point => point.seconds)
  const kept = [1, 1.5, 2, 4]
  equal(times(kept).join(), kept.join())
  equal(times([9, 1.5, 2, 4]).join(), '1.5,1.5,2,4')
  equal(times([1, 1.5, 2, 90]).join(), '1,1.5,2,4')
  // Of two kinds none bounds the other.
  const apart = physical(
    [
      { seconds: 9, of: 'a' },
      { seconds: 1, of: 'b' },
    ],
    ({ of }) => ({ kind: of, sizes: [1] }),
  )
  equal(apart.map(({ seconds }) => seconds).join(), '9,1')
})

test('where the samples do not agree there are more rounds, at most as many again', async () => {
  const turnsUntil = async (round: number) => {
    let turns = 0
    const start = async () => ({ turn: async () => void turns++, stop: async () => {} })
    for await (const share of inTurns([start, start], 3, () => turns >= 2 * round)) ok(share >= 0 && share <= 1)
    return turns / 2
  }
  equal(await turnsUntil(1), 3)
  equal(await turnsUntil(4), 4)
  equal(await turnsUntil(100), 6)
})
