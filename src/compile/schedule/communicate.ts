/**
 * Where messages go. The schedule is run on paper; the moment a task ends, its send is written into its own row and
 * the receive into its peer's, so both rows agree on one order of all messages. Since each pair is written at one
 * moment, replaying those moments completes even where a send waits for its receive: no placement made this way
 * can stall, whatever the messages' speed. And since a receive is written when its message exists, no rank stands
 * at a receive while it could have computed.
 *
 * Stages on the same rank (the turn of a V) hand over in place. A pair that overlaps sends when both parts are done.
 */
import { ProblemsError } from '../../base/index.js'
import { rankOf } from './place.js'
import { partsOf, runSchedule, unitCost } from './run.js'
import { stallText } from './stall.js'
import type { Action, CommAction, Schedule, Task } from './task.js'

interface Moment {
  readonly time: number
  readonly rank: number
  readonly action: Action
  readonly ends: boolean
}

export function communicate(schedule: Schedule): CommAction[][] {
  const rows: CommAction[][] = schedule.rows.map(() => [])
  for (const { rank, action, ends } of momentsOf(schedule)) {
    if (!ends) rows[rank].push(action)
    else for (const task of partsOf(action)) transfer(schedule, rows, rank, task)
  }
  return rows
}

/** Starts and ends of all actions in time; at one time ends come first, and lower ranks before higher ones. */
function momentsOf(schedule: Schedule): Moment[] {
  const { slots, stops } = runSchedule(schedule, unitCost)
  if (stops.length > 0)
    throw new ProblemsError(
      stops.map(stop => ({ severity: 'error', code: 'schedule/stall', path: '', message: stallText(schedule, stop) })),
    )
  return slots
    .flatMap((row, rank) =>
      row.flatMap(({ action, start, end }): Moment[] => [
        { time: start, rank, action, ends: false },
        { time: end, rank, action, ends: true },
      ]),
    )
    .sort((a, b) => a.time - b.time || Number(b.ends) - Number(a.ends) || a.rank - b.rank)
}

function transfer(schedule: Schedule, rows: CommAction[][], rank: number, { kind, stage, microbatch }: Task): void {
  if (kind === 'W') return
  const to = kind === 'F' ? stage + 1 : stage - 1
  if (to < 0 || to >= schedule.stages) return
  const peer = rankOf(schedule, to, microbatch)
  if (peer === rank) return
  const way = kind === 'F' ? 'F' : 'B'
  rows[rank].push({ kind: `SEND_${way}`, stage, microbatch, peer })
  rows[peer].push({ kind: `RECV_${way}`, stage: to, microbatch, peer: rank })
}
