/** Whether bits are what they should be: copies that are alike, and steps that give the same when they are run again. */
import type { Problem, Spoken } from '../base/index.js'
import type { Disagreement, StepData } from '../engine/index.js'
import { clause, found, type HealthEvent } from '../health/index.js'
import { placeWords, stateOf } from './not-finite.js'
import { runRefused } from './phrases.js'
import type { Session } from './session.js'

/** How often what is checked; without a number: never. */
export interface BitChecks {
  /** After every so many steps the copies of all parameters and states are hashed and compared. */
  readonly hashEvery?: number | undefined
  /** Before every so many steps the step is run twice, a command at a time, and compared. */
  readonly replayEvery?: number | undefined
}

const isIt = (step: number, every: number | undefined): boolean => every !== undefined && step % every === 0

/** What comparing the replicas of parameters and states has shown so far. */
export interface ReplicaState {
  /** The last step after which all replicas were equal; a run begins with equal ones. */
  readonly equal: number
  /** The first step after which some were not: the state of every step after `equal` is suspect. */
  readonly differ?: number
}

export interface ReplicaChecks {
  /** Undefined: replicas are not compared. */
  readonly state: ReplicaState | undefined
  /** Compares them where that is due after this step. */
  after(step: number): HealthEvent[]
}

/** Compares the replicas of a session with so many steps behind it. */
export function replicaChecks(
  { trainer }: Pick<Session, 'trainer'>,
  behind: number,
  { hashEvery }: BitChecks,
): ReplicaChecks {
  let state: ReplicaState = { equal: behind }
  return {
    get state() {
      return hashEvery === undefined ? undefined : state
    },
    after(step) {
      if (!isIt(step, hashEvery)) return []
      const found = trainer.replicas()
      const differ = state.differ ?? (found.length > 0 ? step : undefined)
      state = differ === undefined ? { equal: step } : { equal: state.equal, differ }
      return found.map(one => eventOf(one, step, state.equal))
    },
  }
}

/** Goes back to the last state whose replicas were equal. */
const resumeWords = (equal: number): Spoken => (equal > 0 ? clause('.resume', { step: equal }) : clause('.start-again'))

/** Of a run that has gone on with replicas that differ. */
export function replicaProblems({ replicas }: Pick<Session, 'replicas'>): Problem[] {
  if (replicas?.differ === undefined) return []
  const { differ: step, equal } = replicas
  return [equal > 0 ? runRefused('', 'run/replicas', { step, equal }) : runRefused('', 'run/replicas/start', { step })]
}

function eventOf({ parameter, state, holders, odd }: Disagreement, step: number, equal: number): HealthEvent {
  const others = { joint: 'and', of: holders.flatMap(({ rank }) => (odd?.includes(rank) ? [] : [rank])) } as const
  const words = { what: stateOf(parameter, state), others, resume: resumeWords(equal) }
  const facts = {
    ...{ step, severity: 'error' as const, ...(odd?.length === 1 && { rank: odd[0] }) },
    numbers: { holders: holders.length, odd: odd?.length ?? holders.length, equal },
  }
  return odd
    ? found(odd.length > 1 ? 'replicasDiffer/several' : 'replicasDiffer/odd', facts, {
        ...words,
        odd: { joint: 'and', of: odd },
      })
    : found('replicasDiffer/all', facts, words)
}

/** What running a step twice shows, before it is taken. */
export async function replayEvents(
  { program, trainer }: Pick<Session, 'program' | 'trainer'>,
  data: StepData,
  { replayEvery }: BitChecks,
): Promise<HealthEvent[]> {
  const step = data.step + 1
  if (!isIt(step, replayEvery) || !trainer.replay) return []
  const { differs } = await trainer.replay(data)
  if (!differs) return []
  return [
    found(
      'replicasDiffer/again',
      { step, severity: 'error', rank: differs.rank, numbers: {} },
      placeWords(program, differs),
    ),
  ]
}
