/** Engines that stop in the middle of their work: whoever has an earlier state may go on from that. */
import {
  failureClause,
  ProblemsError,
  type Rank,
  type Reason,
  type Spoken,
  SpokenError,
  saidBy,
  sayFailure,
} from '../base/index.js'
import { EngineError } from '../engine/index.js'
import { clause, found, type HealthEvent } from '../health/index.js'
import { runRefused } from './phrases.js'

/** At what: the first step that was not taken, or the last one before. */
type When = readonly ['start'] | readonly ['step' | 'copy' | 'change' | 'evaluation' | 'fault', step: number]

const sayWhen = (when: When): Spoken =>
  when[0] === 'start' ? failureClause('.failed/start') : failureClause(`.failed/${when[0]}`, { step: when[1] })

export class EngineFailure extends ProblemsError {
  /** Ranks that are gone, with all that they held. */
  readonly lost: readonly Rank[]
  /** Where it stood still, what is to be known of that but the step. */
  readonly timeOut: HealthEvent | undefined
  /** When and what: without what every rank was at. */
  readonly brief: Spoken
  constructor(at: When, cause: unknown) {
    const when = sayWhen(at)
    const what = saidBy(cause)
    super([runRefused('', 'engine/failed/when', { when, what })])
    this.brief = failureClause('.failed', {
      when,
      what: cause instanceof EngineError ? cause.failures : firstLine(what),
    })
    this.lost =
      cause instanceof EngineError ? cause.ranks.flatMap(({ rank, state }) => (state === 'dead' ? [rank] : [])) : []
    this.timeOut = cause instanceof EngineError ? timeOutEvent(cause) : undefined
  }
}

/** Silent data corruption that comparing replicas has found: the state after step `equal` and before is good. */
export class ReplicaFailure extends EngineFailure {
  readonly equal: number
  constructor(step: number, equal: number) {
    super(['step', step], new SpokenError(failureClause('.failed/replicas')))
    this.equal = equal
  }
}

/** What is said on one line as it is, and of more the first. */
function firstLine(what: Reason): Reason {
  const [first, ...more] = sayFailure(what).split('\n')
  return more.length > 0 ? first : what
}

function timeOutEvent({ timeOut, ranks }: EngineError): HealthEvent | undefined {
  if (!timeOut) return undefined
  const { rank, seconds, usual } = timeOut
  const { said, text } = ranks.find(report => report.rank === rank) ?? {}
  const where = said?.place ?? text
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
export async function engineFailures<T>(when: When, work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (e) {
    if (e instanceof ProblemsError || e instanceof TypeError) throw e
    throw new EngineFailure(when, e)
  }
}

/** The end of a run with so many steps behind it, by what was thrown. */
export function failedEvent(e: unknown, behind: number): HealthEvent {
  const engine = e instanceof EngineFailure ? e : undefined
  const why =
    engine?.brief ?? (e instanceof ProblemsError ? e.problems[0].message : e instanceof Error ? e.message : String(e))
  const rank = engine?.lost[0] ?? engine?.timeOut?.rank
  const step = engine ? behind + 1 : behind
  return found('failed', { step, severity: 'error', numbers: {}, ...(rank !== undefined && { rank }) }, { why })
}
