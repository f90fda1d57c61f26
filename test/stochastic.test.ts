/** Parameters in bf16 that are rounded by chance: the draws of torchao's fixture, the same bits under every plan, and what it is good for. */
import { deepEqual, equal, ok } from 'node:assert/strict'
import { after, test } from 'node:test'
import { draws } from '../src/base/index.js'
import { compileJob, serialJob } from '../src/compile/index.js'
import { boot, dataFor, nativeMissing, Pool, type Runner, roundToBf16By, startEngine } from '../src/engine/index.js'
import { type Law, parse, print, showViolation, verify } from '../src/ir/index.js'
import type { Job, PlanInput } from '../src/plan/index.js'
import { decayOnly } from './emit-cases.js'
import { family } from './families.js'
import { readFixture } from './fixtures.js'
import { computesWhatOneRankComputes, jobOf, type ModelName, optionsOf, titleOf } from './jobs.js'

const pool = new Pool()
after(() => pool.close())

const byChance = { precision: 'pure-bf16', rounding: 'stochastic' } as const

const float = new Float32Array(1)
const bits = new Uint32Array(float.buffer)
const ofBits = (code: number): number => {
  bits[0] = code
  return float[0]
}

test('rounding by a given draw is that of torchao', () => {
  const { rows } = JSON.parse(readFixture('precision/stochastic-bf16.json')) as { rows: [string, number, string][] }
  for (const [from, draw, code] of rows)
    deepEqual(roundToBf16By(draw, ofBits(Number.parseInt(from, 16))), ofBits(Number.parseInt(code, 16) * 2 ** 16), from)
})

test('on average a number stays what it is, up or down as often as it is near', () => {
  const draw = draws({ seed: 1, name: 'w', step: 3 })
  const count = 20_000
  for (const value of [1 + 1 / 512, -2.3456789, 1e-3]) {
    const rounded = Float64Array.from({ length: count }, (_, i) => roundToBf16By(draw(i), Math.fround(value)))
    const mean = rounded.reduce((a, b) => a + b, 0) / count
    const step = Math.max(...rounded) - Math.min(...rounded)
    equal(new Set(rounded).size, 2)
    // Five standard deviations of the mean of a coin.
    ok(Math.abs(mean - value) < (5 * step) / 2 / Math.sqrt(count), `${mean} for ${value}`)
  }
})

async function trained(runner: Runner, job: Job, steps: number, lr: number): Promise<void> {
  const data = dataFor(compileJob(job), optionsOf(job))
  for (let step = 0; step < steps; step++) await runner.step({ inputs: data(step), lr, step })
}

/** By name, without the sign of a zero. */
const parametersOf = (runner: Runner, job: Job) =>
  compileJob(job).params.map(({ name }) => [name, ...[...runner.parameter(name)].map(value => value + 0)])

/** What a rounding leaves of parameters after three steps in which gradients weigh nothing. */
async function rounded(job: Job, kernels?: 'native' | 'wasm') {
  const program = compileJob(job)
  if (!kernels) {
    const machine = boot(program, { seed: 1, precision: 'f32' })
    await trained(machine, job, 3, decayOnly.optimizer.lr)
    return parametersOf(machine, job)
  }
  const engine = await startEngine(program, { seed: 1, kernels, pool, timeoutMs: 20_000 })
  try {
    await trained(engine, job, 3, decayOnly.optimizer.lr)
    return parametersOf(engine, job)
  } finally {
    await engine.stop()
  }
}

const decaying = (model: ModelName, plan: PlanInput): Job =>
  jobOf(model, { ...byChance, ...plan }, { ...decayOnly, globalBatch: 12, paramGroups: { norm: { weightDecay: 1 } } })

const plans: readonly PlanInput[] = [
  { dp: 3, zero: 3 },
  { dp: 2, tp: 2, zero: 2 },
  { dp: 2, zero: 1, microbatches: 2 },
  { tp: 4, sequenceParallel: true },
  { pp: 2, dp: 2, zero: 1, microbatches: 2, schedule: 'zb-h1' },
  { cp: 2, tp: 2, dp: 2, zero: 3 },
]
const cases = (['gpt tied', 'llama'] as const).flatMap(model => plans.map(plan => ({ model, plan })))
const tested = family('stochastic rounding', 10)
for (const { model, plan } of cases) {
  const title = `${model} ${titleOf(plan)}: the bits of one rank, in every engine`
  const bitsOfOne = async () => {
    const job = decaying(model, plan)
    const one = await rounded(serialJob(job))
    deepEqual(await rounded(job), one)
    if (!nativeMissing()) deepEqual(await rounded(job, 'native'), one)
    deepEqual(await rounded(job, 'wasm'), one)
  }
  tested(title, bitsOfOne)
}

test('draws differ from step to step, from parameter to parameter and with the seed', () => {
  const drawn = (source: Parameters<typeof draws>[0]) => Array.from({ length: 8 }, (_, i) => draws(source)(i)).join()
  const sources = [{}, { step: 1 }, { name: 'other' }, { seed: 2 }].map(other => ({ seed: 1, name: 'w', ...other }))
  equal(new Set(sources.map(drawn)).size, sources.length)
})

test('with all digits it is what one rank computes, whatever is drawn', () =>
  computesWhatOneRankComputes(jobOf('llama', { ...byChance, dp: 2, tp: 2, zero: 1 })))

test('a program says so, and print and parse are inverse', () => {
  const program = compileJob(jobOf('gpt', { ...byChance, dp: 2, zero: 1 }))
  const text = print(program)
  deepEqual(parse(text), program)
  ok(text.includes(' stochastic=true'))
  ok(!print(compileJob(jobOf('gpt', { precision: 'pure-bf16' }))).includes('stochastic'))
})

test('[I3] a parameter that is rounded to the nearest where others are by chance', () => {
  const job = jobOf('gpt', { ...byChance, pp: 2, microbatches: 2 })
  const slipped = print(compileJob(job)).replace(' stochastic=true', '')
  const found = verify(parse(slipped), compileJob(serialJob(job, 2)))
  const law: Law = 'I3'
  ok(
    found.some(violation => violation.law === law),
    found.map(showViolation).join('\n') || 'not caught',
  )
})

test('steps too small for bf16 add up on average, where the nearest keeps nothing of them', async () => {
  const lr = 2 ** -12
  const steps = 40
  const endOf = async (plan: PlanInput) => {
    const job = jobOf('mlp', plan, { optimizer: { kind: 'sgd', lr, weightDecay: 0.5 }, clip: 1e-45 })
    const machine = boot(compileJob(job), { seed: 1, precision: 'f32' })
    await trained(machine, job, steps, lr)
    const weights = compileJob(job).params.filter(({ dims }) => dims.length > 1)
    return Float64Array.from(weights.flatMap(({ name }) => [...machine.parameter(name)]))
  }
  const distance = (a: Float64Array, b: Float64Array) => Math.abs(a.reduce((sum, x, i) => sum + x * x - b[i] * b[i], 0))
  const [exact, nearest, chance] = [
    await endOf({ precision: 'f32' }),
    await endOf({ precision: 'pure-bf16' }),
    await endOf(byChance),
  ]
  ok(
    distance(chance, exact) < 0.3 * distance(nearest, exact),
    `${distance(chance, exact)}, ${distance(nearest, exact)}`,
  )
})
