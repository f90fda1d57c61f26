/** The program of a job file, or everything that is wrong with it: shared by the commands that look at programs. */
import { error, type Problem, ProblemsError } from '../../base/index.js'
import { compilingJob, memoryProblems } from '../../compile/index.js'
import type { Program } from '../../ir/index.js'
import type { Job, ParsedJob } from '../../plan/index.js'
import { parseSchedule, type Schedule } from '../../schedule/index.js'
import type { Io } from '../io.js'
import { countProblems, showProblems } from '../text/problems.js'
import { withProgress } from '../text/progress.js'
import { besides } from './beside.js'
import { loadAnyJob } from './load.js'

export interface Loaded {
  readonly job: Job
  /** The parsed file, where the plan names one. */
  readonly schedule: Schedule | undefined
  readonly program: Program
}

export interface Tried {
  /** Absent when a problem is an error. */
  readonly loaded?: Loaded
  readonly problems: readonly Problem[]
}

/** `fits: false` lets a program through that is too large for the plan's device. */
interface Demands {
  readonly fits?: boolean
  /** World size, for a config of another framework that does not specify it. */
  readonly devices?: number | undefined
  /** Overridden variables of its script. */
  readonly set?: Readonly<Record<string, string>> | undefined
}

export const tryProgram = async (path: string, io: Io, options: Demands = {}): Promise<Tried> =>
  programOf(await loadAnyJob(path, io, options), path, io, options)

/** The program of a job that was read already (standard input cannot be read twice). */
export async function programOf(parsed: ParsedJob, path: string, io: Io, demands: Demands = {}): Promise<Tried> {
  const { job, problems, locate } = parsed
  if (!job) return { problems }
  try {
    const schedule = typeof job.plan.schedule === 'string' ? undefined : readSchedule(path, job, io)
    const program = await withProgress(io, progress => {
      progress.expect({ compiling: 1 })
      return progress.run('compiling', compilingJob(job, schedule))
    })
    const found = (demands.fits ?? true) ? memoryProblems(program, job) : []
    if (found.length > 0) throw new ProblemsError(found)
    return { loaded: { job, schedule, program }, problems }
  } catch (e) {
    if (!(e instanceof ProblemsError)) throw e
    return { problems: [...problems, ...e.problems.map(locate)] }
  }
}

/** Runs `use` on the program, or says what is wrong: on standard error, or as JSON where that was asked for. */
export async function withProgram(
  path: string,
  io: Io,
  options: Demands & { readonly json?: boolean },
  use: (loaded: Loaded) => number | Promise<number>,
): Promise<number> {
  const { loaded, problems } = await tryProgram(path, io, { ...options, fits: options.fits ?? true })
  if (loaded) {
    if (!options.json) io.err(showProblems(problems, io, path))
    return use(loaded)
  }
  if (options.json) io.out(`${JSON.stringify({ ok: false, problems }, null, 2)}\n`)
  else io.err(`${showProblems(problems, io, path)}${countProblems(problems)}\n`)
  return 1
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
  const { schedule, problems } = parseSchedule(text)
  if (!schedule)
    throw new ProblemsError(
      problems.map(problem => ({ ...problem, path: 'plan.schedule', message: `${file}: ${problem.message}` })),
    )
  const { pp, chunks, microbatches } = job.plan
  if (schedule.rows.length !== pp) throw refuse(`${file} has ${schedule.rows.length} rows, but plan.pp is ${pp}`)
  if (schedule.stages !== pp * chunks)
    throw refuse(`${file} has ${schedule.stages} stages, but pp ${pp} x chunks ${chunks} = ${pp * chunks}`)
  if (schedule.microbatches !== microbatches)
    throw refuse(`${file} has ${schedule.microbatches} microbatches, but plan.microbatches is ${microbatches}`)
  return schedule
}
