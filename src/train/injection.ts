/** Whether the faults that a run is to have can happen in it, and how one more comes into a run that goes on. */
import {
  english,
  type Fault,
  type FaultBook,
  faultClause,
  faultNow,
  faultPath,
  faultPhrases,
  faultProblems,
  faultRefused,
  type Problem,
  ProblemsError,
  type Spoken,
  saidAgain,
  speak,
  worldOf,
} from '../base/index.js'
import type { KernelName } from '../engine/index.js'
import type { Program } from '../ir/index.js'
import { EngineFailure, engineFailures } from './engine-failure.js'
import type { Session } from './session.js'

/** The interpreter runs all ranks in one thread: none of them can be late, or die alone. */
export function injectionProblems(faults: readonly Fault[], program: Program, kernels: KernelName): Problem[] {
  const alone = kernels === 'reference' ? faults.filter(fault => 'rank' in fault) : []
  return [...faultProblems(faults, { ranks: worldOf(program.mesh), params: program.params }), ...alone.map(interpreted)]
}

const interpreted = (fault: Fault): Problem => faultRefused(faultPath(fault), 'run/fault/interpreter')

/** What faults make of the learning rate of a step. */
export const raisedBy = (faults: FaultBook, step: number): number =>
  faults.take(step, 'lr').reduce((product, { factor }) => product * factor, 1)

/** One more, into a run that goes on: ranks are started again, with all that they hold, and know of it then. */
export async function inject(
  fault: Fault,
  faults: FaultBook,
  { program, kernels, trainer, behind }: Pick<Session, 'program' | 'kernels' | 'trainer' | 'behind'>,
): Promise<void> {
  const problems = injectionProblems([fault], program, kernels)
  if (problems.length > 0) throw new ProblemsError(problems)
  faults.add(fault)
  if ('rank' in fault) await engineFailures(['fault', behind], () => trainer.change(program))
}

/** A note about a run in English, with its template for translation. */
export interface RunNote {
  readonly text: string
  readonly said?: Spoken
}

const note = (said: Spoken): RunNote => ({ text: speak(said, english(faultPhrases))[0], said })

/** Injects faults into the next step. Returns diagnostics of those that cannot happen; the run continues. */
export async function injectNow(text: string, session: Pick<Session, 'behind' | 'inject'>): Promise<RunNote> {
  const step = session.behind + 1
  const { faults, problems } = faultNow(text, step)
  try {
    if (problems.length > 0) throw new ProblemsError(problems)
    await session.inject(faults[0])
    return note(faultClause('.happens', { step, fault: text }))
  } catch (e) {
    if (!(e instanceof ProblemsError) || e instanceof EngineFailure) throw e
    const why = { joint: ';' as const, of: e.problems.map(problem => saidAgain(problem).what) }
    return note(faultClause('.cannot-happen', { fault: text, why }))
  }
}
