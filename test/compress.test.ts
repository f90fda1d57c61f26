/**
 * What crosses the wire in fewer bits: where sums over the data axes are made, and where parameters are gathered. In 16 bits
 * numbers lose digits and nothing else, so the interpreter, which keeps all digits in f64, gives what one rank gives.
 */
import { deepEqual, equal, ok } from 'node:assert/strict'
import { after, test } from 'node:test'
import { compileJob, serialJob } from '../src/compile/index.js'
import { boot, dataFor, type Runner } from '../src/engine/index.js'
import { nativeMissing, Pool, startEngine } from '../src/engine/native/index.js'
import { isCollective, type Program } from '../src/ir/index.js'
import { check, type Job, type PlanInput } from '../src/plan/index.js'
import { computesWhatOneRankComputes, jobOf, type ModelName, optionsOf, titleOf } from './jobs.js'

const sixteen: readonly (readonly [ModelName, PlanInput])[] = [
  ['mlp', { dp: 3, microbatches: 2, compress: { reduce: 'bf16' } }],
  ['gpt', { dp: 2, zero: 1, compress: { reduce: 'f16' } }],
  [
    'llama tied',
    { dp: 2, tp: 2, pp: 2, zero: 1, microbatches: 2, compress: { reduce: 'bf16' }, sequenceParallel: true },
  ],
  ['gpt tied', { dp: 4, zero: 2, microbatches: 2, compress: { reduce: 'bf16' } }],
  ['llama', { dp: 2, cp: 2, zero: 3, microbatches: 2, compress: { reduce: 'f16', gather: 'bf16' } }],
  ['gpt', { dp: 3, pp: 2, zero: 3, gather: 'step', reduce: 'step', microbatches: 2, compress: { gather: 'bf16' } }],
  ['latent', { dp: 2, zero: 3, overlap: false, compress: { reduce: 'bf16', gather: 'bf16' } }],
  ['gpt', { dp: 2, zero: 3, precision: 'bf16', compress: { reduce: 'bf16' } }],
]
for (const [model, plan] of sixteen)
  test(`${model}, ${titleOf(plan)}: computes what one rank computes`, () => {
    const batch = plan.dp === 3 ? { globalBatch: 24 } : {}
    computesWhatOneRankComputes(jobOf(model, plan, batch))
  })

/** What the collectives of a flight carry, by the name of its segment. */
const carried = ({ segments }: Program, flight: string) =>
  Object.values(segments)
    .filter(({ name }) => name.startsWith(`${flight} `))
    .flatMap(({ instrs, buffers }) =>
      instrs.filter(isCollective).map(({ kind, ins }) => `${kind} ${buffers[ins[0]].dtype}`),
    )

test('what is compressed travels in fewer bits, and nothing else does', () => {
  const program = (plan: PlanInput) => compileJob(jobOf('gpt', { dp: 2, ...plan }))
  const distinct = (plan: PlanInput, flight: string) => [...new Set(carried(program(plan), flight))]
  deepEqual(distinct({ compress: { reduce: 'bf16' } }, 'reduce'), ['all-reduce bf16'])
  deepEqual(distinct({ zero: 1, compress: { reduce: 'f16' } }, 'reduce'), ['reduce-scatter f16'])
  deepEqual(distinct({ zero: 1, compress: { reduce: 'f16' } }, 'gather'), ['all-gather f32'])
  deepEqual(distinct({ zero: 3, compress: { gather: 'bf16' } }, 'gather'), ['all-gather bf16'])
  deepEqual(distinct({ zero: 3, compress: { gather: 'bf16' } }, 'reduce'), ['reduce-scatter f32'])
  // Parameters of 16 bits have nothing to lose.
  deepEqual(distinct({ zero: 3, precision: 'bf16', compress: { gather: 'bf16' } }, 'gather'), ['all-gather bf16'])
  deepEqual(
    program({ zero: 3, precision: 'bf16', compress: { gather: 'bf16' } }),
    program({ zero: 3, precision: 'bf16' }),
  )
})

test('check says what changes nothing, and what is unwise', () => {
  const codes = (plan: PlanInput) => check(jobOf('gpt', plan)).map(({ code, path }) => `${code} ${path}`)
  const pure = { dp: 2, precision: 'pure-bf16' as const, compress: { reduce: 'bf16' as const } }
  ok(codes(pure).includes('plan/no-effect plan.compress.reduce'))
  ok(codes({ tp: 2, compress: { reduce: 'f16' } }).includes('plan/no-effect plan.compress'))
  ok(codes({ dp: 2, compress: { reduce: 'f16' } }).includes('plan/unwise plan.compress.reduce'))
  ok(
    codes({ dp: 2, zero: 3, precision: 'bf16', compress: { gather: 'bf16' } }).includes(
      'plan/no-effect plan.compress.gather',
    ),
  )
  deepEqual(codes({ dp: 2, compress: { reduce: 'bf16' } }), [])
})

const pool = new Pool()
after(() => pool.close())

async function losses(runner: Runner, program: Program, job: Job, steps: number): Promise<number[]> {
  const data = dataFor(program, optionsOf(job))
  const found: number[] = []
  for (let step = 0; step < steps; step++)
    found.push((await runner.step({ inputs: data(step), lr: job.training.optimizer.lr, step })).loss)
  return found
}

const inEngine: readonly (readonly [ModelName, PlanInput, 'native' | 'wasm'])[] = [
  ['gpt', { dp: 3, compress: { reduce: 'bf16' } }, 'native'],
  ['llama', { dp: 2, tp: 2, zero: 1, microbatches: 2, compress: { reduce: 'f16' } }, 'native'],
  ['gpt tied', { dp: 2, zero: 3, microbatches: 2, compress: { reduce: 'bf16', gather: 'bf16' } }, 'native'],
  ['gpt', { dp: 2, zero: 2, compress: { reduce: 'bf16' } }, 'wasm'],
]
for (const [model, plan, kernels] of inEngine)
  test(`${kernels}: ${model}, ${titleOf(plan)}: rounds as the interpreter does, as far from f32 as is said`, {
    skip: (kernels === 'native' && nativeMissing()) || false,
  }, async () => {
    const job = jobOf(model, plan, plan.dp === 3 ? { globalBatch: 24 } : {})
    const [program, serial] = [compileJob(job), compileJob(serialJob(job))]
    const [engine, machine, one] = [
      await startEngine(program, { seed: 1, kernels, pool, poison: true, timeoutMs: 20_000 }),
      boot(program, { seed: 1, precision: 'f32' }),
      boot(serial, { seed: 1, precision: 'f32' }),
    ]
    try {
      const [ours, theirs] = [await losses(engine, program, job, 4), await losses(machine, program, job, 4)]
      const exact = await losses(one, serial, job, 4)
      for (const [step, loss] of ours.entries()) {
        ok(Math.abs(loss / theirs[step] - 1) <= 1e-4, `step ${step}: ${loss}, interpreted ${theirs[step]}`)
        ok(Math.abs(loss / exact[step] - 1) <= 4e-3, `step ${step}: ${loss}, in f32 ${exact[step]}`)
      }
      deepEqual(engine.peaks, machine.peaks)
      for (const { name } of program.params) equal(engine.spread(name), 0, `replicas of ${name} differ`)
    } finally {
      await engine.stop()
    }
  })
