/** States that are tensors of their own: other dims than their parameter, another layout, residuals that each rank has its own of. */
import { deepEqual, equal, ok } from 'node:assert/strict'
import { test } from 'node:test'
import { heldElements, localDims, type States, worldOf } from '../src/base/index.js'
import { checkpointProblems, loadCheckpoint } from '../src/checkpoint/index.js'
import { compileJob } from '../src/compile/index.js'
import { dataFor } from '../src/engine/index.js'
import { interpreterOf } from '../src/engine/reference/machine.js'
import {
  type Param,
  type Program,
  parse,
  print,
  type StateTensor,
  stateTensor,
  verifyStructure,
} from '../src/ir/index.js'
import { jobOf, shallow } from './jobs.js'
import { saved } from './saved.js'

/** The first parameter of a program has its states so. */
function withApart(program: Program, apart: (param: Param) => States<StateTensor>): Program {
  const [first, ...others] = program.params
  return { ...program, params: [{ ...first, apart: apart(first) }, ...others] }
}

const compiled = (dp: number) => compileJob(jobOf('mlp', { dp }))
const addends = (dp: number): Program =>
  withApart(compiled(dp), ({ dims }) => ({ m: { dtype: 'f32', dims, layout: { splits: {}, partial: { dp: 'sum' } } } }))

test('the text of a program says which states are tensors of their own', () => {
  const program = addends(2)
  ok(print(program).includes('  state m f32 [features:4 embed:4] sum:dp\n'), print(program).slice(0, 800))
  deepEqual(parse(print(program)), program)
  equal(stateTensor(program.params[0], 'm').layout.partial.dp, 'sum')
  deepEqual(stateTensor(program.params[0], 'v').layout, program.params[0].state)
})

/** `m` of each rank of a machine. */
const held = (program: Program, machine: ReturnType<typeof interpreterOf>): number[][] =>
  Array.from({ length: worldOf(program.mesh) }, (_, rank) => [
    ...machine.held({ rank, frame: program.params[0].frames[0].states.m!, dtype: 'f32', first: 0 }).subarray(0, 16),
  ])

/** A machine whose ranks hold 1, 10, 100, ... times the same. */
function trainedOn(program: Program) {
  const machine = interpreterOf(program, { seed: 1 })
  const frame = program.params[0].frames[0].states.m!
  for (let rank = 0; rank < worldOf(program.mesh); rank++)
    machine.hold(
      { rank, frame, dtype: 'f32', first: 0 },
      Float64Array.from({ length: 16 }, (_, i) => i * 10 ** rank),
    )
  return machine
}

/** What each rank is given, as a multiple of the same; the last: of a checkpoint that has the sum alone, as earlier ones do. */
const redistributed: readonly (readonly [from: number, to: number, given: readonly number[]])[] = [
  [2, 2, [1, 10]],
  [2, 4, [1, 10, 0, 0]],
  [4, 2, [101, 1010]],
  [4, 3, [1001, 10, 100]],
  [3, 1, [111]],
  [1, 3, [1, 0, 0]],
]
for (const [from, to, given] of redistributed)
  test(`residuals of ${from} ranks on ${to}: residual i is added to that of rank i mod ${to}`, () => {
    const checkpoint = saved(addends(from), trainedOn(addends(from)))
    const program = addends(to)
    const other = trainedOn(program)
    deepEqual(
      loadCheckpoint(program, checkpoint, 'everything', (shard, values) => other.hold(shard, values)),
      [],
    )
    deepEqual(
      held(program, other),
      given.map(times => Array.from({ length: 16 }, (_, i) => i * times)),
    )
  })

test('a checkpoint that holds the sum of residuals alone, as earlier ones do: the first rank is given it', () => {
  const [program, plain] = [addends(2), compiled(2)]
  const checkpoint = saved(plain, trainedOn(plain))
  const [{ name, dims }] = program.params
  deepEqual(checkpoint.tensors.get(`m.${name}`), dims)
  const other = trainedOn(program)
  deepEqual(
    loadCheckpoint(program, checkpoint, 'everything', (shard, values) => other.hold(shard, values)),
    [],
  )
  deepEqual(held(program, other), [Array.from({ length: 16 }, (_, i) => i), new Array(16).fill(0)])
})

test('rows and columns of Adafactor go from any plan to any other', () => {
  const training = { optimizer: { kind: 'adafactor', lr: 1e-2 } } as const
  const program = compileJob(shallow(jobOf('gpt', { dp: 3, zero: 1 }, { ...training, globalBatch: 12 })))
  const options = { vocab: 8, seed: 1 }
  const trained = interpreterOf(program, options)
  trained.step({ inputs: dataFor(program, { ...options, lr: 0.01, steps: 1 })(0), lr: 0.01, step: 0 })
  const checkpoint = saved(program, trained)
  for (const plan of [{ tp: 2 }, { dp: 2, tp: 2, zero: 3 }] as const) {
    const other = compileJob(shallow(jobOf('gpt', plan, training)))
    deepEqual(checkpointProblems(other, checkpoint, 'everything'), [])
    const runner = interpreterOf(other, { seed: 2 })
    deepEqual(
      loadCheckpoint(other, checkpoint, 'everything', (shard, values) => runner.hold(shard, values)),
      [],
    )
    for (const { name } of program.params) deepEqual(runner.states(name), trained.states(name), name)
  }
  const [matrix] = program.params.filter(({ name }) => name.endsWith('mlp.up'))
  deepEqual(Object.keys(trained.states(matrix.name)), ['rows', 'columns', 'mean'])
  deepEqual(stateTensor(matrix, 'columns').dims, matrix.dims.slice(1))
  ok(trained.states(matrix.name).rows!.every(value => value > 0))
})

test('[L5] a state needs the room of its own dims', () => {
  const program = withApart(compiled(1), ({ dims }) => ({
    m: { dtype: 'f32', dims: [...dims, { name: 'more', size: 2 }], layout: { splits: {}, partial: {} } },
  }))
  const [found] = verifyStructure(program)
  equal(found?.law, 'L5')
  ok(found.message.startsWith(`m of ${program.params[0].name} needs 128 bytes`), found.message)
})

test('[W3, W5] a state has sizes, and is split over axes that are there', () => {
  const lawOf = (tensor: (param: Param) => StateTensor) =>
    verifyStructure(withApart(compiled(2), param => ({ m: tensor(param) }))).map(({ law }) => law)
  const layout = { splits: {}, partial: {} }
  deepEqual(
    lawOf(({ dims }) => ({ dtype: 'f32', dims: [...dims, { name: 'none', size: 0 }], layout })),
    ['W5'],
  )
  deepEqual(
    lawOf(({ dims }) => ({ dtype: 'f32', dims, layout: { ...layout, splits: { rows: ['dp'] } } })),
    ['W3'],
  )
})

test('a state whose dims lack one of its parameter lies in parts of its own', () => {
  const { mesh, params } = compiled(2)
  const [{ dims }] = params
  const rows = withApart(compiled(2), () => ({
    v: { dtype: 'f32', dims: dims.slice(0, 1), layout: { splits: {}, partial: {}, flat: ['dp'] } },
  }))
  const machine = interpreterOf(rows, { seed: 1 })
  const [{ name }] = params
  machine.setStates(name, { v: [1, 2, 3, 4] })
  deepEqual([...machine.states(name).v!], [1, 2, 3, 4])
  const { layout } = stateTensor(rows.params[0], 'v')
  equal(heldElements(mesh, localDims(mesh, dims.slice(0, 1), layout), layout), 2)
})
