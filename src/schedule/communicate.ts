/**
 * Where messages go. The schedule is run on paper; the moment a task ends, its send is written into its own row and
 * the receive into its peer's, so both rows agree on one order of all messages. Since each pair is written at one
 * moment, replaying those moments completes even where a send waits for its receive: no placement made this way
 * can stall, whatever the messages' speed. And since a receive is written when its message exists, no rank stands
 * at a receive while it could have computed.
 *
 * Stages on the same rank (the turn of a V) hand over in place. A pair that overlaps sends when both parts are done.
 */
import { ProblemsError } from '../base/index.js'
import { Places } from './place.js'
import { partsOf, type Run, runSchedule, unitCost } from './run.js'
import { stallProblem } from './stall.js'
import type { CommAction, Schedule, Task } from './task.js'

/** Adds sends and receives to a pipeline schedule, in an order that cannot deadlock. */
export function communicate(schedule: Schedule): CommAction[][] {
  const { slots, stops } = runSchedule(schedule, unitCost)
  if (stops.length > 0) throw new ProblemsError(stops.map(stop => stallProblem(schedule, stop)))
  const rows: CommAction[][] = schedule.rows.map(() => [])
  const places = new Places(schedule)
  const [begun, ended] = [new Int32Array(slots.length), new Int32Array(slots.length)]
  for (const { rank, ends } of momentsOf(slots)) {
    if (!ends) rows[rank].push(slots[rank][begun[rank]++].action)
    else for (const task of partsOf(slots[rank][ended[rank]++].action)) transfer(schedule, places, rows, rank, task)
  }
  return rows
}

/**
 * Starts and ends of all actions in time; at one time ends come first, and lower ranks before higher ones.
 * A rank starts at most one action at a time and ends at most one, so a moment is one number and sorts as such.
 */
function* momentsOf(slots: Run['slots']): Generator<{ rank: number; ends: boolean }> {
  const ranks = slots.length
  const moment = (time: number, isStart: 0 | 1, rank: number) => (2 * time + isStart) * ranks + rank
  const moments = new Float64Array(slots.reduce((n, row) => n + 2 * row.length, 0))
  let at = 0
  slots.forEach((row, rank) => {
    for (const { start, end } of row) {
      moments[at++] = moment(start, 1, rank)
      moments[at++] = moment(end, 0, rank)
    }
  })
  for (const value of moments.sort()) yield { rank: value % ranks, ends: Math.floor(value / ranks) % 2 === 0 }
}

function transfer({ stages }: Schedule, places: Places, rows: CommAction[][], rank: number, task: Task): void {
  const { kind, stage, microbatch } = task
  if (kind === 'W') return
  const to = kind === 'F' ? stage + 1 : stage - 1
  if (to < 0 || to >= stages) return
  const peer = places.rankOf(to, microbatch)
  if (peer === rank) return
  const way = kind === 'F' ? 'F' : 'B'
  rows[rank].push({ kind: `SEND_${way}`, stage, microbatch, peer })
  rows[peer].push({ kind: `RECV_${way}`, stage: to, microbatch, peer: rank })
}
