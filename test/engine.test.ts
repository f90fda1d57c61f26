/**
 * The engine on a sample of the grid that holds every pair of choices with native kernels, and on part of it with WebAssembly:
 * losses, gradients and parameters within an f32 bound of the one-rank program in f64, replicas equal to the bit, peaks
 * equal to the plan byte by byte; and the same bits in every run. Memory that is not in use is NaN throughout. GRID=2000
 * draws that many more plans from the whole grid, up to 64 ranks, for both.
 */
import assert from 'node:assert/strict'
import { after } from 'node:test'
import { compileJob } from '../src/compile/index.js'
import { boot, compareRun, type Runner, syntheticData } from '../src/engine/index.js'
import { type LoweredProgram, nativeMissing, Pool, startEngine } from '../src/engine/native/index.js'
import { inputsOf } from '../src/geometry/index.js'
import type { Program } from '../src/ir/index.js'
import type { Job } from '../src/plan/index.js'
import { family, test as once } from './families.js'
import { jobOf, optionsOf, serialOf } from './jobs.js'
import { draw, jobAt, type Point, pairwise, titleAt } from './pairs.js'
import { bounds, isWithinBounds, type Kind, record } from './recorded.js'

const pool = new Pool()
after(() => pool.close())

async function agrees(kernels: Kind, job: Job, program: Program): Promise<void> {
  isWithinBounds(compareRun(program, await record(program, kernels, pool, optionsOf(job)), serialOf(job)))
}

const inGrid = family('native engine: pairs of choices', process.env.GRID ? 1 : 6)
const skipOf = (kernels: Kind) => (kernels === 'native' && nativeMissing()) || false

// All in f32: these kernels have no bf16.
function run(drawn: Point, note: string, kinds: readonly Kind[]): void {
  const point = { ...drawn, precision: 'f32' as const }
  const job = jobAt(point)
  let program: Program | undefined
  for (const kernels of kinds)
    inGrid(`${kernels}: ${titleAt(point)}${note}`, { skip: skipOf(kernels) }, () => {
      program ??= compileJob(job)
      return agrees(kernels, job, program)
    })
}

// What the kernels compute is compared kernel by kernel elsewhere; how ranks meet is the same in both.
for (const [i, point] of pairwise(1, 20_000, 8).entries())
  run(point, '', i % 4 === 0 || nativeMissing() ? ['native', 'wasm'] : ['native'])

const more = Number(process.env.GRID ?? 0)
const seed = Number(process.env.SEED ?? 2)
const points = draw(seed, 64)
for (let i = 0; i < more; i++) run(points.next().value as Point, ` (SEED=${seed} #${i})`, ['native', 'wasm'])

const everything = { dp: 2, tp: 2, pp: 2, zero: 3, sequenceParallel: true, microbatches: 4, schedule: '1f1b' } as const

for (const kernels of ['native', 'wasm'] as const)
  once(`${kernels}: two runs of one job give the same bits`, { skip: skipOf(kernels) }, async () => {
    const job = jobOf('gpt tied', everything)
    const program = compileJob(job)
    const [first, second] = [
      await record(program, kernels, pool, optionsOf(job)),
      await record(program, kernels, pool, optionsOf(job)),
    ]
    assert.deepEqual(second, first)
  })

once('losses are those of the f32 interpreter', async () => {
  const program = compileJob(jobOf('llama', { dp: 2, tp: 2, microbatches: 2 }))
  const machine = boot(program, { seed: 3, precision: 'f32' })
  const engine = await startEngine(program, { seed: 3, pool })
  const data = syntheticData(inputsOf(program), 8, 3)
  for (let step = 0; step < 3; step++) {
    const given = { inputs: data(step), lr: 1e-3, step }
    const [ours, theirs] = [(await engine.step(given)).loss, machine.step(given).loss]
    assert.ok(Math.abs(ours / theirs - 1) <= bounds.loss, `${ours} and ${theirs}`)
  }
  await engine.stop()
})

const runners: readonly [string, (program: Program) => Runner | Promise<Runner>, gradient: RegExp][] = [
  ['reference', program => boot(program, { seed: 1, precision: 'f32' }), /no optimizer instruction/],
  ['native', program => startEngine(program, { seed: 1, pool }), /observeGradients/],
]
for (const [kind, start, noGradient] of runners)
  once(`${kind}: parameters and states that are written to a runner are read back`, async () => {
    const program = compileJob(jobOf('gpt', { dp: 2, zero: 3 }))
    const runner = await start(program)
    const { name, dims } = program.params[1]
    const values = Float64Array.from({ length: dims.reduce((n, dim) => n * dim.size, 1) }, (_, i) => i / 8)
    const doubled = values.map(value => value * 2)
    runner.setParameter(name, values)
    runner.setStates(name, { m: values, v: doubled })
    assert.deepEqual(runner.parameter(name), values)
    assert.deepEqual(runner.states(name), { m: values, v: doubled })
    assert.equal(runner.spread(name), 0)
    assert.throws(() => runner.setParameter(name, [1, 2]), /has \d+ elements, not 2/)
    assert.throws(() => runner.gradient(name), noGradient)
    await runner.stop()
  })

once('every command of a step has a span, in order, on one clock', async () => {
  const program = compileJob(jobOf('mlp', { dp: 2, pp: 2, microbatches: 2 }))
  let lists: LoweredProgram['lists'] = []
  const tamper = (lowered: LoweredProgram) => void ({ lists } = lowered)
  const engine = await startEngine(program, { seed: 1, pool, measure: true, tamper })
  const inputs = syntheticData(inputsOf(program), 8, 1)(0)
  await engine.step({ inputs, lr: 1e-3, step: 0 })
  const { spans } = engine
  for (let rank = 0; rank < 4; rank++) {
    const own = spans.filter(span => span.rank === rank)
    // All but the first, which turns recording on, and the last, which ends the list.
    assert.deepEqual(
      own.map(({ step, instr }) => ({ step, instr })),
      lists[rank].origins.slice(1, -1),
    )
    assert.ok(own.every((span, i) => span.end >= span.start && span.start >= (own[i - 1]?.end ?? 0)))
  }
  const [starts, ends] = [spans.map(({ start }) => start), spans.map(({ end }) => end)]
  assert.ok(Math.max(...ends) - Math.min(...starts) < 60)
  await engine.step({ inputs, lr: 1e-3, step: 1 })
  assert.equal(engine.spans.length, spans.length)
  await engine.stop()
})
