/** What there is to say of checkpoints: those that could not be used, and those that could not be written. */
import type { Problem } from '../base/index.js'
import { found, type HealthEvent } from '../health/index.js'
import type { Beginning } from './checkpoints.js'
import { problemsOf } from './newest.js'
import type { Saved } from './saving.js'

/** Of newer checkpoints than the one a run begins with. */
export const damageEvents = ({ damaged = [], path }: Beginning): HealthEvent[] =>
  damaged.flatMap(checkpoint =>
    problemsOf(checkpoint).map(({ message }) =>
      found(
        'checkpointDamaged/begin',
        { step: 0, severity: 'warning', numbers: { step: checkpoint.step } },
        { why: message, path },
      ),
    ),
  )

/** Nothing where it is written. */
export function savedEvents({ step, path, problems, dropped, stood }: Saved): HealthEvent[] {
  if (dropped) return [found('checkpointDropped', { step, severity: 'warning', numbers: { seconds: stood } }, { path })]
  return problems.map(problem => eventOf(step, problem))
}

const eventOf = (step: number, { code, message }: Problem): HealthEvent =>
  found(
    code === 'checkpoint/damaged' ? 'checkpointDamaged/written' : 'saveFailed',
    { step, severity: 'warning', numbers: {} },
    { why: message },
  )
