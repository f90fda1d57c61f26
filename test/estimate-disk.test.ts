/** What disks take, by estimate and by simulation of random plans with any optimizer. `SEED=7 PLANS=30 npm run test:rest estimate-disk` tries others. */
import { ok } from 'node:assert/strict'
import { choices, hasErrors } from '../src/base/index.js'
import { check, Job } from '../src/plan/index.js'
import { later, test } from './families.js'
import { type ComparedPlan, compared, randomPlans, spread } from './random-plans.js'

const seed = Number(process.env.SEED ?? 1)
const count = Number(process.env.PLANS ?? 8)

const places = [
  { optimizer: 'disk' },
  { optimizer: 'disk', parameters: 'disk' },
  { parameters: 'disk' },
  { optimizer: 'host', parameters: 'disk' },
  { activations: 'layer-inputs', layerInputs: 'disk' },
  { optimizer: 'disk', parameters: 'host', activations: 'layer-inputs' },
] as const

const kinds = ['adamw', 'adamw', 'sgd', 'lion', 'lamb', 'muon', 'adafactor'] as const

function drawn(): ComparedPlan[] {
  const found: ComparedPlan[] = []
  for (const { job, device } of randomPlans(seed)) {
    const { pick } = choices(seed * 1000 + found.length)
    const [offload, kind] = [pick(places), pick(kinds)]
    const zero = 'parameters' in offload ? 3 : job.plan.zero
    const changed = Job.safeParse({
      ...job,
      training: { ...job.training, optimizer: { kind, lr: 1e-3 } },
      plan: { ...job.plan, zero, offload, compress: undefined },
    })
    if (!changed.success || hasErrors(check(changed.data))) continue
    const one = compared({ job: changed.data, device })
    if (one && found.push(one) === count) break
  }
  return found
}

later(
  `${count} plans with disks: the estimate is within 4 % of the simulation on average, 12 at the worst (SEED=${seed})`,
  () => {
    const plans = drawn()
    for (const what of ['time', 'memory'] as const) {
      const { mean, worst } = spread(plans.map(plan => plan[what]))
      ok(mean <= 0.04 && worst <= 0.12, `${what}: mean ${mean}, worst ${worst}`)
    }
  },
)

test('frozen parameters are neither updated nor written back: the estimate is within 5 % of the simulation', () => {
  const model = { family: 'llama', layers: 8, embed: 2048, heads: 16, kvHeads: 8, ffn: 5632, vocab: 32000 } as const
  const training = { seq: 2048, globalBatch: 8, lora: { rank: 64, targets: 'all-linear' } } as const
  for (const offload of [{ optimizer: 'disk' }, { optimizer: 'disk', parameters: 'disk' }] as const) {
    const plan = { dp: 2, zero: 3, microbatches: 4, precision: 'bf16', offload } as const
    const { time } = compared({ job: Job.parse({ model, training, plan }), device: 'h100' })!
    ok(Math.abs(time) <= 0.05, `${JSON.stringify(offload)}: ${time}`)
  }
})
