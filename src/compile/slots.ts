/** Where what updates know lies: in frames that other segments see too. */
import type { StateName, StepScalar } from '../base/index.js'
import type { Kind, RoleName } from '../ir/index.js'
import type { TrainedBy } from './compiled.js'
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

/** Where a number of the whole step lies that lives from step to step, or that it is told. */
export const scalarSlot = (of: Exclude<StepScalar, 'normSquared'>): Slot =>
  of === 'lr' ? slotOf({ is: 'named', of }, 'data') : slotOf({ is: 'scalar', of }, 'workspace')

/** The square of the norm of the whole gradient, as it was summed. */
export const normSlot = slotOf({ is: 'result', of: 'normSquared' }, 'workspace')
/** And as it was weighed, where some norms are too large. */
export const weighedSlot = slotOf({ is: 'named', of: 'weighed' }, 'workspace')

/** Where what a step changes for the next one finds its numbers. */
export const readSlot = (of: StepScalar, training: Pick<TrainedBy, 'spikes'>): Slot =>
  of !== 'normSquared' ? scalarSlot(of) : weighs(training) ? weighedSlot : normSlot

/** Whether the run tells each step which norms are too large for it. */
export const weighs = ({ spikes }: Pick<TrainedBy, 'spikes'>): boolean => spikes === 'skip'
