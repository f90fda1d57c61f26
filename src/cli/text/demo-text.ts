/** What `lockstep demo` prints: short step lines, and predictions next to what was measured and what a single rank computes. */
import { showBytes, showPercent, showTime, table } from '../../base/index.js'
import type { HealthEvent } from '../../health/index.js'
import type { Job } from '../../plan/index.js'
import type { Io } from '../io.js'
import type { Paint } from './colors.js'
import { type Display, lineOf } from './display.js'

const stepLines = 10

/** Ten lines, however many steps there are. */
export function shortLines({ training: { steps } }: Job, io: Io): Display {
  const every = Math.ceil(steps / stepLines)
  return {
    step(record) {
      if (record.step % every === 0 || record.step === steps) io.out(`  ${lineOf(record, steps)}\n`)
    },
    event: (_: HealthEvent) => {},
    note: text => io.out(`${text}\n`),
    finish: () => {},
  }
}

/** One rank of the job, or the whole model on a single rank. */
export interface Measured {
  /** Of the rank that needs the most: the peaks of its categories, summed. */
  readonly bytes: number
  readonly losses: readonly number[]
  /** The median step. */
  readonly seconds: number
  /** Cores that the median step had; NaN where the system does not report processor time. */
  readonly cores: number
}

export interface Compared {
  readonly predicted: Pick<Measured, 'bytes' | 'seconds'>
  readonly measured: Measured
  readonly single: Measured
  /** Cores that the step can use: of this machine, at most one per rank. */
  readonly usable: number
  /** Whether every category of every rank peaked where it was planned, to the byte. */
  readonly asPlanned: boolean
}

/** Losses in f32 that are summed in another order. */
export const lossTolerance = 1e-4
/** A machine that others use too is not the machine that was measured. */
export const timeTolerance = 0.25
/** With a smaller share of its cores a step was waiting for other processes. */
const busyBelow = 0.8

export interface Checks {
  readonly memory: boolean
  readonly loss: boolean
  readonly time: boolean
  /** The largest relative difference of a loss to that of the single rank. */
  readonly lossDifference: number
  /** How far the measured step is from the prediction. */
  readonly timeDifference: number
  /** What the step's processor time takes on all usable cores; only where other processes had some of them. */
  readonly secondsAlone?: number
}

export function checksOf({ predicted, measured, single, usable, asPlanned }: Compared): Checks {
  const differences = single.losses.map((loss, i) => Math.abs(measured.losses[i] - loss) / Math.abs(loss))
  const lossDifference = Math.max(0, ...differences)
  const timeDifference = measured.seconds / predicted.seconds - 1
  return {
    memory: asPlanned && predicted.bytes === measured.bytes,
    loss: differences.length > 0 && lossDifference <= lossTolerance,
    time: Math.abs(timeDifference) <= timeTolerance,
    lossDifference,
    timeDifference,
    ...(measured.cores < busyBelow * usable && { secondsAlone: (measured.seconds * measured.cores) / usable }),
  }
}

const signed = (difference: number): string => `${difference < 0 ? '-' : '+'}${showPercent(Math.abs(difference), 0)}`

/** Why a step did not take what was predicted, where it did not. */
function whyText({ predicted, measured, usable }: Compared, { time, secondsAlone }: Checks): string {
  if (time) return ''
  if (secondsAlone === undefined)
    return '\nThe prediction is from small probes of a few seconds; `npx lockstep compare` measures longer, op by op.'
  const off = signed(secondsAlone / predicted.seconds - 1)
  return `\nOther processes used ${(usable - measured.cores).toFixed(1)} of ${usable} cores; on idle cores a step takes about ${showTime(secondsAlone)} (${off}).`
}

export function comparedText(
  compared: Compared,
  checks: Checks,
  paint: Readonly<Record<'green' | 'red', Paint>>,
): string {
  const { predicted, measured, single } = compared
  const mark = (ok: boolean) => (ok ? paint.green('✓') : paint.red('✗'))
  const count = single.losses.length
  const last = (losses: readonly number[]) => losses[count - 1].toFixed(4)
  const timeMark = checks.time || checks.secondsAlone === undefined ? mark(checks.time) : '~'
  const rows = [
    [
      `memory per rank`,
      showBytes(predicted.bytes),
      showBytes(measured.bytes),
      showBytes(single.bytes),
      `${mark(checks.memory)} ${checks.memory ? 'to the byte, every rank' : 'not as planned'}`,
    ],
    [
      `loss of step ${count}`,
      '-',
      last(measured.losses),
      last(single.losses),
      `${mark(checks.loss)} steps 1-${count} within ${checks.lossDifference.toExponential(0)}`,
    ],
    [
      `time per step`,
      showTime(predicted.seconds),
      showTime(measured.seconds),
      showTime(single.seconds),
      `${timeMark} ${signed(checks.timeDifference)}`,
    ],
  ]
  return `${table(['', 'predicted', 'measured', 'single rank', 'check'], rows)}${whyText(compared, checks)}`
}
