/** The reference machine on programs written by hand: collectives, messages, memory, stalls. */
import { deepEqual, equal, match, ok, throws } from 'node:assert/strict'
import { test } from 'node:test'
import { interpreterOf, RunError, StallError } from '../src/engine/index.js'
import type { Group, Instr, Program, Step } from '../src/ir/index.js'
import { runTiny, type Tiny, tiny } from './tiny.js'

const load = (out: string, input = out): Instr => ({ kind: 'load', out, input })
const wait = (on: string): Instr => ({ kind: 'wait', on })
const add = (ins: string[], out: string): Instr => ({ kind: 'add', ins, outs: [out] })
const range = (n: number) => Array.from({ length: n }, (_, i) => i)
const over = (...axes: Group['axes']): Group => ({ axes })
const sum = (from: string, out: string, group: Group): Instr => ({
  kind: 'all-reduce',
  ins: [from],
  outs: [out],
  group,
  combine: 'sum',
})

/** What every rank holds in y after one collective on x, whose elements are numbered over all ranks. */
function collects(mesh: Record<string, number>, x: string, y: string, collective: Instr): number[][] {
  const program = tiny({
    mesh,
    inputs: { x },
    buffers: { x, y },
    segments: { main: [load('x'), collective, wait('y')] },
  })
  const count = program.inputs[0].dims.reduce((n, dim) => n * dim.size, 1)
  return runTiny(program, { x: range(count) }).seen.map(rank => rank.y)
}

test('all-reduce gives every rank the sum, or the greatest, over its group', () => {
  const x = 'n/dp+tp 8'
  const max: Instr = { kind: 'all-reduce', ins: ['x'], outs: ['y'], group: over('dp'), combine: 'max' }
  deepEqual(collects({ tp: 2, dp: 2 }, x, x, sum('x', 'y', over('tp'))).join(' '), '2,4 2,4 10,12 10,12')
  deepEqual(collects({ tp: 2, dp: 2 }, x, x, max).join(' '), '4,5 6,7 4,5 6,7')
  deepEqual(collects({ tp: 2, dp: 2 }, x, x, sum('x', 'y', over('dp', 'tp'))).join(' '), '12,16 12,16 12,16 12,16')
})

test('all-gather lays parts side by side in group order, whatever the order of dims', () => {
  const gather = (...axes: Group['axes']): Instr => ({
    kind: 'all-gather',
    ins: ['x'],
    outs: ['y'],
    group: over(...axes),
    dim: 'n',
  })
  deepEqual(collects({ tp: 2 }, 'm 2, n/tp 2', 'n 2, m 2', gather('tp')).join(' '), '0,2,1,3 0,2,1,3')
  deepEqual(collects({ tp: 2, dp: 2 }, 'n/dp+tp 4', 'n 4', gather('dp', 'tp'))[2], [0, 1, 2, 3])
  deepEqual(collects({ tp: 2, dp: 2 }, 'n/dp+tp 4', 'n 4', gather('tp', 'dp'))[2], [0, 2, 1, 3])
})

test('reduce-scatter cuts the sum along a dim', () => {
  const scatter: Instr = { kind: 'reduce-scatter', ins: ['x'], outs: ['y'], group: over('tp'), dim: 'n' }
  const results = collects({ tp: 2 }, 'm/tp 4, n 2', 'm/tp 4, n/tp 2', scatter)
  deepEqual(results.join(' '), '4,8 6,10')
})

test('all-to-all moves a split from one dim to another', () => {
  const swap: Instr = { kind: 'all-to-all', ins: ['x'], outs: ['y'], group: over('tp'), from: 'm', to: 'n' }
  deepEqual(collects({ tp: 2 }, 'm/tp 2, n 4', 'n/tp 4, m 2', swap).join(' '), '0,4,1,5 2,6,3,7')
})

test('a slice is the part of the rank that takes it', () => {
  const x = 'm 2, n 4'
  const slice: Instr = { kind: 'slice', in: 'x', out: 'y', axes: ['dp', 'tp'], dim: 'n' }
  const program = tiny({
    mesh: { tp: 2, dp: 2 },
    inputs: { x },
    buffers: { x, y: 'm 2, n/dp+tp 4' },
    segments: { main: [load('x'), slice] },
  })
  deepEqual(
    runTiny(program, { x: range(8) })
      .seen.map(rank => rank.y)
      .join(' '),
    '0,4 1,5 2,6 3,7',
  )
})

const call = (segment: string, frames: number, microbatch = 0): Step => ({
  kind: 'call',
  segment,
  block: 0,
  microbatch,
  bind: range(frames),
})

test('a group of stages meets across the pipeline, stage by stage', () => {
  const x = 'n/pp+tp 6'
  const group: Group = { axes: [], stages: [2, 0] }
  const segments = { meet: [load('x'), sum('x', 'y', group), wait('y')], stay: [load('x'), add(['x'], 'y')] }
  const mesh = { tp: 2, pp: 3 }
  const steps = [[call('meet', 2)], [call('stay', 2)], [call('meet', 2)]]
  const both = runTiny(tiny({ mesh, inputs: { x }, buffers: { x, y: x }, segments, steps }), { x: range(6) })
  deepEqual(both.seen.map(rank => rank.y).join(' '), '4 6 2 3 4 6')
  const gather: Instr = {
    kind: 'all-gather',
    ins: ['x'],
    outs: ['y'],
    group: { axes: ['pp', 'tp'], stages: [2, 0] },
    dim: 'n',
  }
  const wide = { meet: [load('x'), gather, wait('y')], stay: [load('x')] }
  const { seen } = runTiny(tiny({ mesh, inputs: { x }, buffers: { x, y: 'n 4' }, segments: wide, steps }), {
    x: range(6),
  })
  deepEqual(seen[1].y, [4, 5, 0, 1])
})

test('a collective may work in place', () => {
  const x = 'n/tp 4'
  const program = tiny({
    mesh: { tp: 2 },
    inputs: { x },
    buffers: { x },
    segments: { main: [load('x'), sum('x', 'x', over('tp')), wait('x')] },
  })
  deepEqual(
    runTiny(program, { x: range(4) })
      .seen.map(rank => rank.x)
      .join(' '),
    '2,4 2,4',
  )
})

/** Two ranks whose x is 1 and 2, in a program of x, y and z. */
function pair(...instrs: Instr[]) {
  const x = 'n/tp 2'
  const program = tiny({ mesh: { tp: 2 }, inputs: { x }, buffers: { x, y: x, z: x }, segments: { main: instrs } })
  return runTiny(program, { x: [1, 2] }).seen
}

test('what is touched between start and wait shows', () => {
  const start = sum('x', 'y', over('tp'))
  const early = pair(load('x'), start, add(['y'], 'z'), wait('y'))
  deepEqual(
    early.map(rank => rank.z),
    [[NaN], [NaN]],
  )
  const overwritten = pair(load('x'), start, { kind: 'zero', ins: [], outs: ['x'] }, wait('y'))
  deepEqual(
    overwritten.map(rank => rank.y),
    [[0], [0]],
  )
})

test('members may wait in any order, but must start in one', () => {
  const two = [sum('x', 'y', over('tp')), sum('x', 'z', over('tp'))]
  const [first] = pair(load('x'), ...two, wait('z'), wait('y'))
  deepEqual([first.y, first.z], [[3], [3]])
})

const failing = (work: () => unknown): RunError => {
  try {
    work()
  } catch (error) {
    if (error instanceof RunError) return error
    throw error
  }
  throw new Error('nothing failed')
}

test('members that mean different collectives are told apart, with ranks and instructions', () => {
  const x = 'n/pp 4'
  const segments = {
    one: [load('x'), sum('x', 'y', over('pp')), wait('y')],
    other: [load('x'), { ...sum('x', 'y', over('pp')), combine: 'max' } as Instr, wait('y')],
  }
  const given = {
    mesh: { pp: 2 },
    inputs: { x },
    buffers: { x, y: x },
    segments,
    steps: [[call('one', 2)], [call('other', 2)]],
  }
  const error = failing(() => runTiny(tiny(given), { x: range(4) }))
  deepEqual([error.rank, error.step, error.instr], [1, 0, 1])
  match(error.message, /rank 0 call one .*all-reduce sum.*rank 1 call other .*all-reduce max/)
})

test('a collective that is not waited for, or waited for twice, is an error', () => {
  match(failing(() => pair(load('x'), sum('x', 'y', over('tp')))).message, /never waited for/)
  match(failing(() => pair(load('x'), wait('y'))).message, /no collective that writes y/)
  const twice = [load('x'), sum('x', 'y', over('tp')), sum('x', 'y', over('tp'))]
  match(failing(() => pair(...twice)).message, /already awaits/)
})

/** A stall says for every rank what it waits for. */
test('a member that never comes is named', () => {
  const x = 'n/pp 2'
  const segments = { meet: [load('x'), sum('x', 'y', over('pp')), wait('y')] }
  const program = tiny({
    mesh: { pp: 2 },
    inputs: { x },
    buffers: { x, y: x },
    segments,
    steps: [[call('meet', 2)], []],
  })
  const error = failing(() => runTiny(program, { x: range(2) }))
  ok(error instanceof StallError)
  equal(error.blocked.length, 1)
  match(error.message, /rank 0, step 0 \[2\] call meet .*wait y is waiting for ranks 1 of 0 1 to start/)
})

const send = (frame: number, peer: number, tag: string): Step => ({ kind: 'send', frame, peer, tag })
const recv = (frame: number, peer: number, tag: string): Step => ({ kind: 'recv', frame, peer, tag })
const done = (tag: string): Step => ({ kind: 'wait', tag })
const alloc = (frame: number): Step => ({ kind: 'alloc', frame })
const free = (frame: number): Step => ({ kind: 'free', frame })

const piped = (first: readonly Step[], second: readonly Step[], more: Partial<Tiny> = {}): Program =>
  tiny({
    mesh: { tp: 2, pp: 2 },
    inputs: { x: 'n/pp+tp 8' },
    buffers: { x: 'n/pp+tp 8', y: 'n/pp+tp 8', z: 'n/pp+tp 8' },
    segments: { read: [load('x')], copy: [add(['y'], 'z')] },
    steps: [first, second],
    ...more,
  })

test('a message goes to the same place of another stage, and is there after its wait', () => {
  const [there, back] = [
    [send(0, 1, 'a'), recv(1, 1, 'b')],
    [recv(1, 0, 'a'), send(0, 0, 'b')],
  ]
  const ends = [done('b'), done('a'), call('copy', 3)]
  const { seen } = runTiny(piped([call('read', 3), ...there, ...ends], [call('read', 3), ...back, ...ends]), {
    x: range(8),
  })
  deepEqual(seen.map(rank => rank.z).join(' '), '4,5 6,7 0,1 2,3')
  const early = [call('read', 3), ...back, call('copy', 3), done('a'), done('b')]
  const hasty = runTiny(piped([call('read', 3), ...there, ...ends], early), { x: range(8) })
  deepEqual(hasty.seen[2].z, [NaN, NaN])
})

test('sends that are waited for before the other side receives stall, and both sides say so', () => {
  const error = failing(() =>
    runTiny(
      piped(
        [send(0, 1, 'a'), done('a'), recv(1, 1, 'b'), done('b')],
        [send(0, 0, 'b'), done('b'), recv(1, 0, 'a'), done('a')],
      ),
      { x: range(8) },
    ),
  )
  ok(error instanceof StallError)
  equal(error.blocked.length, 4)
  match(error.message, /rank 0, step 1 wait a is waiting for the recv of rank 2/)
  match(error.message, /rank 3, step 1 wait b is waiting for the recv of rank 1/)
})

test('messages that do not fit are errors', () => {
  const refused = (first: readonly Step[], second: readonly Step[], more: Partial<Tiny> = {}) =>
    failing(() => runTiny(piped(first, second, more), { x: range(8) })).message
  const wide = { buffers: { x: 'n/pp+tp 8', y: 'n/tp 8', z: 'n/tp 8' } }
  match(refused([send(0, 1, 'a')], [recv(1, 0, 'a')], wide), /frames of 8 and 16 bytes/)
  match(refused([send(0, 1, 'a')], []), /send a was never waited for/)
  match(refused([done('a')], []), /no send, recv or call a has started/)
  match(refused([send(0, 1, 'a'), send(0, 1, 'a')], []), /already under way/)
})

/** One rank with x (resident) and the transient frames y and z. */
const alone = (steps: readonly Step[], more: Partial<Tiny> = {}) =>
  runTiny(
    tiny({
      inputs: { x: 'n 2' },
      buffers: { x: 'n 2', 'activations:y': 'n 2', z: 'n 2' },
      transient: ['y', 'z'],
      segments: { write: [load('y', 'x')], copy: [add(['y'], 'z')] },
      steps: [steps],
      ...more,
    }),
    { x: [1, 2] },
  )

test('memory that is new, or was freed, is NaN', () => {
  deepEqual(alone([alloc(1), alloc(2), call('copy', 3)]).seen[0].z, [NaN, NaN])
  deepEqual(alone([alloc(1), alloc(2), call('write', 3), call('copy', 3)]).seen[0].z, [1, 2])
  const again = [alloc(1), alloc(2), call('write', 3), free(1), alloc(1), call('copy', 3)]
  deepEqual(alone(again).seen[0].z, [NaN, NaN])
})

test('misuse of memory is an error that says where', () => {
  const says = (steps: readonly Step[], words: RegExp, more?: Partial<Tiny>) => {
    const error = failing(() => alone(steps, more))
    match(error.message, words)
    deepEqual([error.rank, error.step], [0, steps.length - 1])
  }
  says([alloc(1), alloc(1)], /frame y is already allocated/)
  says([alloc(1), free(1), free(1)], /frame y is freed but not allocated/)
  says([free(0)], /frame x is resident/)
  says([alloc(0)], /frame x is already allocated/)
  says([alloc(1), call('copy', 3)], /frame z is used but not allocated/)
  says([alloc(1), alloc(2)], /frame z is allocated over the live frame y/, { placed: { y: [8, 8], z: [12, 8] } })
  says([alloc(1), alloc(2)], /frame z ends at byte 24 of an arena of 20/, { arena: 20 })
  says([alloc(1), alloc(2), call('copy', 2)], /copy has 3 roles, the call binds 2/)
  says([alloc(1), alloc(2), call('copy', 3)], /frame y of 4 bytes is asked to hold 8/, {
    placed: { y: [8, 4], z: [16, 8] },
  })
})

test('frames may share bytes one after the other, and the peak is of what lives at one time', () => {
  const steps = [alloc(1), free(1), alloc(2), free(2), alloc(1), free(1)]
  const { machine } = alone(steps, { placed: { y: [8, 8], z: [8, 8] } })
  deepEqual(machine.peaks, [{ parameters: 0, gradients: 0, optimizer: 0, activations: 8, workspace: 16, data: 0 }])
})

test('a load takes the part of its microbatch and rank, wherever the batch dim is', () => {
  const program = tiny({
    mesh: { dp: 2, tp: 2 },
    microbatches: 2,
    inputs: { x: 'seq 2, batch 4' },
    buffers: { x: 'batch/dp 4, seq/tp 2', s: '' },
    segments: { main: [load('x'), load('s', 'lr')] },
    steps: [[call('main', 2, 1)]],
  })
  const { seen } = runTiny(program, { x: range(16) })
  deepEqual(seen.map(rank => rank.x).join(' '), '4,5 6,7 12,13 14,15')
  deepEqual(seen[0].s, [0.1])
  throws(() => runTiny(program, { x: range(8) }), /inputs.x: 8 values, not 16/)
})

test('masks do not depend on microbatches, ranks or the split', () => {
  const mask = (mesh: Record<string, number>, microbatches: number, x: string) => {
    const drop: Instr = { kind: 'dropout', dropout: { rate: 0.5, key: 'k' }, ins: ['x'], outs: ['y'] }
    const steps = range(microbatches).map(k => call('main', 2, k))
    const program = tiny({
      mesh,
      microbatches,
      inputs: { x },
      buffers: { x, y: x },
      segments: { main: [load('x'), drop] },
      steps: [steps],
    })
    const kept = new Set<number>()
    const observe = ({ instr, read }: { instr: Instr; read(ref: string): Float64Array }) => {
      if (instr.kind === 'dropout') for (const value of read('y')) kept.add(value / 2)
    }
    interpreterOf(program, { seed: 3, observe }).step({ inputs: () => range(48), lr: 0, step: 5 })
    return [...kept].sort((a, b) => a - b)
  }
  const whole = mask({}, 1, 'seq 3, batch 8, embed 2')
  ok(whole.length > 12 && whole.length < 36)
  deepEqual(mask({}, 4, 'seq 3, batch 2, embed 2'), whole)
  deepEqual(mask({ tp: 2, dp: 2 }, 2, 'seq 3, batch/dp 4, embed/tp 2'), whole)
  deepEqual(mask({ tp: 2, dp: 4 }, 1, 'seq 3, batch/dp+tp 8, embed 2'), whole)
})

test('ranks that should agree and do not are reported', () => {
  const x = 'n/dp 2'
  const program = tiny({
    mesh: { dp: 2 },
    inputs: { x },
    buffers: { x, w: 'n 1', 'gradients:g': 'n 1' },
    segments: { main: [load('x'), { kind: 'accumulate', ins: ['x'], outs: ['w'] }] },
    params: { w: { dims: 'n 1', init: { kind: 'ones' }, param: 'w', grad: 'g' } },
  })
  const { machine } = runTiny(program, { x: [1, 4] })
  equal(machine.spread('w'), 3)
  throws(() => machine.gradient('w'), /no optimizer/)
  throws(() => machine.parameter('u'), /no parameter u/)
})
