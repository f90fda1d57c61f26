/** Offload: what of it makes no sense, or is not there yet. */
import { type Elsewhere, either, error, optimizerFacts, optimizerKinds, paramRoles } from '../base/index.js'
import type { Offload } from './offload-schema.js'
import { toldFor } from './optimizer.js'
import type { Rule } from './rule.js'
import type { Plan } from './schema.js'

const nothingAway: Offload = { optimizer: 'device', activations: 'none', parameters: 'device' }

export const offloadOf = ({ offload }: Pick<Plan, 'offload'>): Offload => offload ?? nothingAway

/** A space as frames say it: nothing is said of the device. */
export interface Residence {
  readonly space?: Elsewhere
}

/** Where masters and moments live. */
export function stateSpace(plan: Pick<Plan, 'offload'>): Residence {
  const { optimizer: space } = offloadOf(plan)
  return space === 'device' ? {} : { space }
}

/** Where the parts of parameters live between their gathers; what follows counts is small, and stays. */
export function paramSpace(plan: Pick<Plan, 'offload'>, { balance }: { readonly balance?: unknown }): Residence {
  return offloadOf(plan).parameters === 'device' || balance !== undefined ? {} : { space: 'host' }
}

/** Element by element: what must know the whole parameter first meets other ranks, which hosts do not. */
const worksOnHost = optimizerKinds.filter(kind => optimizerFacts[kind].given === undefined)

export const offload: Rule = function* ({ training, plan }) {
  const { optimizer, parameters } = offloadOf(plan)
  const used = new Set(paramRoles.map(role => toldFor(training, role).optimizer.kind))
  const meets = [...used].find(kind => !worksOnHost.includes(kind))
  if (optimizer !== 'device' && meets !== undefined)
    yield error(
      'plan/offload',
      'plan.offload.optimizer',
      `${meets} needs whole parameters, for which ranks would have to meet on the ${optimizer}`,
      `leave it at device, or try training.optimizer.kind ${either(worksOnHost)}`,
    )
  if (parameters !== 'device' && plan.zero < 3)
    yield error(
      'plan/offload',
      'plan.offload.parameters',
      `under ZeRO-${plan.zero} the device keeps whole parameters from step to step: nothing would bring them from the ${parameters}`,
      'try zero 3',
    )
}
