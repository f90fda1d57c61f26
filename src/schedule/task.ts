/**
 * What a schedule is made of: for each pipeline rank the order of its tasks. A schedule is a plain value made by
 * a pure function of counts; it knows nothing of shapes or time.
 */
export type TaskKind = 'F' | 'I' | 'W' | 'B'

/** One pass of one microbatch through one stage: forward, input gradient, weight gradient, or both gradients. */
export interface Task {
  readonly kind: TaskKind
  readonly stage: number
  readonly microbatch: number
}

/** A cell of a row: one task, or a forward and a backward that share the machine (DualPipe). */
export type Action = Task | { readonly kind: 'overlap'; readonly tasks: readonly [Task, Task] }

/** A pipeline schedule: for each pipeline rank, its forward and backward tasks in order. */
export interface Schedule {
  readonly stages: number
  readonly microbatches: number
  /**
   * One row per pipeline rank. All tasks of a stage and microbatch are on one rank; in DualPipe every stage is on two
   * ranks.
   */
  readonly rows: readonly (readonly Action[])[]
}

/** What generators are functions of. stages = ranks * chunks. */
export interface Counts {
  readonly ranks: number
  readonly chunks: number
  readonly microbatches: number
}

export const tasksOf = (row: readonly Action[]): readonly Task[] =>
  row.every(isTask) ? row : row.flatMap(action => (isTask(action) ? [action] : [...action.tasks]))

const isTask = (action: Action): action is Task => action.kind !== 'overlap'

/** Nothing goes back: a schedule of an evaluation. */
export const onlyForward = ({ rows }: Schedule): boolean =>
  rows.every(row => tasksOf(row).every(({ kind }) => kind === 'F'))

/** A message between the ranks of two neighbouring stages, named as PyTorch names it: by the stage of the rank it is on. */
export interface Transfer {
  readonly kind: 'SEND_F' | 'RECV_F' | 'SEND_B' | 'RECV_B'
  readonly stage: number
  readonly microbatch: number
  readonly peer: number
}

export type CommAction = Action | Transfer
