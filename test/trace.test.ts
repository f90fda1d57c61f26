/** Spans, and what is drawn and counted from them. */
import { deepEqual, equal, match, ok } from 'node:assert/strict'
import { describe, test } from 'node:test'
import { seconds } from '../src/base/index.js'
import { clusterOf } from '../src/cluster/index.js'
import { compileJob } from '../src/compile/index.js'
import { type Call, type Instr, isCollective, type Program } from '../src/ir/index.js'
import { curveText, lanesText, stepTimeline, timelineSvg } from '../src/report/index.js'
import { clusterPrices, simulate } from '../src/simulate/index.js'
import {
  endOf,
  laneOf,
  overlapOf,
  printChrome,
  rankTimesOf,
  roundsOf,
  type Span,
  sharesOf,
  startOf,
  streamOf,
  waitsApart,
} from '../src/trace/index.js'
import { jobOf } from './jobs.js'

/** `rank what from to`: c computes, m meets in a collective, w waits for a message. */
const spans = (...lines: readonly string[]): Span[] =>
  lines.map(line => {
    const [rank, what, start, end] = line.split(' ')
    const lane = what === 'c' ? 'compute' : 'network'
    const at = { start: seconds(Number(start)), end: seconds(Number(end)) }
    return { rank: Number(rank), lane, step: 0, instr: what === 'w' ? -1 : 0, ...at }
  })

const program = compileJob(jobOf('mlp', { pp: 2, dp: 2, microbatches: 2 }))

test('time is spent computing, communicating, waiting, or in the bubble', () => {
  const step = spans('0 c 10 14', '0 m 14 15', '1 w 10 12', '1 c 12 15', '2 c 10 15', '3 c 10 12.5')
  deepEqual([startOf(step), endOf(step)], [10, 15])
  const { compute, communication, waiting, bubble } = sharesOf(program, step)
  deepEqual(
    [compute, communication, waiting, bubble].map(share => Number(share.toFixed(3))),
    [0.725, 0.05, 0, 0.225],
  )
  deepEqual(sharesOf(program, []), { compute: 0, communication: 0, waiting: 0, bubble: 0 })
})

test('without a pipeline there is no bubble: ranks wait for each other', () => {
  const { waiting, bubble } = sharesOf(
    compileJob(jobOf('mlp', { dp: 4 })),
    spans('0 c 0 4', '1 c 0 2', '2 c 0 4', '3 c 0 4'),
  )
  deepEqual([waiting, bubble], [2 / 16, 0])
})

/** The spans of one collective, by rank: when it is begun, and from when to when it is waited for. */
function collective(rank: number, begin: number, wait: readonly [from: number, to: number]): Span[] {
  const at = (instr: (instr: Instr) => boolean) => {
    const { steps } = streamOf(program, rank)
    const step = steps.findIndex(
      one => one.kind === 'call' && one.tag === undefined && program.segments[one.segment].instrs.some(isCollective),
    )
    const call = steps[step] as Call // it was found as one
    return { rank, step, instr: program.segments[call.segment].instrs.findIndex(instr) }
  }
  const times = (start: number, end: number) => ({ start: seconds(start), end: seconds(end) })
  return [
    { ...at(isCollective), lane: 'network', ...times(begin, begin) },
    { ...at(instr => instr.kind === 'wait'), lane: 'network', ...times(...wait) },
  ]
}

test('who waits for a collective that others have not begun waits; after that it communicates', () => {
  const [early, late] = [collective(0, 0, [0, 10]), collective(1, 8, [8, 10])]
  const { communication, waiting } = sharesOf(program, [...early, ...late])
  deepEqual([waiting, communication], [8 / 40, 4 / 40])
  const parts = waitsApart(program, [...early, ...late]).filter(({ start, end }) => end > start)
  deepEqual(
    parts.map(({ rank, instr, start, end }) => [rank, instr < 0, start, end]),
    [
      [0, true, 0, 8],
      [0, false, 8, 10],
      [1, false, 8, 10],
    ],
  )
  deepEqual(sharesOf(program, [...early, ...collective(2, 9, [9, 10])]).waiting, 0, 'another group')
})

test('an engine waits for a bucket in the name of the call that started it: who came last is known there too', () => {
  const program = compileJob(jobOf('mlp', { dp: 2, microbatches: 2 }))
  const { steps } = streamOf(program, 0)
  const step = steps.findIndex(one => one.kind === 'call' && one.tag !== undefined)
  const bucket = (rank: number, ...times: readonly (readonly [number, number])[]): Span[] =>
    times.map(([start, end]) => ({
      ...{ rank, lane: 'network', step, instr: 0 },
      ...{ start: seconds(start), end: seconds(end) },
    }))
  const { waiting, late, network } = rankTimesOf(program, [
    ...bucket(0, [0, 1], [1, 10]),
    ...bucket(1, [7, 8], [8, 10]),
  ])
  deepEqual(
    [waiting, late, network.dp],
    [
      [7, 0],
      [0, 7],
      [2, 2],
    ],
  )
})

test('a bucket is hidden as far as its rank computes between its start and the end of its wait', () => {
  const program = compileJob(jobOf('mlp', { dp: 2, microbatches: 2 }))
  const { steps } = streamOf(program, 0)
  const start = steps.findIndex(step => step.kind === 'call' && step.tag !== undefined)
  const wait = steps.findIndex(step => step.kind === 'wait')
  const span = (lane: Span['lane'], step: number, from: number, to: number): Span => ({
    ...{ rank: 0, lane, step, instr: lane === 'compute' ? 0 : -1, start: seconds(from), end: seconds(to) },
  })
  //   computes 0 --- 4   6 ------ 11      in flight 4 ------------ 12
  const step = [span('compute', 0, 0, 4), span('network', start, 4, 4), span('compute', start - 1, 6, 11)]
  deepEqual(overlapOf(program, [...step, span('network', wait, 11, 12)]), 5 / 8)
  deepEqual(overlapOf(program, step), undefined, 'nobody waited')
  match(printChrome(program, [...step, span('network', wait, 11, 12)]), /"ph":"b","cat":"flight",.*"hidden":"63 %"/)
})

test('lanes show what a rank did most', () => {
  const step = spans('0 c 0 5', '0 m 5 8', '1 w 0 3', '1 c 3 10')
  deepEqual(lanesText(step, [0, 1], 13), ['0 │█████▒▒▒  ', '1 │░░░███████'])
  deepEqual(lanesText(spans('11 c 1 2'), [11], 8), ['11 │████'])
})

test('the lane of a span follows from the program', () => {
  const split = compileJob(jobOf('mlp', { tp: 2 }))
  const laneIn = (of: Program, step: number, instr: number) => laneOf(of, { rank: 0, step, instr })
  const call = (of: Program, segment: string) =>
    of.streams[0].steps.findIndex(step => step.kind === 'call' && step.segment === segment)
  const at = (kind: string) => split.segments['layers.F'].instrs.findIndex(instr => instr.kind === kind)
  equal(laneIn(split, call(split, 'layers.F'), at('contract')), 'compute')
  equal(laneIn(split, call(split, 'layers.F'), at('all-reduce')), 'network')
  equal(laneIn(split, call(split, 'layers.F'), at('wait')), 'network')
  equal(laneIn(program, call(program, 'load x'), 0), 'host')
  const { steps } = program.streams[0]
  // A bucket of gradients is only started: its collective and the wait for its tag are on the network.
  const starts = steps.findIndex(step => step.kind === 'call' && step.tag !== undefined)
  const { tag } = steps[starts] as Call // found as one
  const finishes = steps.findIndex(step => step.kind === 'wait' && step.tag === tag)
  equal(laneIn(program, starts, 0), 'network')
  equal(laneIn(program, finishes, -1), 'network')
  const send = steps.findIndex(({ kind }) => kind === 'send')
  equal(laneIn(program, send, -1), 'network')
  const trace = printChrome(program, [
    { rank: 0, lane: 'network', step: send, instr: -1, start: seconds(1), end: seconds(1.5) },
  ])
  match(
    trace,
    /"ph":"X","name":"send F0\.0 x","cat":"message","ts":0,"dur":500000,"args":\{"tag":"F0\.0 x"\},"pid":1,"tid":66/,
  )
  equal(JSON.parse(trace).traceEvents.length, 7)
})

describe('the trace of a simulated step', () => {
  const job = jobOf('gpt', { pp: 2, dp: 2, zero: 1, microbatches: 2 })
  const compiled = compileJob(job)
  const { spansOf } = simulate(compiled, clusterPrices(compiled, clusterOf('h100', 4)), { watch: [0, 2] })
  const late = (span: Span): Span => ({
    ...span,
    start: seconds(span.start + 2763),
    end: seconds(span.end + 2763),
  })
  type Event = {
    ph: string
    name: string
    cat?: string
    pid: number
    ts: number
    id?: string
    args?: Record<string, number>
  }
  const eventsOf = (spans: readonly Span[]): Event[] => JSON.parse(printChrome(compiled, spans)).traceEvents
  const all = [...spansOf(0), ...spansOf(2)]
  const events = eventsOf(all.map(late))
  const of = (ph: string) => events.filter(event => event.ph === ph)

  test('starts at 0, whenever it was measured', () => {
    equal(Math.min(...of('X').map(({ ts }) => ts)), 0)
  })

  test('names block, phase, op and parameter', () => {
    const names = new Set(of('X').map(({ name }) => name))
    for (const name of [
      'layers.0.F attn.q',
      'layers.0.B attn.q',
      'layers.0.F attention',
      'layers.0.F layerNorm norm1.weight',
    ])
      ok(names.has(name), name)
    ok(!names.has('contract'))
  })

  test('every message is an arrow from its send to the work that needed it', () => {
    const [starts, ends] = ['s', 'f'].map(ph => of(ph).filter(({ cat }) => cat === 'message'))
    equal(starts.length, compiled.streams[0].steps.filter(({ kind }) => kind === 'send').length * 2)
    for (const [i, start] of starts.entries()) {
      equal(start.id, ends[i].id)
      ok(start.pid !== ends[i].pid && ends[i].ts > start.ts, start.name)
    }
  })

  test('memory rises to the peak of each kind and falls back to what is resident', () => {
    const own = of('C').filter(({ pid, name }) => pid === 1 && name === 'memory (MiB)')
    const { peak, frames, resident } = compiled.streams[0]
    for (const kind of ['parameters', 'gradients', 'optimizer', 'activations'] as const) {
      const most = Math.max(...own.map(({ args }) => args![kind]))
      ok(Math.abs(most - peak[kind] / 2 ** 20) < 1e-3, kind)
    }
    const activations = resident.reduce((n, f) => n + (frames[f].kind === 'activations' ? frames[f].bytes : 0), 0)
    equal(own.at(-1)!.args!.activations, activations)
  })

  test('two training steps are two rounds', () => {
    const both = roundsOf([...spansOf(0), ...spansOf(0).map(late)])
    deepEqual(
      both.map(({ index, spans }) => [index, spans.length]),
      [
        [0, spansOf(0).length],
        [1, spansOf(0).length],
      ],
    )
  })
})

test('a picture of the step is as wide as its tasks need', () => {
  const picture = (microbatches: number) => {
    const compiled = compileJob(jobOf('mlp', { pp: 2, microbatches }, { globalBatch: 64 }))
    const simulation = simulate(compiled, clusterPrices(compiled, clusterOf('h100', 2)), {})
    const { spansOf, step: end } = simulation
    return stepTimeline({ title: '', subtitle: '', program: compiled, spansOf, ranks: [0, 1], end })
  }
  const [few, many] = [picture(2), picture(64)]
  equal(few.width, 640)
  ok(many.width! > 1000)
  for (const { note, profile } of few.lanes) {
    match(note!, /^computes \d+ %$/)
    ok(profile!.points.length > 2)
  }
  match(timelineSvg(few), /<path class="profile" d="M[\d. ]+H/)
})

test('a curve falls from the left to the right, and bears any number of values', () => {
  const falling = curveText([3, 2, 1, 0], { columns: 14, rows: 2 })
  deepEqual(falling, ['3.000 │⠙⠲⢤⣀⠀⠀⠀', '0.000 │⠀⠀⠀⠈⠙⠲⢤'])
  for (const count of [0, 1, 2, 7, 1000])
    for (const line of curveText(
      Array.from({ length: count }, (_, i) => Math.sin(i)),
      { columns: 30, rows: 5 },
    ))
      ok(line.length <= 30)
  equal(curveText([1, Number.NaN, 1], { columns: 20, rows: 3 }).length, 3)
})

test('below a curve stand its steps', () => {
  const axis = (steps: [number, number], columns = 20) => curveText([3, 0], { columns, rows: 2, steps }).at(-1)
  equal(axis([1, 50]), ' step └1──────────50')
  equal(axis([51, 51]), ' step └51───────────')
  equal(axis([100, 20000], 14), ' step └100────')
})
