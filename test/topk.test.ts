/**
 * Top-k: of every rank's gradient the greatest numbers travel, and the others are kept for the next step. What is kept depends on how ranks cut a
 * gradient, so every plan is compared with one rank that plays its ranks.
 */
import { deepEqual, ok } from 'node:assert/strict'
import { after } from 'node:test'
import { bytesPer, elementsOf, partialAxes, sizeOfAll } from '../src/base/index.js'
import { checkpointProblems, loadCheckpoint } from '../src/checkpoint/index.js'
import { compileJob, serialJob } from '../src/compile/index.js'
import { boot, compareRun, dataFor } from '../src/engine/index.js'
import { nativeMissing, Pool } from '../src/engine/native/index.js'
import { isCollective, type Param, type Program, parse, print, verify } from '../src/ir/index.js'
import { check, earlierJobs, Job, type PlanInput } from '../src/plan/index.js'
import { lossesOf, startSession, syntheticOf } from '../src/train/index.js'
import { expertModels } from './expert-models.js'
import { family, later, test } from './families.js'
import { readFixture } from './fixtures.js'
import { computesWhatOneRankComputes, jobOf, type ModelName, optionsOf, serialOf, shallow, titleOf } from './jobs.js'
import { compared } from './random-plans.js'
import { isWithinBounds, record } from './recorded.js'
import { saved } from './saved.js'
import { runOp, type Tensor } from './tiny.js'

const compress = { reduce: 'topk', ratio: 0.2 } as const
const plans: readonly (readonly [ModelName, PlanInput])[] = [
  ['llama tied', { dp: 2, tp: 2, pp: 2, zero: 1, microbatches: 2, compress, sequenceParallel: true }],
  ['mlp', { dp: 3, compress: { reduce: 'topk', ratio: 0.05 } }],
  ['gpt', { dp: 2, microbatches: 2, compress: { reduce: 'topk' } }],
  ['llama', { dp: 2, tp: 2, compress }],
  ['gpt tied', { dp: 4, zero: 2, microbatches: 2, reduce: 'step', compress }],
  ['gpt tied', { dp: 2, pp: 2, microbatches: 4, compress }],
  ['llama', { dp: 2, cp: 2, zero: 3, reduce: 'step', microbatches: 2, compress: { ...compress, gather: 'int8' } }],
  ['gpt', { dp: 2, pp: 2, microbatches: 4, schedule: 'dualpipe', compress }],
  ['latent', { dp: 2, zero: 1, overlap: false, precision: 'bf16', compress }],
  ['llama', { tp: 4, compress }],
  ['gpt', { dp: 2, tp: 2, microbatches: 2, sequenceParallel: true, compress }],
]
const tested = family('compression: top-k', 12)
for (const [model, plan] of plans)
  tested(`${model}, ${titleOf(plan)}: computes what one rank computes that plays these`, () => {
    computesWhatOneRankComputes(jobOf(model, plan, plan.dp === 3 ? { globalBatch: 24 } : {}), 3)
  })

tested(
  'scaled losses, averages of weights and other optimizers: computes what one rank computes that plays these',
  () => {
    const scaled = { lossScale: { kind: 'torch' as const, initial: 1024 }, ema: { decay: 0.9 } }
    computesWhatOneRankComputes(jobOf('gpt', { dp: 2, zero: 1, microbatches: 2, compress }, scaled))
    computesWhatOneRankComputes(jobOf('llama', { dp: 2, tp: 2, compress }, { optimizer: { kind: 'muon', lr: 0.01 } }))
  },
)

/** Ranks of dp that share experts have one addend of them together; where all share them, none has any. */
const shared = [
  [{ dp: 4, ep: 2, compress }, 2],
  [{ dp: 2, cp: 2, ep: 2, zero: 1, compress }, 2],
  [{ dp: 2, tp: 2, ep: 4, etp: 1, microbatches: 2, compress }, 0],
  [{ dp: 4, ep: 2, zero: 1, compress: { reduce: 'onebit', from: 1 } }, 2],
  [{ dp: 2, ep: 2, compress: { reduce: 'onebit', from: 1 } }, 0],
  [{ dp: 4, ep: 2, zero: 2, microbatches: 2, compress: { reduce: 'int8', run: 8 } }, 0],
] as const satisfies readonly (readonly [PlanInput, number])[]
const testedShared = family('compression: top-k of experts', 6)
for (const [plan, addends] of shared)
  testedShared(`experts, ${titleOf(plan)}: computes what one rank computes that plays these`, () => {
    const optimizer = { kind: 'adamw' as const, lr: 1e-3, uncorrected: true }
    const training = { seq: 8, globalBatch: 8, clip: 0.5, optimizer }
    const job = Job.parse({ model: expertModels.deepseek, training, plan })
    computesWhatOneRankComputes(job, 3)
    const { mesh, params } = compileJob(job)
    const experts = params.find(({ dims }) => dims.some(({ name }) => name === 'expert'))!
    const error = experts.apart?.error
    const ranks = error ? sizeOfAll(mesh, partialAxes(error.layout)) : 0
    deepEqual(ranks, addends)
  })

for (const plan of [
  { dp: 2, etp: 2, compress },
  { dp: 4, etp: 2, zero: 1, compress: { reduce: 'onebit', from: 1 } },
  { dp: 4, etp: 2, zero: 2, compress: { reduce: 'int8', run: 4 } },
] as const satisfies readonly PlanInput[])
  test(`experts that ranks of dp split, and their adapters, ${titleOf(plan)}: computes what one rank computes that plays these`, () => {
    const optimizer = { kind: 'adamw' as const, lr: 1e-3, uncorrected: true }
    for (const lora of [{}, { lora: { rank: 1, targets: ['up' as const, 'down' as const] } }])
      computesWhatOneRankComputes(
        Job.parse({ model: expertModels.deepseek, training: { seq: 4, globalBatch: 4, optimizer, ...lora }, plan }),
      )
  })

const pool = new Pool()
after(() => pool.close())
for (const kernels of ['native', 'wasm'] as const)
  (kernels === 'native' ? test : later)(
    `${kernels}: as the reference, and so does one rank that plays others`,
    { skip: (kernels === 'native' && nativeMissing()) || false },
    async () => {
      const job = shallow(jobOf('mlp', { dp: 2, zero: 1, compress }))
      for (const each of [job, serialJob(job)]) {
        const program = compileJob(each)
        isWithinBounds(compareRun(program, await record(program, kernels, pool, optionsOf(job)), serialOf(job)))
      }
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
  const alone = serialJob(jobOf('mlp', { dp: 2, tp: 2, compress }))
  const jobs = [jobOf('mlp', { dp: 2, tp: 2, compress }), alone, jobOf('mlp', {})]
  const programs = jobs.map(job => compileJob(job))
  const machines = programs.map(program => boot(program, { seed: 1 }))
  const sums = programs[0].params.map(param => ({ ...param, totals: jobs.map(() => zerosOf(param)) }))
  const data = programs.map(program => dataFor(program, optionsOf(jobs[2])))
  // Nothing moves with a rate of 0, so all are given the same.
  for (const step of [0, 1, 2, 3])
    for (const [m, machine] of machines.entries()) {
      machine.step({ inputs: data[m](step), lr: 0, step })
      for (const { name, totals } of sums)
        for (const [i, value] of machine.gradient(name).entries()) totals[m][i] += value
    }
  let kept = 0
  for (const { name, totals } of sums)
    for (const m of [0, 1]) {
      const { error = totals[m].map(() => 0) } = machines[m].states(name)
      kept = Math.max(kept, ...error.map(Math.abs))
      for (const [i, given] of totals[2].entries())
        ok(Math.abs(totals[m][i] + error[i] - given) <= 1e-12, `${name} ${i}`)
    }
  ok(kept > 1e-4, 'something is left')
})

test('a step that is skipped leaves errors as they are', () => {
  const { machine, data, program } = trained(jobOf('mlp', { dp: 2, compress }, { skipAbove: 1e3 }), 2)
  const [{ name }] = program.params
  const before = machine.states(name)
  const inputs = data(2)
  const { skipped } = machine.step({ inputs: of => inputs(of).map(x => x * 1e6), lr: 0.01, step: 2 })
  ok(skipped)
  deepEqual(machine.states(name), before)
})

test('every rank’s residual is saved, and any other plan is given their sum; one rank that plays the same ranks has each of them', () => {
  const training = { optimizer: { kind: 'sgd' as const, lr: 0.01, momentum: 0.9 } }
  const job = shallow(jobOf('mlp', { dp: 2, compress }, training))
  const { program, machine, data } = trained(job, 2)
  const { program: played, machine: player } = trained(serialJob(job), 2)
  const { machine: straight } = trained(job, 3)
  const others = [job, serialJob(job), shallow(jobOf('mlp', { dp: 4, zero: 1, compress }, training))]
  for (const checkpoint of [saved(program, machine), saved(played, player)]) {
    const resumed = others.map(each => {
      const other = compileJob(each)
      const goesOn = boot(other, { seed: 2 })
      deepEqual(checkpointProblems(other, checkpoint, 'everything'), [])
      loadCheckpoint(other, checkpoint, 'everything', (shard, values) => goesOn.hold(shard, values))
      for (const { name } of program.params) {
        const [{ error: own = [] }, { error: right = [] }] = [goesOn.states(name), machine.states(name)]
        deepEqual(own.length, right.length)
        for (const [i, value] of right.entries()) ok(Math.abs(own[i] - value) <= 1e-6, `${name} ${i}`)
      }
      goesOn.step({ inputs: data(2), lr: 0.01, step: 2 })
      return goesOn
    })
    // One rank plays the others: both have the same residuals, and send the same, as a run that was never interrupted.
    for (const { name } of program.params)
      for (const other of resumed.slice(0, 2))
        for (const [i, value] of straight.parameter(name).entries())
          ok(Math.abs(other.parameter(name)[i] - value) <= 1e-12, `${name} ${i}`)
  }
})

const small = shallow(jobOf('mlp', { dp: 2, compress }))
const lawful = { text: print(compileJob(small)), serial: compileJob(serialJob(small, 1)) }
const alone = print(compileJob(serialJob(small)))

const broken = [
  ['E1', 'an error that forgets what was sent', /\n {2}%rest = deduct %sent/, ''],
  ['E1', 'what was sent taken off twice', /\n {2}%rest = deduct %sent/, '$&$&'],
  ['E1', 'an error that is not added', /%rest = add %grad %error/, '%rest = add %grad %grad'],
  ['E1', 'an error that stays as it was', /\n {2}%error = become [^\n]*/, ''],
  ['I1', 'other numbers are sent', /(%values %places = greatest .*)ratio=0.2/, '$1ratio=0.21'],
  ['T3', 'more is sent', /(%values %places = greatest .*)ratio=0.2/, '$1ratio=0.6'],
  ['T1', 'the sum of one rank’s own', /(%sum = scatter) %values'1 %places'1/, '$1 %values %places'],
  ['T1', 'places of others', /(%sent = scatter %values) %places/, "$1 %places'1"],
  ['T1', 'what all ranks have taken off the share of one', /deduct %sent/, 'deduct %sum'],
  ['T4', 'an error that is kept whole', /(state error .*) sum:dp/, '$1'],
  ['I4', 'an error of other dims', /(state error f32 \[)(\w+):(\d+)/, '$1other:$3'],
] as const

for (const [law, what, from, to] of broken)
  test(`[${law}] ${what}`, () => {
    const changed = lawful.text.replace(from, to)
    ok(changed !== lawful.text, lawful.text)
    const laws = verify(parse(changed), lawful.serial).map(found => found.law)
    ok(laws.includes(law), laws.join())
  })

const played = [
  ['E1', 'an addend that is not the gradient', /beside %grad %grad'1/, "beside %grad'1 %grad'1"],
  ['E1', 'an error that forgets what was sent', /\n {2}%rest = deduct %sent/, ''],
  ['E1', 'what was given is lost', /%rest = add %addends %error/, '%rest = add %error %error'],
  ['T3', 'fewer addends', /beside %grad %grad'1/, 'beside %grad'],
  ['T1', 'addends of another shape', /(%sent = scatter %values %places .*)blocks=1,1/, '$1blocks=2,1'],
] as const

for (const [law, what, from, to] of played)
  test(`[${law}] one rank that plays others: ${what}`, () => {
    deepEqual(verify(parse(alone)), [])
    const changed = alone.replace(from, to)
    ok(changed !== alone, alone)
    const laws = verify(parse(changed)).map(found => found.law)
    ok(laws.includes(law), laws.join())
  })

test('steps before `from` send gradients as they are', async () => {
  const jobs = [{ ...compress, from: 2 }, compress, undefined].map(how =>
    jobOf('mlp', { dp: 2, ...(how && { compress: how }) }, { steps: 4, evalBatches: 1 }),
  )
  const [late, early, never] = await Promise.all(
    jobs.map(async job => lossesOf(await startSession(job, syntheticOf(job), { kernels: 'reference' }), 4)),
  )
  deepEqual(late.slice(0, 3), never.slice(0, 3))
  ok(late[3] !== never[3] && early[1] !== never[1] && early[3] !== late[3])
  const [waiting] = earlierJobs(jobs[0])
  computesWhatOneRankComputes(waiting)
  const [own, last] = [waiting, jobs[0]].map(each =>
    compileJob(each).params.map(({ name, apart }) => ({ name, apart })),
  )
  deepEqual(own, last)
})

test('check refuses what no rank could play, and says what is unwise', () => {
  const problems = (plan: PlanInput) =>
    check(jobOf('gpt', { compress: { reduce: 'topk' }, ...plan })).map(
      ({ code, path, severity }) => `${severity} ${code} ${path}`,
    )
  const depends = 'warning plan/compress plan.compress.reduce'
  deepEqual(problems({ dp: 2 }), [depends])
  deepEqual(problems({ dp: 2, compress: { reduce: 'topk', ratio: 0.5 } }), [
    'warning plan/unwise plan.compress.ratio',
    depends,
  ])
  const refused = 'error plan/compress plan.compress.reduce'
  ok(problems({ dp: 2, zero: 2 }).includes(refused))
  ok(problems({ dp: 2, precision: 'pure-bf16' }).includes(refused))
  ok(problems({ dp: 2, zero: 1, offload: { optimizer: 'host' } }).includes(refused))
  deepEqual(problems({ tp: 2 }), ['warning plan/unwise plan.compress.reduce'])
})

interface Iteration {
  readonly x: readonly (readonly number[])[]
  readonly y: readonly number[]
  readonly residual: readonly (readonly number[])[]
}
interface Sparsified {
  readonly ranks: number
  readonly size: number
  readonly ratio: number
  readonly k: number
  readonly iterations: readonly Iteration[]
}

const line = (values: ArrayLike<number>, addends: number, name = 'n'): Tensor => ({
  dims: [
    { name: 'addend', size: addends },
    { name, size: values.length / addends },
  ],
  values,
})

const { cases } = JSON.parse(readFixture('compression/topk.json')) as { cases: readonly Sparsified[] }
for (const [n, { ranks, size, ratio, k, iterations }] of cases.entries())
  test(`GRACE’s compressor with its memory, case ${n}: ${k} of ${size} on ${ranks} ranks`, () => {
    let rest: ArrayLike<number> = new Float64Array(ranks * size)
    for (const [i, { x, y, residual }] of iterations.entries()) {
      const sums = line(
        x.flat().map((value, e) => value + rest[e]),
        ranks,
      )
      const [values, places] = runOp(
        { kind: 'greatest', ratio },
        [sums],
        [line(new Float64Array(ranks * k), ranks, 'kept'), line(new Float64Array(ranks * k), ranks, 'kept')],
      )
      const kept = [line(values, ranks, 'kept'), line(places, ranks, 'kept')]
      const [sent] = runOp({ kind: 'scatter', ratio }, kept, [line(new Float64Array(ranks * size), ranks)])
      const [sum] = runOp({ kind: 'scatter', ratio }, kept, [{ dims: [{ name: 'n', size }], values: [] }])
      rest = runOp({ kind: 'deduct' }, [line(sent, ranks)], [sums])[0]
      const near = (own: number, right: number) => Math.abs(own - right) <= 1e-6 * Math.max(1, Math.abs(right))
      for (const [e, value] of y.entries()) ok(near(sum[e] / ranks, value), `step ${i}, element ${e}`)
      for (const [e, value] of residual.flat().entries()) ok(near(rest[e], value), `step ${i}, residual ${e}`)
    }
  })

test('of equals the first are kept; what is no number counts as infinite', () => {
  const kept = (values: readonly number[], ratio: number, n: number) => {
    const outs = [line(new Float64Array(n), 1, 'kept'), line(new Float64Array(n), 1, 'kept')]
    const [found, places] = runOp({ kind: 'greatest', ratio }, [line(values, 1)], outs)
    return [[...found], [...places]]
  }
  deepEqual(kept([1, -2, 2, 2, 0], 0.4, 2), [
    [-2, 2],
    [1, 2],
  ])
  deepEqual(kept([Infinity, 1, Number.NaN, -Infinity], 0.5, 2), [
    [Infinity, Number.NaN],
    [0, 2],
  ])
  deepEqual(kept([0, 0, 0], 0.1, 1), [[0], [0]])
})

const wide = { family: 'llama', layers: 6, embed: 2048, heads: 16, kvHeads: 8, ffn: 5632, vocab: 32000 } as const
const priced: readonly PlanInput[] = [
  { dp: 4, zero: 1 },
  { dp: 2, tp: 2, pp: 2, microbatches: 4, zero: 1 },
  { dp: 4 },
  { dp: 2, cp: 2 },
  { dp: 8, zero: 3, reduce: 'step' },
  { tp: 4, dp: 2, sequenceParallel: true },
]
const pricedIn = family('compression: top-k cost', 6)
for (const plan of priced)
  pricedIn(`${titleOf(plan)}: the estimate is within 3 % of the simulation, and of the bytes that are compiled`, () => {
    const { dp = 1, microbatches = 1 } = plan
    const job = Job.parse({
      ...{ model: wide, training: { seq: 2048, globalBatch: 2 * dp * microbatches } },
      plan: { precision: 'bf16', ...plan, compress: { reduce: 'topk' } },
    })
    const { time, memory } = compared({ job, device: 'h100' })!
    ok(Math.abs(time) <= 0.03 && Math.abs(memory) <= 0.03, `${time} ${memory}`)
  })

/** Bytes that the data axes carry to a rank in a step. */
function carried({ streams, segments, mesh }: Program): number {
  const bytes = (name: string) =>
    segments[name].instrs
      .filter(isCollective)
      .filter(({ group }) => group.axes.includes('dp'))
      .flatMap(instr => {
        const ranks = sizeOfAll(mesh, instr.group.axes)
        const all = instr.kind === 'all-gather' ? instr.outs : instr.ins
        const times = instr.kind === 'all-reduce' ? 2 : 1
        return all.map(ref => {
          const { dims, dtype } = segments[name].buffers[ref]
          return (times * (ranks - 1) * elementsOf(dims) * bytesPer[dtype]) / ranks
        })
      })
  const calls = streams.flatMap(({ steps }) => steps.flatMap(step => (step.kind === 'call' ? bytes(step.segment) : [])))
  return calls.reduce((a, b) => a + b, 0)
}

test('what is sent is the share that is asked for, and errors are bytes', () => {
  const training = { seq: 512, globalBatch: 16 }
  const [plain, sparse] = [{}, { compress: { reduce: 'topk', ratio: 0.001 } }].map(how =>
    compileJob(Job.parse({ model: { ...wide, layers: 2 }, training, plan: { dp: 16, ...how } })),
  )
  // 8 bytes a number and rank against twice 4 bytes.
  const share = carried(sparse) / carried(plain)
  ok(Math.abs(share / (16 * 0.001) - 1) < 0.05, `${share}`)
  const [before, after] = [plain, sparse].map(({ streams: [{ peak }] }) => peak.optimizer)
  ok(after > 1.49 * before && after < 1.51 * before, 'beside two moments, an error')
})
