/** Schedules of a pipeline: made, searched for or read from cells, then run on paper. */
import {
  autoSchedule,
  makeSchedule,
  type Problem,
  ProblemsError,
  parseSchedule,
  printSchedule,
  type Schedule,
  scheduleNames,
  schedules,
  timing,
} from 'lockstep'

export interface Cost {
  readonly F: number
  readonly I: number
  readonly W: number
  readonly C: number
}

export interface ScheduleInput {
  /** A name of the catalog, `zb-auto`, or `own`: what stands in `cells`. */
  readonly name: string
  readonly ranks: number
  readonly microbatches: number
  readonly chunks: number
  readonly cost: Cost
  /** zb-auto: the most activations a rank may hold. */
  readonly limit?: number
  readonly cells?: string
}

/** What a rank does between two moments. */
export interface Box {
  readonly kind: 'F' | 'I' | 'W' | 'B'
  readonly stage: number
  readonly microbatch: number
  /** Which half of a pair that shares the machine. */
  readonly band?: number
  readonly start: number
  readonly end: number
}

export interface ScheduleAnswer {
  readonly makespan: number
  readonly bubble: number
  readonly peak: readonly number[]
  readonly idle: readonly number[]
  readonly rows: readonly (readonly Box[])[]
  /** The same in PyTorch's notation, to be edited. */
  readonly cells: string
}

export interface Catalog {
  readonly name: string
  readonly describe: string
}

export const catalog = (_: object): Catalog[] => [
  ...scheduleNames.map(name => ({ name, describe: schedules[name].describe })),
  { name: 'zb-auto', describe: 'searched for the costs and the memory given here' },
]

/** Rows are numbered from 1, as editors do. */
const refuse = (problems: readonly Problem[]): never => {
  throw new ProblemsError([...problems])
}

function scheduleOf({ name, ranks, microbatches, chunks, cost, limit, cells = '' }: ScheduleInput): Schedule {
  if (name === 'own') {
    const { schedule, problems } = parseSchedule(cells)
    return schedule ?? refuse(problems)
  }
  if (name === 'zb-auto') return autoSchedule({ ranks, microbatches, cost, ...(limit && { limit }) })
  const known = scheduleNames.find(each => each === name)
  if (known === undefined)
    return refuse([
      { severity: 'error', code: 'schedule/unknown', path: 'schedule', message: `there is no schedule ${name}` },
    ])
  return makeSchedule(known, { ranks, microbatches, chunks })
}

export function lay(input: ScheduleInput): ScheduleAnswer {
  const schedule = scheduleOf(input)
  const { makespan, bubble, peak, idle, slots } = timing(schedule, input.cost)
  return { makespan, bubble, peak, idle, rows: slots.map(row => row.flatMap(boxesOf)), cells: printSchedule(schedule) }
}

type Slot = ReturnType<typeof timing>['slots'][number][number]

/** A forward and a backward that share the machine lie one over the other. */
function boxesOf({ action, start, end }: Slot): Box[] {
  const tasks = action.kind === 'overlap' ? action.tasks : [action]
  return tasks.map(({ kind, stage, microbatch }, n) => ({
    ...{ kind, stage, microbatch, start, end },
    ...(tasks.length > 1 && { band: n }),
  }))
}
