/** A run on the screen: a picture that is drawn over on a terminal, plain lines elsewhere, one JSON object a step for programs. */

import { duration, scaled, showPercent, showTime } from '../../base/index.js'
import { type HealthEvent, type StepLine, showEvent } from '../../health/index.js'
import { mfuOf } from '../../metrics/index.js'
import type { Job } from '../../plan/index.js'
import { curveText, laneLetters, lanesText } from '../../report/index.js'
import type { Shares, Span } from '../../trace/index.js'
import type { StepRecord } from '../../train/index.js'
import type { Io } from '../io.js'
import { colorsOf } from './colors.js'

export interface Display {
  /** `spans` are asked for when they are drawn. */
  step(record: StepRecord, spans?: () => readonly Span[]): void
  /** What was found in the last step. */
  event(event: HealthEvent): void
  /** Something worth a line of its own. */
  note(text: string): void
  /** No step follows: what is shown stays. */
  finish(): void
}

/** `peak`: the FLOP/s that utilisation is relative to, where they are known. */
export const displayOf = (job: Job, io: Io, json: boolean, peak?: number): Display =>
  json
    ? jsonLines(io)
    : io.verbosity === 'quiet'
      ? eventLines(io)
      : io.terminal() && io.verbosity !== 'verbose'
        ? livePicture(job, io, peak)
        : plainLines(job, io, peak)

const jsonLines = (io: Io): Display => ({
  step: ({ events: _, ...record }) => io.out(`${JSON.stringify(record)}\n`),
  event: event => io.out(`${JSON.stringify(event)}\n`),
  note: text => io.err(`${text}\n`),
  finish: () => {},
})

/** Events and notes, no steps. */
const eventLines = (io: Io): Display => ({
  step: () => {},
  event: event => io.out(`${showEvent(event)}\n`),
  note: text => io.out(`${text}\n`),
  finish: () => {},
})

/** About so many lines, however long the run is. */
const mostLines = 50

function plainLines({ training: { steps } }: Job, io: Io, peak: number | undefined): Display {
  const every = io.verbosity === 'verbose' ? 1 : Math.max(1, Math.ceil(steps / mostLines))
  let first = true
  return {
    step(record) {
      const due = first || record.step % every === 0 || record.step === steps
      first = false
      if (due || record.evalLoss !== undefined || record.checkpoint !== undefined || record.skipped !== undefined)
        io.out(`${lineOf(record, steps, io.verbosity === 'verbose' ? numbersOf(record, peak) : undefined)}\n`)
    },
    event: event => io.out(`${showEvent(event)}\n`),
    note: text => io.out(`${text}\n`),
    finish: () => {},
  }
}

/** `step 10/100  loss 2.3026  grad_norm 1.23  lr 1.5e-3  12.3k tok/s`, or with other numbers. */
export function lineOf(record: StepLine, steps: number, numbers = shortNumbers(record)): string {
  const { step, evalLoss, checkpoint } = record
  return [
    `step ${String(step).padStart(String(steps).length)}/${steps}`,
    lossText(record),
    ...(evalLoss === undefined ? [] : [`val ${evalLoss.toFixed(4)}`]),
    ...numbers,
    ...(checkpoint === undefined ? [] : [`saved ${checkpoint}`]),
  ].join('  ')
}

/** The loss of a step that was skipped is marked. */
const lossText = ({ loss, skipped }: StepLine): string =>
  `loss ${skipped === undefined ? loss.toFixed(4) : `(${loss.toFixed(4)}) skipped: ${skipped}`}`

const percent = (share: number): string => showPercent(share, 0)

const sharesText = ({ compute, communication, waiting, bubble }: Shares): string[] => [
  `compute ${percent(compute)}`,
  ...(communication < 0.005 ? [] : [`communication ${percent(communication)}`]),
  ...(waiting < 0.005 ? [] : [`waiting ${percent(waiting)}`]),
  ...(bubble < 0.005 ? [] : [`bubble ${percent(bubble)}`]),
]

const mostCurveRows = 10
const mostLanes = 8
/** Title, axis, legend, bar, and the line the cursor is left on; the numbers come on top. */
const otherRows = 5
const leastMilliseconds = 80

function livePicture(job: Job, io: Io, peak: number | undefined): Display {
  const { steps } = job.training
  const losses: number[] = []
  let first: number | undefined
  let lines = 0
  let drawnAt = Number.NEGATIVE_INFINITY
  let held: number | undefined
  let spent = 0
  const erase = () => {
    if (lines > 0) io.control('out', `\x1b[${lines}A\x1b[0J`)
    lines = 0
  }
  const note = (text: string) => {
    erase()
    io.out(`${text}\n`)
  }
  return {
    step(record, spans = () => []) {
      first = Math.min(first ?? record.step, record.step)
      losses.length = Math.min(losses.length, record.step - first) // a run that goes back takes steps again
      losses.push(record.skipped === undefined ? record.loss : Number.NaN)
      held = record.evalLoss ?? held
      spent += record.seconds
      const now = performance.now()
      if (now - drawnAt < leastMilliseconds && record.step !== steps) return
      drawnAt = now
      const { columns: width = 80, rows = 24 } = io.terminal() ?? {}
      const columns = Math.max(40, width)
      const left = (spent / losses.length) * (steps - record.step)
      const picture = pictureOf({ record, first, losses, spans: spans(), columns, rows, steps, left, held, peak }, io)
      erase()
      io.out(`${picture.join('\n')}\n`)
      lines = picture.length
    },
    event: event => note(showEvent(event)),
    note,
    finish: () => {
      lines = 0
    },
  }
}

export interface Picture {
  readonly record: StepLine
  /** The step that the first loss is of. */
  readonly first: number
  readonly losses: readonly number[]
  readonly spans: readonly Span[]
  readonly columns: number
  /** The rows of the screen: a picture that is higher cannot be drawn over. */
  readonly rows: number
  readonly steps: number
  /** Seconds. */
  readonly left: number
  /** The last loss over what is held out. */
  readonly held: number | undefined
  /** The FLOP/s that utilisation is relative to, where they are known. */
  readonly peak?: number | undefined
}

export function pictureOf(picture: Picture, io: Io): string[] {
  const { record, first, losses, spans, columns, rows, steps, left, held, peak } = picture
  const { cyan, green, dim, bold } = colorsOf(io)
  const numbers = wrapped(numbersOf(record, peak), columns - 1)
  const others = otherRows + numbers.length
  const ranks = [...new Set(spans.map(({ rank }) => rank))].sort((a, b) => a - b).slice(0, mostLanes)
  const lanes = ranks.length > 0 && rows >= ranks.length + others + 4 ? lanesText(spans, ranks, columns - 1) : []
  const curveRows = Math.max(2, Math.min(mostCurveRows, rows - lanes.length - others))
  const curve = curveText(losses, { columns: columns - 1, rows: curveRows, steps: [first, record.step] })
  const legend = `rank, one step: ${laneLetters.compute} compute ${laneLetters.communication} collective ${laneLetters.wait} wait`
  const evaluated = held === undefined ? '' : `  val ${held.toFixed(4)}`
  return [
    cut(`${lossText(record)}${evaluated}`, columns, bold),
    ...curve.map(line => cut(line, columns, cyan)),
    ...(lanes.length > 0 ? [cut(legend, columns, dim), ...lanes.map(line => cut(line, columns, green))] : []),
    ...numbers,
    progressBar(record.step, steps, left, columns),
  ]
}

const known = (value: number | undefined, words: (value: number) => string) =>
  value === undefined ? [] : [words(value)]

const shortNumbers = ({ gradientNorm, lr, tokensPerSecond }: StepLine): string[] => [
  ...known(gradientNorm, norm => `grad_norm ${norm < 1e4 ? norm.toPrecision(3) : norm.toExponential(2)}`),
  ...known(lr, lr => `lr ${lr.toExponential(2)}`),
  ...known(tokensPerSecond, rate => `${scaled(rate)} tok/s`),
]

const numbersOf = (record: StepLine, peak: number | undefined): string[] => {
  const { seconds, flopsPerSecond, shares } = record
  return [
    ...shortNumbers(record),
    `${showTime(seconds)}/step`,
    ...known(flopsPerSecond, rate => `${scaled(rate, ' ')}FLOP/s`),
    ...known(peak && flopsPerSecond && mfuOf(flopsPerSecond, peak), share => `MFU ${percent(share)}`),
    ...(shares ? sharesText(shares) : []),
  ]
}

/** Lines of as many words as fit. */
function wrapped(words: readonly string[], columns: number): string[] {
  const lines: string[] = []
  for (const word of words) {
    const last = lines.at(-1)
    if (last !== undefined && last.length + 2 + word.length <= columns) lines[lines.length - 1] = `${last}  ${word}`
    else lines.push(word)
  }
  return lines
}

/** A longer line would wrap, and drawing over it would miss by a row. */
const cut = (line: string, columns: number, paint: (text: string) => string): string =>
  paint(line.slice(0, columns - 1))

export function progressBar(step: number, steps: number, left: number, columns: number): string {
  const text = ` ${step}/${steps}  ${step >= steps ? 'done' : `${duration(left)} left`}`
  const width = Math.max(1, columns - 1 - text.length)
  // A run that was resumed with more steps is beyond what its job says.
  const full = Math.min(width, Math.round((width * step) / steps))
  return `${'━'.repeat(full)}${'─'.repeat(width - full)}${text}`
}
