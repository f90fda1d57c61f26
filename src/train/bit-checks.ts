/** Whether bits are what they should be: copies that are alike, and steps that give the same when they are run again. */
import type { Disagreement, StepData } from '../engine/index.js'
import { found, type HealthEvent } from '../health/index.js'
import { placeWords, stateOf } from './not-finite.js'
import type { Session } from './session.js'

/** How often what is checked; without a number: never. */
export interface BitChecks {
  /** After every so many steps the copies of all parameters and states are hashed and compared. */
  readonly hashEvery?: number | undefined
  /** Before every so many steps the step is run twice, a command at a time, and compared. */
  readonly replayEvery?: number | undefined
}

const isIt = (step: number, every: number | undefined): boolean => every !== undefined && step % every === 0

/** What copies show after a step; steps count from 1. */
export function replicaEvents(
  { trainer }: Pick<Session, 'trainer'>,
  step: number,
  { hashEvery }: BitChecks,
): HealthEvent[] {
  return isIt(step, hashEvery) ? trainer.replicas().map(one => eventOf(one, step)) : []
}

function eventOf({ parameter, state, holders, odd }: Disagreement, step: number): HealthEvent {
  const others = { joint: 'and', of: holders.flatMap(({ rank }) => (odd?.includes(rank) ? [] : [rank])) } as const
  const words = { what: stateOf(parameter, state), others, step }
  const facts = {
    ...{ step, severity: 'error' as const, ...(odd?.length === 1 && { rank: odd[0] }) },
    numbers: { holders: holders.length, odd: odd?.length ?? holders.length },
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
