/**
 * PowerSGD: gradients travel as two factors, and what they do not bring is kept for the next step. It is linear where ranks meet, so
 * every plan computes what one rank computes.
 */
import { deepEqual, ok } from 'node:assert/strict'
import { rmSync } from 'node:fs'
import { after } from 'node:test'
import { elementsOf } from '../src/base/index.js'
import { checkpointProblems, loadCheckpoint } from '../src/checkpoint/index.js'
import { runOf, runtimeFiles } from '../src/cli/files/emit-folder.js'
import { compileEvaluation, compileJob, serialJob } from '../src/compile/index.js'
import { emit } from '../src/emit/index.js'
import { boot, compareRun, dataFor } from '../src/engine/index.js'
import { nativeMissing, Pool } from '../src/engine/native/index.js'
import { isCollective, type Param, type Program, parse, print, verify } from '../src/ir/index.js'
import { check, earlierJobs, Job, type PlanInput } from '../src/plan/index.js'
import { earlierPrograms, lossesOf, startSession, syntheticOf } from '../src/train/index.js'
import { temporaryFolder, writeFiles } from './emitted.js'
import { expertModels } from './expert-models.js'
import { family, later, test } from './families.js'
import { readFixture } from './fixtures.js'
import { Forking } from './forked.js'
import { computesWhatOneRankComputes, jobOf, type ModelName, optionsOf, serialOf, shallow, titleOf } from './jobs.js'
import { findPython, noPython } from './python.js'
import { compared } from './random-plans.js'
import { isWithinBounds, record } from './recorded.js'
import { saved } from './saved.js'
import { runOp, type Tensor } from './tiny.js'

const compress = { reduce: 'powersgd', rank: 2, rate: 1 } as const
const plans: readonly (readonly [ModelName, PlanInput])[] = [
  ['llama tied', { dp: 2, tp: 2, pp: 2, zero: 1, microbatches: 2, compress, sequenceParallel: true }],
  ['mlp', { dp: 3, compress }],
  ['gpt', { dp: 2, microbatches: 2, compress: { reduce: 'powersgd', rank: 1 } }],
  ['llama', { dp: 2, tp: 2, compress }],
  ['gpt tied', { dp: 4, zero: 2, microbatches: 2, reduce: 'step', compress }],
  ['llama', { dp: 2, cp: 2, zero: 3, reduce: 'step', microbatches: 2, compress: { ...compress, gather: 'bf16' } }],
  ['latent', { dp: 2, zero: 1, overlap: false, precision: 'bf16', compress }],
  ['llama', { tp: 4, compress }],
]
const tested = family('compression: PowerSGD', 9)
for (const [model, plan] of plans)
  tested(`${model}, ${titleOf(plan)}: computes what one rank computes`, () => {
    computesWhatOneRankComputes(jobOf(model, plan, plan.dp === 3 ? { globalBatch: 24 } : {}), 3)
  })

tested('scaled losses, experts, averages of weights and other optimizers: computes what one rank computes', () => {
  const scaled = { lossScale: { kind: 'torch' as const, initial: 1024 }, ema: { decay: 0.9 } }
  computesWhatOneRankComputes(jobOf('gpt', { dp: 2, zero: 1, compress }, scaled))
  computesWhatOneRankComputes(jobOf('llama', { dp: 2, tp: 2, compress }, { optimizer: { kind: 'muon', lr: 0.01 } }))
  const training = { seq: 4, globalBatch: 16 }
  const routed = Job.parse({ model: expertModels.mixtral, training, plan: { dp: 2, ep: 2, compress } })
  computesWhatOneRankComputes(routed)
})

const pool = new Pool()
after(() => pool.close())
for (const kernels of ['native', 'wasm'] as const)
  (kernels === 'native' ? test : later)(
    `${kernels}: as the reference`,
    { skip: (kernels === 'native' && nativeMissing()) || false },
    async () => {
      const job = shallow(jobOf('mlp', { dp: 2, tp: 2, zero: 1, compress }))
      const program = compileJob(job)
      isWithinBounds(compareRun(program, await record(program, kernels, pool, optionsOf(job)), serialOf(job)))
    },
  )

/** A machine of this job after so many steps. */
function trained(job: Job, steps: number) {
  const program = compileJob(job)
  const machine = boot(program, { seed: 1 })
  const data = dataFor(program, optionsOf(job))
  for (let step = 0; step < steps; step++) machine.step({ inputs: data(step), lr: 0.01, step })
  return { program, machine, data }
}

const zerosOf = ({ dims }: Param) => new Float64Array(elementsOf(dims))

test('what was sent and what is left are what was given: nothing is lost, whatever the plan', () => {
  const programs = [{ dp: 2, tp: 2, compress }, { dp: 1 }].map(plan => compileJob(jobOf('mlp', plan)))
  const [ours, theirs] = programs.map(program => boot(program, { seed: 1 }))
  const sums = programs[0].params.map(param => ({ ...param, given: zerosOf(param), sent: zerosOf(param) }))
  const data = dataFor(programs[0], optionsOf(jobOf('mlp', {})))
  // Nothing moves with a rate of 0, so both are given the same.
  for (const step of [0, 1, 2, 3]) {
    for (const machine of [ours, theirs]) machine.step({ inputs: data(step), lr: 0, step })
    for (const { name, given, sent } of sums) {
      for (const [i, value] of theirs.gradient(name).entries()) given[i] += value
      for (const [i, value] of ours.gradient(name).entries()) sent[i] += value
    }
  }
  let kept = 0
  for (const { name, given, sent } of sums) {
    const { error = given.map(() => 0) } = ours.states(name)
    kept = Math.max(kept, ...error.map(Math.abs))
    for (const [i, value] of given.entries()) ok(Math.abs(sent[i] + error[i] - value) <= 1e-12, `${name} ${i}`)
  }
  ok(kept > 1e-4, 'something is left')
})

test('a step that is skipped leaves errors and columns as they are', () => {
  const { machine, data, program } = trained(jobOf('mlp', { dp: 2, compress }, { skipAbove: 1e3 }), 2)
  const [{ name }] = program.params
  const before = machine.states(name)
  const inputs = data(2)
  const { skipped } = machine.step({ inputs: of => inputs(of).map(x => x * 1e6), lr: 0.01, step: 2 })
  ok(skipped)
  deepEqual(machine.states(name), before)
})

test('errors are saved as sums, and given to any other plan', () => {
  const jobs = [{ dp: 2, tp: 2, zero: 1 }, { dp: 4 }, {}].map(plan =>
    shallow(jobOf('mlp', { ...plan, compress }, { optimizer: { kind: 'sgd', lr: 0.01, momentum: 0.9 } })),
  )
  const { program, machine, data } = trained(jobs[0], 2)
  const checkpoint = saved(program, machine)
  machine.step({ inputs: data(2), lr: 0.01, step: 2 })
  for (const job of jobs) {
    const other = compileJob(job)
    const goesOn = boot(other, { seed: 2 })
    deepEqual(checkpointProblems(other, checkpoint, 'everything'), [])
    loadCheckpoint(other, checkpoint, 'everything', (shard, values) => goesOn.hold(shard, values))
    goesOn.step({ inputs: data(2), lr: 0.01, step: 2 })
    for (const { name } of program.params) {
      const [own, right] = [goesOn, machine].map(one => [one.parameter(name), ...Object.values(one.states(name))])
      for (const [i, values] of right.entries())
        for (const [k, value] of values.entries())
          ok(Math.abs(own[i][k] - value) <= 1e-6, `${name}: ${own[i][k]}, not ${value}`)
    }
  }
})

const small = shallow(jobOf('mlp', { dp: 2, compress }))
const lawful = { text: print(compileJob(small)), serial: compileJob(serialJob(small, 1)) }

const broken = [
  ['E1', 'an error that forgets what was sent', /\n {2}%rest = deduct %sent/, ''],
  ['E1', 'what was sent taken off twice', /\n {2}%rest = deduct %sent/, '$&$&'],
  ['E1', 'an error that is not added', /%rest = add %grad %error/, '%rest = add %grad %grad'],
  ['E1', 'what was given is lost', /%rest = add %grad %error/, '%rest = add %error %error'],
  ['E1', 'an error that stays as it was', /\n {2}%error = become [^\n]*/, ''],
  ['P8', 'another limit', /= become %next.error %normSquared/, '$& limit=3'],
  ['T1', 'columns of one rank made orthonormal', /gramSchmidt %seen'1/, 'gramSchmidt %seen'],
  ['T1', 'what all ranks have taken off the share of one', /deduct %sent/, 'deduct %sum'],
  ['T1', 'an error that every rank has whole', /(buffer %error .*) sum:dp/, '$1'],
  ['T4', 'an error that is kept whole', /(state error .*) sum:dp/, '$1'],
  ['I1', 'other columns', /draws=true/, 'draws=false'],
] as const

for (const [law, what, from, to] of broken)
  test(`[${law}] ${what}`, () => {
    const changed = lawful.text.replace(from, to)
    ok(changed !== lawful.text)
    const laws = verify(parse(changed), lawful.serial).map(found => found.law)
    ok(laws.includes(law), laws.join())
  })

const fromTwo = { reduce: 'powersgd', rank: 2, rate: 1, from: 2 } as const

test('steps before `from` send gradients as they are, then two programs go on from each other', async () => {
  const jobs = [fromTwo, { ...compress, from: 0 }, undefined].map(how =>
    jobOf('mlp', { dp: 2, ...(how && { compress: how }) }, { steps: 4, evalBatches: 1 }),
  )
  const [late, early, never] = await Promise.all(
    jobs.map(async job => {
      const session = await startSession(job, syntheticOf(job), { kernels: 'reference' })
      return lossesOf(session, 4)
    }),
  )
  deepEqual(late.slice(0, 3), never.slice(0, 3))
  ok(late[3] !== never[3] && early[1] !== never[1] && early[3] !== late[3])
  const one = serialJob(jobs[0])
  const alone = await startSession(one, syntheticOf(one), { kernels: 'reference' })
  for (const [i, loss] of (await lossesOf(alone, 4)).entries()) ok(Math.abs(loss - late[i]) < 1e-12, `step ${i}`)
})

test('a program that waits is lawful, and keeps what a later one remembers', () => {
  const job = shallow(jobOf('mlp', { dp: 2, zero: 1, compress: fromTwo }))
  const [waiting, ...others] = earlierJobs(job)
  deepEqual(others, [])
  computesWhatOneRankComputes(waiting)
  const [own, last] = [waiting, job].map(each => compileJob(each).params.map(({ name, apart }) => ({ name, apart })))
  deepEqual(own, last)
  // Formats that remember nothing have no such program.
  const narrow = jobOf('gpt', { dp: 2, compress: { reduce: 'bf16', from: 2 } })
  deepEqual(compileJob(earlierJobs(narrow)[0]), compileJob(jobOf('gpt', { dp: 2 })))
})

const python = findPython()
later(
  'emitted: two ranks under gloo begin to compress as the definition does',
  { skip: python ? false : noPython },
  async () => {
    const [root, copies] = [temporaryFolder(), new Forking(python!)]
    try {
      const job = jobOf('llama', { dp: 2, zero: 1, microbatches: 2, compress: fromTwo }, { steps: 4, evalBatches: 1 })
      const run = runOf(job, 'job.yaml', syntheticOf(job), undefined)
      const earlier = Object.fromEntries(earlierPrograms(job))
      writeFiles(root, emit(compileJob(job), run, runtimeFiles(), compileEvaluation(job), earlier))
      const ranks = await copies.ranks(2, ['train.py', '--precision', 'f64'], root)
      const ended = await Promise.all(ranks.map(({ done }) => done))
      for (const { code, err } of ended) deepEqual(code, 0, err)
      const said = ended.flatMap(({ out }) => out.split('\n').filter(line => line.startsWith('{')))
      const losses = await lossesOf(await startSession(job, syntheticOf(job), { kernels: 'reference' }), 4)
      for (const [i, line] of said.entries()) ok(Math.abs(JSON.parse(line).loss - losses[i]) < 1e-10, `step ${i + 1}`)
      deepEqual(said.length, 4)
    } finally {
      await copies.close()
      rmSync(root, { recursive: true, force: true })
    }
  },
)

test('check refuses a residual that no checkpoint can hold: positions whose gradient a zigzag cuts', () => {
  const refused = (plan: PlanInput, model: ModelName = 'gpt') =>
    check(jobOf(model, { dp: 2, cp: 2, compress, ...plan }))
      .filter(({ severity }) => severity === 'error')
      .map(({ path }) => path)
  deepEqual(refused({}), ['plan.zigzag'])
  deepEqual(refused({ zigzag: false }), [])
  deepEqual(refused({ compress: { reduce: 'topk' } }), [])
  deepEqual(refused({}, 'llama'), [])
})

test('check refuses what cannot be remembered', () => {
  const problems = (plan: PlanInput) =>
    check(jobOf('gpt', { compress, ...plan })).map(({ code, path, severity }) => `${severity} ${code} ${path}`)
  deepEqual(problems({ dp: 2 }), [])
  const refused = 'error plan/compress plan.compress.reduce'
  ok(problems({ dp: 2, zero: 2 }).includes(refused))
  ok(problems({ dp: 2, precision: 'pure-bf16' }).includes(refused))
  ok(problems({ dp: 2, zero: 1, offload: { optimizer: 'host' } }).includes(refused))
  deepEqual(problems({ tp: 2 }), ['warning plan/unwise plan.compress.reduce'])
})

const wide = { family: 'llama', layers: 6, embed: 2048, heads: 16, kvHeads: 8, ffn: 5632, vocab: 32000 } as const
const priced: readonly PlanInput[] = [
  { dp: 2, tp: 2, pp: 2, microbatches: 4, zero: 1 },
  { dp: 4 },
  { dp: 4, zero: 1 },
  { dp: 2, tp: 2 },
  { dp: 8, zero: 3, reduce: 'step' },
  { dp: 2, pp: 2, microbatches: 4 },
  { tp: 4, dp: 2, sequenceParallel: true },
]
const pricedIn = family('compression: PowerSGD cost', 7)
for (const plan of priced)
  pricedIn(`${titleOf(plan)}: the estimate is within 3 % of the simulation, and of the bytes that are compiled`, () => {
    const { dp = 1, microbatches = 1 } = plan
    const factors = { reduce: 'powersgd', rank: 4 } as const
    const job = Job.parse({
      ...{ model: wide, training: { seq: 2048, globalBatch: 2 * dp * microbatches } },
      plan: { precision: 'bf16', ...plan, compress: factors },
    })
    const { time, memory } = compared({ job, device: 'h100' })!
    ok(Math.abs(time) <= 0.03 && Math.abs(memory) <= 0.03, `${time} ${memory}`)
  })

/** Numbers that the data axes add up in a step. */
function added({ streams, segments }: Program): number {
  const sums = (name: string) =>
    segments[name].instrs
      .filter(isCollective)
      .flatMap(({ group, ins }) => (group.axes.includes('dp') ? ins : []))
      .map(ref => elementsOf(segments[name].buffers[ref].dims))
  const calls = streams.flatMap(({ steps }) => steps.flatMap(step => (step.kind === 'call' ? sums(step.segment) : [])))
  return calls.reduce((a, b) => a + b, 0)
}

test('factors are few numbers, and errors are bytes', () => {
  const training = { seq: 512, globalBatch: 16 }
  const [plain, factored] = [{}, { compress: { reduce: 'powersgd', rank: 4 } }].map(how =>
    compileJob(Job.parse({ model: { ...wide, layers: 2 }, training, plan: { dp: 16, ...how } })),
  )
  ok(added(plain) > 100 * added(factored), `${added(plain)} and ${added(factored)} numbers`)
  const [before, after] = [plain, factored].map(({ streams: [{ peak }] }) => peak.optimizer)
  ok(after > 1.49 * before && after < 1.51 * before, 'beside two moments, an error')
})

interface Iteration {
  readonly gradients: readonly (readonly (readonly number[])[])[]
  readonly averaged: readonly (readonly number[])[]
  readonly draws: readonly { readonly shape: readonly number[]; readonly values: readonly number[] }[]
  readonly errorSum?: readonly (readonly number[])[]
}
interface Hooked {
  readonly ranks: number
  readonly rank: number
  readonly start: number
  readonly rate: number
  readonly feedback: boolean
  readonly warm: boolean
  readonly eps: number
  readonly shapes: readonly (readonly number[])[]
  readonly iterations: readonly Iteration[]
}

const matrix = (rows: number, columns: number, values: ArrayLike<number>, names = ['r', 'c']): Tensor => ({
  dims: [
    { name: names[0], size: rows },
    { name: names[1], size: columns },
  ],
  values,
})

/** One step of each rank's gradient, with each rank's error, in the ops that the compiler writes. */
function once(
  shape: readonly number[],
  columns: number,
  addends: readonly ArrayLike<number>[],
  basis: ArrayLike<number>,
) {
  const [rows, across] = shape
  const sum = (parts: readonly Float64Array[]) => parts.reduce((a, b) => a.map((value, i) => value + b[i]))
  const [start] = runOp(
    { kind: 'gramSchmidt', inputs: 1, draws: true },
    [matrix(across, columns, basis, ['c', 'k'])],
    [matrix(across, columns, [], ['c', 'k'])],
  )
  const all = addends.map(values => matrix(rows, across, values))
  const left = (values: ArrayLike<number>) => matrix(rows, columns, values, ['r', 'k'])
  const right = (values: ArrayLike<number>) => matrix(across, columns, values, ['c', 'k'])
  const seen = sum(all.map(m => runOp({ kind: 'contract' }, [m, right(start)], [left([])])[0]))
  const [p] = runOp({ kind: 'gramSchmidt', inputs: 1, draws: false }, [left(seen)], [left([])])
  const own = all.map(m => runOp({ kind: 'contract' }, [m, left(p)], [right([])])[0])
  const found = sum(own)
  const product = (q: Float64Array) => runOp({ kind: 'contract' }, [left(p), right(q)], [matrix(rows, across, [])])[0]
  const errors = all.map((m, i) => runOp({ kind: 'deduct' }, [matrix(rows, across, product(own[i]))], [m])[0])
  return { made: product(found), basis: found, errors }
}

/** Of the same shape as far as draws go. */
const drawsAlike = (a: readonly number[], b: readonly number[], rank: number): boolean =>
  a.length === b.length && (a[1] ?? 1) === (b[1] ?? 1) && Math.min(rank, ...a) === Math.min(rank, ...b)

const { cases: hooked } = JSON.parse(readFixture('compression/powersgd.json')) as { cases: readonly Hooked[] }
for (const [n, { ranks, rank, rate, start, feedback, warm, eps, shapes, iterations }] of hooked.entries())
  test(`PyTorch’s hook, case ${n}: rank ${rank}, ${warm ? 'warm' : 'cold'}, eps ${eps}`, () => {
    let compressed = 0
    for (const [t, shape] of shapes.entries()) {
      const [rows, across = 1] = shape
      const columns = Math.min(rank, rows, across)
      const travels = shape.length === 2 && (rows + across) * columns * rate < rows * across
      let [basis, errors]: [ArrayLike<number>, readonly ArrayLike<number>[]] = [[], []]
      for (const [i, { gradients, averaged, draws, errorSum }] of iterations.entries()) {
        const mean = gradients.map(of => of[t].map(value => value / ranks))
        const plain = averaged[t].map((_, k) => mean.reduce((sum, one) => sum + one[k], 0))
        const drawn = draws.filter(({ shape: [r, k] }) => r === across && k === columns)
        // One for each tensor that draws so much, the last parameter first.
        const after = shapes.slice(t + 1).filter(other => drawsAlike(other, shape, rank))
        if (travels && drawn.length > 0) basis = drawn[after.length].values
        const addends = mean.map((one, r) => one.map((value, k) => value + (feedback ? (errors[r]?.[k] ?? 0) : 0)))
        const step = travels && i >= start ? once(shape, columns, addends, basis) : undefined
        if (step) [basis, errors, compressed] = [step.basis, step.errors, compressed + 1]
        const made: ArrayLike<number> = step?.made ?? plain
        // They add eps to lengths of columns, which we do not, so that results do not know how many ranks there are.
        const near = (1e-10 + 8 * eps) * Math.max(...averaged[t].map(Math.abs))
        for (const [k, value] of averaged[t].entries())
          ok(Math.abs(made[k] - value) <= near, `iteration ${i}, tensor ${t}, element ${k}: ${made[k]}, not ${value}`)
        if (step && errorSum)
          for (const [k, value] of errorSum[t].entries()) {
            const sum = errors.reduce((total, one) => total + one[k], 0)
            // Theirs are of sums, ours of means.
            ok(Math.abs(sum - value / ranks) <= 10 * near, `error ${k}: ${sum}, not ${value / ranks}`)
          }
      }
    }
    ok(compressed > 0)
  })
