/** A timed schedule as lanes and boxes for the timeline. */

import type { Timeline, TimelineSpan } from '../../report/index.js'
import type { Schedule, Slot, Task, Timing } from '../../schedule/index.js'

const labels = { F: 'forward', B: 'backward', I: 'input gradient', W: 'weight gradient' } as const

export function scheduleTimeline(
  schedule: Schedule,
  { makespan, idle, bubble, peak, slots }: Timing,
  title: string,
): Timeline {
  const parts = (slot: Slot) => (slot.action.kind === 'overlap' ? slot.action.tasks : [slot.action])
  const kinds = new Set(slots.flatMap(row => row.flatMap(slot => parts(slot).map(task => task.kind))))
  const named = slots.some(row => new Set(row.flatMap(slot => parts(slot).map(task => task.stage))).size > 1)
  const share = (time: number) => (makespan === 0 ? 0 : (100 * time) / makespan).toFixed(0)
  return {
    title: `${title}: ${slots.length} ranks, ${schedule.stages} stages, ${schedule.microbatches} microbatches`,
    subtitle: `makespan ${makespan}, bubble ${(100 * bubble).toFixed(1)} %; boxes hold ${named ? 'stage:microbatch' : 'the microbatch'}`,
    kinds: (['F', 'B', 'I', 'W'] as const).filter(kind => kinds.has(kind)).map(kind => ({ kind, label: labels[kind] })),
    lanes: slots.map((row, rank) => ({
      label: `rank ${rank}`,
      note: `idle ${share(idle[rank])} %, peak ${peak[rank]}`,
      spans: row.flatMap(slot => parts(slot).map((task, index): TimelineSpan => box(slot, task, index, named))),
    })),
  }
}

function box({ action, start, end }: Slot, task: Task, index: number, named: boolean): TimelineSpan {
  const { kind, stage, microbatch } = task
  return {
    start,
    end,
    kind,
    text: named ? `${stage}:${microbatch}` : String(microbatch),
    title: `${labels[kind]}, stage ${stage}, microbatch ${microbatch}, from ${start} to ${end}`,
    ...(action.kind === 'overlap' ? { band: { index, of: 2 } } : {}),
  }
}
