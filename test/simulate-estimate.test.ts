/**
 * Two people's answers to one question: the closed form prices a plan without compiling it, the simulation walks the
 * compiled program instruction by instruction. They share prices of kernels and meetings and nothing else.
 */
import { ok } from 'node:assert/strict'
import { test } from 'node:test'
import { clusterOf } from '../src/cluster/index.js'
import { compileJob } from '../src/compile/index.js'
import { eras, estimate, type Shape } from '../src/estimate/index.js'
import { type PresetName, presets } from '../src/model/index.js'
import { Job, type JobInput } from '../src/plan/index.js'
import { clusterPrices, simulate } from '../src/simulate/index.js'

const seq = 8192
const sp = { sequenceParallel: true } as const

const plans: [PresetName, globalBatch: number, NonNullable<JobInput['plan']>][] = [
  [
    'llama3-405b',
    2048,
    {
      tp: 8,
      pp: 16,
      dp: 128,
      zero: 1,
      ...sp,
      schedule: 'interleaved',
      microbatches: 16,
      recompute: 'selective',
      layers: { first: 3, last: 3 },
    },
  ],
  [
    'llama3-70b',
    512,
    { tp: 8, pp: 8, dp: 32, zero: 1, ...sp, schedule: '1f1b', microbatches: 16, recompute: 'selective' },
  ],
  ['llama3-70b', 512, { tp: 8, pp: 8, dp: 32, zero: 1, ...sp, schedule: 'zb-h1', microbatches: 16 }],
  ['llama3-8b', 64, { dp: 64, zero: 3, recompute: 'full' }],
  ['llama3-8b', 64, { tp: 4, dp: 16, zero: 1, ...sp, microbatches: 4 }],
  ['llama3-8b', 64, { tp: 2, pp: 4, dp: 8, zero: 2, reduce: 'step', schedule: 'interleaved', microbatches: 8 }],
]

for (const [name, globalBatch, given] of plans)
  test(`${name} on H100, ${JSON.stringify(given)}: simulated and closed form agree to 10 %`, () => {
    const job = Job.parse({
      model: presets[name],
      training: { seq, globalBatch, clip: 1 },
      plan: { ...given, precision: 'bf16' },
    })
    const { plan, model } = job
    if (model.family !== 'llama' || typeof plan.recompute !== 'string' || typeof plan.schedule !== 'string')
      throw new Error('these plans are of llamas, with schedules and recomputation that have a name')
    const cluster = clusterOf('h100', plan.tp * plan.pp * plan.dp)
    const program = compileJob(job)
    const { step } = simulate(program, clusterPrices(program, cluster))
    const shape: Shape = { ...model, gated: true, biases: false, norm: 'rms', dropout: false, positions: 'rotary', seq }
    const { cp, ep, tp, pp, dp, sequenceParallel, schedule, chunks, microbatches, recompute } = plan
    const closed = estimate({
      ...{ shape, cluster, precision: 'bf16', software: eras.lockstep },
      split: {
        ...{ cp, ep, tp, pp, dp, sequenceParallel, schedule, chunks, microbatches, recompute },
        zero: plan.zero as 0 | 1 | 2 | 3, // the schema allows no other
        microbatch: globalBatch / (dp * microbatches),
      },
    })
    ok(Math.abs(closed.step / step - 1) < 0.1, `simulated ${step} s, closed form ${closed.step} s`)
  })
