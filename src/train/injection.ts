/** Whether the faults that a run is to have can happen in it. */
import { error, type Fault, type FaultBook, faultProblems, type Problem, showFault, worldOf } from '../base/index.js'
import type { KernelName } from '../engine/index.js'
import type { Program } from '../ir/index.js'

/** The interpreter runs all ranks in one thread: none of them can be late, or die alone. */
export function injectionProblems(book: FaultBook | undefined, program: Program, kernels: KernelName): Problem[] {
  const faults = book?.faults ?? []
  const alone = kernels === 'reference' ? faults.filter(({ kind }) => kind !== 'full-disk' && kind !== 'damage') : []
  return [...faultProblems(faults, { ranks: worldOf(program.mesh), params: program.params }), ...alone.map(interpreted)]
}

const interpreted = (fault: Fault): Problem =>
  error(
    'run/fault',
    `--fault ${showFault(fault)}`,
    'reference kernels run all ranks in one thread, which has no faults of single ranks',
    'take other kernels',
  )
