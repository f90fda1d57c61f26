/** Schedules by their drawings, the laws every one of them keeps, and schedules that break one. */
import { deepEqual, equal, match, ok } from 'node:assert/strict'
import { test } from 'node:test'
import { choices } from '../src/base/index.js'
import { scheduleFacts } from '../src/plan/index.js'
import {
  type Action,
  draw,
  makeSchedule,
  Places,
  type Schedule,
  type ScheduleName,
  scheduleNames,
  scheduleProblems,
  type Task,
  tasksOf,
  timing,
  validate,
} from '../src/schedule/index.js'

const made = new Map<string, Schedule>()
const make = (
  name: ScheduleName,
  ranks: number,
  microbatches: number,
  chunks = scheduleFacts[name].chunks,
): Schedule => {
  const key = [name, ranks, microbatches, chunks].join()
  const schedule = made.get(key) ?? makeSchedule(name, { ranks, chunks, microbatches })
  made.set(key, schedule)
  return schedule
}

const dedent = (picture: string) => picture.replace(/^\s+/gm, '').trim()

const draws = (schedule: Schedule, picture: string) => equal(draw(schedule), dedent(picture))

test('gpipe: all forwards, then all backwards', () =>
  draws(
    make('gpipe', 2, 3),
    `
    0 | F0 F1 F2 B0 B1 B2
    1 | F0 F1 F2 B0 B1 B2`,
  ))

test('1f1b alternates after warm-up', () =>
  draws(
    make('1f1b', 3, 4),
    `
    0 | F0 F1 F2 B0 F3 B1 B2 B3
    1 | F0 F1 B0 F2 B1 F3 B2 B3
    2 | F0 B0 F1 B1 F2 B2 F3 B3`,
  ))

test('1f1b with fewer microbatches than ranks', () =>
  draws(
    make('1f1b', 4, 2),
    `
    0 | F0 F1 B0 B1
    1 | F0 F1 B0 B1
    2 | F0 F1 B0 B1
    3 | F0 B0 F1 B1`,
  ))

test('looped-bfs comes back in reverse', () =>
  draws(
    make('looped-bfs', 2, 2),
    `
    0 | 0F0 0F1 2F0 2F1 2B1 2B0 0B1 0B0
    1 | 1F0 1F1 3F0 3F1 3B1 3B0 1B1 1B0`,
  ))

test('interleaved goes through both chunks in groups of p', () =>
  draws(
    make('interleaved', 2, 4),
    `
    0 | 0F0 0F1 2F0 2F1 0F2 2B0 0F3 2B1 2F2 0B0 2F3 0B1 2B2 2B3 0B2 0B3
    1 | 1F0 1F1 3F0 3B0 3F1 3B1 1F2 1B0 1F3 1B1 3F2 3B2 3F3 3B3 1B2 1B3`,
  ))

test('interleaved, 5 microbatches on 2 ranks: the last group is short', () =>
  draws(
    make('interleaved', 2, 5),
    `
    0 | 0F0 0F1 2F0 2F1 0F2 2B0 0F3 2B1 2F2 0B0 2F3 0B1 0F4 2B2 2B3 2F4 0B2 0B3 2B4 0B4
    1 | 1F0 1F1 3F0 3B0 3F1 3B1 1F2 1B0 1F3 1B1 3F2 3B2 3F3 3B3 1F4 1B2 1B3 3F4 3B4 1B4`,
  ))

test('zb-h1 puts weight gradients off by one turn for each rank before', () =>
  draws(
    make('zb-h1', 3, 4),
    `
    0 | F0 F1 F2 I0 W0 F3 I1 W1 I2 W2 I3 W3
    1 | F0 F1 I0 F2 I1 W0 F3 I2 W1 I3 W2 W3
    2 | F0 I0 F1 I1 F2 I2 W0 F3 I3 W1 W2 W3`,
  ))

test('dualpipe-v pairs forwards with backwards', () =>
  draws(
    make('dualpipe-v', 2, 4),
    `
    0 | 0F0 0F1 0F2 3F0 3I0 3W0 3F1 0F3+3B1 3F2+0B0 3B2 3F3+0B1 3B3 0I2 0W2 0I3 0W3
    1 | 1F0 2F0 1F1 2F1 1F2 2B0 2F2+1B0 1F3+2B1 2F3+1B1 2B2 1B2 2I3 1I3 2W3 1W3`,
  ))

test('dualpipe feeds both ends and holds every stage twice', () => {
  const places = new Places(make('dualpipe', 4, 8))
  deepEqual(
    [0, 1, 2, 3].map(stage => places.holders(stage)),
    [
      [0, 3],
      [1, 2],
      [1, 2],
      [0, 3],
    ],
  )
  deepEqual([places.rankOf(0, 3), places.rankOf(0, 4)], [0, 3])
})

test('one rank is one rank, whatever the schedule', () => {
  draws(make('1f1b', 1, 2), '0 | F0 B0 F1 B1')
  draws(make('zb-h2', 1, 2), '0 | F0 I0 W0 F1 I1 W1')
  draws(make('zb-v', 1, 1), '0 | 0F0 1F0 1I0 0I0 1W0 0W0')
  draws(make('dualpipe', 1, 1), '0 | F0 B0')
})

const every = function* () {
  for (const name of scheduleNames)
    for (let ranks = 1; ranks <= 8; ranks++)
      for (let microbatches = 1; microbatches <= 24; microbatches++)
        for (const chunks of scheduleFacts[name].chunks === 2 && /looped|interleaved/.test(name)
          ? [1, 2, 3]
          : [scheduleFacts[name].chunks])
          yield { name, ranks, microbatches, chunks }
}

test('every schedule is valid for p in 1..8 and m in 1..24, also where m < p', () => {
  for (const { name, ranks, microbatches, chunks } of every())
    deepEqual(validate(make(name, ranks, microbatches, chunks)), [], `${name} p=${ranks} m=${microbatches} v=${chunks}`)
})

const peakLimits: Partial<Record<ScheduleName, (p: number, m: number) => number>> = {
  '1f1b': (p, m) => Math.min(p, m),
  'zb-h1': p => p,
  'zb-h2': p => 2 * p - 1,
  'zb-v': p => 2 * p,
  'v-half': p => (p % 2 === 0 ? p + 2 : p + 1),
  'v-min': p => 2 * Math.floor((p + 4) / 3),
  'dualpipe-v': p => 2 * p + 1,
  dualpipe: p => 2 * Math.ceil(p / 2) + 1,
}

test('no rank holds more activations than its schedule promises', () => {
  for (const { name, ranks, microbatches, chunks } of every()) {
    const limit = peakLimits[name]?.(ranks, microbatches)
    if (limit === undefined) continue
    const { peak } = timing(make(name, ranks, microbatches, chunks))
    ok(Math.max(...peak) <= limit, `${name} p=${ranks} m=${microbatches}: ${peak} > ${limit}`)
  }
})

test('zero bubble is never longer than what it improves on', () => {
  const rivals = { 'zb-h1': '1f1b', 'zb-h2': 'zb-h1', 'zb-v': 'interleaved', 'interleaved-zb': 'interleaved' } as const
  for (const [name, rival] of Object.entries(rivals) as [ScheduleName, ScheduleName][])
    for (let p = 1; p <= 8; p++)
      for (let m = 1; m <= 24; m++) {
        const [ours, theirs] = [timing(make(name, p, m)).makespan, timing(make(rival, p, m)).makespan]
        ok(ours <= theirs, `${name} p=${p} m=${m}: ${ours} > ${theirs}`)
      }
})

test('bubbles are what the papers say, F = I = W = 1', () => {
  const idle = (name: ScheduleName, p: number, m: number) => timing(make(name, p, m)).idle[0]
  for (const p of [2, 4, 8]) {
    const m = 3 * p
    equal(idle('gpipe', p, m), 3 * (p - 1))
    equal(idle('1f1b', p, m), 3 * (p - 1))
    equal(idle('interleaved', p, m), 3 * (p - 1))
    equal(idle('zb-h1', p, m), p - 1)
    equal(idle('zb-h2', p, m), p - 1)
    equal(idle('zb-v', p, m), p - 1)
  }
  equal(timing(make('dualpipe', 8, 20)).makespan, 66)
})

test('v-half and v-min trade time for memory at least as well as their authors', () => {
  const rows = {
    'v-half': [
      [3, 5, 4],
      [4, 5, 6],
      [5, 11, 6],
      [7, 17, 8],
      [8, 17, 10],
    ],
    'v-min': [
      [4, 11, 4],
      [7, 23, 6],
      [8, 27, 8],
      [9, 29, 8],
      [10, 35, 8],
      [12, 41, 10],
    ],
  } as const // p, idle, peak
  for (const [name, points] of Object.entries(rows) as ['v-half' | 'v-min', readonly (readonly number[])[]][])
    for (const [p, idle, peak] of points) {
      const ours = timing(make(name, p, 3 * p))
      ok(
        ours.idle[0] <= idle && Math.max(...ours.peak) <= peak,
        `${name} p=${p}: idle ${ours.idle[0]}, peak ${ours.peak}`,
      )
    }
})

test('zb-h2 and zb-v leave no idle time between the first and the last task of a rank', () => {
  for (const name of ['zb-h2', 'zb-v'] as const)
    for (const p of [2, 4, 8])
      for (const row of timing(make(name, p, 3 * p)).slots)
        equal(row.at(-1)!.end - row[0].start, row.length, `${name} p=${p}`)
})

test('a transfer costs C between ranks and nothing within one', () => {
  const cost = { F: 1, I: 1, W: 1, C: 10 }
  equal(timing(make('1f1b', 2, 1), cost).makespan, 6 + 20)
  equal(timing(make('zb-v', 1, 1), cost).makespan, 6)
  equal(timing(make('zb-v', 2, 1), cost).makespan, 9 + 40)
})

test('counts that cannot be are refused with their equation', () => {
  const problem = (name: string, ranks: number, chunks: number, microbatches: number) =>
    scheduleProblems(name, { ranks, chunks, microbatches })
      .map(({ message }) => message)
      .join('; ')
  match(problem('zb-v', 4, 3, 8), /chunks = 3, but this schedule needs chunks = 2/)
  match(problem('1f1b', 0, 1, 8), /0 is not an integer/)
  match(problem('1f1b', 2.5, 1, -3), /2.5 is not.*-3 is not/)
  match(problem('gpipe', 1e5, 1, 1e5), /= 10000000000 tasks, but at most/)
  equal(problem('gpipe', 1000, 1, 1000), '')
  match(problem('gpipe', 101, 1, 9901), /= 1000001 tasks, but at most 1000000/)
  match(problem('1f1', 2, 1, 2), /unknown schedule '1f1'/)
})

/** The schedule with one row changed. */
const broken = (schedule: Schedule, rank: number, change: (row: Action[]) => void): string[] => {
  const rows = schedule.rows.map(row => [...row])
  change(rows[rank])
  return validate({ ...schedule, rows })
}

test('a dropped task is found', () =>
  deepEqual(
    broken(make('1f1b', 2, 2), 1, row => row.splice(1, 1)),
    ['stage 1 microbatch 0 has its backward 0 times (0 B + 0 I)'],
  ))

test('a task done twice is found', () =>
  deepEqual(
    broken(make('1f1b', 2, 2), 0, row => row.push(row[0])),
    ['stage 0 microbatch 0 has its forward 2 times'],
  ))

test('a backward before its forward is found', () =>
  deepEqual(
    broken(make('1f1b', 2, 2), 1, row => row.unshift(...row.splice(1, 1))),
    ['stage 1 microbatch 0 has its backward before its forward on rank 1'],
  ))

test('a weight gradient before its input gradient is found', () =>
  deepEqual(
    broken(make('zb-h1', 1, 1), 0, row => row.splice(1, 2, row[2], row[1])),
    ['stage 0 microbatch 0 has W before I on rank 0'],
  ))

test('a weight gradient without an input gradient is found', () => {
  const both: Task = { kind: 'B', stage: 0, microbatch: 0 }
  deepEqual(
    broken(make('zb-h1', 1, 1), 0, row => row.splice(1, 1, both)),
    ['stage 0 microbatch 0 has 0 I but 1 W'],
  )
})

test('a microbatch spread over ranks is found', () => {
  const schedule = make('gpipe', 2, 1)
  const [[forward, back], other] = schedule.rows
  deepEqual(validate({ ...schedule, rows: [[forward], [...other, back]] }), [
    'stage 0 microbatch 0 is split over several ranks',
  ])
})

test('ranks that wait for each other are found and named', () =>
  deepEqual(
    broken(make('gpipe', 2, 2), 0, row => row.splice(0, 4, row[0], row[2], row[1], row[3])).concat(
      broken(make('1f1b', 2, 2), 1, row => row.splice(0, 4, row[2], row[3], row[0], row[1])),
    ),
    [
      'rank 0 is deadlocked at 0B0: it waits for the input gradient of stage 1 microbatch 0, on rank 1',
      'rank 1 is deadlocked at 1F1: it waits for 0F1, on rank 0',
    ],
  ))

test('a stage outside, an idle rank, a wrong pair and a missing stage are found', () => {
  const one = make('gpipe', 1, 1)
  match(validate({ ...one, rows: [...one.rows, []] })[0], /rank 1 has no tasks/)
  match(validate({ ...one, stages: 2 })[0], /stage 1 microbatch 0 is missing/)
  match(validate({ ...one, microbatches: 0 })[0], /0F0 is out of range/)
  const [forward, back] = one.rows[0] as Task[]
  match(validate({ ...one, rows: [[{ kind: 'overlap', tasks: [back, forward] }]] })[0], /must pair a forward/)
})

/** Whether ranks that simply try again and again get through their rows. */
function getsThrough({ rows, stages }: Schedule): boolean {
  const done = new Set<string>()
  const at = rows.map(() => 0)
  const runs = ({ kind, stage, microbatch: i }: Task) => {
    const needs = {
      F: [`F${stage - 1}`],
      I: [`F${stage}`, `G${stage + 1}`],
      B: [`F${stage}`, `G${stage + 1}`],
      W: [`G${stage}`],
    }
    return needs[kind].every(need => need === 'F-1' || need === `G${stages}` || done.has(`${need}.${i}`))
  }
  const finish = ({ kind, stage, microbatch: i }: Task) => done.add(`${kind === 'F' ? 'F' : 'G'}${stage}.${i}`)
  for (let moved = true; moved; ) {
    moved = false
    rows.forEach((row, rank) => {
      for (; at[rank] < row.length && tasksOf([row[at[rank]]]).every(runs); at[rank]++, moved = true)
        tasksOf([row[at[rank]]]).forEach(finish)
    })
  }
  return rows.every((row, rank) => at[rank] === row.length)
}

const seeds = process.env.SEED ? [Number(process.env.SEED)] : Array.from({ length: 300 }, (_, i) => i + 1)

test(`any task dropped, doubled or moved to another rank is found (SEED=1..${seeds.length})`, () => {
  for (const seed of seeds) {
    const { int, pick } = choices(seed)
    const rows = make(pick(scheduleNames), 2 + int(4), 1 + int(8)).rows.map(row => [...row])
    const [rank, kind] = [int(rows.length), pick(['drop', 'double', 'move'])]
    const at = int(rows[rank].length)
    const action = rows[rank][at]
    if (kind !== 'double') rows[rank].splice(at, 1)
    if (kind !== 'drop') {
      const to = rows[kind === 'move' ? (rank + 1) % rows.length : rank]
      to.splice(int(to.length + 1), 0, action)
    }
    const tasks = rows.flatMap(tasksOf)
    const counts = {
      stages: Math.max(...tasks.map(t => t.stage)) + 1,
      microbatches: Math.max(...tasks.map(t => t.microbatch)) + 1,
    }
    ok(validate({ ...counts, rows }).length > 0, `SEED=${seed}: ${kind} rank ${rank} cell ${at}`)
  }
})

test(`two tasks swapped are found exactly when the step can no longer run (SEED=1..${seeds.length})`, () => {
  const outcomes = new Set<boolean>()
  for (const seed of seeds) {
    const { int, pick } = choices(seed)
    const schedule = make(pick(scheduleNames), 1 + int(5), 1 + int(8))
    const rows = schedule.rows.map(row => [...row])
    const row = rows[int(rows.length)]
    const a = int(row.length)
    const b = Math.min(row.length - 1, a + 1 + int(3))
    ;[row[a], row[b]] = [row[b], row[a]]
    const runs = getsThrough({ ...schedule, rows })
    outcomes.add(runs)
    equal(validate({ ...schedule, rows }).length === 0, runs, `SEED=${seed}`)
  }
  equal(outcomes.size, 2)
})
