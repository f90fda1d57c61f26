/**
 * The program that judges what a job has trained so far: the forward tasks of its schedule in their order, on the same
 * ranks, with the parameters kept as the training program keeps them, and nothing else. Masks are not drawn.
 */
import type { Program } from '../ir/index.js'
import { buildModel, withAdapters, withoutTraining } from '../model/index.js'
import { adaptersOf, type Job } from '../plan/index.js'
import { type Schedule, tasksOf } from '../schedule/index.js'
import { compile } from './compile.js'
import { scheduleOf, stepOf } from './job.js'

/** Compiles the forward-only program of a job. `schedule` is the parsed file of a plan that names one. */
export function compileEvaluation(job: Job, schedule: Schedule = scheduleOf(job.plan)): Program {
  const { training, plan } = job
  const adapters = adaptersOf(job)
  const model = withAdapters(
    buildModel(withoutTraining(job.model), stepOf(job)),
    adapters && { ...adapters, dropout: 0 },
  )
  return compile({ model, plan, training, schedule: forwardOf(schedule) })
}

/** Rows of forward tasks depend on forward tasks alone: in the order they had they cannot stall. */
export const forwardOf = (schedule: Schedule): Schedule => ({
  ...schedule,
  rows: schedule.rows.map(row => tasksOf(row).filter(({ kind }) => kind === 'F')),
})
