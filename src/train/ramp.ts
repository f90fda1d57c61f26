/** The programs of a run whose steps change: batches grow, gradients are compressed from some step on. */
import { ProblemsError } from '../base/index.js'
import { compileJob, memoryProblems } from '../compile/index.js'
import type { Program } from '../ir/index.js'
import { earlierPhases, type Job, jobOfPhase, nameOfPhase } from '../plan/index.js'

/** Those of steps before the last phase, by its name (`nameOfPhase`). Throws what does not fit, of all of them. */
export function earlierPrograms(job: Job): ReadonlyMap<string, Program> {
  const programs = earlierPhases(job).map(phase => {
    const earlier = jobOfPhase(job, phase)
    return { phase, earlier, program: compileJob(earlier) }
  })
  const problems = programs.flatMap(({ earlier, program }) => memoryProblems(program, earlier))
  if (problems.length > 0) throw new ProblemsError(problems)
  return new Map(programs.map(({ phase, program }) => [nameOfPhase(phase), program]))
}
