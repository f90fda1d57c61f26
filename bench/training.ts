/**
 * Training a GPT of 10.9M parameters, 8 x 256 tokens a step, from the same weights on the same data: our ranks as
 * threads against PyTorch's DDP and FSDP over gloo, and our plans against each other. A run is one step, from asking for
 * it to the last rank being done. Every contender's losses are compared, step by step, to the end.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { elementsOf } from '../src/base/index.js'
import { compileJob } from '../src/compile/index.js'
import { initial } from '../src/geometry/index.js'
import { buildModel } from '../src/model/index.js'
import { Job, type JobInput, type PlanInput } from '../src/plan/index.js'
import type { Options, Say } from './main.js'
import { torch, unlessMissing } from './peers.js'
import { type Result, run } from './race.js'
import { showResults, type Versus } from './report.js'
import { type Batch, lossNotes, makeTokens, ours, type Train, type Trainer, trainer } from './trainer.js'

const given: Batch = { batch: 8, seq: 256, vocab: 256 }
const { batch, seq, vocab } = given
const tokensPerStep = batch * seq
const jobOf = (plan: PlanInput): Job => {
  const input: JobInput = {
    model: { family: 'gpt', layers: 6, embed: 384, heads: 6, vocab, tied: false },
    training: { seq, globalBatch: batch, optimizer: { kind: 'adamw', lr: 1e-3, weightDecay: 0.1 } },
    plan,
  }
  return Job.parse(input)
}

const plans = {
  'dp 2': { dp: 2 },
  'dp 4': { dp: 4 },
  'tp 2': { tp: 2 },
  'zero 3': { dp: 2, zero: 3 },
  'pp 2': { pp: 2, microbatches: 8 },
} as const satisfies Readonly<Record<string, PlanInput>>

/** What PyTorch needs to start where we start. */
function exportJob(folder: string, job: Job, tokens: Int32Array): void {
  const { params } = compileJob(job)
  const values = params.map(param => {
    const value = initial(param, job.training.seed)
    return Float32Array.from({ length: elementsOf(param.dims) }, (_, i) => value(i))
  })
  writeFileSync(join(folder, 'weights.f32'), Buffer.concat(values.map(x => Buffer.from(x.buffer))))
  writeFileSync(join(folder, 'tokens.i32'), Buffer.from(tokens.buffer))
  const named = params.map(({ name, dims }) => ({ name, sizes: dims.map(({ size }) => size) }))
  const { optimizer } = job.training
  writeFileSync(join(folder, 'job.json'), JSON.stringify({ batch, seq, config: job.model, optimizer, params: named }))
}

async function theirs(name: string, folder: string, ranks: number, how: 'ddp' | 'fsdp'): Promise<Trainer> {
  const child = await torch(name, 'gpt.py', folder, ranks, how)
  const train: Train = async () => {
    const [seconds, loss, processor] = await child.askNumbers('time')
    return { seconds, loss, processor }
  }
  return trainer(name, train, () => child.stop())
}

const peers = [
  { name: 'DDP 2', ranks: 2, how: 'ddp' },
  { name: 'DDP 4', ranks: 4, how: 'ddp' },
  { name: 'FSDP 2', ranks: 2, how: 'fsdp' },
] as const

/** PyTorch on one process if it is there, else our one rank: either way a program that shares nothing with most others. */
async function expectedLosses(folder: string, tokens: Int32Array, say: Say): Promise<ArrayLike<number>> {
  const one = await unlessMissing(() => theirs('PyTorch, one process', folder, 1, 'ddp'), say)
  const truth = one ?? (await ours('one rank', jobOf({}), given, tokens))
  const losses = await truth.answer()
  await truth.stop()
  return losses
}

export async function training(say: Say, { rounds = 7 }: Options = {}): Promise<Result[]> {
  const folder = mkdtempSync(join(tmpdir(), 'lockstep-bench-'))
  const tokens = makeTokens(given, 16)
  exportJob(folder, jobOf({}), tokens)
  const trainers: Trainer[] = []
  try {
    const expected = await expectedLosses(folder, tokens, say)
    for (const [name, plan] of Object.entries(plans)) trainers.push(await ours(name, jobOf(plan), given, tokens))
    for (const { name, ranks, how } of peers) {
      const peer = await unlessMissing(() => theirs(name, folder, ranks, how), say)
      if (peer) trainers.push(peer)
    }
    const title = `GPT ${(parameters() / 1e6).toFixed(1)}M, one step of ${tokensPerStep} tokens`
    const result = await run({ title, expected, tolerance: 1e-4, contenders: trainers }, { rounds, pause: 50 })
    return [{ ...result, notes: lossNotes(trainers) }]
  } finally {
    await Promise.all(trainers.map(trainer => trainer.stop()))
    rmSync(folder, { recursive: true })
  }
}

function parameters(): number {
  const { params } = buildModel(jobOf({}).model, { batch, seq })
  return params.reduce((sum, { dims }) => sum + elementsOf(dims), 0)
}

const versus: readonly Versus[] = [
  { name: 'dp 2', peer: 'DDP 2' },
  { name: 'dp 4', peer: 'DDP 4' },
  { name: 'zero 3', peer: 'FSDP 2' },
  { name: 'tp 2', peer: 'dp 2' },
  { name: 'zero 3', peer: 'dp 2' },
  { name: 'pp 2', peer: 'dp 2' },
]

export function showTraining(results: readonly Result[]): string {
  const rates = results.flatMap(({ entries }) =>
    entries.flatMap(entry =>
      'best' in entry
        ? [
            `${entry.name.padEnd(8)} ${Math.round(tokensPerStep / entry.best)} tokens/s (median ${Math.round(tokensPerStep / entry.median)})`,
          ]
        : [`${entry.name.padEnd(8)} wrong: ${entry.wrong}`],
    ),
  )
  return [showResults(results, versus), '', ...rates, ...results.flatMap(({ notes }) => notes ?? [])].join('\n')
}
