/** Spans, and what is drawn and counted from them. */
import { deepEqual, equal, match, ok } from 'node:assert/strict'
import { test } from 'node:test'
import { seconds } from '../src/base/index.js'
import { compileJob } from '../src/compile/index.js'
import type { Step } from '../src/ir/index.js'
import { curveText, lanesText } from '../src/report/index.js'
import { endOf, printChrome, type Span, sharesOf, spanOf, startOf } from '../src/trace/index.js'
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

test('time is spent computing, communicating, or in the bubble', () => {
  const step = spans('0 c 10 14', '0 m 14 15', '1 w 10 12', '1 c 12 15', '2 c 10 15', '3 c 10 12.5')
  deepEqual([startOf(step), endOf(step)], [10, 15])
  const { compute, communication, bubble } = sharesOf(program, step)
  deepEqual(
    [compute, communication, bubble].map(share => Number(share.toFixed(3))),
    [0.725, 0.05, 0.225],
  )
  deepEqual(sharesOf(program, []), { compute: 0, communication: 0, bubble: 0 })
})

test('lanes show what a rank did most', () => {
  const step = spans('0 c 0 5', '0 m 5 8', '1 w 0 3', '1 c 3 10')
  deepEqual(lanesText(step, [0, 1], 13), ['0 │█████▒▒▒  ', '1 │░░░███████'])
  deepEqual(lanesText(spans('11 c 1 2'), [11], 8), ['11 │████'])
})

test('the lane of a span follows from the program', () => {
  const { steps } = program.streams[0]
  const laneOf = (step: number, instr: number) =>
    spanOf(program, { rank: 0, step, instr, start: seconds(0), end: seconds(1) }).lane
  const call = (segment: string) => steps.findIndex(step => step.kind === 'call' && step.segment === segment)
  const waits = program.segments['sum normSquared']
  const at = (kind: string) => waits.instrs.findIndex(instr => instr.kind === kind)
  equal(laneOf(call('layers.F'), 0), 'compute')
  equal(laneOf(call('load x'), 0), 'host')
  equal(laneOf(call(waits.name), at('all-reduce')), 'network')
  equal(laneOf(call(waits.name), at('wait')), 'network')
  // A bucket of gradients is only started: its collective and the wait for its tag are on the network.
  const starts = steps.findIndex(step => step.kind === 'call' && step.tag !== undefined)
  const { tag } = steps[starts] as Extract<Step, { kind: 'call' }> // found as one
  const finishes = steps.findIndex(step => step.kind === 'wait' && step.tag === tag)
  equal(laneOf(starts, 0), 'network')
  equal(laneOf(finishes, -1), 'network')
  equal(
    laneOf(
      steps.findIndex(({ kind }) => kind === 'send'),
      -1,
    ),
    'network',
  )
  const send = steps.findIndex(({ kind }) => kind === 'send')
  const trace = printChrome(program, [
    spanOf(program, { rank: 0, step: send, instr: -1, start: seconds(1), end: seconds(1.5) }),
  ])
  match(
    trace,
    /"ph":"X","name":"send","cat":"message","pid":0,"tid":1,"ts":1000000,"dur":500000,"args":\{"tag":"F0\.0 x"\}/,
  )
  equal(JSON.parse(trace).traceEvents.length, 4)
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
