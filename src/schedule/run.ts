/**
 * Runs a schedule on paper: every rank does its row in order, an action starts when the rank is free and what it
 * needs has arrived. One pass over the actions, whatever their number: a rank that cannot go on is looked at again
 * only when the task it waits for is done. Ranks that are never woken are the stall.
 */
import { cellOf, Places } from './place.js'
import type { Action, Schedule, Task } from './task.js'

/** Time of a forward, of the two halves of a backward, and of a transfer between ranks. */
export interface TaskCost {
  readonly F: number
  readonly I: number
  readonly W: number
  readonly C: number
}

export const unitCost: TaskCost = { F: 1, I: 1, W: 1, C: 0 }

/** The same for every rank, or one for each; a transfer costs what its sender says. */
export type Costs = TaskCost | readonly TaskCost[]

export const costOn = (costs: Costs, rank: number): TaskCost => ('F' in costs ? costs : costs[rank])

export interface Slot {
  readonly action: Action
  readonly start: number
  readonly end: number
}

export interface Stop {
  readonly rank: number
  readonly action: Action
  readonly waitsFor: Task
}

export interface Run {
  /** Per rank, in the order of its row. */
  readonly slots: readonly (readonly Slot[])[]
  /** Ranks that are deadlocked; empty when the schedule completes. */
  readonly stops: readonly Stop[]
}

export const partsOf = (action: Action): readonly Task[] => (action.kind === 'overlap' ? action.tasks : [action])

/** What must be done before a task may start. `B` stands for whichever task makes the input gradient. */
export function needsOf(schedule: Schedule, { kind, stage, microbatch }: Task): Task[] {
  if (kind === 'F') return stage === 0 ? [] : [{ kind: 'F', stage: stage - 1, microbatch }]
  if (kind === 'W') return [{ kind: 'I', stage, microbatch }]
  const own: Task = { kind: 'F', stage, microbatch }
  return stage === schedule.stages - 1 ? [own] : [own, { kind: 'B', stage: stage + 1, microbatch }]
}

const costOf = (cost: TaskCost, { kind }: Task): number => (kind === 'B' ? cost.I + cost.W : cost[kind])

export function runSchedule(schedule: Schedule, costs: Costs): Run {
  const run = new PaperRun(schedule, costs)
  const awake = schedule.rows.map((_, rank) => rank).reverse()
  for (let rank = awake.pop(); rank !== undefined; rank = awake.pop())
    for (let woken = run.advance(rank); woken; woken = run.advance(rank)) awake.push(...woken)
  return { slots: run.slots, stops: run.stops() }
}

class PaperRun {
  readonly slots: Slot[][]
  readonly #schedule: Schedule
  readonly #costs: Costs
  readonly #cells: number
  readonly #places: Places
  /** One number per output of a cell: when its activation is there, then when its input gradient is; -1 before that. */
  readonly #doneAt: Float64Array
  /** Ranks by the output they wait for. */
  readonly #sleepers = new Map<number, number[]>()

  constructor(schedule: Schedule, costs: Costs) {
    this.#schedule = schedule
    this.#costs = costs
    this.#cells = schedule.stages * schedule.microbatches
    this.#places = new Places(schedule)
    this.#doneAt = new Float64Array(2 * this.#cells).fill(-1)
    this.slots = schedule.rows.map(() => [])
  }

  /** Does the next action of a rank and returns whom that wakes; nothing where the row is done or has to wait. */
  advance(rank: number): number[] | undefined {
    const slots = this.slots[rank]
    const action = this.#schedule.rows[rank][slots.length]
    if (!action) return undefined
    const ready = this.#readyAt(rank, action)
    if (typeof ready !== 'number') {
      const output = this.#outputOf(ready)
      this.#sleepers.set(output, [...(this.#sleepers.get(output) ?? []), rank])
      return undefined
    }
    const start = Math.max(ready, slots.at(-1)?.end ?? 0)
    const end = partsOf(action).reduce((time, task) => time + costOf(costOn(this.#costs, rank), task), start)
    slots.push({ action, start, end })
    return this.#finish(action, end)
  }

  stops(): Stop[] {
    return this.#schedule.rows.flatMap((row, rank): Stop[] => {
      const action = row[this.slots[rank].length]
      const waitsFor = action && this.#readyAt(rank, action)
      return waitsFor === undefined || typeof waitsFor === 'number' ? [] : [{ rank, action, waitsFor }]
    })
  }

  #outputOf({ kind, stage, microbatch }: Task): number {
    return cellOf(this.#schedule, stage, microbatch) + (kind === 'F' ? 0 : this.#cells)
  }

  /** When all an action needs is there, or the first thing that is missing. */
  #readyAt(rank: number, action: Action): number | Task {
    let at = 0
    for (const task of partsOf(action))
      for (const need of needsOf(this.#schedule, task)) {
        const done = this.#doneAt[this.#outputOf(need)]
        if (done < 0) return need
        const from = this.#places.rankOf(need.stage, need.microbatch)
        at = Math.max(at, from === rank ? done : done + costOn(this.#costs, from).C)
      }
    return at
  }

  #finish(action: Action, end: number): number[] {
    return partsOf(action)
      .filter(task => task.kind !== 'W')
      .flatMap(task => {
        const output = this.#outputOf(task)
        this.#doneAt[output] = end
        const woken = this.#sleepers.get(output) ?? []
        this.#sleepers.delete(output)
        return woken
      })
  }
}
