/** Whether the faults that a run is to have can happen in it. */
import {
  error,
  type Fault,
  type FaultBook,
  faultProblems,
  type Problem,
  ProblemsError,
  showFault,
  worldOf,
} from '../base/index.js'
import type { KernelName } from '../engine/index.js'
import type { Program } from '../ir/index.js'
import { engineFailures } from './engine-failure.js'
import type { Session } from './session.js'

/** The interpreter runs all ranks in one thread: none of them can be late, or die alone. */
export function injectionProblems(faults: readonly Fault[], program: Program, kernels: KernelName): Problem[] {
  const alone = kernels === 'reference' ? faults.filter(fault => 'rank' in fault) : []
  return [...faultProblems(faults, { ranks: worldOf(program.mesh), params: program.params }), ...alone.map(interpreted)]
}

const interpreted = (fault: Fault): Problem =>
  error(
    'run/fault',
    `--fault ${showFault(fault)}`,
    'reference kernels run all ranks in one thread, which has no faults of single ranks',
    'take other kernels',
  )

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
  if ('rank' in fault) await engineFailures(`the fault after step ${behind}`, () => trainer.change(program))
}
