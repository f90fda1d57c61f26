/** A training step written by hand, on one rank and on many: same losses, gradients, parameters and moments. */
import { deepEqual, equal, ok } from 'node:assert/strict'
import { test } from 'node:test'
import { interpreterOf, type Precision, syntheticData } from '../src/engine/index.js'
import { inputsOf } from '../src/geometry/index.js'
import type { Instr, Program, Step } from '../src/ir/index.js'
import { type Tiny, tiny } from './tiny.js'

const elements = 24
const load = (out: string): Instr => ({ kind: 'load', out, input: out })
const zero = (out: string): Instr => ({ kind: 'zero', ins: [], outs: [out] })
const accumulate = (value: string, into: string): Instr => ({ kind: 'accumulate', ins: [value], outs: [into] })
const sum = (ref: string, ...axes: ('dp' | 'tp')[]): Instr[] => [
  { kind: 'all-reduce', ins: [ref], outs: [ref], group: { axes }, combine: 'sum' },
  { kind: 'wait', on: ref },
]

/** y = x w against t; the number of elements is an input here, for brevity. */
const segments: Record<string, Instr[]> = {
  begin: [...['loss', 'count', 'normSquared', 'g'].map(zero), ...['lr', 'elements'].map(load)],
  forward: [
    load('x'),
    load('t'),
    { kind: 'contract', ins: ['x', 'w'], outs: ['y'] },
    { kind: 'squaredError', ins: ['y', 't'], outs: ['one'] },
    accumulate('one', 'loss'),
    { kind: 'countElements', ins: ['t'], outs: ['one'] },
    accumulate('one', 'count'),
    { kind: 'squaredErrorGrad', ins: ['y', 't', 'elements'], outs: ['dy'] },
    { kind: 'contract', ins: ['x', 'dy'], outs: ['dw'] },
    accumulate('dw', 'g'),
  ],
  update: [
    ...sum('loss', 'dp', 'tp'),
    ...sum('count', 'dp', 'tp'),
    ...sum('g', 'dp'),
    { kind: 'sumSquares', once: ['dp'], ins: ['g'], outs: ['normSquared'] },
    ...sum('normSquared', 'dp', 'tp'),
    {
      ...{ kind: 'adamw', beta1: 0.9, beta2: 0.99, eps: 1e-8, weightDecay: 0.1, clip: 0.5 },
      ...{ ins: ['g', 'normSquared', 'lr', 'taken'], outs: ['w', 'm', 'v'] },
    },
    { kind: 'take', ins: ['normSquared'], outs: ['taken'] },
  ],
}

const scalars = ['one', 'elements', 'loss', 'count', 'normSquared', 'lr', 'taken']

function regression(mesh: Record<string, number>, microbatches: number): Program {
  const samples = elements / 2 / microbatches
  const [x, t] = [`batch/dp ${samples}, in 3`, `batch/dp ${samples}, out/tp 2`]
  const [w, dw] = ['out/tp 2, in 3', 'in 3, out/tp 2']
  const tensors = { x, t, y: t, dy: t, dw, 'gradients:g': dw, w, 'optimizer:m': w, 'optimizer:v': w }
  const buffers = { ...tensors, ...Object.fromEntries(scalars.map(name => [name, ''])) }
  const bind = Object.keys(buffers).map((_, i) => i)
  const call = (segment: string, microbatch = -1): Step => ({
    kind: 'call',
    segment,
    block: -1,
    microbatch,
    bind,
    param: 'w',
  })
  const forwards = Array.from({ length: microbatches }, (_, k) => call('forward', k))
  const params: Tiny['params'] = {
    w: { dims: w, init: { kind: 'normal', std: 0.5 }, param: 'w', grad: 'g', states: { m: 'm', v: 'v' } },
  }
  const steps = [[call('begin'), ...forwards, call('update')]]
  return tiny({ mesh, microbatches, inputs: { x, t, elements: '' }, buffers, segments, params, steps })
}

function train(program: Program, precision: Precision = 'f64') {
  const machine = interpreterOf(program, { seed: 11, precision })
  const data = syntheticData(inputsOf(program), 0, 11)
  const inputs = (step: number) => (name: string) => (name === 'elements' ? [elements] : data(step)(name))
  const results = [0, 1, 2].map(step => machine.step({ inputs: inputs(step), lr: 0.1, step }))
  const tensors = [machine.parameter('w'), machine.gradient('w'), ...Object.values(machine.states('w'))]
  const scalars = results.map(({ loss, normSquared }) => [loss, normSquared])
  return { machine, results, numbers: [...tensors.map(values => [...values]), ...scalars].flat() }
}

const worst = (a: readonly number[], b: readonly number[]) => Math.max(...a.map((value, i) => Math.abs(value - b[i])))

test('the loss is a mean over the global batch, and the gradient was clipped', () => {
  const { results } = train(regression({}, 1))
  equal(results[0].count, elements)
  equal(results[0].loss, results[0].lossSum / elements)
  ok(results[0].normSquared > 0.25)
})

for (const [mesh, microbatches] of [
  [{}, 3],
  [{ tp: 2, dp: 2 }, 3],
  [{ dp: 4 }, 1],
  [{ dp: 2, tp: 2 }, 2],
] as const)
  test(`three steps on ${JSON.stringify(mesh)} in ${microbatches} microbatches are three steps on one rank`, () => {
    const [one, many] = [train(regression({}, 1)), train(regression(mesh, microbatches))]
    ok(worst(many.numbers, one.numbers) < 1e-13)
    equal(many.machine.spread('w'), 0)
  })

test('f32 starts from the same weights and differs by its rounding', () => {
  const first = (precision: Precision) => interpreterOf(regression({}, 1), { seed: 11, precision }).parameter('w')
  deepEqual(first('f32'), first('f64'))
  const difference = worst(train(regression({}, 1), 'f32').numbers, train(regression({}, 1)).numbers)
  ok(difference > 0 && difference < 1e-5, `${difference}`)
})
