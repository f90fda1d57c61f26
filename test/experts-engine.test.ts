/**
 * Routed experts on real ranks, with native kernels and with WebAssembly: losses, gradients and parameters within an f32 bound of
 * one rank in f64, replicas equal to the bit, peaks equal to the plan byte by byte. Scores of these models are so far apart
 * that f32 chooses as f64 does. And rows that do not fit: the step stops, and says what would do.
 */
import assert from 'node:assert/strict'
import { after } from 'node:test'
import { compileJob, serialJob } from '../src/compile/index.js'
import { readReplay, withChoices } from '../src/data/index.js'
import { boot, compareRun, dataFor, syntheticData } from '../src/engine/index.js'
import { nativeMissing, Pool, startEngine } from '../src/engine/native/index.js'
import { inputsOf } from '../src/geometry/index.js'
import { presets } from '../src/model/index.js'
import { check, Job, type JobInput } from '../src/plan/index.js'
import { expertModels } from './expert-models.js'
import { family, test } from './families.js'
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
    plan: { expertCapacity: 'worst', ...plan },
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
  ['deepseek', { cp: 4, ep: 2, attention: 'ring' }],
  ['mixtral', { dp: 2, cp: 2, tp: 2, ep: 4, sequenceParallel: true }],
  ['gshard', { dp: 2, tp: 2, ep: 2, etp: 2, microbatches: 2 }],
  ['qwen', { pp: 2, dp: 2, ep: 2, microbatches: 4, schedule: 'zb-v', zero: 2 }],
  ['deepseek', { pp: 2, tp: 2, ep: 2, microbatches: 4, schedule: '1f1b', recompute: 'selective' }],
]

const tested = family('experts on the engine', 12)
for (const [model, plan] of cases)
  for (const kernels of ['native', 'wasm'] as const)
    tested(
      `${kernels}: ${model} with ${titleOf(plan)}`,
      { skip: kernels === 'native' && nativeMissing() },
      async () => {
        const job = jobOf(model, plan)
        const program = compileJob(job)
        // After two steps, one up and one down, a bias is 0 but for rounding, and everything is far from that.
        isWithinBounds(compareRun(program, await record(program, kernels, pool, optionsOf(job, 3)), serialOf(job, 3)))
      },
    )

for (const kernels of ['native', 'wasm'] as const)
  test(`${kernels}: of tokens that are alike tp keeps the same as one rank in f64`, {
    skip: kernels === 'native' && nativeMissing(),
  }, async () => {
    const moe = { experts: 8, topK: 2, ffn: 16, capacity: { factor: 0.5, order: 'probability' } } as const
    const model = { family: 'llama', layers: 2, embed: 64, heads: 4, ffn: 16, vocab: 64, moe } as const
    const jobOf = (plan: Plan) =>
      Job.parse({ model, training: { seq: 32, globalBatch: 4 }, plan: { expertCapacity: 'worst', ...plan } })
    const [serial, program] = [{}, { tp: 2 }].map(plan => compileJob(jobOf(plan)))
    const given = dataFor(serial, { ...optionsOf(jobOf({})), seed: 1 })(0)
    // Labels differ, so that it shows in the loss which tokens were kept.
    const inputs = (name: string) => (name === 'tokens' ? given(name).fill(5) : given(name))
    const right = boot(serial, { seed: 1 }).step({ inputs, lr: 0, step: 0 }).loss
    const engine = await startEngine(program, { seed: 1, kernels, pool })
    const { loss } = await engine.step({ inputs, lr: 0, step: 0 })
    await engine.stop()
    assert.ok(Math.abs(loss / right - 1) < 1e-6, `${loss} is not ${right}`)
  })

/** The choices of each step on one rank in f64, as a file has them; the batch is always the same. */
function chosenOnOneRank(job: Job, steps: number): string {
  const program = compileJob(serialJob(job))
  const lines: Record<string, number[]>[] = []
  const machine = boot(program, {
    seed: 1,
    observe({ call, instr, read }) {
      if (instr.kind === 'topK') lines.at(-1)![program.blocks[call.block].name] = [...read(instr.outs[0])]
    },
  })
  const inputs = dataFor(program, optionsOf(job))(0)
  for (let step = 0; step < steps; step++) {
    lines.push({})
    machine.step({ inputs, lr: 0.01, step })
  }
  return lines.map(line => JSON.stringify(line)).join('\n')
}

/** Losses of a run by the engine that repeats choices. */
async function lossesOf(job: Job, chosen: string, steps: number): Promise<number[]> {
  const program = compileJob(job)
  const [engine, replay] = [await startEngine(program, { seed: 1, pool }), readReplay(new TextEncoder().encode(chosen))]
  const batch = dataFor(program, optionsOf(job))(0)
  const losses: number[] = []
  for (let step = 0; step < steps; step++)
    losses.push((await engine.step({ inputs: withChoices(batch, replay, step), lr: 0.01, step })).loss)
  await engine.stop()
  return losses
}

for (const preset of ['mixtral-tiny', 'deepseek-tiny'] as const)
  test(`${preset} trains on 8 ranks as on one, if both choose the same experts`, {
    skip: nativeMissing() ?? false,
  }, async () => {
    const [steps, training] = [6, { seq: 16, globalBatch: 4, clip: 0.5 }]
    const job = Job.parse({
      ...{ model: presets[preset], training, data: { routing: 'choices.jsonl' } },
      plan: { dp: 2, cp: 2, tp: 2, ep: 4, expertCapacity: 'worst' },
    })
    const chosen = chosenOnOneRank({ ...job, data: undefined }, steps)
    const [losses, expected] = [await lossesOf(job, chosen, steps), await lossesOf(serialJob(job), chosen, steps)]
    for (const [step, loss] of losses.entries()) {
      const off = Math.abs(loss / expected[step] - 1)
      assert.ok(off < 1e-5, `step ${step + 1}: ${loss}, on one rank ${expected[step]}`)
    }
    assert.ok(losses[steps - 1] < losses[0] - 0.05, `it does not learn: ${losses}`)
  })

test('rows that do not fit stop the step, say how many would, and leave parameters as they were', async () => {
  const job = jobOf('mixtral', { dp: 2, ep: 2, expertCapacity: 1 })
  const program = compileJob(job)
  const engine = await startEngine(program, { seed: 1, pool })
  const names = program.params.map(({ name }) => name)
  const before = names.map(name => engine.parameter(name))
  const inputs = syntheticData(inputsOf(program), 8, 3)(0)
  await assert.rejects(engine.step({ inputs, lr: 1e-3, step: 0 }), (error: Error) => {
    assert.match(
      error.message,
      /rank \d failed: layers\.\d, microbatch 0: its experts receive \d+ tokens, but their capacity is 64/,
    )
    assert.match(error.message, /set `expertCapacity: 1\.\d+`/)
    return true
  })
  assert.deepEqual(
    names.map(name => engine.parameter(name)),
    before,
  )
  await engine.stop()
})
