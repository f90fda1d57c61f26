/**
 * Whole steps of the engine in 16 bits: losses beside those of the interpreter that rounds as the plan says, and of the same model
 * in f32 after 50 steps; replicas equal to the bit, peaks equal to the plan byte by byte; the same bits in every run.
 * Memory that is not in use is NaN throughout.
 */
import { deepEqual, equal, ok } from 'node:assert/strict'
import { after } from 'node:test'
import { compileJob, serialJob } from '../src/compile/index.js'
import { boot, dataFor, type Runner, type StepData, type StepResult } from '../src/engine/index.js'
import { nativeMissing, Pool, startEngine } from '../src/engine/native/index.js'
import type { Program } from '../src/ir/index.js'
import { Job } from '../src/plan/index.js'
import { expertModels } from './expert-models.js'
import { family, later, test } from './families.js'
import { jobOf, optionsOf } from './jobs.js'
import { draw, jobAt, type Point, titleAt } from './pairs.js'
import { type Kind, lossBounds } from './recorded.js'

const pool = new Pool()
after(() => pool.close())

const skipOf = (kernels: Kind) => ({ skip: (kernels === 'native' && nativeMissing()) || false })

async function losses(runner: Runner, program: Program, job: Job, steps: number, lr = 1e-3): Promise<number[]> {
  const data = dataFor(program, optionsOf(job))
  const found: number[] = []
  const one = async (given: StepData): Promise<StepResult> => runner.step(given)
  for (let step = 0; step < steps; step++) found.push((await one({ inputs: data(step), lr, step })).loss)
  return found
}

const start = (program: Program, kernels: Kind) =>
  startEngine(program, { seed: 1, kernels, pool, poison: true, observeGradients: true, timeoutMs: 20_000 })

async function agrees(job: Job, kernels: Kind): Promise<void> {
  const program = compileJob(job)
  const most = lossBounds[job.plan.precision]
  const [engine, machine] = [await start(program, kernels), boot(program, { seed: 1, precision: 'f32' })]
  try {
    const [ours, theirs] = [await losses(engine, program, job, 2), await losses(machine, program, job, 2)]
    for (const [step, loss] of ours.entries())
      ok(Math.abs(loss / theirs[step] - 1) <= most, `step ${step}: ${loss} and ${theirs[step]}`)
    deepEqual(engine.peaks, machine.peaks)
    for (const { name } of program.params) {
      equal(engine.spread(name), 0, `replicas of ${name} differ`)
      ok(engine.gradient(name).every(Number.isFinite), `the gradient of ${name} is not finite`)
    }
  } finally {
    await engine.stop()
  }
}

/** So many plans in 16 bits, drawn from the grid. */
function* drawn(count: number): Generator<[number, Point]> {
  let made = 0
  for (const point of draw(13, 8))
    if (point.precision !== 'f32' && made < count) yield [made++, point]
    else if (made === count) return
}

const drawnPlans = family('16 bits: drawn plans', 24)
for (const [i, point] of drawn(48)) {
  const kernels = i % 4 === 3 ? 'wasm' : 'native'
  drawnPlans(`${kernels}: ${titleAt(point)}`, skipOf(kernels), () => agrees(jobAt(point), kernels))
}

const routed = (model: keyof typeof expertModels, plan: object): Job =>
  Job.parse({ model: expertModels[model], training: { seq: 4, globalBatch: 16, clip: 0.5 }, plan })
const plans = [{}, { dp: 2, ep: 2, zero: 1 }, { dp: 2, tp: 2, ep: 4, zero: 3, microbatches: 2 }]
const cases = Object.keys(expertModels).flatMap(model =>
  plans.flatMap(plan => (['bf16', 'pure-bf16'] as const).map(precision => ({ model, plan: { ...plan, precision } }))),
)
const withExperts = family('16 bits: experts', 30)
for (const { model, plan } of cases) {
  const job = routed(model as keyof typeof expertModels, plan) // its own keys
  withExperts(`native: experts of ${model}, ${JSON.stringify(plan)}`, skipOf('native'), () => agrees(job, 'native'))
}

/** The last loss of 50 steps, on some data again and again. */
async function trained(job: Job, kernels: Kind): Promise<number> {
  const program = compileJob(job)
  const engine = await start(program, kernels)
  try {
    const last = (await losses(engine, program, job, 50, 1e-2)).at(-1)
    return last ?? Number.NaN
  } finally {
    await engine.stop()
  }
}

for (const [model, precision, when] of [
  ['gpt', 'bf16', later],
  ['llama', 'bf16', later],
  ['llama', 'pure-bf16', later],
  ['latent', 'bf16', later],
  ['mlp', 'bf16', later],
  ['mlp', 'f16', test],
] as const)
  when(`native: ${model} in ${precision}: 50 steps lead where f32 leads`, skipOf('native'), async () => {
    const plan = { dp: 2, zero: 1 } as const
    const [narrow, wide] = [
      await trained(jobOf(model, { ...plan, precision }), 'native'),
      await trained(jobOf(model, plan), 'native'),
    ]
    ok(Math.abs(narrow / wide - 1) <= lossBounds[precision], `${narrow} and ${wide}`)
  })

for (const kernels of ['native', 'wasm'] as const)
  (kernels === 'native' ? test : later)(
    `${kernels}: a plan is one rank, and runs repeat to the bit`,
    skipOf(kernels),
    async () => {
      const job = jobOf('gpt tied', { dp: 2, tp: 2, zero: 3, microbatches: 2, precision: 'bf16' })
      const run = async (of: Job) => {
        const program = compileJob(of)
        const engine = await start(program, kernels)
        const found = await losses(engine, program, of, 3)
        const parameters = program.params.map(({ name }) => [engine.parameter(name), engine.states(name)])
        await engine.stop()
        return { found, parameters }
      }
      const [first, second, one] = [await run(job), await run(job), await run(serialJob(job))]
      deepEqual(second, first)
      for (const [step, loss] of first.found.entries()) ok(Math.abs(loss / one.found[step] - 1) <= 2e-2, `step ${step}`)
    },
  )

for (const precision of ['bf16', 'pure-bf16'] as const)
  test(
    `${precision}: what is written to a runner is read back as it is kept, masters with all their digits`,
    skipOf('native'),
    async () => {
      const program = compileJob(jobOf('gpt', { dp: 2, zero: 3, precision }))
      const [engine, machine] = [await start(program, 'native'), boot(program, { seed: 1, precision: 'f32' })]
      const { name, dims } = program.params[1]
      const values = Float64Array.from({ length: dims.reduce((n, dim) => n * dim.size, 1) }, (_, i) =>
        Math.fround(i / 7),
      )
      const both = <T>(of: (runner: Runner) => T) => deepEqual(of(engine), of(machine))
      both(runner => runner.parameter(name)) // as it was drawn
      both(runner => runner.states(name).master)
      for (const runner of [engine, machine]) {
        runner.setParameter(name, values)
        runner.setStates(name, { m: values })
      }
      both(runner => runner.parameter(name))
      both(runner => runner.states(name))
      await engine.stop()
    },
  )
