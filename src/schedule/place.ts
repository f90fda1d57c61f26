/**
 * Where stages live. On a loop, stage s is on rank s mod p, so each hop is to the next rank and the last rank
 * hands back to the first. On a V, stage s goes down the ranks and stage 2p-1-s comes back up, so the first rank
 * holds both ends and the turn at the bottom needs no transfer. DualPipe holds every stage twice, which is why
 * the place of a stage may depend on the microbatch.
 */
import { type Schedule, tasksOf } from './task.js'

export const loopStage = (ranks: number, rank: number, chunk: number): number => chunk * ranks + rank

export const vStage = (ranks: number, rank: number, chunk: number): number =>
  chunk === 0 ? rank : 2 * ranks - 1 - rank

/** One number per (stage, microbatch). */
export const cellOf = (schedule: Schedule, stage: number, microbatch: number): number =>
  stage * schedule.microbatches + microbatch

const places = new WeakMap<Schedule, Int32Array>()

/** The rank of every cell; -1 where no task names it. Schedules are immutable, so it is worked out once. */
export function placesOf(schedule: Schedule): Int32Array {
  const known = places.get(schedule)
  if (known) return known
  const found = new Int32Array(schedule.stages * schedule.microbatches).fill(-1)
  schedule.rows.forEach((row, rank) => {
    for (const { stage, microbatch } of tasksOf(row)) found[cellOf(schedule, stage, microbatch)] = rank
  })
  places.set(schedule, found)
  return found
}

export const rankOf = (schedule: Schedule, stage: number, microbatch: number): number =>
  placesOf(schedule)[cellOf(schedule, stage, microbatch)]

/** The ranks that hold a stage's parameters, lowest first: one, or two under DualPipe. */
export function holders(schedule: Schedule, stage: number): number[] {
  const from = cellOf(schedule, stage, 0)
  return [...new Set(placesOf(schedule).subarray(from, from + schedule.microbatches))].sort((a, b) => a - b)
}
