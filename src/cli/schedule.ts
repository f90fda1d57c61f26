/** `lockstep schedule`: makes, reads, checks, times and draws pipeline schedules. */
import type { Command } from 'commander'
import { type Problem, showProblem, table } from '../base/index.js'
import {
  communicate,
  draw,
  drawComms,
  isScheduleName,
  parseSchedule,
  printComms,
  printSchedule,
  type Schedule,
  scheduleNames,
  scheduleProblems,
  schedules,
  showCell,
  type TaskCost,
  type Timing,
  tasksOf,
  timing,
  unitCost,
} from '../compile/index.js'
import { scheduleTraits } from '../plan/index.js'
import { timelineSvg } from '../report/index.js'
import type { Io } from './io.js'
import { scheduleTimeline } from './schedule-timeline.js'

/** As they stand on the command line. */
export interface ScheduleOptions {
  readonly name?: string | undefined
  readonly pp?: string | undefined
  readonly microbatches?: string | undefined
  readonly chunks?: string | undefined
  readonly format?: string | undefined
  readonly comms?: boolean | undefined
  readonly cost?: string | undefined
  readonly json?: boolean | undefined
  readonly file?: string | undefined
  readonly out?: string | undefined
}

const formats = ['csv', 'text', 'svg'] as const
type Format = (typeof formats)[number]

/** 0 fine, 1 problems in what was given, 2 the command was used wrongly. */
type ExitCode = 0 | 1 | 2

class Refusal extends Error {
  readonly code: ExitCode
  constructor(code: ExitCode, messages: readonly string[]) {
    super(messages.join('\n'))
    this.code = code
  }
}

const misuse = (...messages: string[]): Refusal =>
  new Refusal(
    2,
    messages.map(message => `error ${message}`),
  )
const refuse = (problems: readonly Problem[]): Refusal => new Refusal(1, problems.map(showProblem))

export function scheduleCommand(options: ScheduleOptions, io: Io): ExitCode {
  try {
    const format = formatOf(options)
    const cost = options.cost === undefined ? unitCost : parseCost(options.cost)
    const { schedule, title } = options.file === undefined ? made(options) : read(options.file, options, io)
    const text = render({ schedule, title, format, cost, options, io })
    if (options.out === undefined) io.out(text)
    else attempt(options.out, 'written', () => io.write(options.out as string, text)) // checked just above
    return 0
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    io.err(`${error.message}\n`)
    return error.code
  }
}

function formatOf({ format = 'text', comms, json }: ScheduleOptions): Format {
  const found = formats.find(known => known === format)
  if (!found) throw misuse(`--format ${format}: there are ${formats.join(', ')}`)
  if (found === 'svg' && comms)
    throw misuse('--comms: messages are shown by --format csv and --format text, not by svg')
  if (found === 'svg' && json) throw misuse('--json and --format svg are two forms of output: choose one')
  return found
}

/** Sums of more than this would not be exact. */
const mostCost = 1e9

/** F=1,I=1,W=1,C=0; what is left out keeps its unit value. */
export function parseCost(text: string): TaskCost {
  const cost = { ...unitCost }
  for (const part of text.split(',')) {
    const match = /^\s*([FIWC])\s*=\s*(\d+(?:\.\d+)?(?:e[+-]?\d+)?)\s*$/.exec(part)
    if (!match || Number(match[2]) > mostCost)
      throw misuse(`--cost ${text}: '${part.trim()}' is not F, I, W or C = a number from 0 to ${mostCost}`)
    cost[match[1] as keyof TaskCost] = Number(match[2]) // the pattern allows these letters only
  }
  return cost
}

function countOf(name: string, value: string | undefined): number {
  if (value === undefined) throw misuse(`--${name} is missing`)
  if (value.trim() === '' || Number.isNaN(Number(value))) throw misuse(`--${name} ${value}: not a number`)
  return Number(value)
}

function made({ name, pp, microbatches, chunks }: ScheduleOptions): { schedule: Schedule; title: string } {
  if (name === undefined) throw misuse(`name a schedule or give --file; there are ${scheduleNames.join(', ')}`)
  const known = isScheduleName(name) ? name : undefined
  const counts = {
    ranks: countOf('pp', pp),
    microbatches: countOf('microbatches', microbatches),
    chunks: chunks === undefined ? (known ? scheduleTraits[known].chunks : 1) : countOf('chunks', chunks),
  }
  const problems = scheduleProblems(name, counts)
  if (!known) throw new Refusal(2, problems.map(showProblem))
  if (problems.length > 0) throw refuse(problems)
  return { schedule: schedules[known].make(counts), title: schedules[known].title }
}

function read(file: string, options: ScheduleOptions, io: Io): { schedule: Schedule; title: string } {
  const clash = (['name', 'pp', 'microbatches', 'chunks'] as const).filter(key => options[key] !== undefined)
  if (clash.length > 0) throw misuse(`--file brings its own counts: leave out ${clash.map(showOption).join(', ')}`)
  const { schedule, problems, ignored } = parseSchedule(attempt(file, 'read', () => io.read(file)))
  if (!schedule) throw refuse(problems.map(problem => ({ ...problem, path: file })))
  if (ignored > 0) io.err(`note: ${ignored} cells of ${file} are messages or markers; they are placed anew\n`)
  return { schedule, title: file }
}

const showOption = (key: string): string => (key === 'name' ? 'NAME' : `--${key}`)

function attempt<T>(path: string, what: string, action: () => T): T {
  try {
    return action()
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error)
    throw new Refusal(1, [`error ${path}: cannot be ${what}: ${reason}`])
  }
}

interface Rendering {
  readonly schedule: Schedule
  readonly title: string
  readonly format: Format
  readonly cost: TaskCost
  readonly options: ScheduleOptions
  readonly io: Io
}

function render(rendering: Rendering): string {
  const { schedule, title, format, cost, options, io } = rendering
  if (options.json) return json(rendering)
  if (format === 'svg') return svg(schedule, timing(schedule, cost), title)
  const rows = options.comms ? communicate(schedule) : undefined
  if (format === 'csv') {
    if (options.cost !== undefined) io.err(`${summary(timing(schedule, cost))}\n`)
    return rows ? printComms(rows) : printSchedule(schedule)
  }
  return `${rows ? drawComms(rows) : draw(schedule)}\n\n${summary(timing(schedule, cost))}\n`
}

const mostBoxes = 200_000

function svg(schedule: Schedule, timed: Timing, title: string): string {
  const boxes = schedule.rows.reduce((n, row) => n + tasksOf(row).length, 0)
  if (boxes > mostBoxes)
    throw new Refusal(1, [`error ${boxes} tasks are too many to draw, at most ${mostBoxes} can be`])
  return timelineSvg(scheduleTimeline(schedule, timed, title))
}

function json({ schedule, cost, options }: Rendering): string {
  const { makespan, idle, bubble, peak } = timing(schedule, cost)
  const measured = { makespan, idle, bubble, peak }
  if (options.cost !== undefined) return `${JSON.stringify(measured)}\n`
  const rows = (options.comms ? communicate(schedule) : schedule.rows).map(row => row.map(showCell))
  const { stages, microbatches } = schedule
  return `${JSON.stringify({ ranks: rows.length, stages, microbatches, ...measured, rows })}\n`
}

function summary({ makespan, idle, bubble, peak }: Timing): string {
  const rows = idle.map((time, rank) => [rank, time, peak[rank]])
  return `makespan ${makespan}, bubble ${(100 * bubble).toFixed(1)} %\n${table(['rank', 'idle', 'peak activations'], rows)}`
}

const help = `
Schedules:
${scheduleNames.map(name => `  ${name.padEnd(15)} ${schedules[name].describe}`).join('\n')}

Examples:
  lockstep schedule 1f1b --pp 4 --microbatches 8
  lockstep schedule zb-v --pp 4 --microbatches 8 --format svg --out zb-v.svg
  lockstep schedule interleaved --pp 4 --chunks 2 --microbatches 8 --format csv --comms
  lockstep schedule --file mine.csv --cost F=1,I=1,W=1,C=0 --json

Exit code 0: fine, 1: the schedule has problems, 2: wrong use.`

export function registerSchedule(program: Command, io: Io, done: (code: number) => void): void {
  program
    .command('schedule')
    .description('make, check, time and draw a pipeline schedule')
    .argument('[name]', 'which schedule')
    .option('--pp <ranks>', 'pipeline ranks')
    .option('--microbatches <count>', 'microbatches of a step')
    .option('--chunks <count>', 'chunks of layers on each rank (default: what the schedule needs)')
    .option('--format <form>', `${formats.join(', ')} (default: text)`)
    .option('--comms', 'with messages, parameter gathers and gradient reductions')
    .option('--cost <costs>', 'time of each task, and of a transfer between ranks, as F=1,I=1,W=1,C=0')
    .option('--json', 'rows and timing as JSON; with --cost the timing only')
    .option('--file <csv>', "a schedule in PyTorch's CSV notation instead of a name")
    .option('--out <file>', 'write there instead of printing')
    .addHelpText('after', help)
    .action((name: string | undefined, options: Omit<ScheduleOptions, 'name'>) =>
      done(scheduleCommand({ ...options, name }, io)),
    )
}
