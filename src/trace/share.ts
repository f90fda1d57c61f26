/**
 * Where the time of a step went, as shares of (ranks x time). Computing: spans of the compute and host lanes.
 * Communicating: in a collective that all its members have begun. Waiting: in a collective that some have not begun yet;
 * where ranks share cores, that is mostly for a core. Bubble: waiting for neighbours in the pipeline, and whatever no span
 * covers.
 */
import { worldOf } from '../base/index.js'
import type { Program } from '../ir/index.js'
import { begunIn } from './meet.js'
import { overlapOf } from './round.js'
import { endOf, type Span, startOf } from './span.js'

export interface Shares {
  readonly compute: number
  readonly communication: number
  readonly waiting: number
  readonly bubble: number
  /** Of the time that collectives were in flight, the share in which their rank computed, where any were. */
  readonly overlap?: number
}

export function sharesOf(program: Program, spans: readonly Span[]): Shares {
  const time = (endOf(spans) - startOf(spans)) * worldOf(program.mesh)
  if (!(time > 0)) return { compute: 0, communication: 0, waiting: 0, bubble: 0 }
  const [begun, overlap] = [begunIn(program, spans), overlapOf(program, spans)]
  let [compute, communication, waiting] = [0, 0, 0]
  for (const span of spans) {
    const length = span.end - span.start
    if (span.lane !== 'network') compute += length
    else {
      const all = begun(span)
      if (span.instr < 0 && all === undefined) continue
      const waited = all === undefined ? 0 : Math.min(length, Math.max(0, all - span.start))
      waiting += waited
      communication += length - waited
    }
  }
  return {
    compute: compute / time,
    communication: communication / time,
    waiting: waiting / time,
    bubble: Math.max(0, 1 - (compute + communication + waiting) / time),
    ...(overlap !== undefined && { overlap }),
  }
}
