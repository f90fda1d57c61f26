/**
 * The program that judges what a job has trained so far: the forward tasks of its schedule in their order, on the same
 * ranks, with the parameters kept as the training program keeps them, and nothing else. Masks are not drawn.
 */
import type { Program } from '../ir/index.js'
<<<<<<< HEAD
import { buildModel, type ModelConfig, withAdapters } from '../model/index.js'
import { adaptersOf, type Job } from '../plan/index.js'
=======
import { buildModel, withoutTraining } from '../model/index.js'
import type { Job } from '../plan/index.js'
>>>>>>> b554c474 (generate and eval: a trained model used, from the graph it was trained by)
import { type Schedule, tasksOf } from '../schedule/index.js'
import { compile } from './compile.js'
import { scheduleOf, stepOf } from './job.js'

/** `schedule` is the parsed file of a plan that names one. */
export function compileEvaluation(job: Job, schedule: Schedule = scheduleOf(job.plan)): Program {
  const { training, plan } = job
<<<<<<< HEAD
  const adapters = adaptersOf(job)
  const model = withAdapters(buildModel(judged(job.model), stepOf(job)), adapters && { ...adapters, dropout: 0 })
=======
  const model = buildModel(withoutTraining(job.model), stepOf(job))
>>>>>>> b554c474 (generate and eval: a trained model used, from the graph it was trained by)
  return compile({ model, plan, training, schedule: forwardOf(schedule) })
}

/** Rows of forward tasks depend on forward tasks alone: in the order they had they cannot stall. */
export const forwardOf = (schedule: Schedule): Schedule => ({
  ...schedule,
  rows: schedule.rows.map(row => tasksOf(row).filter(({ kind }) => kind === 'F')),
})
