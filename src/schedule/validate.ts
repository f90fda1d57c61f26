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
/** Beyond this many cells only their number is compared with the tasks there are. */
const mostCells = 4_000_000

export function validate(schedule: Schedule): string[] {
  const problems = firstOf([
    () => shapeProblems(schedule),
    () => cellProblems(schedule),
    () => runSchedule(schedule, unitCost).stops.map(stop => stallText(schedule, stop)),
  ])
  const more = problems.length - mostProblems
  return more > 0 ? [...problems.slice(0, mostProblems), `and ${more} more`] : problems
}

/** Each check trusts what the ones before it found in order. */
function firstOf(checks: readonly (() => string[])[]): string[] {
  for (const check of checks) {
    const problems = check()
    if (problems.length > 0) return problems
  }
  return []
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
  const { stages, microbatches, rows } = schedule
  const tasks = rows.reduce((n, row) => n + tasksOf(row).length, 0)
  if (stages * microbatches > Math.max(mostCells, tasks))
    return [`${tasks} tasks cannot be ${stages} stages x ${microbatches} microbatches`]
  const visits = visitsOf(schedule)
  return Array.from(visits.places.keys()).flatMap(cell => {
    const name = `stage ${Math.floor(cell / microbatches)} microbatch ${cell % microbatches}`
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

function visitProblems(name: string, { counts, at, places }: Visits, cell: number): string[] {
  const [F, I, W, B] = kinds.map(kind => counts[kind][cell])
  const rank = places[cell]
  if (rank === nowhere) return [`${name} is nowhere`]
  const problems: string[] = []
  if (F !== 1) problems.push(`${name} goes forward ${times(F)}`)
  if (B + I !== 1) problems.push(`${name} goes back ${times(B + I)} (${B} B + ${I} I)`)
  if (I !== W) problems.push(`${name} has ${I} I but ${W} W`)
  if (rank === several) problems.push(`${name} is spread over several ranks`)
  if (problems.length > 0) return problems
  const back = B === 1 ? at.B[cell] : at.I[cell]
  if (back < at.F[cell]) problems.push(`${name} goes back before it goes forward on rank ${rank}`)
  if (W === 1 && at.W[cell] < back) problems.push(`${name} has W before I on rank ${rank}`)
  return problems
}

const times = (n: number): string => (n === 0 ? 'never' : n === 1 ? 'once' : `${n} times`)
