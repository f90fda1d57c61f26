/**
 * Parameters are updated one after the other. Where the host does that, gradients of the next few are on their way down while it
 * works, and the parameters before on their way up.
 */
import type { CompiledParam } from '../compiled.js'
import { roundsOf } from '../rounds.js'
import { callOnce, callParam, once } from './calls.js'
import { placed, type StreamContext } from './context.js'
import { dealtFrame, onceFrame } from './frames.js'

/** How many parameters ahead gradients leave: small ones take no time in which that of a large one could come. */
const ahead = 4

const isAway = ({ segments: { down, up } }: CompiledParam) => down !== undefined || up !== undefined

/** The first few gradients leave as soon as they are whole: what is left to do before the first update hides them. */
export function leave(context: StreamContext): void {
  for (const param of context.held.filter(isAway).slice(0, ahead)) start(context, 'down', param)
}

export function updates(context: StreamContext): void {
  const { compiled, held, out } = context
  if (held.length > 0) callOnce(context, [compiled.once.loads.lr])
  const away = held.filter(isAway)
  const here = held.filter(param => !isAway(param))
  for (const param of here) if (!param.segments.deal) callParam(context, param, param.segments.update)
  for (const { params, draft } of roundsOf(here)) {
    for (const param of params) callParam(context, param, param.segments.deal?.mean)
    const names = params.map(({ spec }) => spec.name)
    out.call(placed(context, draft), once, role => dealtFrame(role, names))
    for (const param of params) callParam(context, param, param.segments.update)
  }
  if (away.length === 0) return
  for (const draft of compiled.once.down) out.call(placed(context, draft), { ...once, tag: draft.name }, onceFrame)
  for (const draft of compiled.once.down) out.wait(draft.name)
  for (const [i, param] of away.entries()) {
    start(context, 'down', away[i + ahead])
    finish(context, 'down', param)
    callParam(context, param, param.segments.update)
    start(context, 'up', param)
    finish(context, 'up', away[i - ahead])
  }
  for (const param of away.slice(-ahead)) finish(context, 'up', param)
}

type Way = 'down' | 'up'

const tagOf = (way: Way, { spec }: CompiledParam): string => `${way} ${spec.name}`

function start(context: StreamContext, way: Way, param: CompiledParam | undefined): void {
  if (param) callParam(context, param, param.segments[way], tagOf(way, param))
}

function finish({ out }: StreamContext, way: Way, param: CompiledParam | undefined): void {
  if (param?.segments[way]) out.wait(tagOf(way, param))
}
