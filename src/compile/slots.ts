/** Where what updates know lies: in frames that other segments see too. */
import type { StateName, StepScalar } from '../base/index.js'
import type { Kind, RoleName } from '../ir/index.js'
import type { Slot } from './segment.js'
import type { ParamClass } from './tail.js'

export const slotOf = (role: RoleName, kind: Kind): Slot => ({ role, kind, offset: 0 })

/** A gradient, where it is added up, or where its sum goes. */
export const at = (is: 'grad' | 'reduced'): Slot => slotOf({ is }, 'gradients')

/** Where a state lies, and what it becomes if the step is taken. */
export const stateSlot = (of: StateName, is: 'state' | 'next'): Slot =>
  slotOf({ is, of }, is === 'state' ? 'optimizer' : 'workspace')

export const gradientOf = ({ spec, gradientDtype }: Pick<ParamClass, 'spec' | 'gradientDtype'>) => ({
  ...spec,
  name: 'grad',
  dtype: gradientDtype,
})

/** Where a number of the whole step lies: a sum of it, one that it is told, or one that lives from step to step. */
export function scalarSlot(of: StepScalar): Slot {
  if (of === 'normSquared') return slotOf({ is: 'result', of }, 'workspace')
  return of === 'lr' ? slotOf({ is: 'named', of }, 'data') : slotOf({ is: 'scalar', of }, 'workspace')
}
