/**
 * Is this a training step? Every microbatch passes every stage exactly once forward and once back (whole, or input
 * gradient then weight gradient), in that order, on one rank; and the rows together never wait in a circle.
 * The last is asked only of schedules that pass the rest.
 */
import { runSchedule, unitCost } from './run.js'
import { showAction, stallText } from './stall.js'
import type { Schedule, Task, TaskKind } from './task.js'
import { tasksOf } from './task.js'

const mostProblems = 50

interface Visit {
  readonly rank: number
  readonly at: number
}
type Visits = Partial<Record<TaskKind, Visit[]>>

export function validate(schedule: Schedule): string[] {
  const problems = [...shapeProblems(schedule)]
  if (problems.length === 0) problems.push(...cellProblems(schedule))
  if (problems.length === 0)
    problems.push(...runSchedule(schedule, unitCost).stops.map(stop => stallText(schedule, stop)))
  const more = problems.length - mostProblems
  return more > 0 ? [...problems.slice(0, mostProblems), `and ${more} more`] : problems
}

function shapeProblems({ stages, microbatches, rows }: Schedule): string[] {
  const inside = (index: number, count: number) => Number.isSafeInteger(index) && index >= 0 && index < count
  const outside = rows.flatMap((row, rank) =>
    tasksOf(row)
      .filter(task => !inside(task.stage, stages) || !inside(task.microbatch, microbatches))
      .map(task => `rank ${rank}: ${showAction(task)} is outside of ${stages} stages x ${microbatches} microbatches`),
  )
  const empty = rows.flatMap((row, rank) => (row.length === 0 ? [`rank ${rank} has nothing to do`] : []))
  const pairs = rows.flatMap((row, rank) =>
    row
      .filter(action => action.kind === 'overlap' && !isPair(action.tasks))
      .map(action => `rank ${rank}: ${showAction(action)} must pair a forward with a whole backward`),
  )
  return [...(rows.length === 0 ? ['there are no ranks'] : []), ...empty, ...outside, ...pairs]
}

const isPair = ([first, second]: readonly [Task, Task]): boolean => first.kind === 'F' && second.kind === 'B'

function cellProblems(schedule: Schedule): string[] {
  const visits = visitsOf(schedule)
  const problems: string[] = []
  const cells = schedule.stages * schedule.microbatches
  let missing = cells - visits.size
  for (let cell = 0; cell < cells && missing > 0 && problems.length <= mostProblems; cell++)
    if (!visits.has(cell)) {
      missing--
      problems.push(`${nameOf(schedule, cell)} is nowhere`)
    }
  for (let i = 0; i < missing; i++) problems.push('a cell is missing')
  for (const [cell, found] of visits) problems.push(...visitProblems(nameOf(schedule, cell), found))
  return problems
}

const nameOf = ({ microbatches }: Schedule, cell: number): string =>
  `stage ${Math.floor(cell / microbatches)} microbatch ${cell % microbatches}`

function visitsOf({ rows, microbatches }: Schedule): Map<number, Visits> {
  const visits = new Map<number, Visits>()
  rows.forEach((row, rank) => {
    tasksOf(row).forEach(({ kind, stage, microbatch }, at) => {
      const cell = stage * microbatches + microbatch
      const found = visits.get(cell) ?? {}
      ;(found[kind] ??= []).push({ rank, at })
      visits.set(cell, found)
    })
  })
  return visits
}

function visitProblems(name: string, { F = [], I = [], W = [], B = [] }: Visits): string[] {
  const problems: string[] = []
  if (F.length !== 1) problems.push(`${name} goes forward ${times(F.length)}`)
  if (B.length + I.length !== 1) problems.push(`${name} goes back ${times(B.length + I.length)} (B ${B.length} + I ${I.length})`)
  if (I.length !== W.length) problems.push(`${name} has ${I.length} I but ${W.length} W`)
  const ranks = new Set([...F, ...I, ...W, ...B].map(visit => visit.rank))
  if (ranks.size > 1) problems.push(`${name} is spread over ranks ${[...ranks].sort((a, b) => a - b).join(', ')}`)
  if (problems.length > 0) return problems
  const [forward, back] = [F[0], B[0] ?? I[0]]
  if (back.at < forward.at) problems.push(`${name} goes back before it goes forward on rank ${forward.rank}`)
  if (W.length > 0 && W[0].at < back.at) problems.push(`${name} has W before I on rank ${forward.rank}`)
  return problems
}

const times = (n: number): string => (n === 0 ? 'never' : n === 1 ? 'once' : `${n} times`)
