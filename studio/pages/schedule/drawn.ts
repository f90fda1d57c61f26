/** Many boxes, as the timeline draws them. */
import { kinds, laneOf, type Spans, type TimelineData } from '../../parts/timeline/track.js'
import type { Box, ScheduleAnswer } from '../../work/schedule.js'

const spansOf = (boxes: readonly Box[]): Spans => ({
  start: Float64Array.from(boxes, box => box.start),
  end: Float64Array.from(boxes, box => box.end),
  kind: Uint8Array.from(boxes, box => kinds.indexOf(box.kind)),
  stage: Int32Array.from(boxes, box => box.stage),
  microbatch: Int32Array.from(boxes, box => box.microbatch),
  op: new Uint8Array(boxes.length),
})

export const asTimeline = ({ rows, makespan }: ScheduleAnswer): TimelineData => ({
  duration: makespan,
  tracks: rows.map((boxes, rank) => ({
    ...{ rank, ranks: 1, ops: [] },
    compute: laneOf(spansOf(boxes.filter(box => !box.band)), makespan),
    network: laneOf(spansOf(boxes.filter(box => box.band)), makespan),
  })),
})
