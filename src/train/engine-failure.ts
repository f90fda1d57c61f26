/** Engines that stop in the middle of their work: whoever has an earlier state may go on from that. */
import { error, ProblemsError, type Rank } from '../base/index.js'
import { EngineError } from '../engine/index.js'
import { clause, found, type HealthEvent } from '../health/index.js'

export class EngineFailure extends ProblemsError {
  /** Ranks that are gone, with all that they held. */
  readonly lost: readonly Rank[]
  /** Where it stood still, what is to be known of that but the step. */
  readonly timeOut: HealthEvent | undefined
  constructor(when: string, cause: unknown) {
    super([error('engine/failed', '', `${when}: ${cause instanceof Error ? cause.message : String(cause)}`)])
    this.lost =
      cause instanceof EngineError ? cause.ranks.flatMap(({ rank, state }) => (state === 'dead' ? [rank] : [])) : []
    this.timeOut = cause instanceof EngineError ? timeOutEvent(cause) : undefined
  }
}

function timeOutEvent({ timeOut, ranks }: EngineError): HealthEvent | undefined {
  if (!timeOut) return undefined
  const { rank, seconds, usual } = timeOut
  const where = ranks.find(report => report.rank === rank)?.text
  const words = {
    still: seconds === undefined ? clause('.longer') : clause('.seconds', { seconds: seconds.toFixed(1) }),
    before: usual === undefined ? '' : clause('.usual', { usual: usual.toPrecision(2) }),
  }
  const facts = {
    ...{ step: 0, severity: 'error' as const, ...(rank !== undefined && { rank }), ...(where && { where }) },
    numbers: { ...(seconds !== undefined && { seconds }), ...(usual !== undefined && { usual }) },
  }
  return rank === undefined ? found('timeout/all', facts, words) : found('timeout/rank', facts, { rank, ...words })
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
