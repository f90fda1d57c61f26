/** What optimizers take, what the host and disks do for them, and PowerSGD, by estimate and by simulation of random plans. `SEED=7 PLANS=100` tries others. */
import { choices, hasErrors } from '../src/base/index.js'
import { check, Job } from '../src/plan/index.js'
import { type ComparedPlan, compared, randomPlans, staysWithinLimits } from './random-plans.js'

const seed = Number(process.env.SEED ?? 1)
const count = Number(process.env.PLANS ?? 8)

const optimizers = [
  { kind: 'adamw', lr: 1e-3, amsgrad: true },
  { kind: 'sgd', lr: 1e-3 },
  { kind: 'sgd', lr: 1e-3, momentum: 0.9 },
  { kind: 'lion', lr: 1e-3 },
  { kind: 'lamb', lr: 1e-3 },
  { kind: 'muon', lr: 1e-3 },
  { kind: 'muon', lr: 1e-3 },
  { kind: 'adafactor', lr: 1e-3 },
] as const

const adamw = { kind: 'adamw', lr: 1e-3 } as const

const places = [
  { optimizer: 'host' },
  { optimizer: 'host', parameters: 'host' },
  { parameters: 'host' },
  { optimizer: 'host', activations: 'layer-inputs' },
  { optimizer: 'disk' },
] as const

/** Whole matrices are summed when the step ends, in f32. */
const factors = (rank: number) => ({ compress: { reduce: 'powersgd', rank }, reduce: 'step', gradients: undefined })

function* plansOf(seed: number): Generator<ComparedPlan> {
  let n = 0
  for (const { job, device } of randomPlans(seed)) {
    const { pick } = choices(seed * 1000 + n)
    const offload = n % 2 === 0 ? pick(places) : undefined
    const optimizer = pick([adamw, ...optimizers])
    const zero = offload && 'parameters' in offload ? 3 : job.plan.zero
    const sent = n % 4 === 1 ? factors(pick([1, 2, 4, 8])) : { compress: undefined }
    const changed = Job.safeParse({
      ...job,
      training: { ...job.training, optimizer, ...(n % 3 === 1 && { ema: { decay: 0.99 } }) },
      plan: { ...job.plan, zero, offload, ...sent },
    })
    if (!changed.success || hasErrors(check(changed.data))) continue
    const one = compared({ job: changed.data, device })
    if (!one) continue
    n++
    yield one
  }
}

function firstOf<T>(all: Generator<T>, many: number): T[] {
  const found: T[] = []
  while (found.length < many) found.push(all.next().value)
  return found
}

staysWithinLimits(firstOf(plansOf(seed), count), `${count} plans of other optimizers and places`, seed)
