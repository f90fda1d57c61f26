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
      error('run/unreadable', '', `${path} ${what}`, 'pass a folder that `lockstep train --out` or train.py wrote'),
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
  const line = value as Partial<Record<keyof StepLine, unknown>> // each field is looked at below
  const { step, loss, seconds } = line
  if (!Number.isSafeInteger(step) || Number(step) < 1 || !isNumber(seconds) || seconds < 0) return undefined
  if (!isNumber(loss) && loss !== null) return undefined
  const said = Object.entries(line).flatMap(([name, given]): [string, unknown][] => {
    if (!Object.hasOwn(fields, name)) return [[name, given]]
    const isOne = fields[name as keyof StepLine] // it has that name
    const read = given === null && isOne === isNumber ? Number.NaN : given
    return isOne(read) ? [[name, read]] : []
  })
  return Object.fromEntries(said) as unknown as StepLine // what is needed was looked at above
}

type Is = (value: unknown) => boolean

const isNumber = (value: unknown): value is number => typeof value === 'number'
const isText: Is = value => typeof value === 'string'
const areNumbers: Is = value => Array.isArray(value) && value.every(isNumber)
const isRecord = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
const areListsOfNumbers: Is = value => isRecord(value) && Object.values(value).every(areNumbers)
const maybe =
  (is: Is): Is =>
  value =>
    value === undefined || is(value)
const has =
  (parts: Readonly<Record<string, Is>>): Is =>
  value =>
    isRecord(value) && Object.entries(parts).every(([name, is]) => is(value[name]))

/** What each field of a step must be to be read; null, for which JSON has no other word, is a number that is not finite. */
const fields: Readonly<Record<keyof StepLine, Is>> = {
  ...{ step: isNumber, loss: isNumber, seconds: isNumber, cpu: isNumber, gradientNorm: isNumber, normLimit: isNumber },
  ...{ lr: isNumber, taken: isNumber, skipped: isText, scale: isNumber, counted: isNumber, globalBatch: isNumber },
  ...{ tokensPerSecond: isNumber, flopsPerSecond: isNumber, evalLoss: isNumber, loading: isNumber, repeated: isNumber },
  ...{ checkpoint: isText, peakBytes: isNumber, allocationRetries: isNumber },
  cursor: has({ samples: isNumber, epoch: isNumber }),
  shares: has({
    ...{ compute: isNumber, communication: isNumber, waiting: isNumber, bubble: isNumber },
    overlap: maybe(isNumber),
  }),
  ranks: has({
    ...{ seconds: isNumber, compute: areNumbers, busy: areNumbers, waiting: areNumbers, late: areNumbers },
    network: areListsOfNumbers,
  }),
  experts: has({ layer: isText, busiest: isNumber, idle: isNumber, busiestRank: maybe(isNumber) }),
  dead: has({ layer: isText, units: isNumber, of: isNumber, experts: maybe(areNumbers), steps: isNumber }),
}

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
