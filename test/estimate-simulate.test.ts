/** Our own program: what the closed form says of a plan against the compiled program, simulated event by event. */
import { ok } from 'node:assert/strict'
import { test } from 'node:test'
import { worldOf } from '../src/base/index.js'
import { clusterOf } from '../src/cluster/index.js'
import { compileJob } from '../src/compile/index.js'
import { placedOf, timesOf } from '../src/estimate/index.js'
import { Job, type JobInput } from '../src/plan/index.js'
import { clusterPrices, simulate } from '../src/simulate/index.js'

const model = { family: 'llama', layers: 8, embed: 4096, heads: 32, kvHeads: 8, ffn: 14336, vocab: 32000 } as const
const training = { seq: 4096, globalBatch: 64 }

const plans: readonly JobInput['plan'][] = [
  { dp: 8, zero: 1, microbatches: 8 },
  { dp: 8, zero: 3, microbatches: 8 },
  { dp: 32, zero: 1, microbatches: 2 },
  { tp: 8, microbatches: 8 },
  { tp: 8, sequenceParallel: true, microbatches: 8 },
  { tp: 2, pp: 2, dp: 2, microbatches: 16 },
  { pp: 4, dp: 2, microbatches: 16, schedule: 'interleaved', chunks: 2 },
  { pp: 8, microbatches: 32, schedule: 'zb-h1' },
  { dp: 8, zero: 1, microbatches: 8, recompute: 'full' },
]

for (const plan of plans)
  test(`${JSON.stringify(plan)}: within 12 % of its simulation`, () => {
    const job = Job.parse({ model, training, plan: { ...plan, precision: 'bf16' } })
    const program = compileJob(job)
    const cluster = clusterOf('h100', worldOf(program.mesh))
    const placed = placedOf(job)
    ok(placed)
    const { step } = timesOf({ ...placed, cluster })
    const simulated = simulate(program, clusterPrices(program, cluster), { watch: [] }).step
    ok(Math.abs(step / simulated - 1) <= 0.12, `${step} s, simulated ${simulated} s`)
  })
