/**
 * Emitted runs that are resumed in the middle, from a checkpoint that the reference has read from them and written again: the same bits under the same plan,
 * with all that lives from step to step. Residuals of error feedback go to other numbers of ranks as the reference takes them there.
 */
import { deepEqual, equal, ok } from 'node:assert/strict'
import { readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe } from 'node:test'
import { type Checkpoint, readCheckpoint } from '../src/checkpoint/index.js'
import type { Job, JobInput, PlanInput } from '../src/plan/index.js'
import { type Session, startSession, syntheticOf } from '../src/train/index.js'
import { temporaryFolder, writeEmittedJob, writeFiles } from './emitted.js'
import { later, test } from './families.js'
import { Forking } from './forked.js'
import { jobOf, type ModelName, shallow } from './jobs.js'
import { findPython, noPython } from './python.js'
import { printedFrom } from './saved.js'

const python = findPython()

type Numbers = Pick<Awaited<ReturnType<Session['step']>>, 'loss' | 'gradientNorm'>
const numbers = ({ loss, gradientNorm }: Numbers): Numbers => ({ loss, gradientNorm })

const linesIn = (out: string): Numbers[] =>
  out
    .trim()
    .split('\n')
    .map(line => numbers(JSON.parse(line)))

const read = (folder: string): Checkpoint =>
  readCheckpoint((name, begin, end) => readFileSync(join(folder, name)).subarray(begin, end))

/** Every tensor of a checkpoint; residuals one after the other. */
const tensorsIn = (checkpoint: Checkpoint) =>
  new Map([...checkpoint.tensors.keys()].sort().map(name => [name, checkpoint.tensor(name)]))

function near(actual: readonly Numbers[], expected: readonly Numbers[]): void {
  equal(actual.length, expected.length)
  for (const [i, { loss, gradientNorm }] of actual.entries()) {
    ok(Math.abs(loss - expected[i].loss) <= 1e-10, `loss ${loss} is not ${expected[i].loss}`)
    ok(Math.abs(gradientNorm - expected[i].gradientNorm) <= 1e-10, `norm of step ${i}: ${gradientNorm}`)
  }
}

const once = { reduce: 'step' } as const
const training = { steps: 4, evalBatches: 0, optimizer: { kind: 'adamw', lr: 1e-2, uncorrected: true } } as const
const megatron = { kind: 'megatron', initial: 1024, interval: 2 } as const
const cases: readonly (readonly [string, ModelName, PlanInput, Partial<JobInput['training']>?])[] = [
  ['topk', 'gpt', { dp: 2, microbatches: 2, compress: { reduce: 'topk', ratio: 0.1 } }],
  ['onebit', 'mlp', { dp: 2, zero: 1, compress: { reduce: 'onebit', from: 1 } }],
  ['powersgd', 'gpt tied', { dp: 2, pp: 2, microbatches: 2, compress: { reduce: 'powersgd', rank: 1, rate: 0.5 } }],
  ['int8', 'mlp', { dp: 2, zero: 2, ...once, compress: { reduce: 'int8', run: 8 } }],
  [
    'muon, average, scaled',
    'gpt',
    { dp: 2, zero: 1 },
    { optimizer: { kind: 'muon', lr: 1e-2 }, ema: { decay: 0.9 }, lossScale: megatron },
  ],
  [
    'adafactor, lora, growing',
    'llama',
    { dp: 2, zero: 3, microbatches: 2 },
    {
      ...{ optimizer: { kind: 'adafactor', lr: 1e-2 }, lora: { rank: 1 }, spikes: 'skip' },
      batchRamp: [{ globalBatch: 8, until: 24 }],
    },
  ],
  ['delayed scales', 'llama', { dp: 2, zero: 1, fp8: { recipe: 'delayed', history: 3 } }],
]

describe('emitted runs that are resumed', { skip: python ? false : noPython }, () => {
  const root = temporaryFolder()
  let copies: Forking
  before(() => {
    copies = new Forking(python!)
  })
  after(async () => {
    await copies.close()
    rmSync(root, { recursive: true, force: true })
  })

  const run = async (folder: string, ranks: number, ...args: string[]): Promise<Numbers[]> => {
    const started = await copies.ranks(ranks, ['train.py', '--precision', 'f64', ...args], join(root, folder))
    const ended = await Promise.all(started.map(({ done }) => done))
    for (const { code, err } of ended) equal(code, 0, err)
    return linesIn(ended.map(({ out }) => out).join(''))
  }

  /** The reference goes on from a checkpoint: as it is then saved, and its next steps. */
  async function goesOn(job: Job, from: Checkpoint, steps: number) {
    const beginning = { path: 'saved', checkpoint: from, share: 'everything' as const }
    const session = await startSession(job, syntheticOf(job), { kernels: 'reference', beginning })
    const files = printedFrom(session)
    const records = []
    for (let i = 0; i < steps; i++) records.push(numbers(await session.step()))
    await session.stop()
    return { files, records }
  }

  for (const [kind, model, plan, more] of cases)
    (kind === 'topk' ? test : later)(
      `${kind}: the same bits, from what the reference has saved of an emitted run`,
      async () => {
        const job = shallow(jobOf(model, plan, { ...training, ...more }))
        const [folder, ranks] = [join(root, kind), 2 * (plan.pp ?? 1)]
        writeEmittedJob(folder, job)
        const all = await run(kind, ranks, '--save', 'saved', '--save-every', '2')
        const [saved, end] = [2, 4].map(step => read(join(folder, 'saved', `step-0000000${step}`)))
        const { files, records } = await goesOn(job, saved, 2)
        if (!plan.fp8) near(records, all.slice(2)) // codes part where the last digit does
        writeFiles(join(folder, 'back'), Object.fromEntries(files))
        deepEqual(tensorsIn(read(join(folder, 'back'))), tensorsIn(saved))
        deepEqual(await run(kind, ranks, '--resume', 'back', '--save', 'again'), all.slice(2))
        deepEqual(tensorsIn(read(join(folder, 'again', 'step-00000004'))), tensorsIn(end))
      },
    )

  later('more ranks, and fewer again: as the reference goes on from the same checkpoint', async () => {
    const jobs = [2, 4, 1].map(dp =>
      shallow(jobOf('mlp', { dp, microbatches: dp === 1 ? 1 : 2, compress: { reduce: 'topk', ratio: 0.1 } }, training)),
    )
    for (const [i, name] of ['two', 'four', 'one'].entries()) writeEmittedJob(join(root, name), jobs[i])
    await run('two', 2, '--steps', '2', '--save', 'saved')
    for (const [i, [name, ranks, from]] of (
      [
        ['four', 4, 'two/saved/step-00000002'],
        ['one', 1, 'four/saved/step-00000003'],
      ] as const
    ).entries()) {
      const { records } = await goesOn(jobs[i + 1], read(join(root, from)), 1)
      near(await run(name, ranks, '--steps', `${3 + i}`, '--resume', join(root, from), '--save', 'saved'), records)
    }
  })
})
