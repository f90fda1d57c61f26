/** Command lines with mistakes: all of them are named at once, each with what was probably meant. */
import { deepEqual, equal, match, ok } from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { existsSync, openSync } from 'node:fs'
import { describe, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { parseCount } from '../src/base/index.js'
import { parseJob } from '../src/plan/index.js'
import { lockstep } from './memory-io.js'

const files = {
  'job.yaml': '{ model: gpt-tiny, training: { seq: 8, globalBatch: 4 } }',
  'model/config.json': '{}',
}

/** The whole of standard error, line by line. */
// biome-ignore format: one line is one command line
const wrong: readonly [line: string, ...errors: string[]][] = [
  ['plan --seq 8x --global-batch many --cluster h100 --top',
    '--seq: `8x`: expected an integer >= 1, such as 8192 or 8k (= 8192)',
    '--global-batch: `many`: expected an integer >= 1, such as 8192 or 8k (= 8192)',
    '--top needs a value: number of plans to list'],
  ['plan --model gpt2 --gpus 8 --seq_length 8k --global_batch_size 8 --cluster h100',
    'unknown option --gpus; did you mean `--devices`?',
    'unknown option --seq_length; did you mean `--seq`?',
    'unknown option --global_batch_size; did you mean `--global-batch`?'],
  ['train job.yaml --out= --trace=',
    '--out needs a value: the run folder (default: runs/DATE-NAME; runs/latest links to it)',
    '--trace needs a value: write a trace of the last 5 steps for ui.perfetto.dev'],
  ['scale --model gpt2 --cluster h100 --seq=1k --global-batch=-3 --devices 8,many',
    '--global-batch: `-3`: expected an integer >= 1, such as 8192 or 8k (= 8192)',
    '--devices: `8,many`: expected numbers such as 8,16,1k'],
  ['explain job.yaml --cluster h100 --software megatron-2023 --measured-step soon',
    '--software: `megatron-2023` is not one of its values; did you mean `megatron-2021`?',
    '--measured-step: `soon`: expected a time, such as 4.2s, 120ms, 30min or 2h'],
  ['verify --stepps 3 --full', 'unknown option --stepps; did you mean `--steps`?'],
  ['explain', '--cluster <name> is missing: a device (lockstep cluster list) or a cluster file'],
  ['memory job.yaml other.yaml', 'unexpected argument `other.yaml`'],
  ['cluster show --devices 0',
    '--devices: `0`: expected an integer >= 1, such as 8192 or 8k (= 8192)',
    '<cluster> is missing: a device (lockstep cluster list) or a cluster file'],
]

describe('usage errors', () => {
  for (const [line, ...errors] of wrong)
    test(line, async () => {
      const { code, out, err } = await lockstep(line.split(' '), files)
      deepEqual([code, out], [2, ''])
      const [name] = line.split(' ')
      const named = errors.map(error => `error: ${error}`)
      equal(err, `${[...named, `Run \`lockstep ${name} --help\` for its options and an example.`].join('\n')}\n`)
    })

  test('a value may follow =, a number may be below zero, and -- ends the options', async () => {
    for (const argv of [
      ['verify', '--steps=0', 'job.yaml'],
      ['verify', '--steps', '0', '--', 'job.yaml'],
    ])
      equal((await lockstep(argv, files)).code, 0)
  })

  test('an unknown command names the nearest one, also after help and below another command', async () => {
    const list = 'Run `lockstep --help` for the list of commands.\n'
    for (const [line, ...said] of [
      ['plann', 'unknown command `plann`; did you mean `plan`?', list],
      ['help nosuch', 'unknown command `nosuch`', list],
      ['nosuch --help', 'unknown command `nosuch`', list],
      ['bench kernel', 'unknown command `kernel`; did you mean `kernels`?', 'Run `lockstep bench --help` '],
    ]) {
      const { code, out, err } = await lockstep(line.split(' '), files)
      deepEqual([code, out], [2, ''])
      ok(err.startsWith(`error: ${said.join('\n')}`), err)
    }
  })

  test('an unknown option shows what is like it, and never all options', async () => {
    const near = await lockstep('train job.yaml --save-evry 2'.split(' '), files)
    match(near.err, /unknown option --save-evry; did you mean `--save-every`\?\n/)
    const everywhere = await lockstep('train job.yaml --quite'.split(' '), files)
    match(everywhere.err, /unknown option --quite; did you mean `--quiet`\?\n/)
    const value = await lockstep('cost redue --ranks 8 --cluster h100'.split(' '), files)
    match(value.err, /unknown collective `redue`; did you mean `reduce`\?\n/)
    const alike = await lockstep('train job.yaml --every-snapshot 2'.split(' '), files)
    match(
      alike.err,
      /unknown option --every-snapshot; did you mean `--hash-every`, `--replay-every` or\s+`--snapshot-every`\?\n/,
    )
    const none = await lockstep('train job.yaml --zzzzzz'.split(' '), files)
    match(none.err, /^error: unknown option --zzzzzz\nRun `lockstep train --help` /)
  })

  test('names that changed still work, with a note on standard error', async () => {
    for (const [line, ...notes] of [
      ['presets --json', '`lockstep presets` is now `lockstep models`'],
      ['price all-reduce --ranks 8 --cluster h100', '`lockstep price` is now `lockstep cost`'],
      ['groups --world 16 --tp 2', '`--world` is now `--devices`'],
      ['groups --world=16 --json', '`--world` is now `--devices`'],
      ['verify job.yaml --laws-only', '`--laws-only` is now `--static`'],
      ['help rehearse', '`lockstep rehearse` is now `lockstep dry-run`'],
    ]) {
      const { code, out, err } = await lockstep(line.split(' '), files)
      deepEqual([code, err], [0, notes.map(note => `note: ${note}\n`).join('')])
      ok(out.length > 0)
    }
    const said = await lockstep('export nowhere --to hf --out x --average --adapters apart'.split(' '), files)
    match(said.err, /`--average` is now `--ema`\n.*`--adapters apart` is now `--adapters separate`\n/)
  })

  test('options that would do nothing are named, all of them', async () => {
    const { code, err } = await lockstep('train job.yaml --keep 2 --save-sync'.split(' '), files)
    equal(code, 2)
    match(err, /--save-sync has no effect without --save[\s\S]*--keep has no effect without --save/)
    const kept = await lockstep('launch job.yaml --save there --keep-every 5'.split(' '), files)
    match(kept.err, /^error: --keep-every has no effect without --keep: all checkpoints are kept\n/)
  })

  test('what is wrong with model, cluster and constraints is said at once', async () => {
    const line = 'plan --model mixtral --cluster h1000 --seq 8k --global-batch 8 --constraint tq=3'
    const { code, err } = await lockstep(line.split(' '))
    equal(code, 1)
    match(err, /no preset[\s\S]*did you mean `h100`[\s\S]*did you mean tp/)
  })
})

describe('amounts', () => {
  const amounts: [text: string, decimal: number | undefined, binary: number | undefined][] = [
    ['8192', 8192, 8192],
    ['8k', 8000, 8192],
    ['1M', 1e6, 2 ** 20],
    ['1.5K', 1500, 1536],
    ['0', 0, 0],
    ['1.5', undefined, undefined],
    ['-1', undefined, undefined],
    ['8kk', undefined, undefined],
    ['999999T', undefined, undefined],
  ]
  for (const [text, ...both] of amounts)
    test(`${text} is ${both}`, () => deepEqual([parseCount(text, 1000), parseCount(text, 1024)], both))

  test('a job counts in them too', () => {
    const { job } = parseJob('{ model: gpt-tiny, training: { seq: 1k, globalBatch: 2k, steps: 3k } }')
    deepEqual([job?.training.seq, job?.training.globalBatch, job?.training.steps], [1024, 2048, 3000])
  })
})

describe('a model where a job is expected', () => {
  const models: [path: string, message: RegExp][] = [
    ['llama3-8b', /cannot read the job: no such file; that is a model: write a job with model: llama3-8b/],
    ['meta-llama/Llama-3.1-8B', /no such file; if that is a model on the Hugging Face hub: save its config\.json/],
    ['model', /it holds a Hugging Face model: write a job with model: model /],
    ['missing.yaml', /^missing\.yaml: error: cannot read the job: no such file \[file\/unreadable\]/],
  ]
  for (const [path, message] of models)
    test(path, async () => {
      const { code, out } = await lockstep(['check', path], files)
      equal(code, 1)
      match(out, message)
    })
})

describe('with --json what is wrong is one line of JSON on standard output', () => {
  const bad = { 'bad.yaml': '{ model: gpt-tiny, training: { seq: 8, globalBatch: 7 }, plan: { dp: 2 } }' }
  const lines: readonly [line: string, code: number, problem: string][] = [
    ['check', 2, 'command/usage'],
    ['check bad.yaml --colour', 2, 'command/usage'],
    ['nosuch', 2, 'command/usage'],
    ['bench nothing', 2, 'command/usage'],
    ['bench kernels --kernels gpu', 2, 'command/usage'],
    ['train', 2, 'command/usage'],
    ['schedule gpipe --pp 2', 2, 'command/usage'],
    ['schedule gpipe --pp 0 --microbatches 2', 1, 'schedule/count'],
    ['schedule --file nowhere.csv', 1, 'file/unreadable'],
    ['groups --devices 7 --tp 2', 1, 'groups/indivisible'],
    ['rehearse bad.yaml', 1, 'plan/batch'],
    ['train bad.yaml', 1, 'plan/batch'],
    ['report nowhere', 1, 'run/unreadable'],
  ]
  for (const [line, code, problem] of lines)
    test(line, async () => {
      const ran = await lockstep([...line.split(' '), '--json'], bad)
      equal(ran.code, code)
      const { ok, problems } = JSON.parse(ran.out)
      deepEqual([ok, problems[0].code, problems[0].severity], [false, problem, 'error'])
    })

  test('interrupted', async () => {
    const ran = await lockstep(
      ['plan', ...'--model llama3-8b --cluster h100 --devices 64 --seq 8k --global-batch 128 --json'.split(' ')],
      {},
      {
        onInterrupt: stop => {
          setImmediate(() => stop(143))
          return () => {}
        },
      },
    )
    equal(ran.code, 143)
    equal(JSON.parse(ran.out).problems[0].code, 'command/interrupted')
  })
})

test('a disk too full for standard output is said in words, exit code 1', { skip: !existsSync('/dev/full') }, () => {
  const cli = fileURLToPath(new URL('../../bin/lockstep.mjs', import.meta.url))
  const full = openSync('/dev/full', 'w')
  const { status, stderr } = spawnSync(process.execPath, [cli, 'help'], {
    stdio: ['ignore', full, 'pipe'],
    encoding: 'utf8',
  })
  equal(stderr, 'error: cannot write standard output: no space left on the disk\n')
  equal(status, 1)
  equal(spawnSync(process.execPath, [cli, 'check'], { stdio: ['ignore', 'ignore', full] }).status, 2)
})

test('a current folder that was deleted is said in words', async () => {
  const gone = () => {
    throw Object.assign(new Error('ENOENT: no such file or directory, uv_cwd'), { syscall: 'uv_cwd' })
  }
  const { code, err } = await lockstep(['check', 'job.yaml'], files, { read: gone, out: gone })
  equal(code, 1)
  equal(err, 'error: the current folder was deleted; change to another one [file/unreadable]\n')
})
