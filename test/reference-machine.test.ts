/** The reference machine on programs written by hand: collectives, messages, memory, stalls. */
import { deepEqual, equal } from 'node:assert/strict'
import { test } from 'node:test'
import type { Instr } from '../src/ir/index.js'
import { runTiny, tiny } from './tiny.js'

const load = (out: string, input = out): Instr => ({ kind: 'load', out, input })
const wait = (on: string): Instr => ({ kind: 'wait', on })
const range = (n: number) => Array.from({ length: n }, (_, i) => i)

test('all-reduce gives every rank the sum over the group', () => {
  const program = tiny({
    mesh: { tp: 2, dp: 2 },
    inputs: { x: 'n/dp+tp 8' },
    buffers: { x: 'n/dp+tp 8', y: 'n/dp+tp 8' },
    segments: {
      main: [load('x'), { kind: 'all-reduce', in: 'x', out: 'y', group: { axes: ['tp'] }, combine: 'sum' }, wait('y')],
    },
  })
  const { seen } = runTiny(program, { x: range(8) })
  deepEqual(
    seen.map(rank => rank.y),
    [
      [2, 4],
      [2, 4],
      [10, 12],
      [10, 12],
    ],
  )
})

test('a step of nothing is a step', () => {
  equal(runTiny(tiny({ buffers: { x: 'n 1' } })).result.count, NaN)
})
