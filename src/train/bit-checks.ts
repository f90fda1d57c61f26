/** Whether bits are what they should be: copies that are alike, and steps that give the same when they are run again. */
import { either } from '../base/index.js'
import type { Disagreement, StepData } from '../engine/index.js'
import type { HealthEvent } from '../health/index.js'
import { unlike } from './not-finite.js'
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
  const what = state === undefined ? parameter : `the ${state} of ${parameter}`
  const others = holders.flatMap(({ rank }) => (odd?.includes(rank) ? [] : [rank]))
  const message = odd
    ? `${what}: rank ${either(odd, 'and')} ${odd.length > 1 ? 'have' : 'has'} other bits than rank ${either(others, 'and')}, which agree`
    : `${what}: ranks ${either(others, 'and')} should hold the same and do not; which is right nobody can tell`
  return {
    ...{ step, event: 'replicasDiffer', severity: 'error', message },
    ...(odd?.length === 1 && { rank: odd[0] }),
    numbers: { holders: holders.length, odd: odd?.length ?? holders.length },
    advice: `resume from a checkpoint before step ${step}, and suspect the machine of ${odd ? 'that rank' : 'these ranks'}`,
  }
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
    {
      ...{ step, event: 'replicasDiffer', severity: 'error', rank: differs.rank, numbers: {} },
      message: unlike(program, differs),
      advice: 'suspect the machine of that rank: memory or a core that fails now and then',
    },
  ]
}
