/** Offload: what of it makes no sense, or is not there yet. */
import { type Elsewhere, either, error, optimizerFacts, optimizerKinds, paramRoles } from '../base/index.js'
import type { Offload } from './offload-schema.js'
import { toldFor } from './optimizer.js'
import type { Rule } from './rule.js'
import type { Plan } from './schema.js'

const nothingAway: Offload = { optimizer: 'device', activations: 'none', parameters: 'device' }

export const offloadOf = ({ offload }: Pick<Plan, 'offload'>): Offload => offload ?? nothingAway

/** Where masters and moments live, as frames say it: nothing is said of the device. */
export function stateSpace(plan: Pick<Plan, 'offload'>): { readonly space?: Elsewhere } {
  const { optimizer: space } = offloadOf(plan)
  return space === 'device' ? {} : { space }
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
  if (parameters !== 'device')
    yield error('plan/offload', 'plan.offload.parameters', `not supported yet: ${parameters}`, 'try device')
}
