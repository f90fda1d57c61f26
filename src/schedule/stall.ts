/** Says who waits for whom. */
import type { Problem, Spoken } from '../base/index.js'
import { clause, refused } from './phrases.js'
import { Places } from './place.js'
import type { Stop } from './run.js'
import type { Action, Schedule, Task } from './task.js'

const showTask = ({ kind, stage, microbatch }: Task): string => `${stage}${kind}${microbatch}`

export const showAction = (action: Action): string =>
  action.kind === 'overlap' ? `(${action.tasks.map(showTask).join(';')})OVERLAP_F_B` : showTask(action)

/** What stands in the gaps of '.stalled'. */
export function stallSaid(schedule: Schedule, { rank, action, waitsFor }: Stop): Spoken {
  const { kind, stage, microbatch } = waitsFor
  const far = new Places(schedule).rankOf(stage, microbatch)
  return clause('.stalled', {
    ...{ rank, action: showAction(action) },
    what: kind === 'F' ? showTask(waitsFor) : clause('.gradient', { stage, microbatch }),
    where: far === rank ? clause('.later') : clause('.on-rank', { rank: far }),
  })
}

export const stallProblem = (schedule: Schedule, stop: Stop): Problem =>
  refused('', 'schedule/stall', { what: stallSaid(schedule, stop) })
