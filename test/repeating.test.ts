/** Steps of many microbatches are told by two short ones: as compiled and simulated in full, in time, memory, parts and bubble. */
import { equal, ok } from 'node:assert/strict'
import { test } from 'node:test'
import { compileJob } from '../src/compile/index.js'
import { bubbleOf } from '../src/metrics/index.js'
import {
  type FailedPlan,
  hasFailed,
  jobOf,
  type OutlinedPlan,
  PlanSimulator,
  plainSplit,
  priceOf,
  recomputedOf,
  type SimulatedPlan,
  simulatedCounts,
} from '../src/search/index.js'
import { clusterPrices, simulate } from '../src/simulate/index.js'
import { requestOf } from './search-requests.js'

const found = <Plan extends OutlinedPlan>(outcome: Plan | FailedPlan): Plan => {
  if (hasFailed(outcome)) throw new Error(outcome.why)
  return outcome as Plan
}

const plans = [
  { dp: 4, zero: 2 },
  { dp: 4, zero: 3, recompute: 'full' },
  { dp: 2, pp: 2, zero: 1 },
  { dp: 2, pp: 2, zero: 2, schedule: 'interleaved', chunks: 2 },
  { pp: 4, schedule: 'zb-h1' },
  { tp: 2, sequenceParallel: true, pp: 2, schedule: 'zb-v', chunks: 2 },
  { pp: 4, schedule: 'interleaved-zb', chunks: 2, recompute: 'selective' },
] as const

for (const plan of plans)
  test(`many microbatches: ${JSON.stringify(plan)}`, () => {
    const { pp = 1, dp = 1 } = { pp: 1, dp: 1, ...plan }
    const microbatches = 60 * pp
    const request = requestOf({ devices: 4, batch: microbatches * dp, layers: 8, seq: 1024, software: 'lockstep' })
    const split = { ...plainSplit, ...plan, microbatches }
    equal(simulatedCounts(split).length, 2)
    const program = compileJob(jobOf(request, split))
    const full = simulate(program, clusterPrices(program, request.cluster), { watch: [] })
    const simulator = new PlanSimulator(request)
    const priced = priceOf(request, split)
    const told: SimulatedPlan = found(simulator.compile(priced))
    const near = (a: number, b: number, what: string) => ok(Math.abs(a - b) < 1e-4 * full.step, `${what}: ${a}, ${b}`)
    near(told.step, full.step, 'step')
    near(found(simulator.outline(priced)).step, full.step, 'outline')
    ok(Math.abs(told.arena - full.memory.arena) < 0.01 * full.memory.arena, `${told.arena}, ${full.memory.arena}`)
    for (const [part, seconds] of Object.entries(full.parts))
      near(told.parts[part as keyof typeof told.parts], seconds, part)
    near(told.bubble.mean * told.step, bubbleOf(full.stages, full.step).mean * full.step, 'bubble')
    ok(Math.abs(told.recomputed - recomputedOf(full)) <= 1e-9 * recomputedOf(full))
  })
