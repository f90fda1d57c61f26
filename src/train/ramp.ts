/** The programs of a run whose batches grow. */
import { ProblemsError } from '../base/index.js'
import { compileJob, memoryProblems } from '../compile/index.js'
import type { Program } from '../ir/index.js'
import { earlierJobs, type Job } from '../plan/index.js'

/** Those of steps of fewer sequences, by their number. Throws what does not fit, of all of them. */
export function smallerPrograms(job: Job): ReadonlyMap<number, Program> {
  const programs = earlierJobs(job).map(earlier => [earlier, compileJob(earlier)] as const)
  const problems = programs.flatMap(([earlier, program]) => memoryProblems(program, earlier))
  if (problems.length > 0) throw new ProblemsError(problems)
  return new Map(programs.map(([{ training }, program]) => [training.globalBatch, program]))
}
