/** A job that `check` has accepted, with the programs its stages share: each is compiled when the first stage asks for it. */
import { compileEvaluation, compileJob, serialJob } from '../../src/compile/index.js'
import { runSerial, type SerialRun } from '../../src/engine/index.js'
import type { Program } from '../../src/ir/index.js'
import { earlierJobs, type Job } from '../../src/plan/index.js'
import { optionsOf } from '../jobs.js'

/** A run has several phases where batches grow or compression starts later. Each has a program of its own. */
export interface Phase {
  readonly job: Job
  program(): Program
  /** The same microbatches on one rank: what the laws compare with. */
  serial(): Program
  /** One rank in one piece: what the numbers are compared with. */
  expected(): SerialRun
}

export interface Subject {
  readonly job: Job
  readonly phases: readonly Phase[]
  evaluation(): Program
}

function once<T>(make: () => T): () => T {
  let made: { readonly value: T } | undefined
  return () => (made ??= { value: make() }).value
}

const phaseOf = (job: Job): Phase => ({
  job,
  program: once(() => compileJob(job)),
  serial: once(() => compileJob(serialJob(job, job.plan.microbatches))),
  expected: once(() => runSerial(compileJob(serialJob(job)), optionsOf(job))),
})

export const subjectOf = (job: Job): Subject => ({
  job,
  phases: [...earlierJobs(job), job].map(phaseOf),
  evaluation: once(() => compileEvaluation(job)),
})
