/**
 * Where the time of a step went, as shares of (ranks x time). Computing: spans of the compute and host lanes.
 * Communicating: in a collective that all its members have begun. Waiting: in a collective that some have not begun yet;
 * where ranks share cores, that is mostly for a core. Bubble: waiting for neighbors in the pipeline, and whatever no span
 * covers. Without a pipeline there is no bubble: what no span covers is waiting too.
 */
import type { Program } from '../ir/index.js'
import { type RankTimes, rankTimesOf } from './ranks.js'
import { overlapOf } from './round.js'
import type { Span } from './span.js'

export interface Shares {
  readonly compute: number
  readonly communication: number
  readonly waiting: number
  readonly bubble: number
  /** Of the time that collectives were in flight, the share in which their rank computed, where any were. */
  readonly overlap?: number
}

/** Fractions of the step that ranks spend computing, communicating, waiting and in the bubble. */
export const sharesOf = (program: Program, spans: readonly Span[]): Shares => {
  const overlap = overlapOf(program, spans)
  return {
    ...sharesOfRanks(rankTimesOf(program, spans), program.streams.length),
    ...(overlap !== undefined && { overlap }),
  }
}

/** All ranks together, of a pipeline with this number of stages. */
export function sharesOfRanks(
  { seconds, compute, network, waiting }: RankTimes,
  stages: number,
): Omit<Shares, 'overlap'> {
  const time = seconds * compute.length
  if (!(time > 0)) return { compute: 0, communication: 0, waiting: 0, bubble: 0 }
  const total = (all: readonly number[]) => all.reduce((sum, own) => sum + own, 0) / time
  const [computing, waited] = [total(compute), total(waiting)]
  const communication = Object.values(network).reduce((sum, along) => sum + total(along), 0)
  const rest = Math.max(0, 1 - computing - communication - waited)
  return stages === 1
    ? { compute: computing, communication, waiting: waited + rest, bubble: 0 }
    : { compute: computing, communication, waiting: waited, bubble: rest }
}
