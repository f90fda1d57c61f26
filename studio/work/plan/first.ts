/** A plan to begin with, where a link has none: of the few an engineer would think of first, the fastest that fits by price. */
import { type Cluster, capacityOf, check, Job, type Plan, presets, priceOf, requestOfJob, splitOf } from 'lockstep'

interface Draft {
  readonly model: unknown
  readonly training: Readonly<Record<string, unknown>>
}

const tps = [1, 2, 4, 8]
const pps = [1, 2, 4, 8, 16]

/** Nothing where the model is none, or has no price: then the plan is the plainest. */
export function firstPlan(input: Draft, cluster: Cluster): Plan | undefined {
  const model = typeof input.model === 'string' ? presets[input.model as keyof typeof presets] : input.model // unknown: no job
  const jobOf = (plan: object) => Job.safeParse({ ...input, model, plan }).data
  const drafts = candidates(cluster.devices, jobOf({})).flatMap(plan => jobOf(plan) ?? [])
  const priced = drafts.flatMap(job => pricedOn(job, cluster) ?? [])
  const fitting = priced.filter(({ fits }) => fits)
  const best = fitting.length > 0 ? least(fitting, ({ step }) => step) : least(priced, ({ bytes }) => bytes)
  return best?.job.plan ?? jobOf({ dp: cluster.devices, precision: 'bf16' })?.plan
}

const least = <T>(all: readonly T[], measure: (one: T) => number): T | undefined =>
  all.length === 0 ? undefined : all.reduce((a, b) => (measure(b) < measure(a) ? b : a))

function candidates(devices: number, job: Job | undefined): readonly object[] {
  if (!job) return []
  const { globalBatch } = job.training
  const experts = 'moe' in job.model && job.model.moe ? [8, 4, 2, 1] : [1]
  return tps.flatMap(tp =>
    pps
      .filter(pp => devices % (tp * pp) === 0 && globalBatch % (devices / (tp * pp)) === 0)
      .flatMap(pp => {
        const dp = devices / (tp * pp)
        const ep = experts.find(size => (dp * tp) % size === 0) ?? 1
        const mesh = { tp, pp, dp, ep, sequenceParallel: tp > 1, microbatches: globalBatch / dp }
        const saved = { zero: dp > 1 ? 1 : 0, precision: 'bf16', ...mesh }
        return [saved, { ...saved, recompute: 'full' }]
      }),
  )
}

function pricedOn(job: Job, cluster: Cluster) {
  if (check(job).some(({ severity }) => severity === 'error')) return
  try {
    const request = requestOfJob(job, cluster)
    const { estimate, bytes } = priceOf(request, splitOf(job, '1f1b'))
    return { job, bytes, step: estimate.step, fits: bytes <= capacityOf(request) }
  } catch {
    return // no price: an mlp
  }
}
