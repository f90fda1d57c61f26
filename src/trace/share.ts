/**
 * Where the time of a step went, as shares of (ranks x time). Computing: spans of the compute and host lanes.
 * Communicating: collectives, the time a rank waits in them for the others included. Bubble: waiting for neighbours in the pipeline, and whatever no span covers.
 */
import { worldOf } from '../base/index.js'
import type { Program } from '../ir/index.js'
import { endOf, type Span, startOf } from './span.js'

export interface Shares {
  readonly compute: number
  readonly communication: number
  readonly bubble: number
}

export function sharesOf(program: Program, spans: readonly Span[]): Shares {
  const time = (endOf(spans) - startOf(spans)) * worldOf(program.mesh)
  if (!(time > 0)) return { compute: 0, communication: 0, bubble: 0 }
  let [compute, communication] = [0, 0]
  for (const { lane, instr, start, end } of spans)
    if (lane !== 'network') compute += end - start
    else if (instr >= 0) communication += end - start
  return {
    compute: compute / time,
    communication: communication / time,
    bubble: Math.max(0, 1 - (compute + communication) / time),
  }
}
