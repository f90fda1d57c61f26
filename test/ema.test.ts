/** Averages of weights: as torch computes them, the same under every plan, still in steps that are skipped, and what evaluations read. */
import { deepEqual, equal, ok } from 'node:assert/strict'
import { after } from 'node:test'
import { type Checkpoint, checkpointProblems, loadCheckpoint } from '../src/checkpoint/index.js'
import { compileEvaluation, compileJob, serialJob } from '../src/compile/index.js'
import { dataFor, startTrainer } from '../src/engine/index.js'
import { nativeMissing, Pool, startEngine } from '../src/engine/native/index.js'
import { boot } from '../src/engine/reference/machine.js'
import { type Program, parse, print, stateTensor, verify } from '../src/ir/index.js'
import type { Job, JobInput } from '../src/plan/index.js'
import { family, test } from './families.js'
import { readFixture } from './fixtures.js'
import { jobOf, optionsOf, shallow, titleOf } from './jobs.js'
import { saved } from './saved.js'
import { runOp } from './tiny.js'

const ema = { decay: 0.75 }

interface Averages {
  readonly ema: readonly {
    readonly decay: number
    readonly rows: readonly { readonly weight: readonly number[]; readonly average: readonly number[] }[]
  }[]
}

for (const { decay, rows } of (JSON.parse(readFixture('optimizers/clip-ema.json')) as Averages).ema)
  test(`averages of decay ${decay} as torch has them`, () => {
    const dims = [{ name: 'd', size: rows[0].weight.length }]
    let held: ArrayLike<number> = new Float64Array(dims[0].size).fill(7)
    for (const [taken, { weight, average }] of rows.entries()) {
      const scalars = [4, taken].map(value => ({ dims: [], values: [value] }))
      const moment = { seed: 1, step: 0, block: '' }
      const ins = [{ dims, values: weight }, ...scalars]
      ;[held] = runOp({ kind: 'average', decay }, ins, [{ dims, values: held }], moment)
      for (const [i, value] of average.entries()) ok(Math.abs(held[i] - value) <= 1e-12, `row ${taken}, element ${i}`)
    }
  })

/** The averages after three steps, by name. */
function averagesOf(job: Job): Map<string, Float64Array> {
  const program = compileJob(job)
  const machine = boot(program, { seed: 1 })
  const inputs = dataFor(program, optionsOf(job))
  for (const step of [0, 1, 2]) machine.step({ inputs: inputs(step), lr: 0.01, step })
  return new Map(program.params.map(({ name }) => [name, machine.states(name).ema!]))
}

const plans: readonly NonNullable<JobInput['plan']>[] = [
  { dp: 3, zero: 1, microbatches: 2 },
  { tp: 2, sequenceParallel: true },
  { pp: 2, dp: 2, zero: 3, microbatches: 2, schedule: 'zb-h1' },
  { dp: 2, tp: 2, zero: 2, precision: 'bf16' },
  { dp: 2, zero: 1, precision: 'pure-bf16' },
  { cp: 2, dp: 2, zero: 3 },
]

const tested = family('EMA weights', 6)
for (const plan of plans)
  tested(`averages under ${titleOf(plan)} are those of one rank`, () => {
    const job = shallow(jobOf('gpt tied', plan, { ema, globalBatch: 12, optimizer: { kind: 'sgd', lr: 0.05 } }))
    const [program, serial] = [compileJob(job), compileJob(serialJob(job, job.plan.microbatches))]
    deepEqual(verify(program, serial), [])
    const [own, right] = [averagesOf(job), averagesOf(serialJob(job))]
    for (const [name, values] of right)
      for (const [i, value] of values.entries())
        ok(Math.abs(own.get(name)![i] - value) <= 1e-12 * Math.max(1, Math.abs(value)), `${name} ${i}`)
  })

test('averages stand still in a step that is skipped', () => {
  const job = jobOf('mlp', { dp: 2, zero: 1 }, { ema, skipAbove: 1e-9 })
  const program = compileJob(job)
  const machine = boot(program, { seed: 1 })
  const [{ name }] = program.params
  deepEqual(machine.states(name).ema, machine.parameter(name)) // where they start
  const before = machine.states(name).ema!.slice()
  machine.step({ inputs: dataFor(program, optionsOf(job))(0), lr: 0.01, step: 0 })
  deepEqual(machine.states(name).ema, before)
})

const pool = new Pool()
after(() => pool.close())
const byKernels = family('EMA weights: kernels', 2)
for (const kernels of ['native', 'wasm'] as const)
  byKernels(`${kernels}: averages are kept`, { skip: kernels === 'native' && (nativeMissing() || false) }, async () => {
    const job = jobOf('mlp', { dp: 2, zero: 1 }, { ema, optimizer: { kind: 'sgd', lr: 0.01 } })
    const program = compileJob(job)
    const engine = await startEngine(program, { seed: 1, kernels, pool, poison: true })
    const inputs = dataFor(program, optionsOf(job))
    for (const step of [0, 1, 2]) await engine.step({ inputs: inputs(step), lr: 0.01, step })
    for (const [name, values] of averagesOf(job)) {
      const own = engine.states(name).ema!
      for (const [i, value] of values.entries()) ok(Math.abs(own[i] - value) <= 1e-6, `${name} ${i}`)
    }
    await engine.stop()
  })

test('averages of what is stored in bf16 are in f32', () => {
  const program = compileJob(jobOf('gpt', { dp: 2, zero: 1, precision: 'pure-bf16' }, { ema }))
  equal(stateTensor(program.params[0], 'ema').dtype, 'f32')
  equal(stateTensor(program.params[0], 'm').dtype, 'bf16')
})

test('an evaluation reads the averages', async () => {
  const job = shallow(jobOf('gpt', { dp: 2, zero: 1 }, { ema: { decay: 0.999 } }))
  const evaluation = compileEvaluation(job)
  const program = compileJob(job)
  const options = { kernels: 'reference', seed: 1, evaluation } as const
  const inputs = dataFor(program, optionsOf(job))
  const trainer = await startTrainer(program, options)
  const still = await trainer.evaluate([inputs(0)])
  for (const step of [0, 1, 2]) await trainer.step({ inputs: inputs(step), lr: 0.05, step })
  const [averaged, { loss }] = [
    await trainer.evaluate([inputs(0)]),
    await trainer.step({ inputs: inputs(0), lr: 0, step: 3 }),
  ]
  ok(Math.abs(averaged.loss - loss) > 1e-3, 'the weights of now have another loss')
  ok(averaged.loss !== still.loss)
  await trainer.stop()
})

test('averages are saved; where there are none, they start as the weights', () => {
  const programs = [{ ema }, {}].map(how => compileJob(jobOf('mlp', { dp: 2, zero: 1 }, how)))
  const [averaged, plain] = programs
  const machines = programs.map(program => {
    const machine = boot(program, { seed: 1 })
    const inputs = dataFor(program, { vocab: 1, seed: 1, lr: 0.01, steps: 2 })
    for (const step of [0, 1]) machine.step({ inputs: inputs(step), lr: 0.01, step })
    return machine
  })
  const [{ name }] = averaged.params
  const from = programs.map((program, i) => saved(program, machines[i]))
  const loaded = (program: Program, checkpoint: Checkpoint, share: 'weights' | 'everything') => {
    const machine = boot(program, { seed: 2 })
    deepEqual(checkpointProblems(program, checkpoint, share), [])
    deepEqual(
      loadCheckpoint(program, checkpoint, share, (shard, values) => machine.hold(shard, values)),
      [],
    )
    return machine
  }
  deepEqual(loaded(averaged, from[0], 'everything').states(name), machines[0].states(name))
  for (const share of ['weights', 'everything'] as const)
    deepEqual(loaded(averaged, from[1], share).states(name).ema, machines[1].parameter(name))
  deepEqual(loaded(averaged, from[0], 'weights').states(name).ema, machines[0].parameter(name))
  deepEqual(loaded(plain, from[0], 'everything').states(name), machines[1].states(name))
})

const broken = [
  ['P3', 'an average that nobody moves', /\n {2}%ema = average [^\n]*/, ''],
  ['P8', 'another limit', /= average (.*) decay=0.75/, '= average $1 decay=0.75 limit=3'],
  ['T3', 'kept in the digits of what it follows', /(buffer %ema) f32/, '$1 bf16'],
  ['I3', 'another decay', /decay=0.75/, 'decay=0.5'],
] as const

for (const [law, what, from, to] of broken)
  test(`[${law}] ${what}`, () => {
    const job = jobOf('mlp', { dp: 2, zero: 1 }, { ema })
    const text = print(compileJob(job))
    const changed = text.replace(from, to)
    ok(changed !== text)
    const laws = verify(parse(changed), compileJob(serialJob(job, 1))).map(found => found.law)
    ok(laws.includes(law), laws.join())
  })
