/**
 * 1-bit Adam (Tang et al. 2021): from some step on v stands still, and of the mean of gradients as each rank would have it signs travel, to the owners of its
 * parts and back. What they do not say is remembered: by each rank of its addend, by each owner of the sum.
 */
import { deepEqual, equal, match, ok } from 'node:assert/strict'
import { after } from 'node:test'
import { elementsOf } from '../src/base/index.js'
import { checkpointProblems, loadCheckpoint } from '../src/checkpoint/index.js'
import { compileJob, serialJob } from '../src/compile/index.js'
import { boot, compareRun, dataFor } from '../src/engine/index.js'
import { nativeMissing, Pool } from '../src/engine/native/index.js'
import { parse, print, verify } from '../src/ir/index.js'
import { check, earlierJobs, type Job, type PlanInput } from '../src/plan/index.js'
import { lossesOf, startSession, syntheticOf } from '../src/train/index.js'
import { family, later, test } from './families.js'
import { readFixture } from './fixtures.js'
import { computesWhatOneRankComputes, jobOf, type ModelName, optionsOf, serialOf, shallow, titleOf } from './jobs.js'
import { isWithinBounds, record } from './recorded.js'
import { saved } from './saved.js'
import { runOp, type Tensor } from './tiny.js'

interface Averaged {
  readonly ranks: number
  readonly size: number
  readonly padded: number
  readonly iterations: readonly {
    readonly x: readonly (readonly number[])[]
    readonly y: readonly number[]
    readonly workerError: readonly (readonly number[])[]
    readonly serverError: readonly number[]
  }[]
}

interface Trained {
  readonly ranks: number
  readonly lr: number
  readonly betas: readonly [number, number]
  readonly eps: number
  readonly weightDecay: number
  readonly freezeStep: number
  readonly w: readonly number[]
  readonly iterations: readonly {
    readonly g: readonly (readonly number[])[]
    readonly w: readonly number[]
    readonly m: readonly number[]
    readonly v: readonly number[]
    readonly compressedFromNext: boolean
  }[]
}

const { allreduce, adam } = JSON.parse(readFixture('compression/onebit.json')) as {
  allreduce: readonly Averaged[]
  adam: readonly Trained[]
}

const line = (values: ArrayLike<number>): Tensor => ({ dims: [{ name: 'line', size: values.length }], values })
const beside = (rows: readonly (readonly number[])[]): Tensor => ({
  dims: [
    { name: 'addend', size: rows.length },
    { name: 'line', size: rows[0].length },
  ],
  values: rows.flat(),
})
const none = (given: Readonly<Record<string, number>>): Tensor => ({
  dims: Object.entries(given).map(([name, size]) => ({ name, size })),
  values: [],
})

interface Errors {
  readonly own: readonly (readonly number[])[]
  readonly sum: readonly number[]
}

/** What the ops make of the addends of all ranks, on one that has them side by side: the sum, and what the errors become. */
function reduced(addends: readonly (readonly number[])[], errors: Errors): Errors & { readonly all: Float64Array } {
  const [ranks, n] = [addends.length, addends[0].length]
  const coding = { run: n / ranks, parts: ranks }
  const plus = (a: ArrayLike<number>, b: ArrayLike<number>) => Array.from(a, (value, i) => value + b[i])
  const minus = (a: ArrayLike<number>, b: ArrayLike<number>) => Array.from(a, (value, i) => value - b[i])
  const through = (x: Tensor, signs: 'line' | 'part', ...results: readonly Tensor[]) => {
    const along = x.dims.length > 1 ? { addend: ranks } : {}
    const [codes, units] = [none({ ...along, bytes: n / 8 }), none({ ...along, unit: ranks })]
    const packed = runOp({ kind: 'pack', ...coding, signs }, [x], [codes, units])
    const given = [codes, units].map(({ dims }, i) => ({ dims, values: packed[i] }))
    return results.map(result => runOp({ kind: 'unpack', ...coding, signs }, given, [result])[0])
  }
  const x = addends.map((addend, rank) => plus(addend, errors.own[rank]))
  const [sent, sum] = through(beside(x), 'line', none({ addend: ranks, line: n }), none({ line: n }))
  const total = plus(sum, errors.sum)
  const [all] = through(line(total), 'part', none({ line: n }))
  return { all, own: x.map((row, rank) => minus(row, sent.subarray(rank * n))), sum: minus(total, all) }
}

/** Within 1e-5 of the greatest, which is what norms in f32 leave. */
function near(made: ArrayLike<number>, expected: readonly number[], what: string): void {
  const most = Math.max(...expected.map(Math.abs))
  for (const [i, value] of expected.entries())
    ok(Math.abs(made[i] - value) <= 1e-5 * most, `${what}[${i}] is ${made[i]}, not ${value}`)
}

for (const { ranks, size, padded, iterations } of allreduce)
  test(`the two-stage average of signs is DeepSpeed’s: ${ranks} ranks, ${size} numbers`, () => {
    // There padding is sent as numbers are, and has errors; here it would be elements that are 0.
    const zeros = (n: number): number[] => new Array(n).fill(0)
    let errors: Errors = { own: Array.from({ length: ranks }, () => zeros(padded)), sum: zeros(padded) }
    for (const [i, { x, y, workerError, serverError }] of iterations.entries()) {
      const addends = x.map(row => [...row, ...zeros(padded - size)].map(value => value / ranks))
      const { all, ...left } = reduced(addends, errors)
      near(all, y, `average ${i}`)
      for (const [rank, row] of workerError.entries())
        near(
          left.own[rank].map(value => value * ranks),
          row,
          `error ${i} of rank ${rank}`,
        )
      near(left.sum, serverError, `error ${i} of the sum`)
      errors = left
    }
  })

for (const { ranks, lr, betas, eps, weightDecay, freezeStep, w, iterations } of adam)
  test(`1-bit Adam is DeepSpeed’s: ${ranks} ranks, v stands still from their step ${freezeStep} on`, () => {
    const n = w.length
    const zeros = new Array<number>(n).fill(0)
    const [beta1, beta2] = betas
    const told = { kind: 'adamw', beta1, beta2, eps, weightDecay, uncorrected: true, clip: 0 } as const
    const scalars: Tensor[] = [1, lr].map(value => ({ dims: [], values: [value] }))
    let held: ArrayLike<number>[] = [w, zeros, zeros]
    let errors: Errors = { own: Array.from({ length: ranks }, () => zeros), sum: zeros }
    for (const [step, { g, ...expected }] of iterations.entries()) {
      const addends = g.map(row => row.map(value => value / ranks))
      const frozen = step > 0 && iterations[step - 1].compressedFromNext
      equal(frozen, step >= freezeStep - 1, 'they count from 1')
      let given: ArrayLike<number> = addends.reduce((sum, row) => sum.map((value, i) => value + row[i]))
      if (frozen) {
        const blended = runOp({ kind: 'blend', beta1, ranks }, [line(held[1])], [beside(addends)])[0]
        const rows = addends.map((_, rank) => [...blended.subarray(rank * n, (rank + 1) * n)])
        const { all, ...left } = reduced(rows, errors)
        given = all
        errors = left
      }
      held = runOp({ ...told, frozen }, [line(given), ...scalars], held.map(line))
      for (const [i, name] of (['w', 'm', 'v'] as const).entries())
        near(held[i], expected[name], `${name} of step ${step}`)
    }
  })

const compress = { reduce: 'onebit', from: 2 } as const
const training = { optimizer: { kind: 'adamw', lr: 1e-2, weightDecay: 0.1, uncorrected: true } } as const

/** A machine after the steps before `from`, which send gradients as they are, and some that send signs. */
function trained(job: Job, steps: number, of: (job: Job) => Job = each => each) {
  const [waiting, last] = [...earlierJobs(job), job].map(each => compileJob(of(each)))
  const [early, machine] = [waiting, last].map(program => boot(program, { seed: 1 }))
  const data = [waiting, last].map(program => dataFor(program, optionsOf(job)))
  const norms = [0, 1].map(step => early.step({ inputs: data[0](step), lr: 0.01, step }).normSquared)
  for (const { name } of last.params) {
    machine.setParameter(name, early.parameter(name))
    machine.setStates(name, early.states(name))
  }
  machine.setScalars(early.scalars())
  for (let step = 2; step < 2 + steps; step++)
    norms.push(machine.step({ inputs: data[1](step), lr: 0.01, step }).normSquared)
  return { program: last, machine, data: data[1], norms }
}

const plans: readonly (readonly [ModelName, PlanInput, Parameters<typeof jobOf>[2]?])[] = [
  ['mlp', { dp: 3, compress }, { globalBatch: 24 }],
  ['llama tied', { dp: 2, tp: 2, pp: 2, microbatches: 2, compress, sequenceParallel: true }],
  ['gpt', { dp: 2, microbatches: 2, compress }, { lossScale: { kind: 'torch', initial: 1024 }, ema: { decay: 0.9 } }],
  ['llama', { dp: 2, cp: 2, compress, precision: 'bf16' }, { clip: 0.01 }],
  ['gpt', { dp: 2, pp: 2, microbatches: 4, schedule: 'dualpipe', compress }],
  ['gpt tied', { dp: 4, compress, overlap: false }],
  ['gpt', { dp: 2, cp: 2, zero: 1, compress }],
  // A model without biases: the gradient of a key's bias is rounding alone, whose sign depends on the order of sums over tp.
  ['llama', { dp: 2, tp: 2, zero: 2, reduce: 'step', sequenceParallel: true, compress }],
]
const tested = family('compression: 1-bit', 8)
for (const [model, plan, more] of plans)
  tested(`${model}, ${titleOf(plan)}: computes what one rank computes that plays these`, () => {
    const job = jobOf(model, plan, { ...training, ...more })
    computesWhatOneRankComputes(job, 1)
    const [own, right] = [trained(job, 3), trained(job, 3, serialJob)]
    const near = (a: number, b: number, most: number) => Math.abs(a - b) <= 1e-11 * Math.max(most, 1e-3)
    for (const [i, norm] of right.norms.entries()) ok(near(own.norms[i], norm, norm), `norm of step ${i}`)
    for (const { name } of own.program.params) {
      const [states, expected] = [own.machine.states(name), right.machine.states(name)]
      const all = { ...expected, param: right.machine.parameter(name) }
      const ours = { ...states, param: own.machine.parameter(name) }
      for (const [of, values] of Object.entries(all)) {
        const most = Math.max(...values.map(Math.abs))
        const found = ours[of as keyof typeof ours]
        for (const [i, value] of values.entries()) ok(near(found?.[i] ?? NaN, value, most), `${of} of ${name}, ${i}`)
      }
      ok(!('error' in expected) || expected.error!.some(value => value !== 0), `${name} keeps nothing back`)
    }
  })

const pool = new Pool()
after(() => pool.close())
for (const kernels of ['native', 'wasm'] as const)
  (kernels === 'native' ? test : later)(
    `${kernels}: signs, both errors and what m becomes are the interpreter’s`,
    { skip: (kernels === 'native' && nativeMissing()) || false },
    async () => {
      const job = shallow(jobOf('mlp', { dp: 3, compress }, { ...training, globalBatch: 12 }))
      for (const each of [job, serialJob(job)]) {
        const program = compileJob(each)
        isWithinBounds(compareRun(program, await record(program, kernels, pool, optionsOf(job)), serialOf(job)))
      }
    },
  )

later('positions that ranks split by tokens meet as they are, and m takes them in all the same', () => {
  const { machine, program } = trained(jobOf('gpt', { dp: 2, cp: 2, compress }, training), 2)
  const { error, m, v } = machine.states('embed.positions')
  ok(error === undefined && m!.some(value => value !== 0))
  const alone = trained(jobOf('gpt', { dp: 2, cp: 2, compress }, training), 0).machine.states('embed.positions')
  deepEqual(v, alone.v, 'v stands still')
  ok(program.params.some(({ name }) => machine.states(name).error))
})

later('what was sent and what is left, of every addend and of the sum, are what was given: nothing is lost', () => {
  const job = shallow(jobOf('mlp', { dp: 2, tp: 2, compress }, training))
  const plain = compileJob(shallow(jobOf('mlp', {})))
  for (const program of [compileJob(job), compileJob(serialJob(job))]) {
    const [machine, whole] = [program, plain].map(each => boot(each, { seed: 1 }))
    const [data, same] = [program, plain].map(each => dataFor(each, optionsOf(job)))
    const left = new Map(program.params.map(({ name, dims }) => [name, new Float64Array(elementsOf(dims))]))
    for (const [name, { length }] of left) machine.setStates(name, { v: new Float64Array(length).fill(1) })
    // Nothing moves with a rate of 0, so both are given the same.
    for (const step of [0, 1, 2]) {
      const before = new Map(program.params.map(({ name }) => [name, machine.states(name).m!]))
      machine.step({ inputs: data(step), lr: 0, step })
      whole.step({ inputs: same(step), lr: 0, step })
      for (const [name, total] of left) {
        const [g, sent, m] = [whole.gradient(name), machine.gradient(name), before.get(name)!]
        for (let i = 0; i < total.length; i++) total[i] += 0.9 * m[i] + 0.1 * g[i] - sent[i]
      }
    }
    for (const [name, total] of left) {
      const { error, sumError } = machine.states(name)
      ok(Math.max(...error!.map(Math.abs)) > 1e-6 && Math.max(...sumError!.map(Math.abs)) > 1e-6, name)
      for (const [i, value] of total.entries()) ok(Math.abs(error![i] + sumError![i] - value) <= 1e-12, `${name} ${i}`)
    }
  }
})

test('a step that is skipped leaves m and both errors as they are; what never had a gradient stays', () => {
  const { machine, data, program } = trained(jobOf('mlp', { dp: 2, compress }, training), 1)
  const [{ name, dims }] = program.params
  const before = machine.states(name)
  const inputs = data(3)
  const { skipped } = machine.step({ inputs: of => inputs(of).map(x => x * 1e300), lr: 0.01, step: 3 })
  ok(skipped)
  deepEqual(machine.states(name), before)
  machine.setStates(name, { v: new Float64Array(elementsOf(dims)) })
  const start = machine.parameter(name)
  machine.step({ inputs: data(3), lr: 0.01, step: 3 })
  ok(machine.states(name).m!.every(value => value === 0))
  const decayed = start.map(value => value * (1 - 0.01 * 0.1))
  for (const [i, value] of machine.parameter(name).entries()) ok(Math.abs(value - decayed[i]) <= 1e-15, `${i}`)
})

later('errors are saved as sums, and given to any other plan', () => {
  const job = shallow(jobOf('mlp', { dp: 2, compress }, training))
  const { program, machine } = trained(job, 2)
  const others = [job, serialJob(job), shallow(jobOf('mlp', { dp: 4, tp: 2, compress }, training))]
  const checkpoint = saved(program, machine)
  for (const each of others) {
    const other = compileJob(each)
    const goesOn = boot(other, { seed: 2 })
    deepEqual(checkpointProblems(other, checkpoint, 'everything'), [])
    loadCheckpoint(other, checkpoint, 'everything', (shard, values) => goesOn.hold(shard, values))
    for (const { name } of program.params)
      for (const [state, right] of Object.entries(machine.states(name)))
        for (const [i, value] of right.entries()) {
          const own = goesOn.states(name)[state as 'error']
          ok(Math.abs(own![i] - value) <= 1e-6, `${state} of ${name}, ${i}`)
        }
  }
})

later('a run sends gradients as they are until `from`, and v stands still from there on', async () => {
  const jobs = [{ compress }, {}].map(how => jobOf('mlp', { dp: 2, ...how }, { ...training, steps: 4, evalBatches: 1 }))
  const [late, never] = await Promise.all(
    jobs.map(async job => lossesOf(await startSession(job, syntheticOf(job), { kernels: 'reference' }), 4)),
  )
  deepEqual(late.slice(0, 3), never.slice(0, 3))
  ok(late[3] !== never[3])
})

const small = shallow(jobOf('mlp', { dp: 2, compress }, training))
const lawful = { text: print(compileJob(small)), serial: compileJob(serialJob(small, 1)) }

const broken = [
  ['E1', 'an error of addends that forgets what was sent', /\n {2}%rest = deduct %sent/, ''],
  ['E1', 'an error of the sum that forgets what was sent', /\n {2}%sumRest = deduct %back/, ''],
  ['E1', 'what was sent of the sum taken off the error of addends too', /%sumRest = deduct %back/, '$&\n  $&'],
  ['E1', 'an error of addends that is not added', /%rest = add %grad %error/, '%rest = add %grad %grad'],
  ['E1', 'an error of the sum that is not added', /%sumRest = add %owned %sumError/, '%sumRest = add %owned %owned'],
  ['E1', 'an error of the sum that stays as it was', /\n {2}%sumError = become [^\n]*/, ''],
  ['I1', 'signs of a part where those of the line are meant', /signs=line/g, 'signs=part'],
  ['T1', 'a part that would know the unit of its line', /(= pack %sumRest .*)signs=part/, '$1signs=line'],
  ['T1', 'a mean of other shares', /(= blend .*)ranks=2/, '$1ranks=1'],
  ['T7', 'what one rank sends for the sum of all', /(%owned = unpack) %x.codes'1/, '$1 %x.codes'],
  ['I3', 'v moves though m alone was given', / frozen=true/, ''],
  ['T4', 'an error that is kept whole', /(state error .*) sum:dp/, '$1'],
] as const

for (const [law, what, from, to] of broken)
  test(`[${law}] ${what}`, () => {
    const changed = lawful.text.replace(from, to)
    ok(changed !== lawful.text, lawful.text)
    const laws = verify(parse(changed), lawful.serial).map(found => found.law)
    ok(laws.includes(law), laws.join())
  })

test('check refuses what 1-bit Adam cannot do, and says what it means', () => {
  const problems = (plan: PlanInput, more: object = {}) =>
    check(
      jobOf('gpt', { compress: { ...compress, from: 1000 }, ...plan }, { ...training, clip: undefined, ...more }),
    ).map(({ path, severity }) => `${severity} ${path}`)
  const depends = 'warning plan.compress.reduce'
  deepEqual(problems({ dp: 2 }), [depends])
  deepEqual(problems({ dp: 2 }, { clip: 1 }), [depends, 'warning training.clip'])
  deepEqual(problems({ dp: 2, zero: 1 }), [depends, 'warning plan.zero'])
  // Gradients of positions are split by tokens then, and sent as they are.
  deepEqual(problems({ dp: 2, cp: 2 }), [depends])
  deepEqual(problems({ dp: 2, compress: { reduce: 'onebit' } }), [depends, 'error plan.compress.from'])
  const adamw = { kind: 'adamw', lr: 1e-3 }
  deepEqual(problems({ dp: 2 }, { optimizer: adamw }), [depends, 'error training.optimizer.uncorrected'])
  const coupled = { ...adamw, uncorrected: true, coupled: true }
  deepEqual(problems({ dp: 2 }, { optimizer: coupled }), [depends, 'error training.optimizer.coupled'])
  deepEqual(problems({ dp: 2 }, { optimizer: { kind: 'sgd', lr: 1e-3 } }), [depends, 'error plan.compress.reduce'])
  deepEqual(problems({ tp: 2 }), ['warning plan.compress.reduce'])
})

test('check warns of a v that is frozen before it has warmed up, with the step from which on it is not', () => {
  const early = (from: number, beta2 = 0.999) =>
    check(
      jobOf(
        'mlp',
        { dp: 2, compress: { reduce: 'onebit', from } },
        { clip: undefined, optimizer: { kind: 'adamw', lr: 1e-3, beta2, uncorrected: true } },
      ),
    ).flatMap(({ path, message, suggestion }) => (path === 'plan.compress.from' ? [`${message}; ${suggestion}`] : []))
  match(
    early(1)[0],
    /is frozen at 0\.1 % of the mean squared .* \(beta2 0\.999\), so updates stay 32 times as large .*; set from to 1000,/,
  )
  match(early(0)[0], /no parameter would change; set from to .*, or 1000$/)
  deepEqual(
    [287, 288, 1000].map(from => early(from).length),
    [1, 0, 0],
  )
  deepEqual(
    [5, 6].map(from => early(from, 0.95).length),
    [1, 0],
  )
  match(early(3, 0.95)[0], /set from to 20,/)
})
