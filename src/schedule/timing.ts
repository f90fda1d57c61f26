/** What a schedule costs, counted in tasks: how long it takes, who idles, and how many activations are alive. */
import { ProblemsError } from '../base/index.js'
import { type Costs, partsOf, runSchedule, type Slot, unitCost } from './run.js'
import { stallProblem } from './stall.js'
import type { Action, Schedule } from './task.js'

export interface Timing {
  readonly makespan: number
  /** The longest time of a rank from its first task to its last: what a step takes where no rank waits for the others. */
  readonly span: number
  /** Per rank, over the whole makespan. */
  readonly idle: readonly number[]
  /** The idle share of all ranks' time. */
  readonly bubble: number
  /** Per rank: the most held at once; activations, in chunks, from their forward until their last backward. */
  readonly peak: readonly number[]
  /** Per rank: every action with its start and end. */
  readonly slots: readonly (readonly Slot[])[]
}

/** What a microbatch holds on a rank from its forward to its input gradient, and from there to its weight gradient. */
export interface Held {
  readonly I: number
  readonly W: number
}

export const wholeActivation: Held = { I: 1, W: 1 }

/** Plays a pipeline schedule with the costs of its tasks: makespan, bubble and activations held. */
export function timing(schedule: Schedule, costs: Costs = unitCost, held: Held = wholeActivation): Timing {
  const { slots, stops } = runSchedule(schedule, costs)
  if (stops.length > 0) throw new ProblemsError(stops.map(stop => stallProblem(schedule, stop)))
  const makespan = slots.reduce((end, row) => Math.max(end, row.at(-1)?.end ?? 0), 0)
  const span = slots.reduce((most, row) => Math.max(most, (row.at(-1)?.end ?? 0) - (row[0]?.start ?? 0)), 0)
  const idle = slots.map(row => row.reduce((left, slot) => left - (slot.end - slot.start), makespan))
  const all = makespan * slots.length
  return {
    makespan,
    span,
    idle,
    bubble: all === 0 ? 0 : idle.reduce((a, b) => a + b, 0) / all,
    peak: schedule.rows.map(row => peakOf(row, held)),
    slots,
  }
}

/** In a pair that overlaps, the forward's activation is there before the backward's is gone. */
export function peakOf(row: readonly Action[], held: Held): number {
  const change = { F: held.I, I: held.W - held.I, W: -held.W, B: -held.I }
  let [now, peak] = [0, 0]
  for (const action of row)
    for (const { kind } of partsOf(action)) {
      now += change[kind]
      peak = Math.max(peak, now)
    }
  return peak
}
