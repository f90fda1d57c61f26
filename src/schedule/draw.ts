/** A schedule for people: one line per rank, `0 | F0 F1 B0 F2 B1 B2`. Stages are named where a rank holds several. */
import { showCell } from './csv.js'
import { partsOf } from './run.js'
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
