/**
 * The estimate beside compiled programs that have what not every plan has: keys that go round, ranks that exchange sequence for
 * heads, experts, latent attention. The limits are those of other plans. `SEED=7 PLANS=200` tries others.
 */
import { ok } from 'node:assert/strict'
import { test } from 'node:test'
import { comparedPlans, spread } from './random-plans.js'

const seed = Number(process.env.SEED ?? 1)
const count = Number(process.env.PLANS ?? 24)
const percent = (share: number): string => `${(100 * share).toFixed(2)} %`

const plans = comparedPlans(seed, count, true)
for (const [what, mean, worst] of [
  ['time', 0.015, 0.12],
  ['memory', 0.02, 0.1],
] as const)
  test(`${count} random plans of other kinds: ${what} of the estimate within ${percent(mean)} on average and ${percent(worst)} at the worst (SEED=${seed})`, () => {
    const found = spread(plans.map(plan => plan[what]))
    const farthest = plans.reduce((a, b) => (Math.abs(b[what]) > Math.abs(a[what]) ? b : a))
    const text = `mean ${percent(found.mean)}, worst ${percent(found.worst)}: ${JSON.stringify(farthest.job)} on ${farthest.device}`
    ok(found.mean <= mean && found.worst <= worst, text)
  })

test('the plans have rings, exchanges and both, experts that are shared and split, and latent attention', () => {
  const has = (isThere: (plan: (typeof plans)[number]['job']) => boolean) => ok(plans.some(({ job }) => isThere(job)))
  has(({ plan }) => plan.attention === 'ring')
  has(({ plan }) => plan.attention === 'ulysses')
  has(({ plan }) => typeof plan.attention === 'object')
  has(({ plan }) => plan.ep > 1)
  has(({ plan }) => plan.etp > 1)
  has(({ model }) => 'mla' in model && model.mla !== undefined)
  has(({ model }) => 'moe' in model && model.moe !== undefined && model.moe.dense > 0)
})
