/** The reference machine on parts of a line: flat collectives, views, several pairs, calls that only start. */
import { deepEqual, equal, match, ok, throws } from 'node:assert/strict'
import { test } from 'node:test'
import { compare, RunError, runSerial, StallError, worstOf } from '../src/engine/index.js'
import type { Group, Instr, Step } from '../src/ir/index.js'
import { runTiny, tiny } from './tiny.js'
import { type Toy, toy } from './toy.js'

const dp: Group = { axes: ['dp'] }
const load = (out: string, input = out): Instr => ({ kind: 'load', out, input })
const wait = (on: string): Instr => ({ kind: 'wait', on })
const gather = (ins: string[], outs: string[]): Instr => ({ kind: 'all-gather', ins, outs, group: dp })
const scatter = (ins: string[], outs: string[]): Instr => ({ kind: 'reduce-scatter', ins, outs, group: dp })
const range = (n: number) => Array.from({ length: n }, (_, i) => i)

/** Rank r brings r + 1 times 1, 2, ... of n: the sums are known. */
const brought = (ranks: number, n: number) => range(ranks).flatMap(rank => range(n).map(i => (rank + 1) * (i + 1)))
const sums = (ranks: number, n: number) => range(n).map(i => ((ranks * (ranks + 1)) / 2) * (i + 1))
const part = (all: readonly number[], parts: number, index: number): number[] => {
  const size = Math.ceil(all.length / parts)
  return range(size).map(i => all[index * size + i] ?? 0)
}

for (const [ranks, n] of [
  [2, 6],
  [2, 5],
  [3, 7],
  [4, 5],
  [4, 2],
] as const)
  test(`${n} elements over ${ranks} ranks: scattered, gathered and sliced, each in parts of ${Math.ceil(n / ranks)}`, () => {
    const program = tiny({
      mesh: { dp: ranks },
      inputs: { x: `rank/dp ${ranks}, m ${n}` },
      buffers: {
        x: `rank/dp ${ranks}, m ${n}; room/dp`,
        own: `rank/dp ${ranks}, m ${n}; flat/dp`,
        all: `rank/dp ${ranks}, m ${n}; room/dp`,
        cut: `rank/dp ${ranks}, m ${n}; flat/dp`,
      },
      segments: {
        main: [
          load('x'),
          scatter(['x'], ['own']),
          wait('own'),
          gather(['own'], ['all']),
          wait('all'),
          { kind: 'slice', in: 'all', out: 'cut', axes: ['dp'] },
        ],
      },
    })
    const { seen } = runTiny(program, { x: brought(ranks, n) })
    for (const [rank, { own, all, cut }] of seen.entries()) {
      deepEqual(own, part(sums(ranks, n), ranks, rank))
      deepEqual(all, sums(ranks, n))
      deepEqual(cut, own)
    }
  })

test('the parts of several axes lie major first, and a part of a part of a matrix is a run of its rows', () => {
  const program = tiny({
    mesh: { tp: 2, dp: 2, ep: 2 },
    inputs: { x: 'm 3, n/tp 6' },
    buffers: { x: 'm 3, n/tp 6', cut: 'm 3, n/tp 6; flat/ep+dp' },
    segments: { main: [load('x'), { kind: 'slice', in: 'x', out: 'cut', axes: ['ep', 'dp'] }] },
  })
  const { seen } = runTiny(program, { x: range(18) })
  deepEqual(
    seen.map(({ cut }) => cut.join()),
    ['0,1,2', '3,4,5', '6,7,8', '9,10,11', '12,13,14', '15,16,17', '0,0,0', '0,0,0'],
  )
})

test('several pairs of different shapes are one collective, and one wait finishes all', () => {
  const program = tiny({
    mesh: { dp: 2 },
    inputs: { x: 'rank/dp 2, m 5', y: 'rank/dp 2, k 2, m 2' },
    buffers: {
      x: 'rank/dp 2, m 5; room/dp',
      y: 'rank/dp 2, k 2, m 2',
      p: 'rank/dp 2, m 5; flat/dp',
      q: 'rank/dp 2, k 2, m 2; flat/dp',
    },
    segments: { main: [load('x'), load('y'), scatter(['x', 'y'], ['p', 'q']), wait('p')] },
  })
  const { seen } = runTiny(program, { x: brought(2, 5), y: brought(2, 4) })
  deepEqual(seen, [
    { x: [1, 2, 3, 4, 5], y: [1, 2, 3, 4], p: [3, 6, 9], q: [3, 6] },
    { x: [2, 4, 6, 8, 10], y: [2, 4, 6, 8], p: [12, 15, 0], q: [9, 12] },
  ])
})

const views = {
  mesh: { dp: 3 },
  inputs: { x: 'rank/dp 3, m 7' },
  buffers: { x: 'rank/dp 3, m 7; room/dp', own: 'rank/dp 3, m 7; flat/dp in x' },
} as const

test('in place: a sum is scattered into its own part, worked on there, and gathered again', () => {
  const double: Instr = { kind: 'accumulate', ins: ['own'], outs: ['own'] }
  const main = [load('x'), scatter(['x'], ['own']), wait('own'), double, gather(['own'], ['x']), wait('x')]
  const { seen } = runTiny(tiny({ ...views, segments: { main } }), { x: brought(3, 7) })
  for (const [rank, { own, x }] of seen.entries()) {
    const doubled = sums(3, 7).map(value => 2 * value)
    deepEqual(x, doubled)
    deepEqual(own, part(doubled, 3, rank))
  }
})

const call = (segment: string, tag?: string): Step => ({
  ...{ kind: 'call', segment, block: -1, microbatch: 0, bind: [0, 1, 2] },
  ...(tag !== undefined && { tag }),
})

test('a call with a tag only starts: its result is there after the wait for the tag', () => {
  const late = {
    ...views,
    buffers: { ...views.buffers, copy: 'rank/dp 3, m 7; flat/dp' },
    segments: {
      load: [load('x')],
      reduce: [scatter(['x'], ['own'])],
      read: [{ kind: 'scale', by: 1, ins: ['own'], outs: ['copy'] } as const],
    },
  }
  const run = (steps: Step[]) => runTiny(tiny({ ...late, steps: [steps] }), { x: brought(3, 7) }).seen
  const done: Step = { kind: 'wait', tag: 'r' }
  const copies = (steps: Step[]) => run(steps).map(({ copy }) => copy)
  deepEqual(
    copies([call('load'), call('reduce', 'r'), done, call('read')]),
    range(3).map(rank => part(sums(3, 7), 3, rank)),
  )
  ok(
    copies([call('load'), call('reduce', 'r'), call('read'), done])
      .flat()
      .every(Number.isNaN),
  )
  throws(
    () => run([call('load'), call('reduce', 'r')]),
    (error: unknown) => {
      ok(error instanceof RunError)
      match(error.message, /the call r was never waited for/)
      return true
    },
  )
  throws(() => run([call('load'), call('reduce', 'r'), call('reduce', 'r')]), /tag r is already under way/)
  throws(() => run([call('load'), call('reduce'), done]), /was never waited for/)
})

test('a group that does not come to what was started is named', () => {
  const group: Group = { axes: [], stages: [0, 1] }
  const program = tiny({
    mesh: { pp: 2 },
    inputs: { x: 'm 2' },
    buffers: { x: 'm 2' },
    segments: { load: [load('x')], sum: [{ kind: 'all-reduce', ins: ['x'], outs: ['x'], group, combine: 'sum' }] },
    steps: [
      [{ ...call('load'), bind: [0] } as Step, { ...call('sum', 's'), bind: [0] } as Step, { kind: 'wait', tag: 's' }],
      [{ ...call('load'), bind: [0] } as Step],
    ],
  })
  throws(
    () => runTiny(program, { x: [1, 2] }),
    (error: unknown) => {
      ok(error instanceof StallError)
      match(error.message, /ranks 1 of 0 1 to start/)
      return true
    },
  )
})

const options = { steps: 3, seed: 5, lr: 0.05, vocab: 1 }
const odd = { embed: 5, ffn: 7 }

for (const plan of [
  ...([1, 3] as const).flatMap(zero =>
    [1, 2, 4].flatMap(n =>
      ([1, 2] as const).flatMap(pp => [false, true].map(tied => ({ zero, dp: n, pp, tied, ...odd }))),
    ),
  ),
  { zero: 1, dp: 2, tp: 2, pp: 2 },
  { zero: 3, dp: 2, tp: 2, pp: 2, tied: true },
] satisfies Toy[])
  test(`${JSON.stringify(plan)} computes what one rank computes`, () => {
    const { embed = 6, ffn = 8, tied = false }: Toy = plan
    const comparison = compare(toy(plan), runSerial(toy({ embed, ffn, tied }), options), options)
    ok(worstOf(comparison) <= 1e-12, `${worstOf(comparison)}`)
    equal(comparison.spread.error, 0)
    deepEqual(comparison.memory, [])
  })
