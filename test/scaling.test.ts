/** Loss scaling: the scalers of others to the bit, no bit changed by a power of two, one verdict everywhere, and runs that say why. */
import { deepEqual, equal, match, ok, rejects } from 'node:assert/strict'
import { choices, type Files, type Scaler } from '../src/base/index.js'
import { memoryFiles } from '../src/base/memory-files.js'
import { compileJob, serialJob } from '../src/compile/index.js'
import { boot, dataFor, fastKernels, roundToF16, startTrainer, syntheticData } from '../src/engine/index.js'
import { moved, type ScalerState } from '../src/engine/reference/scaler.js'
import { inputsOf } from '../src/geometry/index.js'
import { type Program, parse, print, showViolation, verify } from '../src/ir/index.js'
import { check, Job, type JobInput } from '../src/plan/index.js'
import { beginningOf, openCheckpoints, startSession, syntheticOf, train } from '../src/train/index.js'
import { expertModels } from './expert-models.js'
import { family, test } from './families.js'
import { readFixture } from './fixtures.js'
import { computesWhatOneRankComputes, jobOf, optionsOf, shallow } from './jobs.js'
import { reference } from './kernel-draw.js'
import { jobAt, pairwise, titleAt } from './pairs.js'
import { randomJob } from './random-job.js'
import type { Tensor } from './tiny.js'

interface Trace {
  readonly config: Readonly<Record<string, number>>
  readonly name: string
  readonly overflow: string
  readonly rows: readonly (readonly number[])[]
  readonly weights?: readonly number[]
  readonly raised?: { readonly at: number }
}

const traces = (of: string): readonly Trace[] => JSON.parse(readFixture(`precision/scaler-${of}.json`)).cases

/** What a scaler does in a run: its state before and after every step. */
function* played(scaler: Scaler, start: ScalerState, overflow: string) {
  let state = start
  for (const mark of overflow) {
    const before = state
    const { scale, ...after } = moved(scaler, state, mark === '.')
    state = { ...after, scale: Math.fround(scale) }
    yield { before, after: state, overflow: Number(mark === '!') }
  }
}

test('the scaler of PyTorch, step by step, with the weights that AdamW makes of it', () => {
  for (const { config: c, name, overflow, rows, weights } of traces('torch')) {
    const scaler: Scaler = {
      kind: 'torch',
      growth: c.growth_factor,
      backoff: c.backoff_factor,
      interval: c.growth_interval,
    }
    const start = { scale: c.init_scale, growth: 0, hysteresis: 0 }
    let taken = 0
    const seen = [...played(scaler, start, overflow)].map(({ before, after, overflow }) => {
      taken += 1 - overflow
      return [before.scale, overflow, after.scale, after.growth, taken]
    })
    deepEqual(seen, rows, name)
    for (const [i, weight] of weightsOf(scaler, c.init_scale, overflow).entries())
      ok(Math.abs(weight - weights![i]) < 1e-6 * (1 + Math.abs(weight)), `${name}: ${weight} and ${weights![i]}`)
  }
})

/** Three weights trained by the ops of a program. */
function weightsOf(scaler: Scaler, initial: number, overflow: string): number[] {
  const vector = (values: ArrayLike<number>): Tensor => ({
    dims: [{ name: 'n', size: 3 }],
    values: Float64Array.from(values),
  })
  const scalar = (value: number): Tensor => ({ dims: [], values: [value] })
  const settings = { beta1: 0.9, beta2: 0.95, eps: 1e-8, weightDecay: 0, clip: 0 }
  let state: Tensor[] = [vector([1, 1, 1]), vector([0, 0, 0]), vector([0, 0, 0])]
  let scalars: Tensor[] = [0, initial, 0].map(scalar)
  for (const [i, mark] of [...overflow].entries()) {
    const [taken, scale] = scalars
    const bad = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, Number.NaN][i % 3]
    const given = [0.5, -0.25, 0.125].map(g => g * (1 + (i % 3)) * scale.values[0])
    const grad = vector(
      reference({ kind: 'unscale' }, [scale], vector(mark === '!' ? [bad, ...given.slice(1)] : given))[0],
    )
    const norm = scalar(reference({ kind: 'sumSquares', once: [] }, [grad], scalar(0))[0][0])
    state = reference({ kind: 'adamw', ...settings }, [grad, norm, scalar(0.1), taken], ...state).map(vector)
    scalars = reference({ kind: 'take', scaler }, [norm], ...scalars).map(([value]) => scalar(value))
  }
  return Array.from(state[0].values)
}

test('the scaler of Megatron, step by step', () => {
  for (const { config: c, name, overflow, rows } of traces('megatron')) {
    const { growth_factor: growth, backoff_factor: backoff, growth_interval: interval, min_scale: min, hysteresis } = c
    const scaler: Scaler = { kind: 'megatron', growth, backoff, interval, min, hysteresis }
    const start = { scale: c.initial_scale, growth: 0, hysteresis }
    const seen = [...played(scaler, start, overflow)].map(({ before, after, overflow }) => [
      ...[before.scale, overflow, after.scale, after.growth, after.hysteresis],
    ])
    deepEqual(seen, rows, name)
  }
})

test('factors of Megatron are kept in f32, those of PyTorch in f64', () => {
  const factors = { growth: 3, backoff: 0.3, interval: 1 }
  const start = { scale: 82944, growth: 0, hysteresis: 1 }
  const fallen = (scaler: Scaler) => [...played(scaler, start, '!')][0].after.scale
  equal(fallen({ kind: 'megatron', ...factors, min: 1, hysteresis: 1 }), 24883.201171875)
  equal(fallen({ kind: 'torch', ...factors }), 24883.19921875)
})

test('the scaler of DeepSpeed, step by step; clean steps since the last overflow stand for its two iterations', () => {
  for (const { config: c, name, overflow, rows, raised } of traces('deepspeed')) {
    const { scale_window: interval, min_scale: min, delayed_shift: hysteresis } = c
    const consecutive = Number(c.consecutive_hysteresis)
    const scaler: Scaler = { kind: 'deepspeed', growth: 2, interval, min, hysteresis, consecutive }
    const start = { scale: c.init_scale, growth: 0, hysteresis }
    const all = [...played(scaler, start, overflow)]
    for (const [i, [scale, overflow, after, left, last, iteration]] of rows.entries()) {
      deepEqual(
        [all[i].before.scale, all[i].overflow, all[i].after.scale, all[i].after.hysteresis],
        [scale, overflow, after, left],
        `${name} ${i}`,
      )
      equal(all[i].after.growth % interval, (iteration - last - 1) % interval, `${name} ${i}`)
    }
    // Where it gives the run up, the scale is at its minimum and would fall.
    if (raised) deepEqual([all[raised.at].before.scale, all[raised.at].before.hysteresis], [min, 1], name)
  }
})

type Scaling = NonNullable<JobInput['training']['lossScale']>
const scaled = (job: Job, lossScale: Scaling): Job => Job.parse({ ...job, training: { ...job.training, lossScale } })

/** Losses, norms, parameters and states after two steps. */
function numbersOf(job: Job, precision: 'f32' | 'f64') {
  const program = compileJob(job)
  const machine = boot(program, { seed: 1, precision })
  const data = dataFor(program, optionsOf(job))
  const steps = [0, 1].map(step => machine.step({ inputs: data(step), lr: job.training.optimizer.lr, step }))
  return {
    steps: steps.map(({ scale: _, ...step }) => step),
    params: program.params.map(({ name }) => [machine.parameter(name), machine.states(name)]),
  }
}

const scaledAlike = family('loss scaling: a constant scale', 32)
for (const [i, point] of pairwise(1, 2_000, 8).entries())
  scaledAlike(`a loss scale of 2^10 changes no bit: ${titleAt(point)}`, () => {
    const job = jobAt({ ...point, precision: 'f32' })
    const precision = i % 2 ? 'f64' : 'f32'
    deepEqual(numbersOf(scaled(job, 1024), precision), numbersOf(job, precision))
  })

const byOptimizer = family('loss scaling: optimizers', 3)
for (const kind of ['muon', 'lamb', 'lion'] as const)
  byOptimizer(`nor does it of ${kind}, whose gradients are divided before it sees them`, () => {
    const job = shallow(jobOf('gpt', { dp: 2, tp: 2, zero: 1 }, { optimizer: { kind, lr: 0.01, weightDecay: 0.1 } }))
    deepEqual(numbersOf(scaled(job, 1024), 'f32'), numbersOf(job, 'f32'))
    computesWhatOneRankComputes(scaled(job, { kind: 'torch', interval: 1 }))
  })

const experts = Job.parse({
  model: { ...expertModels.mixtral },
  training: { seq: 4, globalBatch: 8, clip: 0.1, optimizer: { kind: 'sgd', lr: 0.1 } },
  plan: { dp: 2, ep: 2, pp: 2, microbatches: 2 },
})

test('nor does it where losses balance experts', () => {
  ok(Object.values(compileJob(experts).segments).some(({ instrs }) => instrs.some(i => i.kind === 'balanceLossGrad')))
  deepEqual(numbersOf(scaled(experts, 1024), 'f32'), numbersOf(experts, 'f32'))
  computesWhatOneRankComputes(scaled(experts, 1024))
})

const kinds = ['torch', 'megatron', 'deepspeed'] as const
const moving = family('loss scaling: a dynamic scale', 8)
for (const seed of [1, 2, 3, 4, 5, 6, 7, 8])
  moving(`any plan computes what one rank computes, with a scale that moves (SEED=${seed})`, () =>
    computesWhatOneRankComputes(scaled(randomJob(seed), { kind: kinds[seed % 3], interval: 1, initial: 2 ** 12 })),
  )

test('a scaled program is proved, printed and read; its evaluation knows nothing of a scale', () => {
  const job = jobOf('gpt tied', { pp: 2, dp: 2, zero: 1, precision: 'f16' }, { lossScale: { kind: 'megatron' } })
  const program = compileJob(job)
  deepEqual(verify(program, compileJob(serialJob(job, job.plan.microbatches))).map(showViolation), [])
  const text = print(program)
  deepEqual(parse(text), program)
  match(text, /^scalar scale 4294967296 0:\d+ 1:\d+$/m)
  match(text, /%taken %scale %growth %hysteresis = take %\S+ scaler=megatron:2:0\.5:1000:1:2$/m)
})

const [fastest] = fastKernels()
for (const [kernels, plan] of [
  ['reference', { dp: 2, pp: 2, zero: 1 }],
  [fastest, { dp: 2, pp: 2, zero: 3, microbatches: 2 }],
  [fastest, { tp: 2, dp: 2 }],
] as const)
  test(`${kernels} ${JSON.stringify(plan)}: an overflow at a random step halves the scale on every rank, and nothing else moves (SEED=4)`, async () => {
    const training = { lossScale: { kind: 'torch', interval: 2 }, optimizer: { kind: 'adamw', lr: 0.01 } } as const
    const program = compileJob(jobOf('mlp', plan, training))
    const at = 1 + choices(4).int(3)
    const run = await startTrainer(program, { kernels, seed: 1 })
    const data = syntheticData(inputsOf(program), 1, 3)
    let [expected, growth] = [65536, 0]
    for (let step = 0; step < 6; step++) {
      const bad = step === at
      const inputs = (name: string) => {
        const values = Float64Array.from(data(step)(name))
        if (bad && name === 'x') values[0] = Number.POSITIVE_INFINITY
        return values
      }
      const { taken, skipped, scale } = await run.step({ inputs, lr: 0.1, step })
      deepEqual([taken, skipped, scale!.before], [step + (step < at ? 1 : 0), bad, expected])
      growth = bad ? 0 : growth + 1
      expected = bad ? expected / 2 : growth === 2 ? expected * 2 : expected
      growth %= 2
      deepEqual(onAllRanks(program, run), [{ taken, scale: expected, growth }])
    }
    await run.stop()
  })

/** The scalars of the ranks, without what is alike. */
function onAllRanks(program: Program, { held }: Pick<Awaited<ReturnType<typeof startTrainer>>, 'held'>) {
  const perRank = program.mesh.axes.reduce((product, { size }) => product * size, 1)
  const streams = program.streams.length
  const seen = Array.from({ length: perRank }, (_, rank) => {
    const pp = Math.floor(rank / (perRank / streams))
    const entries = Object.entries(program.scalars!).map(([name, { frames }]) => [
      name,
      held({ rank, frame: frames[pp], dtype: 'f32', first: 0 })[0],
    ])
    return JSON.stringify(Object.fromEntries(entries))
  })
  return [...new Set(seen)].map(text => JSON.parse(text))
}

/** Data that overflows in some steps. */
const session = async (job: Job, files: Files, bad: readonly number[] = [], resume?: string) => {
  const dataset = syntheticOf(job)
  const { write } = dataset.train
  let read = 0
  const spoiling = {
    ...dataset.train,
    write(input: string, sample: number, into: Parameters<typeof write>[2]) {
      write(input, sample, into)
      if (input === 'x' && bad.includes(Math.floor(read++ / job.training.globalBatch))) into.fill(Number.NaN)
    },
  }
  const options = {
    kernels: 'reference',
    beginning: beginningOf(resume === undefined ? {} : { resume }, files),
  } as const
  return startSession(job, { ...dataset, train: spoiling }, options)
}

const small = { steps: 8, evalBatches: 0 } as const

test('a run says what became of the scale, and goes on from a checkpoint as if it had not stopped', async () => {
  const files = memoryFiles()
  const job = jobOf('mlp', { dp: 2 }, { ...small, lossScale: { kind: 'deepspeed', interval: 2, hysteresis: 2 } })
  const first = await session(job, files, [1, 2])
  const records = []
  for (let i = 0; i < 4; i++) records.push(await first.step())
  deepEqual(
    records.map(({ skipped, scale, taken }) => [skipped, scale, taken]),
    [
      [undefined, 65536, 1],
      ['grad norm is NaN or Inf', 65536, 1],
      ['grad norm is NaN or Inf, loss scale 65536 -> 32768', 65536, 1],
      [undefined, 32768, 2],
    ],
  )
  openCheckpoints('saved', first, { files, run: 'a' }).save()
  const second = await session(job, files, [], 'saved')
  deepEqual(second.trainer.scalars(), { taken: 2, scale: 32768, growth: 1, hysteresis: 1 })
  for (let i = 0; i < 4; i++) {
    const [a, b] = [await first.step(), await second.step()]
    deepEqual([b.loss, b.scale, b.gradientNorm], [a.loss, a.scale, a.gradientNorm])
  }
  deepEqual(second.trainer.scalars(), first.trainer.scalars())
  deepEqual(second.trainer.parameter('layers.0.up'), first.trainer.parameter('layers.0.up'))
  const other = await session(scaled(job, 256), files, [], 'saved')
  deepEqual(other.trainer.scalars(), { taken: 2, scale: 256 }) // a scale that stays is the job's
  await Promise.all([first, second, other].map(one => one.stop()))
})

test('a run that overflows at the minimum scale ends with the reason', async () => {
  const lossScale = { kind: 'megatron', initial: 4, min: 2, hysteresis: 1 } as const
  const run = await session(jobOf('mlp', {}, { ...small, lossScale }), memoryFiles(), [0, 1, 2, 3, 4])
  const seen: unknown[] = []
  const all = async () => {
    for await (const { skipped } of train(run)) seen.push(skipped)
  }
  await rejects(all(), (e: Error) => {
    match(e.message, /the gradients of step 2 are NaN or Inf with the loss scale at its minimum, 2/)
    match(e.message, /gradients overflow even unscaled: .* or bf16/)
    return true
  })
  deepEqual(seen, ['grad norm is NaN or Inf, loss scale 4 -> 2', 'grad norm is NaN or Inf'])
  await run.stop()
})

for (const [what, training, plan, expected] of [
  ['f16 without a scale', {}, { precision: 'f16' }, /plan.precision: .*2\^-24.*training.lossScale to { kind: torch }/],
  ['f16 with one', { lossScale: { kind: 'torch' } }, { precision: 'f16' }, /^$/],
  ['a number', { lossScale: 1024 }, {}, /^$/],
  ['a minimum above the start', { lossScale: { kind: 'megatron', initial: 4, min: 8 } }, {}, /min 8 > initial 4/],
  ['no power of two', { lossScale: 1000 }, {}, /scale 1000 is not a power of two.*try 1024/],
] as const)
  test(`check: ${what}`, () => {
    const problems = check(jobOf('gpt', plan, training))
    match(problems.map(({ path, message, suggestion }) => `${path}: ${message}; ${suggestion}`).join('\n'), expected)
  })

test('f16 with a scale keeps gradients that it loses without', () => {
  const norm = (lossScale: Scaling) => {
    const job = jobOf('gpt', { precision: 'f16' }, { lossScale })
    const program = compileJob(job)
    return boot(program, { seed: 1, precision: 'f32' }).step({
      inputs: dataFor(program, optionsOf(job))(0),
      lr: 0,
      step: 0,
    })
  }
  equal(roundToF16(2 ** -26), 0)
  const [lost, kept, exact] = [2 ** -14, 2 ** 10, 2 ** 12].map(by => Math.sqrt(norm(by).normSquared))
  ok(Math.abs(kept / exact - 1) < 5e-3 && !(Math.abs(lost / exact - 1) < 5e-2), `${lost}, ${kept}, ${exact}`)
})
