/** Our schedules beside those of PyTorch, of the zero-bubble authors, of DualPipe and of DeepSpeed. */
import { deepEqual, equal, ok } from 'node:assert/strict'
import { test } from 'node:test'
import {
  communicate,
  makeSchedule,
  printComms,
  printSchedule,
  type ScheduleName,
  showCell,
  timing,
} from '../src/schedule/index.js'
import { isOwnSet, readFixture } from './fixtures.js'
import { countIn, fixtureSchedule, measured, oursFor, readSchedule, scheduleFiles } from './schedule-fixtures.js'

/** The cells of a CSV, blanks left out. */
const cellsOf = (csv: string): string[][] =>
  csv
    .trim()
    .split(/\r?\n/)
    .map(line => line.split(',').filter(cell => cell.trim() !== ''))

const isMessage = (cell: string) => /SEND|RECV/.test(cell)

/** With no more microbatches than ranks the zero-bubble authors put weight gradients elsewhere, which takes as long. */
const isFilled = (file: string): boolean =>
  isOwnSet || !file.startsWith('sail_zb1p') || countIn(file, 'mb') > countIn(file, 'pp')

const equalOrders: [RegExp, ScheduleName][] = [
  [/^ScheduleGPipe_/, 'gpipe'],
  [/^Schedule1F1Bfixed_/, '1f1b'],
  [/^sail_zb_1f1b_/, '1f1b'],
  [/^ScheduleLoopedBFS_.*_compute/, 'looped-bfs'],
  [/^ScheduleInterleaved1F1B_.*_compute/, 'interleaved'],
  [/^ScheduleInterleavedZeroBubble_.*_compute/, 'interleaved-zb'],
  [/^sail_zb1p_/, 'zb-h1'],
  [/^ScheduleDualPipeV_.*_compute/, 'dualpipe-v'],
]
for (const [pattern, name] of equalOrders)
  test(`${name} is ${pattern.source}, action for action`, () => {
    for (const file of scheduleFiles(pattern).filter(isFilled)) {
      const theirs = cellsOf(readSchedule(file)).map(row => row.filter(cell => !cell.endsWith('REDUCE_GRAD')))
      deepEqual(cellsOf(printSchedule(oursFor(name, file))), theirs, file)
    }
  })

test('dualpipe is DualPipe, step for step', () => {
  for (const file of scheduleFiles(/^DualPipe_/)) {
    const ours = oursFor('dualpipe', file)
    const [ranks, half] = [ours.rows.length, ours.microbatches / 2]
    const steps = JSON.parse(readSchedule(file)) as [string, 0 | 1, number][][][]
    const theirs = steps.map((row, rank) =>
      row.map(step => {
        const tasks = step.map(
          ([kind, direction, microbatch]) =>
            [`${rank}${kind}${microbatch}`, `${ranks - 1 - rank}${kind}${half + microbatch}`][direction],
        )
        return tasks.length === 2 ? `(${tasks.join(';')})OVERLAP_F_B` : tasks[0]
      }),
    )
    deepEqual(cellsOf(printSchedule(ours)), theirs, file)
  }
})

test('timing agrees with every measured fixture: makespan, idle time and peak', () => {
  for (const [name, theirs] of measured()) {
    const ours = timing(fixtureSchedule(`${name}.csv`))
    deepEqual([ours.makespan, ours.idle, ours.peak], [theirs.makespan, theirs.bubble, theirs.peak_live], name)
  }
})

const noWorse: [RegExp, ScheduleName, number][] = [
  [/^ScheduleInterleavedZeroBubble_/, 'interleaved-zb', 2],
  [/^ScheduleZBVZeroBubble_/, 'zb-v', 2],
  [/^sail_zb1p_/, 'zb-h1', 1],
  [/^sail_zb2p_/, 'zb-h2', 1],
  [/^sail_zbv_/, 'zb-v', 2],
  [/^sail_vhalf_/, 'v-half', 2],
  [/^sail_vmin_/, 'v-min', 2],
]
for (const [pattern, name, chunks] of noWorse)
  test(`${name} takes no longer and holds no more than ${pattern.source}`, () => {
    const rows = measured().filter(([fixture]) => pattern.test(fixture))
    ok(rows.length > 0)
    for (const [fixture, theirs] of rows) {
      const { makespan, peak } = timing(oursFor(name, fixture, chunks))
      ok(makespan <= theirs.makespan, `${fixture}: ${makespan} > ${theirs.makespan}`)
      // Ranks have the same memory: to be faster, or while the pipeline is not full, any may hold what their fullest holds.
      const isFull = countIn(fixture, 'mb') >= 2 * countIn(fixture, 'pp')
      const limit =
        isOwnSet || (isFull && makespan === theirs.makespan)
          ? theirs.peak_live
          : peak.map(() => Math.max(...theirs.peak_live))
      peak.forEach((most, rank) => void ok(most <= limit[rank], `${fixture} rank ${rank}: ${most} > ${limit[rank]}`))
    }
  })

/** Of one row: its messages in order, by neighbour and way: what must match the other end. */
function channels(row: readonly string[], peerOf: (cell: string) => number): Record<string, string[]> {
  const byChannel: Record<string, string[]> = {}
  for (const cell of row.filter(isMessage))
    (byChannel[`${/SEND|RECV/.exec(cell)![0]} ${peerOf(cell)}`] ??= []).push(cell)
  return byChannel
}

const comms: [RegExp, 'loop' | 'v'][] = [
  [/^Schedule(LoopedBFS|Interleaved).*_comms/, 'loop'],
  [/^Schedule(ZBV|DualPipeV).*_comms/, 'v'],
]
for (const [pattern, shape] of comms)
  test(`messages and markers are PyTorch's: ${pattern.source}`, () => {
    for (const file of scheduleFiles(pattern)) {
      const schedule = fixtureSchedule(file)
      const [ours, theirs] = [cellsOf(printComms(communicate(schedule))), cellsOf(readSchedule(file))]
      const p = theirs.length
      const rankOfStage = (stage: number) => (shape === 'loop' || stage < p ? stage % p : 2 * p - 1 - stage)
      const peerOf = (cell: string) => {
        const forward = cell.includes('SEND_F') || cell.includes('RECV_B')
        return rankOfStage(Number.parseInt(cell, 10) + (forward ? 1 : -1))
      }
      theirs.forEach((row, rank) => {
        deepEqual(ours[rank].filter(isMessage).sort(), row.filter(isMessage).sort(), `${file} rank ${rank}`)
        deepEqual(channels(ours[rank], peerOf), channels(row, peerOf), `${file} rank ${rank}`)
        const rest = (cells: string[]) => cells.filter(cell => !isMessage(cell))
        deepEqual(rest(ours[rank]), rest(row), `${file} rank ${rank}`)
      })
    }
  })

const instructionOf: Record<string, string> = {
  F: 'ForwardPass',
  B: 'BackwardPass',
  SEND_F: 'SendActivation',
  RECV_F: 'RecvActivation',
  SEND_B: 'SendGrad',
  RECV_B: 'RecvGrad',
}
interface Streams {
  readonly rows: readonly (readonly (readonly string[])[])[]
  readonly buffers: readonly number[]
}
test('1f1b is the PipelineSchedule of DeepSpeed: its passes in order, its messages, its buffers', () => {
  const streams: [string, Streams][] = Object.entries(JSON.parse(readFixture('instruction_streams_1f1b.json')))
  ok(isOwnSet ? streams.length === 3 : streams.length > 0)
  for (const [name, { rows, buffers }] of streams) {
    const [ranks, microbatches] = /^st(\d+)_mb(\d+)$/.exec(name)!.slice(1).map(Number)
    const schedule = makeSchedule('1f1b', { ranks, chunks: 1, microbatches })
    equal(rows.length, ranks)
    communicate(schedule).forEach((row, rank) => {
      const theirs = rows[rank].flat()
      const loads = rank === 0 || rank === ranks - 1
      const ours = row.flatMap(action => {
        if (!('microbatch' in action)) return []
        const { kind, microbatch } = action
        const buffer = microbatch % buffers[rank]
        return [...(kind === 'F' && loads ? [`LoadMicroBatch:${buffer}`] : []), `${instructionOf[kind]}:${buffer}`]
      })
      const passes = (names: string[]) => names.filter(name => /^(LoadMicroBatch|ForwardPass|BackwardPass)/.test(name))
      deepEqual(passes(ours), passes(theirs), `${name} rank ${rank}`)
      // Each kind in order; when messages go between passes differs.
      for (const kind of ['LoadMicroBatch', ...Object.values(instructionOf)]) {
        const of = (names: string[]) => names.filter(name => name.startsWith(`${kind}:`))
        deepEqual(of(ours), of(theirs), `${name} rank ${rank}`)
      }
      deepEqual(theirs.slice(-3), ['ReduceTiedGrads', 'ReduceGrads', 'OptimizerStep'])
      equal(theirs.length, ours.length + 3)
    })
    // DeepSpeed reserves two buffers where one would do.
    deepEqual(
      timing(schedule).peak.map(live => Math.max(2, live)),
      buffers,
      name,
    )
  }
})

test('a row of messages names its peers', () => {
  const rows = communicate(makeSchedule('1f1b', { ranks: 2, chunks: 1, microbatches: 1 }))
  equal(
    rows.map(row => row.map(cell => showCell(cell) + ('peer' in cell ? `@${cell.peer}` : '')).join(' ')).join('\n'),
    ['0F0 0SEND_F0@1 0RECV_B0@1 0B0', '1RECV_F0@0 1F0 1B0 1SEND_B0@0'].join('\n'),
  )
})
