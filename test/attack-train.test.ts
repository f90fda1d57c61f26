/** Training under attack: a run that breaks or diverges says so, saves nothing broken, and is no silent success. */
import { deepEqual, equal, match, ok, rejects } from 'node:assert/strict'
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { ProblemsError } from '../src/base/index.js'
import { readCheckpoint } from '../src/checkpoint/index.js'
import { processIo } from '../src/cli/io.js'
import { run } from '../src/cli/main.js'
import { fastKernels } from '../src/engine/index.js'
import { Job, parseJob } from '../src/plan/index.js'
import { openData, startSession } from '../src/train/index.js'
import { lockstep, memoryIo } from './memory-io.js'

const vectors = 'model: { family: mlp, layers: 2, embed: 4 }'
const tokens = 'model: { family: gpt, layers: 2, embed: 8, heads: 2, ffn: 8, vocab: 8 }'
const job = (model: string, optimizer: string, more = '') =>
  `${model}\ntraining: { seq: 4, globalBatch: 8, steps: 12, optimizer: { ${optimizer} }${more} }`

const train = (text: string, ...argv: string[]) => lockstep(['train', 'job.yaml', ...argv], { 'job.yaml': text })

const wild = job(vectors, 'kind: sgd, lr: 1000')

test('steps whose grad norm is NaN or Inf change nothing, and three in a row stop the run', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'lockstep-broken-'))
  try {
    writeFileSync(join(folder, 'job.yaml'), wild)
    const [path, out, saves] = ['job.yaml', 'run', 'saved'].map(name => join(folder, name))
    let err = ''
    const io = { ...processIo(), out: () => {}, err: (text: string) => void (err += text) }
    const kernels = ['--kernels', fastKernels()[0]]
    equal(await run(['train', path, ...kernels, '--out', out, '--save', saves, '--save-every', '1'], io), 1)
    const [, first, last, left] =
      /steps (\d+) to (\d+) were skipped: grad norm is NaN or Inf; parameters and optimizer state are unchanged since step (\d+)/.exec(
        err,
      ) ?? []
    ok(Number(first) > 1, err)
    deepEqual([Number(last) - Number(first), Number(first) - Number(left)], [2, 1])
    match(err, /try a smaller lr, a warmup, or clip, check the data of these steps, or allow more \[training\/norm\]/)
    const saved = readdirSync(saves).filter(name => /^step-\d+$/.test(name))
    equal(saved.length, Number(last))
    const tensorsOf = (step: string) => {
      const folder = join(saves, `step-${step.padStart(8, '0')}`)
      const read = readCheckpoint((file, begin, end) => readFileSync(join(folder, file)).subarray(begin, end))
      return { scalars: read.scalars, tensors: [...read.tensors.keys()].map(name => [...read.tensor(name)]) }
    }
    deepEqual(tensorsOf(last), tensorsOf(left)) // to the bit, and readable: nothing in it is not finite
    const metrics = readFileSync(join(out, 'metrics.jsonl'), 'utf8')
      .trim()
      .split('\n')
      .map(line => JSON.parse(line))
      .filter(({ event }) => event === undefined)
    deepEqual(
      metrics.slice(-4).map(({ step, taken, skipped }) => [step, taken, skipped]),
      [0, 1, 2, 3].map(i => [Number(left) + i, Number(left), i === 0 ? undefined : 'grad norm is NaN or Inf']),
    )
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
})

test('a session that broke does not go on', async () => {
  const parsed = parseJob(wild).job ?? Job.parse({})
  const { dataset } = await openData(parsed, memoryIo({}).io)
  const session = await startSession(parsed, dataset, { kernels: fastKernels()[0] })
  const steps = async () => {
    while (session.behind < 12) await session.step()
  }
  await rejects(steps(), /training\/norm/)
  const { behind } = session
  await rejects(session.step(), ProblemsError)
  equal(session.behind, behind)
  await session.stop()
})

test('a loss that explodes is a warning when it does, a problem at the end, and exit code 1', async () => {
  const text = job(tokens, 'kind: adamw, lr: 1000', ', clip: 1')
  const { code, out, err } = await train(text, '--kernels', 'reference')
  equal(code, 1)
  match(out, /warning training: the run diverges: the loss of step \d+ is [\d.e+]+, an untrained model has 2\.0/)
  equal(out.match(/the run diverges/g)?.length, 1)
  match(
    err,
    /error: training: the run diverges: the mean loss of the last 5 steps is .*; try a smaller lr, .*\[training\/diverged\]/,
  )
})

test('with --json the warning is in the record of its step, and the last object says that it diverged', async () => {
  const { code, out } = await train(
    job(tokens, 'kind: adamw, lr: 1000', ', clip: 1'),
    '--kernels',
    'reference',
    '--json',
  )
  equal(code, 1)
  const lines = out
    .trimEnd()
    .split('\n')
    .map(line => JSON.parse(line))
  equal(lines.filter(line => line.warning?.code === 'training/diverged').length, 1)
  const { ok: fine, problems } = lines.at(-1)
  equal(fine, false)
  deepEqual(
    problems.map(({ code, severity }: { code: string; severity: string }) => [severity, code]),
    [['error', 'training/diverged']],
  )
})

test('a run that learns, or learns nothing, does not diverge', async () => {
  for (const optimizer of ['kind: adamw, lr: 1e-2', 'kind: sgd, lr: 1e-9']) {
    const { code, out, err } = await train(job(tokens, optimizer), '--kernels', 'reference')
    equal(code, 0, err)
    ok(!/diverge/.test(out + err), out + err)
  }
})

test('seq 1 leaves the synthetic task without labels, which check refuses', async () => {
  const text = job(tokens, 'kind: sgd, lr: 0.1').replace('seq: 4', 'seq: 1')
  const { code, err } = await train(text, '--kernels', 'reference')
  equal(code, 1)
  match(
    err,
    /training\.seq: seq 1 - 1 masked label = 0 labels in the loss of the synthetic task; try 2 \[data\/labels\]/,
  )
  const codes = (text: string) => parseJob(text).problems.map(({ code }) => code)
  ok(codes(text).includes('data/labels'))
  ok(!codes(`${text}\ndata: { source: a.bin }`).includes('data/labels'))
  ok(!codes(job(vectors, 'kind: sgd, lr: 0.1').replace('seq: 4', 'seq: 1')).includes('data/labels'))
})
