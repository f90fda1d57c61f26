/**
 * Two answers to two questions, on plans nobody has chosen: what a step takes, and what it holds. The estimate plays a
 * plan's schedule on the costs of its stages; the compiler writes the program, and the simulation walks it instruction by
 * instruction. They share prices of kernels and collectives and nothing else. `SEED=7 PLANS=300` tries others.
 */
import { ok } from 'node:assert/strict'
import { test } from 'node:test'
import { scheduleNames } from '../src/plan/index.js'
import { comparedPlans, staysWithinLimits } from './random-plans.js'

const seed = Number(process.env.SEED ?? 1)
const count = Number(process.env.PLANS ?? 60)
const plans = comparedPlans(seed, count)
staysWithinLimits(plans, `${count} random plans`, seed)

test('the plans have every schedule, every ZeRO stage, codes of every recipe, fewer microbatches than stages, and models of both families', () => {
  const has = (isThere: (plan: (typeof plans)[number]['job']) => boolean) => ok(plans.some(({ job }) => isThere(job)))
  for (const name of scheduleNames) has(({ plan }) => plan.schedule === name && plan.pp > 1)
  for (const zero of [0, 1, 2, 3]) has(({ plan }) => plan.zero === zero && plan.dp > 1 && plan.pp > 1)
  has(({ plan }) => plan.microbatches < plan.pp)
  for (const recipe of ['current', 'delayed', 'blocks']) has(({ plan }) => plan.fp8?.recipe === recipe)
  for (const family of ['gpt', 'llama']) has(({ model }) => model.family === family && 'tied' in model && model.tied)
})
