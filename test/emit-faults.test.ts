/** What goes wrong ends everywhere, within the time-out, with a sentence that names rank and instruction. */
import { deepEqual, equal, match, notEqual, ok } from 'node:assert/strict'
import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe } from 'node:test'
import { Job } from '../src/plan/index.js'
import { temporaryFolder, writeEmittedJob } from './emitted.js'
import { expertModels } from './expert-models.js'
import { later, test } from './families.js'
import { Forking } from './forked.js'
import { jobOf } from './jobs.js'
import { findPython, noPython } from './python.js'

const python = findPython()

describe('faults of emitted runs', { skip: python ? false : noPython }, () => {
  const folder = temporaryFolder()
  let copies: Forking
  before(() => {
    copies = new Forking(python!)
    writeEmittedJob(folder, jobOf('gpt', { tp: 2 }, { steps: 100_000 }))
  })
  after(async () => {
    await copies.close()
    rmSync(folder, { recursive: true, force: true })
  })

  const ranks = (which: readonly number[], args: readonly string[]) =>
    copies.ranks(2, ['train.py', '--timeout', '20', ...args], folder, which)

  later('a rank that is killed: the other says where it was, and ends', async () => {
    const [first, second] = await ranks([0, 1], [])
    await first.printed()
    second.kill('SIGKILL')
    const { code, err } = await first.done
    notEqual(code, 0)
    match(err, /lockstep: rank 0: [\s\S]*step \d+: \w+[\s\S]*stage0\.py:\d+: \w+ = /)
  })

  test('a rank that stands still: the other gives up after the time-out and names what it waits for', async () => {
    const [first, second] = await ranks([0, 1], ['--timeout', '5'])
    await first.printed()
    second.kill('SIGSTOP')
    const { code, err } = await first.done
    second.kill('SIGKILL')
    notEqual(code, 0)
    match(err, /rank 0: .*\n? *(at )?.*step \d+: \w+.*waiting for all-reduce over tp with ranks \[0, 1\]/)
  })

  later('a rank that never comes: those that are there name it', async () => {
    const [only] = await ranks([0], ['--rendezvous', '3'])
    const { code, err } = await only.done
    notEqual(code, 0)
    match(err, /lockstep: rank 0: rendezvous: after 3 s ranks \[1\] of 2 are missing/)
  })

  later('a damaged shard: file, tensor and rank are named, on the rank that read it', async () => {
    const saved = await ranks([0, 1], ['--steps', '1', '--save-every', '1'])
    for (const { code, err } of await Promise.all(saved.map(({ done }) => done))) ok(code === 0, err)
    const checkpoint = join(folder, 'checkpoints', 'step-00000001')
    const shard = join(checkpoint, readdirSync(checkpoint).filter(name => name.includes('00001'))[0])
    const bytes = readFileSync(shard)
    bytes[bytes.length - 1] ^= 1
    writeFileSync(shard, bytes)
    const resumed = await ranks([0, 1], ['--resume', checkpoint, '--timeout', '5'])
    const [, second] = await Promise.all(resumed.map(({ done }) => done))
    match(second.err, /rank 1: .*rank-00001\.safetensors: tensor [\w.]+ is corrupt: its CRC-32 .*\(written by rank 1\)/)
  })

  later(
    'a disk that is full: the checkpoint is not there, which is said, and the run goes on and saves the next',
    async () => {
      const saved = join(folder, 'full')
      const run = async (...args: string[]) => {
        const ended = await Promise.all((await ranks([0, 1], ['--save', saved, ...args])).map(({ done }) => done))
        for (const { code, err } of ended) equal(code, 0, err)
        const lines = ended.flatMap(({ out }) => out.split('\n').filter(line => line.startsWith('{')))
        return lines.map(line => JSON.parse(line))
      }
      const records = await run('--steps', '3', '--save-every', '1', '--fault', 'full-disk:step=2')
      deepEqual(
        records.filter(({ event }) => event === undefined).map(({ step, taken }) => [step, taken]),
        [1, 2, 3].map(step => [step, step]),
      )
      const events = records.filter(({ event }) => event !== undefined)
      deepEqual(
        events.map(({ step, event, severity }) => [step, event, severity]),
        [[2, 'saveFailed', 'warning']],
      )
      match(events[0].message, /^cannot write \S+step-00000002: No space left on device/)
      match(events[0].advice, /the run continues, and retries at the next checkpoint/)
      deepEqual(
        readdirSync(saved).filter(name => name.startsWith('step-')),
        ['step-00000001', 'step-00000003'],
      )
      const [next] = await run('--steps', '4', '--resume', saved)
      equal(next.step, 4)
    },
  )

  test('a device that is out of memory: rank, instruction and what the program needs are named', async () => {
    const stage = join(folder, 'stage0.py')
    const text = readFileSync(stage, 'utf8')
    const full = 'raise __import__("torch").cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB")'
    // As PyTorch would raise it there; no GPU is needed to hear of it.
    writeFileSync(stage, text.replace(/( +)(gelu = .*)/, `$1if ctx.rank == 1 and ctx.step == 1: ${full}\n$1$2`))
    const [, second] = await Promise.all((await ranks([0, 1], [])).map(({ done }) => done))
    writeFileSync(stage, text)
    equal(second.code, 1)
    match(
      second.err,
      /rank 1: out of memory \(2 GiB requested\); the program needs 0\.0 GiB; is another process using this device\?\n/,
    )
    match(second.err, /at step 2: layers_forward of layers\.0, microbatch 0\n +stage0\.py:\d+: if ctx/)
  })

  test('rows that do not fit: the step stops before its update, and rank, layer and the factor that would do are named', async () => {
    const tight = join(folder, 'tight')
    writeEmittedJob(
      tight,
      Job.parse({
        model: expertModels.mixtral,
        training: { seq: 8, globalBatch: 8, steps: 3 },
        plan: { dp: 2, ep: 2, microbatches: 2, expertCapacity: 1 },
      }),
    )
    const started = await copies.ranks(2, ['train.py', '--save', 'saved', '--save-every', '1'], tight)
    const ended = await Promise.all(started.map(({ done }) => done))
    const words = ended.map(({ err }) => err).join('')
    match(
      words,
      /rank \d: layers\.\d, microbatch \d: the experts of this rank receive \d+ tokens, but their capacity is 32; set `expertCapacity: 1\.\d+`\n/,
    )
    for (const { code, out } of ended) {
      notEqual(code, 0)
      equal(out, '', 'no step has ended')
    }
    deepEqual(
      readdirSync(join(tight, 'saved')).filter(name => name.startsWith('step-')),
      [],
    )
  })

  later(
    'a disk that fails in the middle of a step ends the run on all ranks, and checkpoints are as they were',
    async () => {
      const slow = join(folder, 'disk')
      const offload = { optimizer: 'disk' } as const
      const model = { family: 'gpt', layers: 1, embed: 8, heads: 2, ffn: 1024, vocab: 8 } as const
      const training = { seq: 4, globalBatch: 4, steps: 4 }
      writeEmittedJob(slow, Job.parse({ model, training, plan: { dp: 2, zero: 1, offload } }))
      const stage = join(slow, 'stage0.py')
      const text = readFileSync(stage, 'utf8')
      // As if a quota were spent: from then on no file of rank 1 is written beyond its first page.
      const spent = '__import__("resource").setrlimit(__import__("resource").RLIMIT_FSIZE, (4096, -1))'
      writeFileSync(stage, text.replace(/( +)(gelu = .*)/, `$1if ctx.rank == 1 and ctx.step == 2: ${spent}\n$1$2`))
      const run = async (...args: string[]) =>
        Promise.all((await copies.ranks(2, ['train.py', '--timeout', '20', ...args], slow)).map(({ done }) => done))
      const ended = await run('--save', 'saved', '--save-every', '1')
      match(
        ended[1].err,
        /rank 1: offload: the file of disk\.[\w.]+ in .* could not be written: File too large\n +at step 3: /,
      )
      for (const { code, err } of ended) {
        notEqual(code, 0)
        match(err, /lockstep: rank \d: /)
      }
      deepEqual(
        readdirSync(join(slow, 'saved')).filter(name => /^step-\d+$/.test(name)),
        ['step-00000001', 'step-00000002'],
      )
      writeFileSync(stage, text)
      for (const { code, err } of await run('--resume', 'saved')) ok(code === 0, err)
    },
  )

  test('more or fewer ranks than the program has: refused at once', async () => {
    const { done } = await copies.start(['train.py'], { cwd: folder, env: { RANK: '0', WORLD_SIZE: '3' } })
    match((await done).err, /the program is for 2 ranks, but torchrun started 3/)
  })
})
