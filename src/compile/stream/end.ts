/** What ends a step: gradients are reduced, loss and norm are summed over the ranks, parameters are updated, the step is counted. */
import { evaluates } from '../compiled.js'
import { callOnce, callParam } from './calls.js'
import type { StreamContext } from './context.js'
import { fly } from './flights.js'
import { leave, updates } from './updates.js'

export function end(context: StreamContext): void {
  const { compiled, pp, held, holdsLoss, holdsTerms } = context
  const { once } = compiled
  fly(context, context.flights.plan.end)
  for (const param of held) callParam(context, param, param.segments.reduce)
  if (!evaluates(compiled)) leave(context)
  if (holdsLoss) callOnce(context, once.sumLoss)
  if (holdsTerms) callOnce(context, once.sumTerms)
  // A parameter with several holders counts in the norm of the first.
  for (const param of held) if (param.holders[0] === pp) callParam(context, param, param.segments.norm)
  callOnce(context, once.sumNorm)
  if (evaluates(compiled)) return
  updates(context)
  callOnce(context, once.take)
}
