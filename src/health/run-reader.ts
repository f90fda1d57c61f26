/**
 * A run folder as it can be read at any time: while the run goes on, after it was killed in the middle of a line, and
 * with lines and files of others in it. `lockstep train` and emitted programs write the same lines.
 */
import { error, type Files, ProblemsError, within } from '../base/index.js'
import type { RankTimes, Shares } from '../trace/index.js'
import { eventOf, type HealthEvent } from './event.js'
import { type RunInfo, runInfoOf } from './run-info.js'

/** What a line of metrics.jsonl says of a step. Only what is needed to show one is sure to be there. */
export interface StepLine {
  /** Counts from 1. */
  readonly step: number
  /** NaN: not finite, for which JSON has no word. */
  readonly loss: number
  readonly seconds: number
  /** Of the processor, that all ranks together were given, where they are threads. */
  readonly cpu?: number
  readonly gradientNorm?: number
  /** The norm from which on the step is a spike and skipped, where the run does so. */
  readonly normLimit?: number
  readonly lr?: number
  readonly taken?: number
  readonly skipped?: string
  readonly scale?: number
  readonly counted?: number
  readonly globalBatch?: number
  readonly tokensPerSecond?: number
  readonly flopsPerSecond?: number
  readonly evalLoss?: number
  readonly shares?: Shares
  readonly ranks?: RankTimes
  /** Seconds of it in which its data was made. */
  readonly loading?: number
  /** Samples that came before, although the data has not been passed once. */
  readonly repeated?: number
  readonly experts?: {
    readonly layer: string
    readonly busiest: number
    readonly idle: number
    readonly busiestRank?: number
  }
  /** Units and experts of a layer without a gradient for so many steps, where some were found. */
  readonly dead?: {
    readonly layer: string
    readonly units: number
    readonly of: number
    readonly experts?: readonly number[]
    readonly steps: number
  }
  readonly cursor?: { readonly samples: number; readonly epoch: number }
  readonly checkpoint?: string
  readonly peakBytes?: number
  /** Times that an allocator gave memory back and asked again, since the run began. */
  readonly allocationRetries?: number
}

export interface RunRead {
  readonly path: string
  /** Undefined where the run is older than about.json, or of an older emitted program. */
  readonly info: RunInfo | undefined
  /** The job as it was run, not parsed. */
  readonly job: unknown
  /** By step; of one that was taken again after a restart the last line. */
  readonly steps: readonly StepLine[]
  /** In the order in which they were written. */
  readonly events: readonly HealthEvent[]
  /** What a rank was at when a step failed. */
  readonly flight: string | undefined
}

/** Throws where the folder holds no metrics. */
export function readRun(path: string, files: Pick<Files, 'read' | 'exists'>): RunRead {
  const text = textOf(within(path, 'metrics.jsonl'), files)
  if (text === undefined) {
    const what = files.exists(path) ? 'holds no metrics.jsonl' : 'does not exist'
    throw new ProblemsError([
      error(
        'run/unreadable',
        '',
        `${path} ${what}`,
        'name the folder that `lockstep train --out` or train.py wrote to',
      ),
    ])
  }
  const values = linesOf(text)
  const steps = new Map(values.flatMap(value => stepOf(value) ?? []).map(line => [line.step, line]))
  return {
    path,
    info: runInfoOf(jsonOf(textOf(within(path, 'about.json'), files))),
    job: jsonOf(textOf(within(path, 'job.json'), files)),
    steps: [...steps.values()].sort((a, b) => a.step - b.step),
    events: values.flatMap(value => eventOf(value) ?? []),
    flight: textOf(within(path, 'flight.txt'), files),
  }
}

/** The values of lines of JSON; a line that is none, as the last one may be, is left out. */
export const linesOf = (text: string): unknown[] =>
  text.split('\n').flatMap(line => {
    const value = jsonOf(line)
    return value === undefined ? [] : [value]
  })

/** The step that a line is of, or nothing: it is of an event, or of others. */
export function stepOf(value: unknown): StepLine | undefined {
  if (typeof value !== 'object' || value === null || 'event' in value) return undefined
  const line = value as Partial<Record<keyof StepLine, unknown>> // what is needed is looked at here, what is not where it is used
  const { step, loss, seconds, gradientNorm } = line
  if (!Number.isSafeInteger(step) || Number(step) < 1 || typeof seconds !== 'number' || !isLoss(loss)) return undefined
  return {
    ...(line as StepLine),
    loss: loss ?? Number.NaN,
    ...(gradientNorm === null && { gradientNorm: Number.NaN }),
  }
}

const isLoss = (value: unknown): value is number | null => typeof value === 'number' || value === null

function textOf(path: string, files: Pick<Files, 'read' | 'exists'>): string | undefined {
  try {
    return files.exists(path) ? files.read(path) : undefined
  } catch {
    return undefined
  }
}

function jsonOf(text: string | undefined): unknown {
  try {
    return text === undefined || text === '' ? undefined : JSON.parse(text)
  } catch {
    return undefined
  }
}
