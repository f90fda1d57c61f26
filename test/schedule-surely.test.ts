/** What is known of a schedule before there is one: what ranks surely do first, and what they put off. */
import { ok } from 'node:assert/strict'
import { test } from 'node:test'
import { scheduleFacts } from '../src/plan/index.js'
import { makeSchedule, scheduleNames, schedules, tasksOf } from '../src/schedule/index.js'

test('what ranks surely do first on a V they do, whatever the limit', () => {
  for (const name of scheduleNames) {
    const { leads } = schedules[name]
    for (const ranks of leads ? [1, 2, 3, 4, 7, 16] : [])
      for (const microbatches of [1, 2, 5, 9, 40]) {
        const counts = { ranks, chunks: 2, microbatches }
        for (const [rank, row] of makeSchedule(name, counts).rows.entries()) {
          const first = tasksOf(row).findIndex(({ kind, stage }) => kind !== 'F' || stage !== rank)
          const said = leads!(counts)[rank] // asked above
          ok(first >= said && said > 0, `${name} ${JSON.stringify({ counts, rank, first, said })}`)
        }
      }
  }
})

test('weight gradients that the last rank is said to put off it owes at one time', () => {
  for (const name of scheduleNames)
    for (const ranks of [1, 2, 3, 4, 7])
      for (const microbatches of [1, 2, 5, 9, 16])
        for (const chunks of scheduleFacts[name].chunksFixed ? [scheduleFacts[name].chunks] : [1, 2, 3]) {
          const counts = { ranks, chunks, microbatches }
          const row = tasksOf(makeSchedule(name, counts).rows[ranks - 1])
          const first = row.findIndex(({ kind }) => kind === 'W')
          const made = (chunk: number) =>
            row.slice(0, first).filter(({ kind, stage }) => kind === 'I' && stage === chunk * ranks + ranks - 1).length
          for (const [chunk, count] of schedules[name].owed?.(counts).entries() ?? [])
            ok(count === 0 || made(chunk) >= count, `${name} ${JSON.stringify({ counts, chunk, count })}`)
        }
})

test('what the first rank has begun before its first backward is what `begun` says, or more', () => {
  for (const name of scheduleNames)
    for (const ranks of [1, 2, 3, 4, 7])
      for (const microbatches of [1, 2, 3, 5, 8, 9, 16])
        for (const chunks of scheduleFacts[name].chunksFixed ? [scheduleFacts[name].chunks] : [1, 2, 3]) {
          const counts = { ranks, chunks, microbatches }
          const row = tasksOf(makeSchedule(name, counts).rows[0])
          const first = row.findIndex(({ kind }) => kind !== 'F')
          const stages = [...new Set(row.map(({ stage }) => stage))].sort((a, b) => a - b)
          const done = stages.map(stage => row.slice(0, first).filter(task => task.stage === stage).length)
          const said = schedules[name].begun(counts)
          const exact = scheduleFacts[name].placement === 'loop'
          for (const [chunk, count] of said.entries())
            ok(
              exact ? done[chunk] === count : done[chunk] >= count,
              `${name} ${JSON.stringify({ counts, done, said })}`,
            )
        }
})
