/** `lockstep schedule`: makes, reads, checks, times and draws pipeline schedules. */
import { error, type Problem, showProblem, table, wrapped } from '../../base/index.js'
// Not through the folders' indices, which load schemas, YAML and the instructions: these take longer to load than to use.
import { scheduleFacts } from '../../plan/schedule.js'
import { timelineSvg } from '../../report/timeline.js'
import {
  type AutoOptions,
  autoProblems,
  type Costs,
  communicate,
  draw,
  drawComms,
  drawToScale,
  type Held,
  isScheduleName,
  makeSchedule,
  parseSchedule,
  printComms,
  printSchedule,
  type Schedule,
  scheduleNames,
  scheduleProblems,
  schedules,
  searchingOrders,
  showCell,
  type Timing,
  tasksOf,
  timing,
  unitCost,
  wholeActivation,
} from '../../schedule/index.js'
import type { Io } from '../io.js'
import { problemsJson } from '../text/problems.js'
import { withProgress } from '../text/progress.js'
import { scheduleTimeline } from '../text/schedule-timeline.js'
import { auto, type Format, formats } from '../words/schedule.js'

/** The options as they stand on the command line. */
export interface ScheduleOptions {
  readonly name?: string | undefined
  readonly pp?: string | undefined
  readonly microbatches?: string | undefined
  readonly chunks?: string | undefined
  readonly format?: string | undefined
  readonly comms?: boolean | undefined
  readonly cost?: string | undefined
  readonly limit?: string | undefined
  readonly held?: string | undefined
  readonly goal?: string | undefined
  readonly json?: boolean | undefined
  readonly file?: string | undefined
  readonly out?: string | undefined
}

/** 0 fine, 1 problems in what was given, 2 the command was used wrongly. */
type ExitCode = 0 | 1 | 2

class Refusal extends Error {
  readonly code: ExitCode
  readonly problems: readonly Problem[]
  constructor(code: ExitCode, problems: readonly Problem[], show: (problem: Problem) => string = showProblem) {
    super(problems.map(show).join('\n'))
    this.code = code
    this.problems = problems
  }
}

const plainly = ({ message }: Problem): string => `error ${message}`
const misuse = (...messages: string[]): Refusal =>
  new Refusal(
    2,
    messages.map(message => error('command/usage', '', message)),
    plainly,
  )
const refuse = (problems: readonly Problem[]): Refusal => new Refusal(1, problems)

export async function scheduleCommand(options: ScheduleOptions, io: Io): Promise<ExitCode> {
  try {
    const format = formatOf(options)
    const cost = options.cost === undefined ? unitCost : parseCosts(options.cost)
    const { schedule, title } =
      options.file === undefined ? await made(options, cost, io) : read(options.file, options, io)
    if (!('F' in cost) && cost.length !== schedule.rows.length)
      throw misuse(`--cost gives ${cost.length} costs for ${schedule.rows.length} ranks: one for all, or one for each`)
    const text = render({ schedule, title, format, cost, options, io })
    if (options.out === undefined) io.out(text)
    else attempt(options.out, 'written', () => io.write(options.out as string, text)) // checked just above
    return 0
  } catch (e) {
    if (!(e instanceof Refusal)) throw e
    if (options.json) io.out(problemsJson(e.problems))
    else io.err(`${e.message}\n`)
    return e.code
  }
}

function formatOf({ format = 'text', comms, json }: ScheduleOptions): Format {
  const found = formats.find(known => known === format)
  if (!found) throw misuse(`--format ${format}: must be one of ${formats.join(', ')}`)
  if (found === 'svg' && comms)
    throw misuse('--comms: sends and receives are shown by --format csv and --format text, not by svg')
  if (found === 'svg' && json) throw misuse('--json and --format svg cannot be combined')
  return found
}

/** Sums of more than this would not be exact. */
const mostCost = 1e9

/** F=1,I=1,W=1,C=0, or one such for each rank with ; between them. */
export function parseCosts(text: string): Costs {
  const costs = text.split(';').map(part => parseAmounts('cost', part, unitCost))
  return costs.length === 1 ? costs[0] : costs
}

/** F=1,I=1,W=1,C=0; what is left out keeps its usual value. */
function parseAmounts<K extends string>(
  option: string,
  text: string,
  usual: Readonly<Record<K, number>>,
): Record<K, number> {
  const keys = Object.keys(usual)
  const pairs = text.split(',').map((part): [string, number] => {
    const [, key = '', number] = /^\s*(\w)\s*=\s*(\d+(?:\.\d+)?(?:e[+-]?\d+)?)\s*$/.exec(part) ?? []
    if (!keys.includes(key) || Number(number) > mostCost)
      throw misuse(
        `--${option} ${text}: '${part.trim()}' is not ${keys.slice(0, -1).join(', ')} or ${keys.at(-1)} = a number from 0 to ${mostCost}`,
      )
    return [key, Number(number)]
  })
  return { ...usual, ...Object.fromEntries(pairs) }
}

/** Everything that was asked for as a number, or what is wrong with all of them that are none. */
function countsOf<K extends 'pp' | 'microbatches' | 'chunks' | 'limit'>(
  options: ScheduleOptions,
  names: readonly K[],
): Record<K, number> {
  const wrong = names.flatMap(name => {
    const value = options[name]
    if (value === undefined) return [`--${name} is missing`]
    return value.trim() === '' || Number.isNaN(Number(value)) ? [`--${name} ${value}: not a number`] : []
  })
  if (wrong.length > 0) throw misuse(...wrong)
  return Object.fromEntries(names.map(name => [name, Number(options[name])])) as Record<K, number> // each of the names
}

const searching = 'searching for an order'
const autoKeys = ['limit', 'held', 'goal'] as const

interface TitledSchedule {
  readonly schedule: Schedule
  readonly title: string
}

async function made(options: ScheduleOptions, cost: Costs, io: Io): Promise<TitledSchedule> {
  const { name, chunks } = options
  if (name === undefined)
    throw misuse(wrapped(`name a schedule or give --file: ${scheduleNames.join(', ')}, ${auto}`).join('\n'))
  if (name === auto) return madeAutomatically(options, cost, io)
  refuseAutoOptions(options)
  const known = isScheduleName(name) ? name : undefined
  const usual = { chunks: known ? scheduleFacts[known].chunks : 1 }
  const { pp: ranks, ...given } = countsOf(options, [
    'pp',
    'microbatches',
    ...(chunks === undefined ? [] : ['chunks' as const]),
  ])
  const counts = { ...usual, ...given, ranks }
  const problems = scheduleProblems(name, counts)
  if (!known) throw new Refusal(2, problems)
  if (problems.length > 0) throw refuse(problems)
  return { schedule: makeSchedule(known, counts), title: schedules[known].title }
}

async function madeAutomatically(options: ScheduleOptions, cost: Costs, io: Io): Promise<TitledSchedule> {
  const { chunks, limit, goal = 'makespan' } = options
  if (chunks !== undefined) throw misuse(`--chunks: ${auto} has one chunk on each rank`)
  if (goal !== 'makespan' && goal !== 'span') throw misuse(`--goal ${goal}: must be makespan or span`)
  const { pp: ranks, ...counts } = countsOf(options, [
    'pp',
    'microbatches',
    ...(limit === undefined ? [] : ['limit' as const]),
  ])
  const wanted: AutoOptions = { ranks, ...counts, cost, goal, held: heldOf(options) }
  const problems = autoProblems(wanted)
  if (problems.length > 0) throw refuse(problems)
  const schedule = await withProgress(io, progress => {
    progress.expect({ [searching]: 1 })
    return progress.run(searching, searchingOrders(wanted))
  })
  return { schedule, title: 'ZB-auto' }
}

const heldOf = ({ held }: ScheduleOptions): Held =>
  held === undefined ? wholeActivation : parseAmounts('held', held, wholeActivation)

function refuseAutoOptions(options: ScheduleOptions): void {
  const stray = autoKeys.filter(key => options[key] !== undefined)
  if (stray.length > 0) throw misuse(`${stray.map(showOption).join(', ')}: only ${auto} looks for an order`)
}

function read(file: string, options: ScheduleOptions, io: Io): TitledSchedule {
  refuseAutoOptions(options)
  const clash = (['name', 'pp', 'microbatches', 'chunks'] as const).filter(key => options[key] !== undefined)
  if (clash.length > 0) throw misuse(`--file brings its own counts: leave out ${clash.map(showOption).join(', ')}`)
  const { schedule, problems, ignored } = parseSchedule(attempt(file, 'read', () => io.read(file)))
  if (!schedule) throw refuse(problems.map(problem => ({ ...problem, path: file })))
  if (ignored > 0)
    io.err(`note: ${ignored} cells of ${file} are sends, receives or markers; they are placed again by the schedule\n`)
  return { schedule, title: file }
}

const showOption = (key: string): string => (key === 'name' ? 'NAME' : `--${key}`)

function attempt<T>(path: string, what: 'read' | 'written', action: () => T): T {
  try {
    return action()
  } catch (e) {
    const reason = e instanceof Error ? e.message : String(e)
    const code = what === 'read' ? 'file/unreadable' : 'run/write'
    throw new Refusal(1, [error(code, '', `${path}: cannot be ${what}: ${reason}`)], plainly)
  }
}

interface Rendering {
  readonly schedule: Schedule
  readonly title: string
  readonly format: Format
  readonly cost: Costs
  readonly options: ScheduleOptions
  readonly io: Io
}

function render(rendering: Rendering): string {
  const { schedule, title, format, cost, options, io } = rendering
  if (options.json) return json(rendering)
  if (format === 'svg') return svg(schedule, timing(schedule, cost, heldOf(options)), title)
  const rows = options.comms ? communicate(schedule) : undefined
  if (format === 'csv') {
    if (options.cost !== undefined) io.err(`${summary(timing(schedule, cost, heldOf(options)), schedule, options)}\n`)
    return rows ? printComms(rows) : printSchedule(schedule)
  }
  const timed = timing(schedule, cost, heldOf(options))
  const drawing = rows ? [folded(drawComms(rows))] : [folded(draw(schedule)), ...toScale(timed)]
  return `${[...drawing, summary(timed, schedule, options)].join('\n\n')}\n`
}

/** Rows that are longer than the screen, with the rest below. */
function folded(rows: string): string {
  const indent = ' '.repeat(rows.indexOf('|')) + '| '
  return rows
    .split('\n')
    .flatMap(row => wrapped(row, undefined, indent))
    .join('\n')
}

const letters = { F: 'F forward', B: 'B backward', I: 'I input gradient', W: 'W weight gradient' } as const

function toScale({ slots, makespan }: Timing): string[] {
  const lines = drawToScale(slots, makespan)
  if (lines.length === 0) return []
  const used = Object.entries(letters).flatMap(([letter, words]) =>
    lines.some(line => line.includes(letter)) ? [words] : [],
  )
  return [`To scale (${[...used, '· idle'].join(', ')}):\n${lines.join('\n')}`]
}

/** The formula for schedules of whole tasks, where it gives the bubble of this schedule and these costs. */
function bubbleFormula({ bubble }: Timing, { rows, stages, microbatches }: Schedule): string {
  const [idle, busy] = [rows.length - 1, (stages / rows.length) * microbatches]
  if (idle === 0 || Math.abs(bubble - idle / (busy + idle)) > 1e-9) return ''
  const chunks = stages > rows.length ? 'chunks x ' : ''
  return ` = (pp - 1) / (${chunks}microbatches + pp - 1) = ${idle} / ${busy + idle}`
}

const mostBoxes = 200_000

function svg(schedule: Schedule, timed: Timing, title: string): string {
  const boxes = schedule.rows.reduce((n, row) => n + tasksOf(row).length, 0)
  if (boxes > mostBoxes)
    throw new Refusal(
      1,
      [error('schedule/count', '', `${boxes} tasks are too many to draw, at most ${mostBoxes} can be`)],
      plainly,
    )
  return timelineSvg(scheduleTimeline(schedule, timed, title))
}

function json({ schedule, cost, options }: Rendering): string {
  const { makespan, span, idle, bubble, peak } = timing(schedule, cost, heldOf(options))
  const measured = { makespan, span, idle, bubble, peak }
  if (options.cost !== undefined && options.name !== auto) return `${JSON.stringify(measured)}\n`
  const rows = (options.comms ? communicate(schedule) : schedule.rows).map(row => row.map(showCell))
  const { stages, microbatches } = schedule
  return `${JSON.stringify({ ranks: rows.length, stages, microbatches, ...measured, rows })}\n`
}

/** The time without the dust of adding decimals. */
const shown = (time: number): number => Number(time.toPrecision(12))

function summary(timed: Timing, schedule: Schedule, { name, held }: ScheduleOptions): string {
  const { makespan, span, idle, bubble, peak } = timed
  const longest = name === auto ? `, longest rank ${shown(span)} from its first task to its last` : ''
  const rows = idle.map((time, rank) => [rank, shown(time), shown(peak[rank])])
  return `makespan ${shown(makespan)}, bubble ${(100 * bubble).toFixed(1)} %${bubbleFormula(timed, schedule)}${longest}\n${table(['rank', 'idle', held === undefined ? 'peak activations' : 'peak held'], rows)}`
}
