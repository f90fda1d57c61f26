/**
 * The estimate beside compiled programs that have what not every plan has: keys that go round, ranks that exchange sequence for
 * heads, experts, latent attention. The limits are those of other plans. `SEED=7 PLANS=200` tries others.
 */
import { ok } from 'node:assert/strict'
import { test } from 'node:test'
import { comparedPlans, staysWithinLimits } from './random-plans.js'

const seed = Number(process.env.SEED ?? 1)
const count = Number(process.env.PLANS ?? 16)

const plans = comparedPlans(seed, count, true)
staysWithinLimits(plans, `${count} random plans of other kinds`, seed)

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
