/** What products on 8 bits take: the estimate follows the simulation, and nobody pays for what fusion spares. */
import { ok } from 'node:assert/strict'
import { clusterOf } from '../src/cluster/index.js'
import { compileJob } from '../src/compile/index.js'
import { estimate, placedOf, rankFootprint, rankLeastBytes, totalBytes } from '../src/estimate/index.js'
import { Job, type JobInput, worldOfPlan } from '../src/plan/index.js'
import { clusterPrices, simulate } from '../src/simulate/index.js'
import { family, test } from './families.js'
import { titleOf } from './jobs.js'

type PlanInput = NonNullable<JobInput['plan']>

const model = { family: 'llama', layers: 4, embed: 4096, heads: 32, kvHeads: 8, ffn: 14336, vocab: 32000 } as const

function priced(plan: PlanInput) {
  const job = Job.parse({ model, training: { seq: 4096, globalBatch: 8 }, plan: { precision: 'bf16', ...plan } })
  const cluster = clusterOf('h100', worldOfPlan(job.plan))
  const program = compileJob(job)
  return {
    simulated: simulate(program, clusterPrices(program, cluster)).step,
    estimated: estimate({ ...placedOf(job)!, cluster }).step,
  }
}

const plans: readonly PlanInput[] = [
  { dp: 4, zero: 1 },
  { tp: 4, sequenceParallel: true },
  { dp: 2, zero: 3 },
  { pp: 2, microbatches: 4 },
  { tp: 2, dp: 4 },
]
const weighed: readonly PlanInput[] = [
  { recompute: 'cheap' },
  { recompute: 'selective', fp8: { recipe: 'blocks' } },
  { recompute: 'full' },
  { tp: 4, sequenceParallel: true, fp8: { recipe: 'delayed' } },
  { tp: 2, dp: 2, zero: 3 },
  { dp: 2, zero: 3, gather: 'step' },
]
const few = family('fp8 cost: delayed and current', 6)
for (const plan of weighed)
  few(
    `${titleOf(plan)}: the bytes of the estimate are within 2 % of the arena: codes of weights, and a byte of what is kept`,
    () => {
      const job = Job.parse({
        model,
        training: { seq: 4096, globalBatch: 8 },
        plan: { precision: 'bf16', fp8: {}, ...plan },
      })
      for (const [rank, { arena }] of compileJob(job).streams.entries()) {
        const placed = placedOf(job)!
        const estimated = totalBytes(rankFootprint(placed, rank))
        ok(Math.abs(estimated / arena - 1) < 0.02, `${estimated} bytes, compiled ${arena}`)
        ok(rankLeastBytes(placed, rank) <= arena)
      }
    },
  )

const tested = family('fp8 cost: recipes', 5)
for (const plan of plans)
  for (const recipe of ['delayed', 'blocks', 'mx'] as const)
    tested(`${recipe}, ${titleOf(plan)}: the estimate is within 3 % of the simulation`, () => {
      const { simulated, estimated } = priced({ ...plan, fp8: { recipe } })
      ok(Math.abs(estimated / simulated - 1) < 0.03, `${1e3 * estimated} ms, simulated ${1e3 * simulated} ms`)
    })

const current = family('fp8 cost: random plans', 5)
for (const plan of plans)
  current(
    `current, ${titleOf(plan)}: the estimate is within 5 % of the simulation: ranks agree on scales, behind all that flies`,
    () => {
      const { simulated, estimated } = priced({ ...plan, fp8: {} })
      ok(Math.abs(estimated / simulated - 1) < 0.05, `${1e3 * estimated} ms, simulated ${1e3 * simulated} ms`)
    },
  )

test('over dp ranks agree on scales before every product with `current`, once a step with `delayed`, and never on blocks', () => {
  const step = (recipe: 'current' | 'delayed' | 'blocks') => priced({ dp: 4, zero: 1, fp8: { recipe } }).simulated
  const [current, delayed, blocks] = [step('current'), step('delayed'), step('blocks')]
  ok(delayed < 0.95 * current && blocks < 0.95 * current, `${current} ${delayed} ${blocks}`)
})
