/** A step of a run as the timeline draws it: a track a rank. */
import type { SeenStep } from 'lockstep'
import { type TimelineData, trackOf } from '../../parts/timeline/track.js'

export const timelineOfStep = ({ ranks }: SeenStep, duration: number): TimelineData => ({
  duration,
  tracks: ranks.map((spans, rank) => trackOf(spans, { rank, ranks: 1 }, duration)),
})
