/** What stops an engine, as a run tells it. */
import { error, ProblemsError, type Rank } from '../base/index.js'
import { EngineError } from '../engine/index.js'

/** An engine that stopped in the middle of its work: whoever has an earlier state may go on from that. */
export class EngineFailure extends ProblemsError {
  /** Ranks that are gone, with all that they held. */
  readonly lost: readonly Rank[]
  constructor(when: string, cause: unknown) {
    super([error('engine/failed', '', `${when}: ${cause instanceof Error ? cause.message : String(cause)}`)])
    this.lost =
      cause instanceof EngineError ? cause.ranks.flatMap(({ rank, state }) => (state === 'dead' ? [rank] : [])) : []
  }
}

/** What stops an engine (a rank that died, a peer that never came) is told as it tells it. */
export async function engineFailures<T>(when: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (e) {
    if (e instanceof ProblemsError || e instanceof TypeError) throw e
    throw new EngineFailure(when, e)
  }
}
