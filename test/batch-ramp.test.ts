/** Batches that grow: which step has how many sequences, every plan as one rank, resumed in the middle, and emitted. */
import { deepEqual, equal, ok, rejects } from 'node:assert/strict'
import { rmSync } from 'node:fs'
import { batchOfStep, type ProblemsError } from '../src/base/index.js'
import { memoryFiles } from '../src/base/memory-files.js'
import { shardsOf } from '../src/checkpoint/index.js'
import { runOf, runtimeFiles } from '../src/cli/files/emit-folder.js'
import { compileEvaluation, compileJob } from '../src/compile/index.js'
import { emit } from '../src/emit/index.js'
import { fastKernels } from '../src/engine/index.js'
import { earlierJobs, type Job, jobOfBatch, type PlanInput } from '../src/plan/index.js'
import {
  beginningOf,
  earlierPrograms,
  lossesOf,
  oneRankLosses,
  openCheckpoints,
  type Session,
  startSession,
  syntheticOf,
} from '../src/train/index.js'
import { temporaryFolder, writeFiles } from './emitted.js'
import { family, later, test } from './families.js'
import { readFixture } from './fixtures.js'
import { Forking } from './forked.js'
import { jobOf, shallow, titleOf } from './jobs.js'
import { findPython, noPython } from './python.js'

interface Ramps {
  readonly cases: readonly {
    readonly schedule: string
    readonly seq: number | null
    readonly microbatch: number
    readonly dp: number
    /** Of each step: sequences seen before, sequences of it, its microbatches. */
    readonly rows: readonly (readonly number[])[]
  }[]
}
const { cases } = JSON.parse(readFixture('optimizers/batch-ramp.json')) as Ramps

const thousands = ['', 'K', 'M', 'B', 'T']

/** 2000 of '2K'. */
function tokensOf(text: string): number {
  const [, digits, unit] = /^([\d.]+)([KMBT]?)$/i.exec(text)!
  return Number(digits) * 1000 ** thousands.indexOf(unit.toUpperCase())
}

/** '0:8 2K:16' as a job says it: each size until the next begins. */
function rampOf(schedule: string, inTokens: boolean) {
  const phases = schedule.split(' ').map(phase => phase.split(':'))
  const ends = phases.slice(1).map(([from]) => tokensOf(from))
  const batchRamp = ends.map((end, i) => ({
    globalBatch: Number(phases[i][1]),
    ...(inTokens ? { tokens: end } : { until: end }),
  }))
  return { batchRamp, globalBatch: Number(phases.at(-1)![1]) }
}

for (const { schedule, seq, microbatch, dp, rows } of cases)
  test(`${schedule} of ${seq ? `tokens, ${seq} a sequence` : 'sequences'}: step by step as Megatron-LM counts`, () => {
    const { batchRamp, globalBatch } = rampOf(schedule, seq !== null)
    const training = { globalBatch, seq: seq ?? 4, batchRamp }
    const job = jobOf('mlp', { dp, microbatches: globalBatch / dp / microbatch }, training)
    deepEqual(
      rows.map((_, step) => {
        const { first, globalBatch } = batchOfStep(training, step)
        return [first, globalBatch, jobOfBatch(job, globalBatch).plan.microbatches]
      }),
      rows,
    )
  })

const growing = {
  batchRamp: [
    { globalBatch: 4, until: 6 },
    { globalBatch: 8, tokens: 60 },
  ],
  steps: 6,
  evalBatches: 1,
} // of 4 tokens: 15 sequences
const sizes = [4, 4, 8, 16, 16, 16]

const plans = {
  'dp 2': ['gpt', { dp: 2, microbatches: 4 }],
  'dp 2 ZeRO 1 bf16': ['gpt', { dp: 2, zero: 1, microbatches: 2, precision: 'bf16' }],
  'dp 2 ZeRO 2': ['llama', { dp: 2, zero: 2, microbatches: 4 }],
  'dp 2 ZeRO 3 tp 2': ['llama', { dp: 2, tp: 2, zero: 3 }],
  'pp 2 zb-h1 tp 2 sp': ['gpt tied', { pp: 2, tp: 2, sequenceParallel: true, microbatches: 8, schedule: 'zb-h1' }],
  'pp 2 interleaved dp 2': ['llama', { pp: 2, dp: 2, chunks: 2, schedule: 'interleaved', microbatches: 8 }],
  'dp 2 topk': ['gpt', { dp: 2, microbatches: 4, compress: { reduce: 'topk', ratio: 0.1 } }],
  'dp 2 tp 2 topk': ['llama', { dp: 2, tp: 2, microbatches: 2, compress: { reduce: 'topk', ratio: 0.1 } }],
  'cp 2 ring ZeRO 2 step': ['llama', { cp: 2, dp: 2, attention: 'ring', zero: 2, reduce: 'step', microbatches: 4 }],
} as const

const started = (job: Job, kernels: 'reference' | 'native' | 'wasm' | 'vectors' = 'reference') =>
  startSession(job, syntheticOf(job), { kernels })

const tested = family('batch ramp', 8)
for (const [name, [model, plan]] of Object.entries(plans))
  tested(`${name}: losses of growing batches are those of one rank`, async () => {
    const job = jobOf(model, plan, growing)
    const session = await started(job)
    const records = []
    for (const _ of sizes) records.push(await session.step())
    deepEqual(
      records.map(({ globalBatch }) => globalBatch),
      sizes,
    )
    equal(session.taken, sizes.length)
    const one = await oneRankLosses(session, sizes.length)
    const bound = 'precision' in plan ? 2e-2 : 1e-12
    for (const [i, { loss }] of records.entries())
      ok(Math.abs(loss - one[i]) <= bound * Math.abs(one[i]), `step ${i + 1}: ${loss} and ${one[i]}`)
    await session.stop()
  })

later('real ranks grow as the definition does, and evaluate in between', async () => {
  const job = jobOf('gpt', { dp: 2, zero: 1, microbatches: 4 }, growing)
  const [real, exact] = [await started(job, fastKernels()[0] as 'native'), await started(job)]
  for (const _ of sizes) {
    const [a, b] = [await real.step(), await exact.step()]
    ok(Math.abs(a.loss - b.loss) < 1e-5 * b.loss)
    if (a.step === 2 || a.step === 4) ok(Math.abs((await real.evaluate())! - (await exact.evaluate())!) < 1e-5)
  }
  await real.stop()
})

later('a run is resumed between two sizes, under another plan, as if it had never ended', async () => {
  const files = memoryFiles()
  const first = await started(jobOf('llama', { dp: 2, zero: 3, microbatches: 4 }, growing))
  const folder = openCheckpoints('saved', first, { files, run: 'a' })
  const losses = await lossesOf(first, 3)
  folder.save()
  folder.close()
  losses.push(...(await lossesOf(first, 3)))
  const job = jobOf('llama', { tp: 2, pp: 2, microbatches: 4 }, growing)
  const beginning = beginningOf({ resume: 'saved' }, files)
  const second = await startSession(job, syntheticOf(job), { kernels: 'reference', beginning })
  for (const [i, loss] of (await lossesOf(second, 3)).entries()) ok(Math.abs(loss - losses[3 + i]) < 1e-12)
  const { batchRamp: _, ...plain } = growing
  const other = jobOf('llama', { tp: 2 }, plain)
  await rejects(startSession(other, syntheticOf(other), { kernels: 'reference', beginning }), (e: ProblemsError) =>
    e.problems.some(({ message }) => message.includes('16 sequences in 3 steps, but 3 steps x globalBatch 16 = 48')),
  )
})

test('the residual of each rank is to the bit what it was before the batch grew', async () => {
  const job = shallow(jobOf('mlp', { dp: 2, microbatches: 4, compress: { reduce: 'topk', ratio: 0.1 } }, growing))
  const session = await started(job)
  await lossesOf(session, 2)
  const before = residualsOf(session)
  const next = compileJob(jobOfBatch(job, sizes[2]))
  await session.trainer.change(next)
  deepEqual(residualsOf({ program: next, trainer: session.trainer }), before)
  ok(before.some(({ values }) => values.some(value => value !== 0)))
  await session.stop()
})

/** Of all ranks. */
const residualsOf = ({ program, trainer }: Pick<Session, 'program' | 'trainer'>) =>
  [0, 1].flatMap(rank =>
    shardsOf(program, rank)
      .filter(({ tensor }) => tensor.startsWith('error.'))
      .map(shard => ({ of: shard.tensor, rank, values: [...trainer.held(shard)] })),
  )

const python = findPython()

for (const plan of [{ zero: 1 }, { compress: { reduce: 'topk', ratio: 0.1 } }] satisfies PlanInput[])
  later(
    `emitted: two ranks under gloo grow as the definition does, ${titleOf(plan)}`,
    { skip: python ? false : noPython },
    async () => {
      const [root, copies] = [temporaryFolder(), new Forking(python!)]
      try {
        const job = jobOf('llama', { dp: 2, microbatches: 4, ...plan }, growing)
        const run = runOf(job, 'job.yaml', syntheticOf(job), undefined)
        writeFiles(
          root,
          emit(compileJob(job), run, runtimeFiles(), compileEvaluation(job), Object.fromEntries(earlierPrograms(job))),
        )
        const ranks = await copies.ranks(2, ['train.py', '--precision', 'f64'], root)
        const ended = await Promise.all(ranks.map(({ done }) => done))
        for (const { code, err } of ended) equal(code, 0, err)
        const records = ended.flatMap(({ out }) => out.split('\n').filter(line => line.startsWith('{')))
        const session = await started(job)
        const losses = await lossesOf(session, sizes.length)
        const [said, last] = [records.map(line => JSON.parse(line)), await session.evaluate()]
        deepEqual(
          said.map(({ globalBatch }) => globalBatch),
          sizes,
        )
        for (const [i, { loss }] of said.entries()) ok(Math.abs(loss - losses[i]) < 1e-10, `step ${i + 1}`)
        ok(Math.abs(said.at(-1).evalLoss - last!) < 1e-10)
      } finally {
        await copies.close()
        rmSync(root, { recursive: true, force: true })
      }
    },
  )

for (const [name, [model, plan]] of Object.entries(plans))
  tested(`${name}: programs of all sizes keep parameters alike`, () => {
    const job = jobOf(model, plan, growing)
    equal(earlierJobs(job).length, 2)
    const files = emit(
      compileJob(job),
      runOf(job, 'job.yaml', syntheticOf(job), undefined),
      {},
      undefined,
      Object.fromEntries(earlierPrograms(job)),
    )
    ok(files['batch-4/stage0.py'] && files['batch-8/program.json'])
  })
