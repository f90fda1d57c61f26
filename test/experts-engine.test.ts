/**
 * Routed experts on real ranks, with native kernels and with WebAssembly: losses, gradients and parameters within an f32 bound of
 * one rank in f64, replicas equal to the bit, peaks equal to the plan byte by byte. Scores of these models are so far apart
 * that f32 chooses as f64 does. And rows that do not fit: the step stops, and says what would do.
 */
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { compileJob } from '../src/compile/index.js'
import { compareRun, syntheticData } from '../src/engine/index.js'
import { nativeMissing, Pool, startEngine } from '../src/engine/native/index.js'
import { inputsOf } from '../src/geometry/index.js'
import { presets } from '../src/model/index.js'
import { check, Job, type JobInput } from '../src/plan/index.js'
import { expertModels } from './expert-models.js'
import { optionsOf, serialOf, titleOf } from './jobs.js'
import { isWithinBounds, record } from './recorded.js'

const pool = new Pool()
after(() => pool.close())

type Plan = NonNullable<JobInput['plan']>

function jobOf(model: keyof typeof expertModels, plan: Plan): Job {
  const stages = (plan.pp ?? 1) * (plan.chunks ?? 2)
  const job = Job.parse({
    model: { ...expertModels[model], layers: Math.max(2, (plan.pp ?? 1) > 1 ? stages : 0) },
    training: { seq: 8, globalBatch: 8, clip: 0.5 },
    plan: { rows: 'worst', ...plan },
  })
  assert.deepEqual(
    check(job).filter(({ severity }) => severity === 'error'),
    [],
  )
  return job
}

const cases: readonly (readonly [keyof typeof expertModels, Plan])[] = [
  ['mixtral', {}],
  ['deepseek', { microbatches: 2, recompute: 'full' }],
  ['qwen', { dp: 2 }],
  ['gshard', { tp: 2, sequenceParallel: true }],
  ['mixtral', { dp: 2, ep: 2 }],
  ['mixtral', { dp: 4, ep: 4, zero: 3, microbatches: 2 }],
  ['deepseek', { dp: 2, cp: 2, ep: 4, zero: 1 }],
  ['deepseek', { cp: 4, zigzag: false, ep: 4, attention: 'ring' }],
  ['mixtral', { dp: 2, cp: 2, tp: 2, ep: 4, sequenceParallel: true }],
  ['gshard', { dp: 2, tp: 2, ep: 2, etp: 2, microbatches: 2 }],
  ['qwen', { pp: 2, dp: 2, ep: 2, microbatches: 4, schedule: 'zb-v', zero: 2 }],
  ['deepseek', { pp: 2, tp: 2, ep: 2, microbatches: 4, schedule: '1f1b', recompute: 'selective' }],
]

for (const [model, plan] of cases)
  for (const kernels of ['native', 'wasm'] as const)
    test(`${kernels}: ${model} with ${titleOf(plan)}`, { skip: kernels === 'native' && nativeMissing() }, async () => {
      const job = jobOf(model, plan)
      const program = compileJob(job)
      isWithinBounds(compareRun(program, await record(program, kernels, pool, optionsOf(job)), serialOf(job)))
    })

test('native: a small DeepSeek, latent attention and experts, on 8 ranks', {
  skip: nativeMissing() ?? false,
}, async () => {
  const job = Job.parse({
    model: { ...presets['deepseek-tiny'], layers: 2 },
    training: { seq: 8, globalBatch: 4, clip: 0.5 },
    plan: { dp: 2, cp: 2, tp: 2, ep: 4, rows: 'worst' },
  })
  const program = compileJob(job)
  isWithinBounds(compareRun(program, await record(program, 'native', pool, optionsOf(job)), serialOf(job)))
})

test('rows that do not fit stop the step, say how many would, and leave parameters as they were', async () => {
  const job = jobOf('mixtral', { dp: 2, ep: 2, rows: 1 })
  const program = compileJob(job)
  const engine = await startEngine(program, { seed: 1, pool })
  const names = program.params.map(({ name }) => name)
  const before = names.map(name => engine.parameter(name))
  const inputs = syntheticData(inputsOf(program), 8, 3)(0)
  await assert.rejects(engine.step({ inputs, lr: 1e-3, step: 0 }), (error: Error) => {
    assert.match(
      error.message,
      /rank \d failed: layers\.\d, microbatch 0: its experts get \d+ rows, there is room for 64/,
    )
    assert.match(error.message, /`rows: 1\.\d+` would do/)
    return true
  })
  assert.deepEqual(
    names.map(name => engine.parameter(name)),
    before,
  )
  await engine.stop()
})
