/**
 * Is this a training step? Every microbatch passes every stage exactly once forward and once back (whole, or input
 * gradient then weight gradient), in that order, on one rank; and the rows together never wait in a circle.
 * The last is asked only of schedules that pass the rest.
 */
import type { Spoken } from '../base/index.js'
import { clause, saidInEnglish } from './phrases.js'
import { runSchedule, unitCost } from './run.js'
import { showAction, stallSaid } from './stall.js'
import type { Schedule, Task, TaskKind } from './task.js'
import { tasksOf } from './task.js'

const mostProblems = 50
/** Beyond this many cells only their number is compared with the tasks there are. */
const mostCells = 4_000_000

export const validate = (schedule: Schedule): string[] => invalidities(schedule).map(saidInEnglish)

/** The same, as it is said in any language. */
export function invalidities(schedule: Schedule): Spoken[] {
  const problems = firstOf([
    () => shapeProblems(schedule),
    () => cellProblems(schedule),
    () => runSchedule(schedule, unitCost).stops.map(stop => stallSaid(schedule, stop)),
  ])
  const more = problems.length - mostProblems
  return more > 0 ? [...problems.slice(0, mostProblems), clause('.more', { more })] : problems
}

/** Each check trusts what the ones before it found in order. */
function firstOf(checks: readonly (() => Spoken[])[]): Spoken[] {
  for (const check of checks) {
    const problems = check()
    if (problems.length > 0) return problems
  }
  return []
}

function shapeProblems({ stages, microbatches, rows }: Schedule): Spoken[] {
  const inside = (index: number, count: number) => Number.isSafeInteger(index) && index >= 0 && index < count
  const outside = rows.flatMap((row, rank) =>
    tasksOf(row)
      .filter(task => !inside(task.stage, stages) || !inside(task.microbatch, microbatches))
      .map(task => clause('.outside', { rank, action: showAction(task), stages, microbatches })),
  )
  const empty = rows.flatMap((row, rank) => (row.length === 0 ? [clause('.idle-rank', { rank })] : []))
  const pairs = rows.flatMap((row, rank) =>
    row
      .filter(action => action.kind === 'overlap' && !isPair(action.tasks))
      .map(action => clause('.no-pair', { rank, action: showAction(action) })),
  )
  return [...(rows.length === 0 ? [clause('.no-ranks')] : []), ...empty, ...outside, ...pairs]
}

const isPair = ([first, second]: readonly [Task, Task]): boolean => first.kind === 'F' && second.kind === 'B'

function cellProblems(schedule: Schedule): Spoken[] {
  const { stages, microbatches, rows } = schedule
  const tasks = rows.reduce((n, row) => n + tasksOf(row).length, 0)
  if (stages * microbatches > Math.max(mostCells, tasks))
    return [clause('.not-so-many', { tasks, stages, microbatches })]
  const visits = visitsOf(schedule)
  return Array.from(visits.places.keys()).flatMap(cell => {
    const name = clause('.cell', { stage: Math.floor(cell / microbatches), microbatch: cell % microbatches })
    return visitProblems(name, visits, cell)
  })
}

const kinds: readonly TaskKind[] = ['F', 'I', 'W', 'B']

/** Per cell: how often each kind visits it, where the last visit stands in its row, and on which rank. */
interface Visits {
  readonly counts: Readonly<Record<TaskKind, Int32Array>>
  readonly at: Readonly<Record<TaskKind, Int32Array>>
  readonly places: Int32Array
}

const nowhere = -1
const several = -2

function visitsOf({ rows, stages, microbatches }: Schedule): Visits {
  const numbers = () => new Int32Array(stages * microbatches)
  const perKind = () => ({ F: numbers(), I: numbers(), W: numbers(), B: numbers() })
  const visits: Visits = { counts: perKind(), at: perKind(), places: numbers().fill(nowhere) }
  rows.forEach((row, rank) => {
    tasksOf(row).forEach(({ kind, stage, microbatch }, at) => {
      const cell = stage * microbatches + microbatch
      visits.counts[kind][cell]++
      visits.at[kind][cell] = at
      visits.places[cell] = visits.places[cell] === nowhere || visits.places[cell] === rank ? rank : several
    })
  })
  return visits
}

function visitProblems(cell: Spoken, { counts, at, places }: Visits, index: number): Spoken[] {
  const [F, I, W, B] = kinds.map(kind => counts[kind][index])
  const rank = places[index]
  if (rank === nowhere) return [clause('.nowhere', { cell })]
  const problems: Spoken[] = []
  if (F !== 1) problems.push(clause('.forward', { cell, times: times(F) }))
  if (B + I !== 1) problems.push(clause('.back', { cell, times: times(B + I), B, I }))
  if (I !== W) problems.push(clause('.unequal', { cell, I, W }))
  if (rank === several) problems.push(clause('.spread-out', { cell }))
  if (problems.length > 0) return problems
  const back = B === 1 ? at.B[index] : at.I[index]
  if (back < at.F[index]) problems.push(clause('.back-first', { cell, rank }))
  if (W === 1 && at.W[index] < back) problems.push(clause('.weights-first', { cell, rank }))
  return problems
}

const times = (n: number): Spoken =>
  n === 0 ? clause('.never') : n === 1 ? clause('.once') : clause('.times', { times: n })
