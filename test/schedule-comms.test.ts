/**
 * Messages never stall. The rows are executed by the strictest machine there is: one thing at a time on every rank,
 * a send is done only when its peer stands at the matching receive, and a task may use only what its rank computed or
 * received. The executor shares nothing with the code that placed the messages.
 */
import { deepEqual, equal } from 'node:assert/strict'
import { test } from 'node:test'
import { choices } from '../src/base/index.js'
import { scheduleFacts } from '../src/plan/index.js'
import {
  type CommAction,
  communicate,
  makeSchedule,
  type Schedule,
  scheduleNames,
  showCell,
  type Task,
  type Transfer,
  validate,
} from '../src/schedule/index.js'

const isTransfer = (item: CommAction): item is Transfer => /^(SEND|RECV)/.test(item.kind)

/** Empty when all rows complete, else where each rank stands. */
function execute(rows: readonly (readonly CommAction[])[], lastStage: number): string[] {
  const at = rows.map(() => 0)
  const has = rows.map(() => new Set<string>())
  const name = (what: string, stage: number, microbatch: number) => `${what}${stage}.${microbatch}`

  const runs = (rank: number, { kind, stage, microbatch }: Task): boolean => {
    const known = (what: string, s: number) => has[rank].has(name(what, s, microbatch))
    const needs = {
      F: stage === 0 || known('x', stage - 1),
      I: known('x', stage) && (stage === lastStage || known('g', stage + 1)),
      B: known('x', stage) && (stage === lastStage || known('g', stage + 1)),
      W: known('g', stage),
    }
    if (needs[kind]) has[rank].add(name(kind === 'F' ? 'x' : kind === 'W' ? 'w' : 'g', stage, microbatch))
    return needs[kind]
  }
  const meets = (rank: number, send: Transfer): boolean => {
    const there = rows[send.peer][at[send.peer]]
    const forward = send.kind === 'SEND_F'
    if (there?.kind !== (forward ? 'RECV_F' : 'RECV_B') || there.peer !== rank) return false
    const same = there.microbatch === send.microbatch && there.stage === send.stage + (forward ? 1 : -1)
    const value = name(forward ? 'x' : 'g', send.stage, send.microbatch)
    if (!same || !has[rank].has(value)) return false
    has[send.peer].add(value)
    at[send.peer]++
    return true
  }
  const step = (rank: number): boolean => {
    const item = rows[rank][at[rank]]
    if (item === undefined) return false
    const tasks = item.kind === 'overlap' ? item.tasks : isTransfer(item) ? [] : [item]
    const done = isTransfer(item)
      ? item.kind.startsWith('SEND') && meets(rank, item)
      : tasks.every(task => runs(rank, task))
    if (done) at[rank]++
    return done
  }

  const awake = rows.map((_, rank) => rank)
  for (let moved = true; moved; ) {
    moved = false
    for (const rank of awake) while (step(rank)) moved = true
  }
  return rows.flatMap((row, rank) => (at[rank] === row.length ? [] : [`rank ${rank} at ${showCell(row[at[rank]])}`]))
}

const completes = (schedule: Schedule, title: string) =>
  deepEqual(execute(communicate(schedule), schedule.stages - 1), [], title)

for (const name of scheduleNames)
  test(`${name}: blocking sends complete for p in 1..8 and m in 1..24`, () => {
    const loops = /looped|interleaved/.test(name)
    for (const chunks of loops ? [1, 2, 3] : [scheduleFacts[name].chunks])
      for (let ranks = 1; ranks <= 8; ranks++)
        for (let microbatches = 1; microbatches <= 24; microbatches += microbatches < 10 ? 1 : 3)
          completes(makeSchedule(name, { ranks, chunks, microbatches }), `p=${ranks} v=${chunks} m=${microbatches}`)
  })

/** Any order at all that respects what tasks need: ranks and ready tasks are picked blindly. */
function anySchedule(seed: number): Schedule {
  const { int, pick } = choices(seed)
  const [ranks, chunks, microbatches] = [1 + int(5), 1 + int(3), 1 + int(6)]
  const stages = ranks * chunks
  const place = Array.from({ length: stages }, (_, stage) => (stage < ranks ? stage : int(ranks)))
  const rows: Task[][] = Array.from({ length: ranks }, () => [])
  const open: Task[] = Array.from({ length: microbatches }, (_, microbatch) => ({ kind: 'F', stage: 0, microbatch }))
  while (open.length > 0) {
    const [task] = open.splice(int(open.length), 1)
    rows[place[task.stage]].push(task)
    open.push(...nextOf(task, stages, pick([true, false])))
  }
  return { stages, microbatches, rows }
}

function nextOf({ kind, stage, microbatch }: Task, stages: number, split: boolean): Task[] {
  const back = (at: number): Task[] => (at < 0 ? [] : [{ kind: split ? 'I' : 'B', stage: at, microbatch }])
  if (kind === 'F') return stage + 1 < stages ? [{ kind: 'F', stage: stage + 1, microbatch }] : back(stage)
  if (kind === 'W') return []
  return [...back(stage - 1), ...(kind === 'I' ? [{ kind: 'W', stage, microbatch } as const] : [])]
}

const seeds = process.env.SEED ? [Number(process.env.SEED)] : Array.from({ length: 200 }, (_, i) => i + 1)
test(`blocking sends complete for any schedule that runs at all (SEED=1..${seeds.length})`, () => {
  for (const seed of seeds) {
    const schedule = anySchedule(seed)
    deepEqual(validate(schedule), [], `SEED=${seed}`)
    completes(schedule, `SEED=${seed}`)
  }
})

test('the executor sees two ranks that send to each other at once', () => {
  const rows = communicate(makeSchedule('1f1b', { ranks: 2, chunks: 1, microbatches: 2 })).map(row => [...row])
  const at = rows[0].findIndex(item => item.kind === 'RECV_B')
  rows[0].splice(at + 1, 0, ...rows[0].splice(at, 1))
  equal(execute(rows, 1).length > 0, true)
})
