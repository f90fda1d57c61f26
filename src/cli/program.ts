/** The program of a job file, or everything that is wrong with it: shared by the commands that look at programs. */
import { error, ProblemsError } from '../base/index.js'
import { compileJob, memoryProblems, parseCsv, type Schedule } from '../compile/index.js'
import type { Program } from '../ir/index.js'
import type { Job } from '../plan/index.js'
import type { Io } from './io.js'
import { besides, loadJob } from './load.js'

export interface Loaded {
  readonly job: Job
  /** The parsed file, where the plan names one. */
  readonly schedule: Schedule | undefined
  readonly program: Program
}

/** Throws ProblemsError. `fits: false` lets a program through that is too large for the plan's device. */
export function loadProgram(path: string, io: Io, { fits = true } = {}): Loaded {
  const { job, problems, locate } = loadJob(path, io)
  if (!job) throw new ProblemsError(problems)
  const schedule = typeof job.plan.schedule === 'string' ? undefined : readSchedule(path, job, io)
  const program = compileJob(job, schedule)
  const tooLarge = fits ? memoryProblems(program, job).map(locate) : []
  if (tooLarge.length > 0) throw new ProblemsError(tooLarge)
  return { job, schedule, program }
}

function readSchedule(path: string, job: Job, io: Io): Schedule {
  const { file } = job.plan.schedule as { file: string } // the caller has looked
  const refuse = (message: string) => new ProblemsError([error('plan/schedule', 'plan.schedule', message)])
  let text: string
  try {
    text = io.read(besides(path, file))
  } catch (e) {
    throw refuse(`cannot read ${file}: ${e instanceof Error ? e.message : String(e)}`)
  }
  const { schedule, problems } = parseCsv(text)
  if (!schedule) throw new ProblemsError(problems.map(problem => ({ ...problem, path: 'plan.schedule', message: `${file}: ${problem.message}` })))
  const { pp, chunks, microbatches } = job.plan
  if (schedule.rows.length !== pp) throw refuse(`${file} has ${schedule.rows.length} rows, but plan.pp is ${pp}`)
  if (schedule.stages !== pp * chunks) throw refuse(`${file} has ${schedule.stages} stages, but pp ${pp} x chunks ${chunks} = ${pp * chunks}`)
  if (schedule.microbatches !== microbatches) throw refuse(`${file} has ${schedule.microbatches} microbatches, but plan.microbatches is ${microbatches}`)
  return schedule
}
