/** The plan's promise: what each rank needed at its peak, beside what the program said before anything ran. */
import { coordinatesOf } from '../base/index.js'
import { type Kind, kinds } from '../ir/index.js'
import type { Session } from './session.js'

/** Peak bytes by rank and category. */
export interface Peaks {
  readonly planned: readonly Readonly<Record<Kind, number>>[]
  readonly measured: readonly Readonly<Record<Kind, number>>[]
  /** The first rank whose memory differs from the plan by a byte or more; -1: none. */
  readonly wrong: number
}

/** Planned and measured peak memory of a session, per rank and category. */
export function peaksOf({ program, trainer: { peaks } }: Pick<Session, 'program' | 'trainer'>): Peaks {
  const planned = peaks.map((_, rank) => program.streams[coordinatesOf(program.mesh, rank).pp ?? 0].peak)
  const wrong = peaks.findIndex((peak, rank) => kinds.some(kind => peak[kind] !== planned[rank][kind]))
  return { planned, measured: peaks, wrong }
}
