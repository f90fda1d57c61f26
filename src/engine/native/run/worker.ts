/** A rank as a thread: takes assignments, one after the other. */
import { prepareKernels } from '../kernels/kernels.js'
import { platform } from './platform.js'
import type { Assignment } from './protocol.js'
import { serve } from './rank.js'

const tell = platform.listen(({ assignment }) => void take(assignment))

async function take(assignment: Assignment): Promise<void> {
  try {
    await prepareKernels()
    serve(assignment, tell)
  } catch (error) {
    tell({ type: 'failed', rank: assignment.rank, message: (error as Error).message })
  }
}
