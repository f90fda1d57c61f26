/**
 * Batches that grow. Each number of sequences a step is a program of its own: the same plan, with as many microbatches as it takes
 * to keep their size. All of them are checked, and compiled before the first step.
 */
import { batchOfStep, isSparing, type Problem, saidAgain, sequencesUntil } from '../base/index.js'
import { refused } from './phrases.js'
import type { Rule } from './rule.js'
import type { Job } from './schema.js'

/** The job of the steps of so many sequences: microbatches of the plan's size, or one of what there is. */
export function jobOfBatch(job: Job, globalBatch: number): Job {
  const { batchRamp: _, ...training } = job.training
  if (globalBatch === training.globalBatch) return { ...job, training }
  const microbatchesOf = (most: number) => Math.max(1, (most * globalBatch) / training.globalBatch)
  const { plan } = job
  const sized = { ...job, training: { ...training, globalBatch } }
  const virtual = plan.compress?.virtual
  if (!virtual) return { ...sized, plan: { ...plan, microbatches: microbatchesOf(plan.microbatches) } }
  // One rank plays others: it has as many for each of them as they have.
  const [each, played] = [plan.microbatches / virtual.microbatches, microbatchesOf(virtual.microbatches)]
  const compress = { ...plan.compress, virtual: { ...virtual, microbatches: played } }
  return { ...sized, plan: { ...plan, microbatches: each * played, compress: compress as typeof plan.compress } }
}

/** What steps of one program have in common. */
export interface Phase {
  readonly globalBatch: number
  /** Gradients are not compressed yet. */
  readonly waiting: boolean
}

export const phaseOfStep = ({ training, plan }: Job, step: number): Phase => ({
  globalBatch: batchOfStep(training, step).globalBatch,
  waiting: step < startOf(plan),
})

/** The step from which on gradients are compressed. */
const startOf = ({ compress }: Job['plan']): number => (compress?.reduce ? compress.from : 0)

/** `batch-8`, or `plain-8` where gradients are sent as they are: also the folder of an emitted program that is not the last. */
export const nameOfPhase = ({ globalBatch, waiting }: Phase): string => `${waiting ? 'plain' : 'batch'}-${globalBatch}`

export function jobOfPhase(job: Job, { globalBatch, waiting }: Phase): Job {
  const { plan, ...sized } = jobOfBatch(job, globalBatch)
  const { compress } = plan
  if (!waiting || !compress?.reduce) return { ...sized, plan }
  // What remembers nothing need not wait for anything.
  const yet = isSparing(compress.reduce) ? { waiting } : { reduce: undefined }
  return { ...sized, plan: { ...plan, compress: { ...compress, ...yet } } }
}

/** The phases whose programs are not the last one. */
export function earlierPhases(job: Job): Phase[] {
  const { batchRamp = [], globalBatch: last } = job.training
  const sizes = [...new Set([...batchRamp.map(({ globalBatch }) => globalBatch), last])]
  const of = (waiting: boolean) => sizes.map(globalBatch => ({ globalBatch, waiting }))
  const earlier = of(false).filter(({ globalBatch }) => globalBatch !== last)
  return startOf(job.plan) > 0 ? [...of(true), ...earlier] : earlier
}

/** One job for each phase before the last. */
export const earlierJobs = (job: Job): Job[] => earlierPhases(job).map(phase => jobOfPhase(job, phase))

/** What `rules` say of the steps of each size, where they do not say it of the last ones too. */
export const batchRamp = (rules: readonly Rule[]): Rule =>
  function* (job) {
    const { batchRamp: earlier, seq } = job.training
    if (!earlier) return
    if (typeof job.plan.schedule !== 'string')
      yield refused('training.batchRamp', 'plan/batch-ramp/file', {
        ...{ file: job.plan.schedule.file, microbatches: job.plan.microbatches },
      })
    let before = 0
    for (const [i, phase] of earlier.entries()) {
      const path = `training.batchRamp[${i}]`
      if ((phase.until === undefined) === (phase.tokens === undefined)) yield refused(path, 'plan/batch-ramp/end')
      const until = sequencesUntil(phase, seq)
      if (until <= before) yield refused(path, 'plan/batch-ramp/order', { until, before })
      before = until
      yield* sized(rules, job, phase.globalBatch, path)
    }
  }

function* sized(rules: readonly Rule[], job: Job, globalBatch: number, path: string): Iterable<Problem> {
  const pieces = job.training.globalBatch / job.plan.microbatches
  if (!Number.isInteger(pieces)) return // which is said of the last batch
  const smaller = jobOfBatch(job, globalBatch)
  const { microbatches } = smaller.plan
  if (!Number.isInteger(microbatches)) {
    const below = Math.max(1, Math.floor(microbatches)) * pieces
    return yield refused(`${path}.globalBatch`, 'plan/batch-ramp/pieces', {
      ...{ globalBatch, whole: job.training.globalBatch, microbatches: job.plan.microbatches, pieces },
      ...{ rest: globalBatch % pieces, near: [below, below + pieces] },
    })
  }
  const known = new Set(errorsOf(rules, job).map(({ message }) => message))
  for (const problem of errorsOf(rules, smaller))
    if (!known.has(problem.message))
      yield refused(`${path}.globalBatch`, 'plan/batch-ramp/of', { microbatches, ...saidAgain(problem) })
}

const errorsOf = (rules: readonly Rule[], job: Job): Problem[] =>
  rules.flatMap(rule => [...rule(job)]).filter(({ severity }) => severity === 'error')
