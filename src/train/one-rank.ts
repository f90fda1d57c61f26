/** Losses of a session, and of its job on one rank, for comparison. */
import { compileJob, serialJob } from '../compile/index.js'
import { type Session, startSession } from './session.js'

/** The losses of the next steps. */
export async function lossesOf(session: Session, steps: number): Promise<number[]> {
  const losses: number[] = []
  while (losses.length < steps) losses.push((await session.step()).loss)
  return losses
}

/** The losses of a session's first steps as one rank has them, from the same weights on the same data. */
export async function oneRankLosses(session: Session, steps: number): Promise<number[]> {
  const { job, dataset, kernels, beginning } = session
  const serial = serialJob(job)
  const program = compileJob(serial)
  const one = await startSession(serial, dataset, { program, kernels, beginning, measure: false })
  try {
    return await lossesOf(one, steps)
  } finally {
    await one.stop()
  }
}
