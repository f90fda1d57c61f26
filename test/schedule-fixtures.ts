/** Other systems' schedules, as files beside the repository; see shared/fixtures/README.md there. */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { makeSchedule, parseSchedule, type Schedule, type ScheduleName } from '../src/compile/index.js'

const folder = '../shared/fixtures/schedules'

/** For `{ skip }`: false, or why. */
export const noFixtures: false | string = existsSync(folder) ? false : `no ${folder}`

export const fixtureNames = (pattern: RegExp): string[] =>
  noFixtures
    ? []
    : readdirSync(folder)
        .filter(name => pattern.test(name))
        .sort()

export const readFixture = (name: string): string => readFileSync(`${folder}/${name}`, 'utf8')

export function fixtureSchedule(name: string): Schedule {
  const { schedule, problems } = parseSchedule(readFixture(name))
  if (!schedule) throw new Error(`${name}: ${problems.map(problem => problem.message).join('; ')}`)
  return schedule
}

/** Our schedule for the counts in a fixture's name, such as ScheduleGPipe_pp4_v2_mb8. */
export function oursFor(schedule: ScheduleName, fixture: string, chunks = 1): Schedule {
  const count = (key: string) => Number(new RegExp(`_${key}(\\d+)`).exec(fixture)?.[1] ?? chunks)
  return makeSchedule(schedule, { ranks: count('pp'), chunks: count('v'), microbatches: count('mb') })
}

export interface Measured {
  readonly makespan: number
  readonly bubble: readonly number[]
  readonly peak_live: readonly number[]
}

export const measured = (): [string, Measured][] =>
  noFixtures
    ? []
    : Object.entries({
        ...(JSON.parse(readFixture('makespan_sim_F1_I1_W1.json')) as Record<string, Measured>),
        ...(JSON.parse(readFixture('makespan_sail_sim.json')) as Record<string, Measured>),
      })
