/** What there is to say of checkpoints: those that could not be used, and those that could not be written. */
import type { Problem } from '../base/index.js'
import type { HealthEvent } from '../health/index.js'
import type { Beginning } from './checkpoints.js'
import { problemsOf } from './newest.js'
import type { Saved } from './saving.js'

/** Of newer checkpoints than the one a run begins with. */
export const damageEvents = ({ damaged = [], path }: Beginning): HealthEvent[] =>
  damaged.flatMap(checkpoint =>
    problemsOf(checkpoint).map(({ message }) => ({
      ...{ step: 0, event: 'checkpointDamaged', severity: 'warning', message },
      ...{ numbers: { step: checkpoint.step }, advice: `${path} is used instead` },
    })),
  )

/** Nothing where it is written. */
export function savedEvents({ step, path, problems, dropped, stood }: Saved): HealthEvent[] {
  if (dropped)
    return [
      {
        ...{ step, event: 'checkpointDropped', severity: 'warning' },
        message: `${path} is not written: the one before it is still being written`,
        numbers: { seconds: stood },
        advice: 'save less often with --save-every, or to a faster disk',
      },
    ]
  return problems.map(problem => eventOf(step, problem))
}

const eventOf = (step: number, { code, message }: Problem): HealthEvent => ({
  step,
  event: code === 'checkpoint/damaged' ? 'checkpointDamaged' : 'saveFailed',
  severity: 'warning',
  message,
  numbers: {},
  advice: 'the run goes on, and tries again at the next checkpoint',
})
