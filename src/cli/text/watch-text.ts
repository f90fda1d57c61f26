/** A run that somebody else runs, on the screen. */

import { counted, duration, showTime } from '../../base/index.js'
import { type HealthEvent, type Severity, showEvent } from '../../health/index.js'
import { type Pace, paceOf, type RunProgress } from '../../monitor/index.js'
import type { Io } from '../io.js'
import { colorsOf, type Paint } from './colors.js'
import { pictureOf } from './display.js'

export interface Watched {
  readonly path: string
  readonly run: RunProgress
  /** Of the whole run, where its job is known. */
  readonly steps: number | undefined
  /** Seconds since its last line. */
  readonly age: number | undefined
}

/** Events and rows that are shown at most. */
const mostEvents = 5
const usualScreen = { columns: 80, rows: 24 }

export function watchText(watched: Watched, io: Io): string[] {
  const { run, steps } = watched
  const { columns: width, rows } = io.terminal() ?? usualScreen
  const columns = Math.max(40, width)
  const pace = paceOf(run, steps, watched.age)
  const { bold, red, yellow, dim } = colorsOf(io)
  const paints: Readonly<Record<Severity, Paint>> = { error: red, warning: yellow, note: dim }
  const status: Paint = pace.status === 'failed' ? red : pace.status === 'silent' ? yellow : bold
  const events = run.events.slice(-mostEvents)
  const notes = [...checkpointText(run), ...restartText(run)]
  const head = clipped(statusText(watched, pace), columns).map(status)
  const tail = [
    ...notes.flatMap(line => clipped(line, columns)),
    ...events.flatMap(event => clipped(showEvent(event), columns).map(paints[event.severity])),
  ]
  return [...head, ...curves(watched, pace, { columns, rows: rows - head.length - tail.length }, io), ...tail]
}

function curves({ run, steps }: Watched, pace: Pace, size: { columns: number; rows: number }, io: Io): string[] {
  const record = run.steps.at(-1)
  if (!record) return []
  const losses = run.steps.map(({ loss, skipped }) => (skipped === undefined ? loss : Number.NaN))
  const held = run.steps.findLast(({ evalLoss }) => evalLoss !== undefined)?.evalLoss
  const lines = pictureOf(
    {
      ...{ record, first: run.steps[0].step, losses, spans: [], held, ...size },
      ...{ steps: steps ?? record.step, left: pace.left ?? 0 },
    },
    io,
  )
  // Without a job, and after a failure, there is no time left to show.
  return steps === undefined || run.failed ? lines.slice(0, -1) : lines
}

/** `runs/gpt: step 120 of 300, 2.100 s/step, 6 min 18 s left` */
export function statusText({ path, run, steps }: Watched, { status, usual, age, left }: Pace): string {
  const last = run.steps.at(-1)
  const ago = age === undefined ? '' : `, last seen ${duration(age)} ago`
  if (run.failed)
    return `${path}: failed after step ${last?.step ?? 0}${steps === undefined ? '' : ` of ${steps}`}${ago}`
  if (!last) return `${path}: no step yet${ago}`
  const at = `step ${last.step}${steps === undefined ? '' : ` of ${steps}`}`
  const pace = usual === undefined ? '' : `, ${showTime(usual)}/step`
  if (status === 'done') return `${path}: done, ${at}${pace}`
  if (status === 'silent' && age !== undefined && usual !== undefined)
    return `${path}: no step for ${duration(age)}, usually ${showTime(usual)}; ${at}`
  return `${path}: ${at}${pace}${left === undefined ? '' : `, ${duration(left)} left`}`
}

function checkpointText({ steps }: RunProgress): string[] {
  const saved = steps.filter(({ checkpoint }) => checkpoint !== undefined)
  const last = saved.at(-1)
  return last ? [`${counted(saved.length, 'checkpoint')}, latest ${last.checkpoint}`] : []
}

const restartText = ({ restarts }: RunProgress): string[] =>
  restarts === 0 ? [] : [`${counted(restarts, 'restart')} from an earlier step`]

/** A line that wraps by itself cannot be drawn over: it is cut where it would. */
const clipped = (line: string, columns: number): string[] => [line.slice(0, columns - 1)]

/** Everything a program wants to know. */
export function watchJson({ path, run, steps, age }: Watched): object {
  const { status, usual, left } = paceOf(run, steps, age)
  const last = run.steps.at(-1)
  const counts: Partial<Record<Severity, number>> = {}
  for (const { severity } of run.events) counts[severity] = (counts[severity] ?? 0) + 1
  return {
    ...{ run: path, status, step: last?.step ?? 0, steps, age, secondsPerStep: usual, secondsLeft: left },
    last,
    evalLoss: run.steps.findLast(({ evalLoss }) => evalLoss !== undefined)?.evalLoss,
    checkpoints: run.steps.flatMap(({ step, checkpoint }) => (checkpoint === undefined ? [] : [{ step, checkpoint }])),
    ...{ restarts: run.restarts, counts, events: run.events.slice(-mostEvents) satisfies readonly HealthEvent[] },
  }
}
