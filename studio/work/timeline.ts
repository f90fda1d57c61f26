/** A simulated step as the timeline draws it: a track for each role whose spans were kept. */
import { labelsOf, type Program, type Simulation, spanKinds } from 'lockstep'
import { type kinds, type TimelineData, trackOf } from '../parts/timeline/track.js'

// The page's own thread imports no values of the core, so its list of kinds is another one: a type error where they differ.
spanKinds satisfies typeof kinds

/** Beyond this many ranks a picture has fewer lines than ranks anyway. */
const mostRanks = 65_536

/** `duration`: of the axis, where it is longer than the step. */
export function timelineOf(
  program: Program,
  { step, roles, roleOf, watched, columnsOf }: Simulation,
  world: number,
  duration: number = step,
): TimelineData {
  const kept = roles.flatMap((role, n) => (watched(role.rank) ? [{ ...role, n }] : []))
  const tracks = kept.map(({ rank, ranks, pp }) => {
    const columns = columnsOf(rank)
    return trackOf({ columns, labels: labelsOf(program, pp, columns) }, { rank, ranks }, duration)
  })
  if (kept.length < roles.length || world > mostRanks || world === kept.length) return { duration, tracks }
  return { duration, tracks, trackOf: Uint16Array.from({ length: world }, (_, rank) => roleOf(rank)) }
}
