/** What a schedule is, is said once: the table against the schedules themselves. */
import { deepEqual, equal } from 'node:assert/strict'
import { test } from 'node:test'
import { splitOf } from '../src/estimate/index.js'
import { type ScheduleFacts, scheduleFacts, scheduleNames } from '../src/plan/index.js'
import { makeSchedule, tasksOf } from '../src/schedule/index.js'
import { jobOf } from './jobs.js'

const ranks = 4
const microbatches = 16

/** The facts of a schedule, read off its rows. */
function read(rows: readonly (readonly { kind: string; stage: number }[])[], stages: number): Partial<ScheduleFacts> {
  const held = rows.map(row => [...new Set(row.map(({ stage }) => stage))].sort((a, b) => a - b))
  const kinds = new Set(rows.flat().map(({ kind }) => kind))
  const twice = held.flat().length > stages
  const onLoop = held.every((own, rank) => own.every(stage => stage % ranks === rank))
  const forwards = rows.map(row => row.findIndex(({ kind }) => kind !== 'F'))
  return {
    placement: twice ? 'both ends' : onLoop ? 'loop' : 'v',
    backward: !kinds.has('W') ? 'whole' : kinds.has('B') ? 'paired' : 'split',
    forwardsFirst: forwards.every((at, rank) => at === rows[rank].filter(({ kind }) => kind === 'F').length),
  }
}

for (const name of scheduleNames)
  test(`${name} is as the table says`, () => {
    const { chunks, chunksFixed: _, ...facts } = scheduleFacts[name]
    const { rows, stages } = makeSchedule(name, { ranks, chunks, microbatches })
    equal(stages, ranks * chunks)
    deepEqual(read(rows.map(tasksOf), stages), facts)
  })

test('a schedule from a file has no price but the one it is to be priced as', () => {
  const job = jobOf('gpt', { pp: 2, microbatches: 2, schedule: 'own.csv' })
  equal(splitOf(job), undefined)
  equal(splitOf(job, 'zb-h1').schedule, 'zb-h1')
  equal(splitOf(jobOf('gpt', { pp: 2, microbatches: 2 }), 'zb-h1').schedule, '1f1b')
})
