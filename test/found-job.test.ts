/** A job that is found in the current folder, and a job as the input of `plan`. */
import { deepEqual, equal, match, ok } from 'node:assert/strict'
import { test } from 'node:test'
import { parse } from 'yaml'
import { parseJob } from '../src/plan/index.js'
import { lockstep } from './memory-io.js'

const job = `# what we train
model: { family: llama, layers: 8, embed: 512, heads: 8, kvHeads: 4, ffn: 1024, vocab: 512 } # small
training: { seq: 1k, globalBatch: 32, steps: 7, optimizer: { kind: adamw, lr: 3e-4 } }
data: { source: text.txt, tokenizer: bytes }
plan: { dp: 8, precision: bf16 } # a guess
`

for (const name of ['job.yaml', 'job.yml', 'job.json'])
  test(`commands without a job take ${name} of the current folder`, async () => {
    const text = name.endsWith('json') ? JSON.stringify({ ...parse(job), data: undefined }) : job
    const found = await lockstep(['memory'], { [name]: text })
    const named = await lockstep(['memory', name], { [name]: text })
    deepEqual([found.code, found.out], [0, named.out])
  })

test('several jobs are listed, and none is taken', async () => {
  const { code, err } = await lockstep(['memory'], { 'job.yaml': job, 'job.json': '{}' })
  equal(code, 2)
  match(err, /^error: this folder has several jobs, job\.yaml and job\.json: name one\n/)
})

test('without a job the command that writes one is named', async () => {
  const { code, err } = await lockstep(['check'], {})
  equal(code, 2)
  match(err, /^error: <job> is missing: no job\.yaml, job\.yml or job\.json here; `lockstep init` writes one\n/)
})

const planned = async (line: string, files: Readonly<Record<string, string>> = { 'job.yaml': job }) =>
  lockstep(['plan', ...line.split(' ')], files)

test('plan of a job searches for its model, sizes and precision, and --out changes nothing but the plan', async () => {
  const { code, out, written } = await planned('job.yaml --cluster h100 --devices 16 --quick --out planned.yaml')
  equal(code, 0)
  match(out, /on 16 x NVIDIA H100.*, bf16/)
  const text = written['planned.yaml']
  for (const line of job.split('\n').slice(0, 4)) ok(text.includes(line), text)
  const { plan, ...rest } = parse(text)
  deepEqual(rest, (({ plan: _, ...others }) => others)(parse(job)))
  equal(plan.precision, 'bf16')
  ok(!('rounding' in plan), 'defaults are left out')
  const { job: again } = parseJob(text)
  equal(
    Object.entries(again!.plan).reduce(
      (n, [axis, size]) => (['dp', 'tp', 'pp', 'cp'].includes(axis) ? n * Number(size) : n),
      1,
    ),
    16,
  )
})

test('plan of a job takes as many devices as its plan has ranks, and other sizes where they are given', async () => {
  const { out, written } = await planned('--cluster h100 --quick --seq 2k --global-batch 64 --out planned.yaml')
  match(out, /on 8 x NVIDIA H100/)
  match(out, /64 sequences x 2048 /)
  deepEqual(
    (({ seq, globalBatch, steps }) => [seq, globalBatch, steps])(parse(written['planned.yaml']).training),
    [2048, 64, 7],
  )
})

test('a planned job in another folder finds its data from there', async () => {
  const { written } = await planned('job.yaml --cluster h100 --devices 8 --quick --out elsewhere/planned.yaml', {
    'job.yaml': job,
    'elsewhere/x': '',
  })
  ok(parse(written['elsewhere/planned.yaml']).data.source.endsWith('/text.txt'))
})

test('what a job specifies is not given beside it, and without one all of it is needed', async () => {
  const beside = await planned('job.yaml --cluster h100 --model gpt2 --precision f16')
  equal(beside.code, 2)
  match(beside.err, /--model cannot be combined with a job, which specifies it\nerror: --precision cannot/)
  const missing = await planned('--cluster h100 --model gpt2', {})
  match(missing.err, /^error: --seq <tokens> is missing.*\nerror: --global-batch <sequences> is missing/)
})
