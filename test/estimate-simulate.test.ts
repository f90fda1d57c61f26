/**
 * Two answers to one question: the closed form prices a plan without compiling it, the simulation walks the compiled
 * program instruction by instruction. They share prices of kernels and meetings and nothing else.
 */
import { ok } from 'node:assert/strict'
import { test } from 'node:test'
import { worldOf } from '../src/base/index.js'
import { clusterOf } from '../src/cluster/index.js'
import { compileJob } from '../src/compile/index.js'
import { placedOf, timesOf } from '../src/estimate/index.js'
import { presets } from '../src/model/index.js'
import { Job, type JobInput } from '../src/plan/index.js'
import { clusterPrices, simulate } from '../src/simulate/index.js'

/** The closed form over the simulation, less one. */
function errorOf(given: JobInput): number {
  const job = Job.parse({ ...given, plan: { ...given.plan, precision: 'bf16' } })
  const program = compileJob(job)
  const cluster = clusterOf('h100', worldOf(program.mesh))
  const placed = placedOf(job)
  ok(placed)
  const { step } = timesOf({ ...placed, cluster })
  return step / simulate(program, clusterPrices(program, cluster), { watch: [] }).step - 1
}

const agrees = (title: string, job: JobInput, within: number) =>
  test(`${title}, ${JSON.stringify(job.plan)}: within ${100 * within} % of its simulation`, () => {
    const error = errorOf(job)
    ok(Math.abs(error) <= within, `${(100 * error).toFixed(1)} %`)
  })

const ofMeta = { tp: 8, pp: 16, dp: 128, zero: 1, sequenceParallel: true, schedule: 'interleaved' } as const
const ofSeventy = { tp: 8, pp: 8, dp: 32, zero: 1, sequenceParallel: true, microbatches: 16 } as const

for (const [name, globalBatch, plan] of [
  ['llama3-405b', 2048, { ...ofMeta, microbatches: 16, recompute: 'selective', layers: { first: 3, last: 3 } }],
  ['llama3-70b', 512, { ...ofSeventy, schedule: '1f1b', recompute: 'selective' }],
  ['llama3-70b', 512, { ...ofSeventy, schedule: 'zb-h1' }],
  ['llama3-8b', 64, { dp: 64, zero: 3 }],
  ['llama3-8b', 64, { dp: 64, zero: 3, recompute: 'full' }],
  ['llama3-8b', 64, { pp: 4, dp: 8, zero: 3, schedule: 'zb-h1', microbatches: 8 }],
  ['llama3-8b', 64, { tp: 4, dp: 16, zero: 1, sequenceParallel: true, microbatches: 4 }],
  ['llama3-8b', 64, { tp: 8, dp: 8, zero: 2, microbatches: 8 }],
  ['llama3-8b', 64, { tp: 2, pp: 4, dp: 8, zero: 2, schedule: 'interleaved', microbatches: 8 }],
  ['llama3-8b', 64, { tp: 2, pp: 4, dp: 8, zero: 2, reduce: 'step', schedule: 'interleaved', microbatches: 8 }],
] as const)
  agrees(name, { model: presets[name], training: { seq: 8192, globalBatch, clip: 1 }, plan }, 0.1)

const small = { family: 'llama', layers: 8, embed: 4096, heads: 32, kvHeads: 8, ffn: 14336, vocab: 32000 } as const

for (const plan of [
  { dp: 8, zero: 1, microbatches: 8 },
  { dp: 8, zero: 3, microbatches: 8 },
  { dp: 32, zero: 1, microbatches: 2 },
  { tp: 8, microbatches: 8 },
  { tp: 8, sequenceParallel: true, microbatches: 8 },
  { tp: 2, pp: 2, dp: 2, microbatches: 16 },
  { pp: 4, dp: 2, microbatches: 16, schedule: 'interleaved', chunks: 2 },
  { pp: 8, microbatches: 32, schedule: 'zb-h1' },
  { dp: 8, zero: 1, microbatches: 8, recompute: 'full' },
] as const)
  agrees('8 layers', { model: small, training: { seq: 4096, globalBatch: 64 }, plan }, 0.12)
