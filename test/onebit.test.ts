/**
 * 1-bit Adam (Tang et al. 2021): from some step on v stands still, and of the mean of gradients as each rank would have it signs travel, to the owners of its
 * parts and back. What they do not say is remembered: by each rank of its addend, by each owner of the sum.
 */
import { equal, ok } from 'node:assert/strict'
import { compileJob, serialJob } from '../src/compile/index.js'
import { boot, dataFor } from '../src/engine/index.js'
import { earlierJobs, type Job, type PlanInput } from '../src/plan/index.js'
import { readFixture } from './fixtures.js'
import { computesWhatOneRankComputes, jobOf, type ModelName, optionsOf, titleOf } from './jobs.js'
import { oneIn, test } from './share.js'
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
  ['llama tied', { dp: 2, tp: 2, pp: 2, microbatches: 2, compress, sequenceParallel: true }],
  ['mlp', { dp: 3, compress }, { globalBatch: 24 }],
  ['gpt', { dp: 2, microbatches: 2, compress }, { lossScale: { kind: 'torch', initial: 1024 }, ema: { decay: 0.9 } }],
  ['llama', { dp: 2, cp: 2, compress, precision: 'bf16' }, { clip: 0.01 }],
  ['gpt', { dp: 2, pp: 2, microbatches: 4, schedule: 'dualpipe', compress }],
  ['gpt tied', { dp: 4, compress, overlap: false }],
]
const tested = oneIn(5)
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
