/**
 * Runs a schedule on paper: every rank does its row in order, an action starts when the rank is free and what it
 * needs has arrived. One pass over the actions, whatever their number: a rank that cannot go on is looked at again
 * only when the task it waits for is done. Ranks that are never woken are the stall.
 */
import { cellOf, placesOf } from './place.js'
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
  /** Ranks that wait for ever; empty when the schedule completes. */
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
  const cells = schedule.stages * schedule.microbatches
  const places = placesOf(schedule)
  // One slot per output of a cell: its activation, then its input gradient.
  const doneAt = new Float64Array(2 * cells).fill(-1)
  const outputOf = (task: Task) => cellOf(schedule, task.stage, task.microbatch) + (task.kind === 'F' ? 0 : cells)
  const slots: Slot[][] = schedule.rows.map(() => [])
  const sleepers = new Map<number, number[]>()

  /** When all an action needs is there, or the first thing that is missing. */
  const readyAt = (rank: number, action: Action): number | Task => {
    let at = 0
    for (const task of partsOf(action))
      for (const need of needsOf(schedule, task)) {
        const done = doneAt[outputOf(need)]
        if (done < 0) return need
        const from = places[cellOf(schedule, need.stage, need.microbatch)]
        at = Math.max(at, from === rank ? done : done + costOn(costs, from).C)
      }
    return at
  }

  const finish = (action: Action, end: number): number[] =>
    partsOf(action)
      .filter(task => task.kind !== 'W')
      .flatMap(task => {
        const output = outputOf(task)
        doneAt[output] = end
        const woken = sleepers.get(output) ?? []
        sleepers.delete(output)
        return woken
      })

  const awake = schedule.rows.map((_, rank) => rank).reverse()
  for (let rank = awake.pop(); rank !== undefined; rank = awake.pop()) {
    const row = schedule.rows[rank]
    while (slots[rank].length < row.length) {
      const action = row[slots[rank].length]
      const ready = readyAt(rank, action)
      if (typeof ready !== 'number') {
        const output = outputOf(ready)
        sleepers.set(output, [...(sleepers.get(output) ?? []), rank])
        break
      }
      const start = Math.max(ready, slots[rank].at(-1)?.end ?? 0)
      const end = partsOf(action).reduce((time, task) => time + costOf(costOn(costs, rank), task), start)
      slots[rank].push({ action, start, end })
      awake.push(...finish(action, end))
    }
  }

  const stops = schedule.rows.flatMap((row, rank): Stop[] => {
    if (slots[rank].length === row.length) return []
    const action = row[slots[rank].length]
    const waitsFor = readyAt(rank, action)
    return typeof waitsFor === 'number' ? [] : [{ rank, action, waitsFor }]
  })
  return { slots, stops }
}
