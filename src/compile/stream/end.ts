/** What ends a step: gradients are reduced, loss and norm are summed over the ranks, parameters are updated, the step is counted. */
import { agreementsOf } from '../agreements.js'
import { evaluates } from '../compiled.js'
import { callOnce, callParam, once } from './calls.js'
import { placed, type StreamContext } from './context.js'
import { fly } from './flights.js'
import { agreedFrame } from './frames.js'
import { leave, updates } from './updates.js'

export function end(context: StreamContext): void {
  const { compiled, pp, held, holdsLoss, holdsTerms, out } = context
  const { once: ends } = compiled
  fly(context, context.flights.plan.end)
  for (const param of held) callParam(context, param, param.segments.reduce)
  for (const { params, draft } of agreementsOf(compiled.s, held)) {
    const names = params.map(({ spec }) => spec.name)
    out.call(placed(context, draft), once, role => agreedFrame(role, names))
  }
  if (!evaluates(compiled)) leave(context)
  if (holdsLoss) callOnce(context, ends.sumLoss)
  if (holdsTerms) callOnce(context, ends.sumTerms)
  // A parameter with several holders counts in the norm of the first.
  for (const param of held) if (param.holders[0] === pp) callParam(context, param, param.segments.norm)
  callOnce(context, ends.sumNorm)
  if (evaluates(compiled)) return
  callOnce(context, ends.weigh.length > 0 ? [ends.loads.limit, ...ends.weigh] : [])
  updates(context)
  callOnce(context, ends.take)
}
