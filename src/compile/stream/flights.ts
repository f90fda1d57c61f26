/**
 * The flights of a stream: a call that only starts, the wait for it, and the call that adds up what arrived. What lives elsewhere is
 * lifted before, and waited for where nobody else holds a part of it; what travels in fewer bits is packed before and unpacked after.
 */
import type { RoleName } from '../../ir/index.js'
import type { Flight, FlightEvent } from '../../schedule/index.js'
import { namesIn } from '../flight-segments.js'
import type { SegmentDraft } from '../segment.js'
import { once } from './calls.js'
import { placed, type StreamContext } from './context.js'
import { frameNames, unplayed } from './frames.js'

export function fly(context: StreamContext, events: readonly FlightEvent[]): void {
  const { out, flights } = context
  for (const { event, flight } of events) {
    const { lifts, packs, moves, unpacks, adds } = flights.segments.get(flight)!
    const frameOf = framesOf(context, flight)
    const call = (draft: SegmentDraft | undefined) => draft && out.call(placed(context, draft), once, frameOf)
    const [lifted, gathers] = [`lift ${flight.tag}`, moves.instrs.length > 0 || packs !== undefined]
    if (event === 'lift') {
      if (lifts) out.call(placed(context, lifts), { ...once, tag: lifted }, frameOf)
    } else if (event === 'start') {
      if (lifts && gathers) out.wait(lifted)
      call(packs)
      if (moves.instrs.length > 0) out.call(placed(context, moves), { ...once, tag: flight.tag }, frameOf)
    } else if (event === 'wait') {
      if (lifts && !gathers) out.wait(lifted)
      if (moves.instrs.length > 0) out.wait(flight.tag)
      call(unpacks)
    } else call(adds)
  }
}

/** What plays each role of a flight's segments. */
function framesOf(
  { paramOf }: StreamContext,
  { params, call, calls, tag }: Flight,
): (role: RoleName) => string | undefined {
  const names = namesIn(params.map(paramOf))
  return role => {
    if (role.is === 'scratch') return undefined
    const param = 'of' in role ? params[names.indexOf(role.of!)] : undefined
    if (param === undefined) return unplayed(role)
    switch (role.is) {
      case 'param':
        return paramOf(param).segments.space ? frameNames.part(tag, param) : frameNames.param(param)
      case 'away':
        return frameNames.param(param)
      case 'grad':
        return frameNames.grad(param)
      case 'full':
        return frameNames.full(param, call)
      case 'fresh':
        return frameNames.fresh(param, call!)
      case 'addend':
        return calls ? frameNames.fresh(param, calls[role.rank]) : frameNames.addend(param, role.rank)
      case 'wire':
      case 'arrived':
        return frameNames[role.is](tag, param)
      default:
        return unplayed(role)
    }
  }
}
