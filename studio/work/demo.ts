/** What the home page shows at once: a pipeline of the reader's size, as the scheduler orders it. */
import { makeSchedule, timing } from 'lockstep'

export interface PipelineInput {
  readonly name: 'gpipe' | '1f1b' | 'zb-h1'
  readonly ranks: number
  readonly microbatches: number
}

export interface Box {
  readonly kind: 'F' | 'I' | 'W' | 'B'
  readonly stage: number
  readonly microbatch: number
  /** Which half of a pair that shares the machine. */
  readonly band?: number
  readonly start: number
  readonly end: number
}

export interface PipelineAnswer {
  readonly makespan: number
  readonly bubble: number
  /** Activations held at once, by rank. */
  readonly peak: readonly number[]
  readonly rows: readonly (readonly Box[])[]
}

export function pipeline({ name, ranks, microbatches }: PipelineInput): PipelineAnswer {
  const { makespan, bubble, peak, slots } = timing(makeSchedule(name, { ranks, chunks: 1, microbatches }))
  const rows = slots.map(row =>
    row.flatMap(({ action, start, end }) =>
      action.kind === 'overlap'
        ? []
        : [{ kind: action.kind, stage: action.stage, microbatch: action.microbatch, start, end }],
    ),
  )
  return { makespan, bubble, peak, rows }
}
