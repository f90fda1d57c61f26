/** A run as far as its lines tell: what it has reached, how fast it is, and whether it still goes on. */
import { median } from '../base/index.js'
import { eventOf, type HealthEvent, linesOf, type StepLine, stepOf } from '../health/index.js'

export interface RunProgress {
  /** By step; those that are taken again are dropped. */
  readonly steps: readonly StepLine[]
  readonly events: readonly HealthEvent[]
  /** How often steps were taken again. */
  readonly restarts: number
  /** How it ended, where it failed and was not started again. */
  readonly failed?: HealthEvent | undefined
}

export const notBegun: RunProgress = { steps: [], events: [], restarts: 0 }

/** With some more lines of metrics.jsonl. */
export function withLines(run: RunProgress, lines: readonly string[]): RunProgress {
  const [steps, events] = [[...run.steps], [...run.events]]
  let { restarts, failed } = run
  for (const value of linesOf(lines.join('\n'))) {
    const [event, step] = [eventOf(value), stepOf(value)]
    if (event) events.push(event)
    if (event?.event === 'failed') failed = event
    if (event?.event === 'restart' || step) failed = undefined
    if (!step) continue
    const known = steps.length
    while (steps.length > 0 && steps[steps.length - 1].step >= step.step) steps.pop()
    if (steps.length < known) restarts++
    steps.push(step)
  }
  return { steps, events, restarts, failed }
}

/** Steps whose median is the usual pace. */
const paced = 32
/** A run is silent when it has said nothing for so many times a usual step, and for so many seconds. */
const [patientSteps, patientSeconds] = [8, 10]

export type RunStatus = 'waiting' | 'running' | 'silent' | 'done' | 'failed'

export interface Pace {
  readonly status: RunStatus
  /** Seconds of a usual step, evaluation and checkpoints left out. */
  readonly usual: number | undefined
  /** Seconds since the last line. */
  readonly age: number | undefined
  /** Seconds until the last step. */
  readonly left: number | undefined
}

/** `steps`: of the whole run, where that is known. */
export function paceOf(
  { steps: lines, failed }: RunProgress,
  steps: number | undefined,
  age: number | undefined,
): Pace {
  const last = lines.at(-1)
  const usual = last && median(lines.slice(-paced).map(({ seconds }) => seconds))
  const done = last !== undefined && steps !== undefined && last.step >= steps
  const silent = age !== undefined && age > Math.max(patientSeconds, patientSteps * (usual ?? 0))
  const left =
    usual === undefined || steps === undefined || failed ? undefined : usual * Math.max(0, steps - (last?.step ?? 0))
  const going = silent ? 'silent' : last ? 'running' : 'waiting'
  return { status: failed ? 'failed' : done ? 'done' : going, usual, age, left }
}
