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

/** The rank of every cell of a schedule. */
export class Places {
  readonly #schedule: Schedule
  readonly #ranks: Int32Array

  constructor(schedule: Schedule) {
    this.#schedule = schedule
    this.#ranks = new Int32Array(schedule.stages * schedule.microbatches).fill(-1)
    schedule.rows.forEach((row, rank) => {
      for (const { stage, microbatch } of tasksOf(row)) this.#ranks[cellOf(schedule, stage, microbatch)] = rank
    })
  }

  /** -1 where no task names it. */
  rankOf(stage: number, microbatch: number): number {
    return this.#ranks[cellOf(this.#schedule, stage, microbatch)]
  }

  /** The ranks that hold a stage's parameters, lowest first: one, or two under DualPipe. */
  holders(stage: number): number[] {
    const from = cellOf(this.#schedule, stage, 0)
    return [...new Set(this.#ranks.subarray(from, from + this.#schedule.microbatches))].sort((a, b) => a - b)
  }
}
