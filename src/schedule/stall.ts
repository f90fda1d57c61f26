/** Says who waits for whom. */
import type { Problem } from '../base/index.js'
import { Places } from './place.js'
import type { Stop } from './run.js'
import type { Action, Schedule, Task } from './task.js'

const showTask = ({ kind, stage, microbatch }: Task): string => `${stage}${kind}${microbatch}`

export const showAction = (action: Action): string =>
  action.kind === 'overlap' ? `(${action.tasks.map(showTask).join(';')})OVERLAP_F_B` : showTask(action)

export function stallText(schedule: Schedule, { rank, action, waitsFor }: Stop): string {
  const far = new Places(schedule).rankOf(waitsFor.stage, waitsFor.microbatch)
  const where = far === rank ? 'which comes later in its own row' : `on rank ${far}`
  const what =
    waitsFor.kind === 'F'
      ? showTask(waitsFor)
      : `the input gradient of stage ${waitsFor.stage} microbatch ${waitsFor.microbatch}`
  return `rank ${rank} is deadlocked at ${showAction(action)}: it needs ${what}, ${where}`
}

export const stallProblem = (schedule: Schedule, stop: Stop): Problem => ({
  severity: 'error',
  code: 'schedule/stall',
  path: '',
  message: stallText(schedule, stop),
})
