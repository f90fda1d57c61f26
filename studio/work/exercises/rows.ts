/** Rows of a schedule that a reader wrote, for four ranks: on paper, under the laws, and beside one rank. */
import { compileJob, makeSchedule, type Problem, parseSchedule, printSchedule, type Schedule } from 'lockstep'
import type { Broken } from '../broken.js'
import { type JobText, jobOf } from '../jobs.js'
import { brokenBy } from '../program/index.js'
import { type Cost, lay, type ScheduleAnswer } from '../schedule.js'
import { type Beside, besideOneRank } from './beside.js'
import type { Texts } from './index.js'

const ranks = 4
/** A backward is an input gradient and a weight gradient, each as long as a forward; messages cost nothing. */
const cost: Cost = { F: 1, I: 1, W: 1, C: 0 }

const jobFor = (microbatches: number): JobText => ({
  model: { family: 'mlp', layers: ranks, embed: 4, ffn: 8 },
  training: { seq: 2, globalBatch: microbatches },
  plan: { pp: ranks, microbatches },
})

const cellsOf = (name: 'gpipe' | '1f1b' | 'zb-h1', microbatches: number): string =>
  printSchedule(makeSchedule(name, { ranks, microbatches, chunks: 1 })).trim()

const makespanOf = (cells: string, microbatches: number): number =>
  lay({ name: 'own', ranks, microbatches, chunks: 1, cost, cells }).makespan

export interface RowTexts extends Texts {
  readonly microbatches: number
  /** What a step takes by the schedule to beat, and by the one to be held against. */
  readonly before: number
  readonly best: number
}

/** The forwards of four microbatches alone. */
export function pipelineBackward(_: object): RowTexts {
  const solution = cellsOf('1f1b', 4)
  const forwards = (row: string) => row.split(',').filter(cell => /^\d+F/.test(cell))
  const start = solution.split('\n').map(row => forwards(row).join(','))
  const [before, best] = [makespanOf(cellsOf('gpipe', 4), 4), makespanOf(solution, 4)]
  return { start: start.join('\n'), solution, microbatches: 4, before, best }
}

/** 1F1B of eight microbatches, and one that beats it. */
export function bubble(_: object): RowTexts {
  const [start, solution] = [cellsOf('1f1b', 8), cellsOf('zb-h1', 8)]
  return { start, solution, microbatches: 8, before: makespanOf(start, 8), best: makespanOf(solution, 8) }
}

export interface JudgedRows {
  readonly problems: readonly Problem[]
  readonly broken: readonly Broken[]
  /** What the rows are for, where that is something else than was asked. */
  readonly shape?: { readonly ranks: number; readonly stages: number; readonly microbatches: number }
  readonly laid?: ScheduleAnswer
  readonly beside?: Beside
}

export function judgeRows({
  text,
  microbatches,
}: {
  readonly text: string
  readonly microbatches: number
}): JudgedRows {
  const { schedule, problems } = parseSchedule(text.replaceAll(' ', ''))
  if (!schedule) return { problems, broken: [] }
  const shape = { ranks: schedule.rows.length, stages: schedule.stages, microbatches: schedule.microbatches }
  if (shape.ranks !== ranks || shape.stages !== ranks || shape.microbatches !== microbatches)
    return { problems: [], broken: [], shape }
  return { problems: [], ...run(schedule, microbatches) }
}

function run(schedule: Schedule, microbatches: number): Pick<JudgedRows, 'broken' | 'laid' | 'beside'> {
  const laid = lay({ name: 'own', ranks, microbatches, chunks: 1, cost, cells: printSchedule(schedule) })
  const job = jobOf(jobFor(microbatches))
  const program = compileJob(job, schedule, { verify: false })
  const broken = brokenBy(program, job)
  return broken.length > 0 ? { broken, laid } : { broken, laid, beside: besideOneRank(program, job) }
}
