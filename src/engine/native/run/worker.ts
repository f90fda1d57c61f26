/** A rank as a thread: takes assignments, one after the other. */

import { platform } from '../../../platform/index.js'
import { prepareKernels } from '../kernels/kernels.js'
import type { Assignment, FromRank, ToRank } from './protocol.js'
import { serve } from './rank.js'

const tell = platform.listen<ToRank, FromRank>(({ assignment }) => void take(assignment))

async function take(assignment: Assignment): Promise<void> {
  try {
    await prepareKernels()
    serve(assignment, tell)
  } catch (error) {
    tell({ type: 'failed', rank: assignment.rank, message: (error as Error).message })
  }
}
