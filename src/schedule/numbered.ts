/**
 * A schedule as numbers, which is what generators write: a search looks at hundreds of schedules of some ten thousand tasks, and
 * tasks as objects would fill the memory. Everybody else reads them as tasks.
 */
import type { Action, Schedule, Task, TaskKind } from './task.js'

/** In the order of their places in tables. */
export const taskKinds: readonly TaskKind[] = ['F', 'I', 'W', 'B']

const places: Readonly<Record<TaskKind, number>> = { F: 0, I: 1, W: 2, B: 3 }

/** One number for each kind of task of each stage. */
export const taskIndex = (stages: number, kind: TaskKind, stage: number): number => places[kind] * stages + stage

/** Per rank its tasks in order: `index x microbatches + microbatch`. The first of a pair that runs as one is `pairFrom` more. */
export interface NumberedSchedule {
  readonly stages: number
  readonly microbatches: number
  readonly rows: readonly (readonly number[])[]
}

/** The same, each row made when it is asked for. */
export interface RowByRow extends Cells {
  readonly row: (rank: number) => readonly number[]
}

export const allRows = ({ stages, microbatches, row }: RowByRow, ranks: number): NumberedSchedule => ({
  ...{ stages, microbatches, rows: Array.from({ length: ranks }, (_, rank) => row(rank)) },
})

export type Cells = Pick<NumberedSchedule, 'stages' | 'microbatches'>

export const pairFrom = ({ stages, microbatches }: Cells): number => taskKinds.length * stages * microbatches

/** A row as the kinds and stages of its tasks alone, where `taskIndex` says. */
export function taskIndexes(cells: Cells, row: readonly number[]): number[] {
  const from = pairFrom(cells)
  return row.map(number => Math.floor((number < from ? number : number - from) / cells.microbatches))
}

/** Writes one row. */
export class RowWriter {
  readonly row: number[] = []
  readonly #cells: Cells

  constructor(cells: Cells) {
    this.#cells = cells
  }

  task(kind: TaskKind, stage: number, microbatch: number): void {
    const { stages, microbatches } = this.#cells
    this.row.push((places[kind] * stages + stage) * microbatches + microbatch)
  }

  /** The last task that was written runs as one with the one to come. */
  pairs(): void {
    this.row[this.row.length - 1] += pairFrom(this.#cells)
  }
}

export const asSchedule = (numbered: NumberedSchedule): Schedule => ({
  stages: numbered.stages,
  microbatches: numbered.microbatches,
  rows: numbered.rows.map(row => actionsOf(numbered, row)),
})

function actionsOf(cells: Cells, row: readonly number[]): Action[] {
  const { stages, microbatches } = cells
  const from = pairFrom(cells)
  const taskOf = (number: number): Task => {
    const index = Math.floor(number / microbatches)
    return { kind: taskKinds[Math.floor(index / stages)], stage: index % stages, microbatch: number % microbatches }
  }
  const actions: Action[] = []
  for (let at = 0; at < row.length; at++)
    if (row[at] < from) actions.push(taskOf(row[at]))
    else actions.push({ kind: 'overlap', tasks: [taskOf(row[at++] - from), taskOf(row[at])] })
  return actions
}

/** Of a schedule from elsewhere. */
export function numbered({ stages, microbatches, rows }: Schedule): NumberedSchedule {
  const cells = { stages, microbatches }
  const written = rows.map(actions => {
    const writer = new RowWriter(cells)
    for (const action of actions) {
      const tasks = action.kind === 'overlap' ? action.tasks : [action]
      for (const [i, { kind, stage, microbatch }] of tasks.entries()) {
        if (i > 0) writer.pairs()
        writer.task(kind, stage, microbatch)
      }
    }
    return writer.row
  })
  return { ...cells, rows: written }
}
