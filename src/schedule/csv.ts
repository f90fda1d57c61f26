/**
 * PyTorch's notation for pipeline schedules: one row per rank, one action per cell, blank cells idle.
 *
 *   0F3  1I0  1W0  2B1        forward, input gradient, weight gradient, both; stage first, microbatch last
 *   (0F7;7B3)OVERLAP_F_B      a forward and a backward that share the machine
 *   0SEND_F3  1RECV_F3        messages, each named by the stage of the rank it is on
 *   2UNSHARD 2RESHARD 2REDUCE_GRAD
 *
 * Files of either form are read, and everything wrong with one is reported with its row and cell.
 */
import type { Problem, Spoken } from '../base/index.js'
import { type Marker, withMarkers } from './markers.js'
import { clause, refused } from './phrases.js'
import { showAction } from './stall.js'
import type { Action, CommAction, Schedule, Task, TaskKind, Transfer } from './task.js'
import { invalidities } from './validate.js'

/** A message as a file names it: who the peer is follows from the schedule. */
type NamedTransfer = Omit<Transfer, 'peer'>
export type CsvCell = Action | NamedTransfer | Marker

export const showCell = (cell: CsvCell): string => {
  if (cell.kind === 'overlap') return showAction(cell)
  return 'microbatch' in cell ? `${cell.stage}${cell.kind}${cell.microbatch}` : `${cell.stage}${cell.kind}`
}

const showRows = (rows: readonly (readonly CsvCell[])[]): string =>
  rows.map(row => `${row.map(showCell).join(',')}\n`).join('')

/** A pipeline schedule as PyTorch's CSV (tasks only). */
export const printSchedule = (schedule: Schedule): string => showRows(schedule.rows)

/** The comms form: tasks and messages, parameters gathered and freed, gradients reduced. */
export const printComms = (rows: readonly (readonly CommAction[])[]): string => showRows(rows.map(withMarkers))

export interface ParsedSchedule {
  /** Absent when there are problems. */
  readonly schedule?: Schedule
  readonly problems: readonly Problem[]
  /** How many cells were sends, receives or markers: they are generated, not read from the file. */
  readonly ignored: number
}

const mostProblems = 100
const mostCells = 4_000_000
const mostIndex = 1_000_000

/** Parses a pipeline schedule from PyTorch's CSV, with or without sends and receives, and validates it. */
export function parseSchedule(text: string): ParsedSchedule {
  const reader = new Reader()
  const lines = text
    .replace(/^\uFEFF/, '')
    .trimEnd()
    .split(/\r?\n/)
  const rows = lines.map((line, row) => reader.row(line, row + 1))
  if (reader.problems.length > 0) return { problems: reader.problems, ignored: reader.ignored }
  const tasks = reader.counts
  const schedule = { stages: tasks.stages, microbatches: tasks.microbatches, rows }
  const problems = invalidities(schedule).map(what => refused('', 'schedule/invalid', { what }))
  return { ...(problems.length === 0 ? { schedule } : {}), problems, ignored: reader.ignored }
}

const taskPattern = /^(\d+)(F|I|W|B)(\d+)$/
const messagePattern = /^(\d+)(SEND_F|RECV_F|SEND_B|RECV_B)(\d+)$/
const markerPattern = /^(\d+)(UNSHARD|RESHARD|REDUCE_GRAD)$/
const overlapPattern = /^\(([^;()]*);([^;()]*)\)OVERLAP_F_B$/

/** Collects what is wrong while it reads. */
class Reader {
  readonly problems: Problem[] = []
  readonly counts = { stages: 0, microbatches: 0 }
  ignored = 0
  #cells = 0

  row(line: string, row: number): Action[] {
    const actions: Action[] = []
    let column = 1
    if (this.problems.length >= mostProblems) return actions
    for (const [index, raw] of line.split(',').entries()) {
      const text = raw.trim()
      if (++this.#cells === mostCells + 1)
        this.problems.push({ ...refused('', 'schedule/size/file', { most: mostCells }), line: row, column })
      if (this.#cells > mostCells || this.problems.length >= mostProblems) break
      const action = text === '' ? undefined : this.#cell(text)
      if (action && 'phrase' in action)
        this.problems.push({
          ...refused('', 'schedule/cell', { row, cell: index + 1, what: action }),
          ...{ line: row, column },
        })
      else if (action) actions.push(action)
      column += raw.length + 1
    }
    return actions
  }

  /** An action, nothing where the cell is a message or a marker, or what is wrong. */
  #cell(text: string): Action | Spoken | undefined {
    const pair = overlapPattern.exec(text)
    if (pair) {
      const [first, second] = [this.#task(pair[1].trim()), this.#task(pair[2].trim())]
      if ('phrase' in first || 'phrase' in second) return clause('.two-tasks', { text: clip(text) })
      return { kind: 'overlap', tasks: [first, second] }
    }
    if (messagePattern.test(text) || markerPattern.test(text)) {
      this.ignored++
      return undefined
    }
    return this.#task(text)
  }

  #task(text: string): Task | Spoken {
    const match = taskPattern.exec(text)
    if (!match) return clause('.no-action', { text: clip(text) })
    const [stage, microbatch] = [Number(match[1]), Number(match[3])]
    if (stage >= mostIndex || microbatch >= mostIndex) return clause('.too-high', { text: clip(text), most: mostIndex })
    this.counts.stages = Math.max(this.counts.stages, stage + 1)
    this.counts.microbatches = Math.max(this.counts.microbatches, microbatch + 1)
    return { kind: match[2] as TaskKind, stage, microbatch } // the pattern allows these kinds only
  }
}

const clip = (text: string): string => (text.length > 40 ? `${text.slice(0, 40)}...` : text)
