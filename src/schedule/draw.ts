/** A schedule for people: one line per rank, `0 | F0 F1 B0 F2 B1 B2`. Stages are named where a rank holds several. */
import { showCell } from './csv.js'
import { partsOf, type Slot } from './run.js'
import type { Action, CommAction, Schedule } from './task.js'

/** A pipeline schedule as text, one row per rank. */
export const draw = ({ rows }: Schedule): string => lines(rows.map(row => row.map(cellsOf(row))))

/** With messages; stages are always named, since a message is. */
export const drawComms = (rows: readonly (readonly CommAction[])[]): string => lines(rows.map(row => row.map(showCell)))

function lines(rows: readonly (readonly string[])[]): string {
  const width = String(rows.length - 1).length
  return rows.map((row, rank) => `${String(rank).padStart(width)} | ${row.join(' ')}`).join('\n')
}

function cellsOf(row: readonly Action[]): (action: Action) => string {
  const stages = new Set(row.flatMap(partsOf).map(task => task.stage))
  return action =>
    partsOf(action)
      .map(({ kind, stage, microbatch }) => `${stages.size > 1 ? stage : ''}${kind}${microbatch}`)
      .join('+')
}

/** Columns of a drawing. */
const mostColumns = 90

/**
 * The schedule to scale: a letter per unit of time, `·` where a rank idles. A pair of overlapping tasks shows its forward,
 * then its backward. Empty where times are not integers, or the step is too long for a line.
 */
export function drawToScale(slots: readonly (readonly Slot[])[], makespan: number): string[] {
  const times = slots.flatMap(row => row.flatMap(({ start, end }) => [start, end]))
  if (makespan > mostColumns || !times.every(Number.isInteger)) return []
  const width = String(slots.length - 1).length
  return slots.map((row, rank) => {
    const columns = Array.from({ length: makespan }, () => '·')
    for (const { action, start, end } of row)
      for (let at = start; at < end; at++) {
        const parts = partsOf(action)
        columns[at] = parts[Math.min(parts.length - 1, Math.round(((at - start) * parts.length) / (end - start)))].kind
      }
    return `${String(rank).padStart(width)} | ${columns.join('')}`
  })
}
