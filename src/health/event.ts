/**
 * Something about a run that its owner should know: a line of metrics.jsonl, a line on the screen, a row of a report. Every
 * part of a run that finds something says it in this one form.
 */
import type { Spoken } from '../base/index.js'

/** What can be found, and what each means. */
export const eventKinds = {
  notFinite: 'a NaN or Inf was computed: where first, and from which operands',
  skipped: 'a step was skipped: its grad norm was NaN, Inf or too large',
  lossSpike: 'the loss of a step is far above the value expected from earlier steps',
  normSpike: 'the grad norm of a step is far above the value expected from earlier steps',
  straggler: 'a rank computes longer than ranks with the same work, or than predicted, and they wait for it',
  imbalance: 'stages of the pipeline, experts or ranks have different amounts of work',
  memory: 'memory is full or nearly full',
  scaleStuck: 'the loss scale stays at its minimum, or keeps falling',
  dataRepeats: 'training data repeats',
  deadUnits: 'parts of the model are dead: their gradients are exactly zero',
  replicasDiffer: 'replicas of a parameter differ between ranks',
  failed: 'the run failed before its last step: why, and which rank caused it',
  restart: 'the run resumed from an earlier state after a failure',
  replanned: 'the run continued with another plan',
  checkpointDamaged: 'a checkpoint is corrupt',
  checkpointDropped: 'a checkpoint was due while the previous one was still being written',
  saveFailed: 'a checkpoint could not be written',
  timeout: 'an instruction took much longer than expected',
  slowLink: 'the bandwidth of a link is lower than predicted, or than that of similar links',
  dataLoader: 'ranks wait for data',
  prediction: 'the step time differs from the prediction',
  diverges: 'the loss rises and does not recover',
  bubble: 'the pipeline bubble is a large part of the step',
  network: 'exposed collectives take a large part of the step',
  microbatches: 'microbatches are too small to fill the device',
  axisOrder: 'communication-heavy axes are on slow links',
} as const

export type EventKind = keyof typeof eventKinds

export const severities = ['note', 'warning', 'error'] as const
export type Severity = (typeof severities)[number]

/** A finding about a run, such as a straggler or a loss spike, with the step and the rank. */
export interface HealthEvent {
  /** The step of the finding, from 1; 0: before the first. */
  readonly step: number
  readonly event: EventKind
  readonly severity: Severity
  readonly rank?: number
  /** `layers.1 ffn, microbatch 2` */
  readonly where?: string
  /** The same as a template, if it is more than a name. */
  readonly place?: Spoken
  readonly message: string
  /** The values of the message; null stands for NaN and Inf, which JSON lacks. */
  readonly numbers: Readonly<Record<string, number | null>>
  readonly advice?: string
  /** The template of message and advice, with its values, for translation. */
  readonly phrase?: string
  readonly values?: Spoken['values']
  /** What to run next. */
  readonly command?: string
}

/** `warning at step 12, rank 3 (layers.1 ffn): ...; try ... (lockstep doctor RUN) [straggler]` */
export function showEvent({ step, event, severity, rank, where, message, advice, command }: HealthEvent): string {
  const place = `${step > 0 ? ` at step ${step}` : ''}${rank === undefined ? '' : `${step > 0 ? ',' : ''} rank ${rank}`}`
  const whose = where === undefined ? '' : ` (${where})`
  return `${severity}${place}${whose}: ${message}${advice ? `; ${advice}` : ''}${command ? ` (${command})` : ''} [${event}]`
}

/** The event that a line of metrics.jsonl holds, or nothing: the line is of a step, or of others. */
export function eventOf(value: unknown): HealthEvent | undefined {
  if (typeof value !== 'object' || value === null || !('event' in value)) return undefined
  const said = value as Partial<Record<keyof HealthEvent, unknown>> // each field is looked at below
  const { step, event, severity, rank, where, place, message, numbers, advice, phrase, values, command } = said
  if (!isKind(event) || !isSeverity(severity) || typeof message !== 'string') return undefined
  return {
    ...{ step: isCount(step) ? step : 0, event, severity, message, numbers: numbersIn(numbers) },
    ...(isCount(rank) && { rank }),
    ...(typeof where === 'string' && { where }),
    ...(isSpoken(place) && { place }),
    ...(typeof advice === 'string' && { advice }),
    ...(typeof phrase === 'string' && isFilling(values) && { phrase, values }),
    ...(typeof command === 'string' && { command }),
  }
}

const isKind = (value: unknown): value is EventKind => typeof value === 'string' && Object.hasOwn(eventKinds, value)

/** What stands in the gaps of a phrase is made of words, lists and mappings: what a language cannot say it leaves out. */
const isFilling = (value: unknown): value is Spoken['values'] =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

const isSpoken = (value: unknown): value is Spoken =>
  typeof value === 'object' &&
  value !== null &&
  'phrase' in value &&
  typeof value.phrase === 'string' &&
  'values' in value &&
  isFilling(value.values)

const isSeverity = (value: unknown): value is Severity => severities.some(severity => severity === value)

const isCount = (value: unknown): value is number => Number.isSafeInteger(value) && Number(value) >= 0

const numbersIn = (value: unknown): Record<string, number | null> =>
  typeof value !== 'object' || value === null
    ? {}
    : Object.fromEntries(
        Object.entries(value).filter((entry): entry is [string, number | null] =>
          [typeof entry[1] === 'number', entry[1] === null].includes(true),
        ),
      )
