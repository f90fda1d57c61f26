/** Offload: what of it makes no sense, or is not there yet. */
import { type Elsewhere, type OptimizerKind, optimizerFacts } from '../base/index.js'
import { isFollower, type ParamSpec } from '../model/index.js'
import type { Offload } from './offload-schema.js'
import { refused } from './phrases.js'
import type { Rule } from './rule.js'
import type { Plan } from './schema.js'

const nothingAway: Offload = { optimizer: 'device', activations: 'none', layerInputs: 'host', parameters: 'device' }

export const offloadOf = ({ offload }: Pick<Plan, 'offload'>): Offload => offload ?? nothingAway

/** A space as frames say it: nothing is said of the device. */
export interface Residence {
  readonly space?: Elsewhere
}

/** Where masters and moments live; what is no optimizer's stays. */
export function stateSpace(plan: Pick<Plan, 'offload'>, of?: Pick<ParamSpec, 'balance' | 'track'>): Residence {
  const { optimizer: space } = offloadOf(plan)
  return space === 'device' || (of && isFollower(of)) ? {} : { space }
}

/** Where the parts of parameters live between their gathers; what follows counts is small, and stays. */
export function paramSpace(plan: Pick<Plan, 'offload'>, spec: Pick<ParamSpec, 'balance' | 'track'>): Residence {
  const { parameters: space } = offloadOf(plan)
  return space === 'device' || isFollower(spec) ? {} : { space }
}

/**
 * Where parameters are updated: on the host where their states are not on the device, unless the optimizer must know whole parameters
 * first. Then ranks meet, which hosts do not, and states visit the device.
 */
export function updateSpace(plan: Pick<Plan, 'offload'>, { kind }: { readonly kind: OptimizerKind }): Residence {
  const staysAway = stateSpace(plan).space !== undefined && optimizerFacts[kind].given === undefined
  return staysAway ? { space: 'host' } : {}
}

export const offload: Rule = function* ({ plan }) {
  const { parameters } = offloadOf(plan)
  if (parameters !== 'device' && plan.zero < 3)
    yield refused('plan.offload.parameters', 'plan/offload', { zero: plan.zero, space: parameters })
}
