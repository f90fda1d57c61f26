/** Schedules of other systems, and ours for the same counts. */
import { makeSchedule, parseSchedule, type Schedule, type ScheduleName } from '../src/schedule/index.js'
import { fixtureNames, readFixture } from './fixtures.js'

export const scheduleFiles = (pattern: RegExp): string[] => fixtureNames('schedules', pattern)

export const readSchedule = (name: string): string => readFixture(`schedules/${name}`)

export function fixtureSchedule(name: string): Schedule {
  const { schedule, problems } = parseSchedule(readSchedule(name))
  if (!schedule) throw new Error(`${name}: ${problems.map(problem => problem.message).join('; ')}`)
  return schedule
}

/** The 4 of pp4 in a fixture's name. */
export const countIn = (fixture: string, key: 'pp' | 'v' | 'mb', usual = 1): number =>
  Number(new RegExp(`_${key}(\\d+)`).exec(fixture)?.[1] ?? usual)

/** Our schedule for the counts in a fixture's name, such as ScheduleGPipe_pp4_v2_mb8. */
export function oursFor(schedule: ScheduleName, fixture: string, chunks = 1): Schedule {
  const counts = {
    ranks: countIn(fixture, 'pp'),
    chunks: countIn(fixture, 'v', chunks),
    microbatches: countIn(fixture, 'mb'),
  }
  return makeSchedule(schedule, counts)
}

export interface Measured {
  readonly makespan: number
  readonly bubble: readonly number[]
  readonly peak_live: readonly number[]
}

export const measured = (): [string, Measured][] =>
  ['makespan_sim_F1_I1_W1.json', 'makespan_sail_sim.json'].flatMap(name =>
    Object.entries(JSON.parse(readSchedule(name)) as Record<string, Measured>),
  )
