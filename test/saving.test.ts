/** A folder of checkpoints belongs to one line of runs: it is locked, nothing of another run is deleted, no two mix. */
import { deepEqual, doesNotMatch, equal, match, ok } from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'
import { hostname, tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, test } from 'node:test'
import { setTimeout } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { readCheckpoint } from '../src/checkpoint/index.js'
import { type Io, processIo } from '../src/cli/io.js'
import { run } from '../src/cli/main.js'
import { readRun } from '../src/health/index.js'
import { nodeFiles } from '../src/node/index.js'
import { finished } from './emitted.js'

const root = mkdtempSync(join(tmpdir(), 'lockstep-saving-'))
after(() => rmSync(root, { recursive: true, force: true }))
const at = (...names: string[]) => join(root, ...names)

const job = [
  'model: { family: gpt, layers: 1, embed: 8, heads: 2, ffn: 8, vocab: 8 }',
  'training: { seq: 4, globalBatch: 4, steps: 4, optimizer: { kind: adamw, lr: 2e-2 } }',
  'plan: { dp: 2, zero: 1 }',
].join('\n')
writeFileSync(at('job.yaml'), job)

let ran = 0
/** `lockstep train` on a real disk, with a run folder of its own. */
async function train(args: readonly string[], changes: Partial<Io> = {}, path = at('job.yaml')) {
  const said = { out: '', err: '' }
  const io: Io = {
    ...processIo(),
    out: text => void (said.out += text),
    err: text => void (said.err += text),
    colors: false,
    ...changes,
  }
  const code = await run(['train', path, '--kernels', 'reference', '--out', at(`run${ran++}`), ...args], io)
  return { code, ...said }
}

const namesIn = (folder: string) => readdirSync(folder).sort()
const opened = (folder: string) =>
  readCheckpoint((name, begin, end) => readFileSync(join(folder, name)).subarray(begin, end))

describe('two runs with one folder', () => {
  test('the second is refused while the first runs, and told who that is; the first is left alone', async () => {
    const saved = at('both')
    let second: Promise<{ code: number; err: string }> | undefined
    const first = await train(['--save', saved, '--save-every', '2'], {
      append: (path, text) => {
        processIo().append(path, text)
        second ??= train(['--save', saved, '--save-every', '2', '--seed', '7'])
      },
    })
    equal(first.code, 0, first.err)
    const { code, err } = await second!
    equal(code, 1)
    match(
      err,
      new RegExp(`both is in use by run [\\w-]{36} \\(process ${process.pid} on ${hostname()}, since 20.*Z\\)`),
    )
    match(err, /, which is running; set another folder with --save \[checkpoint\/locked\]/)
    deepEqual(namesIn(saved), ['step-00000002', 'step-00000004'], 'the lock is gone with its run')
    equal(opened(join(saved, 'step-00000004')).seed, 1)
  })

  test('a run folder is of one run: another that begins at once is refused, and nothing of the first is changed', async () => {
    const folder = at('one')
    let second: Promise<{ code: number; err: string }> | undefined
    const first = await train(['--out', folder], {
      // Before the first step: the folder has no line of metrics yet.
      write: (path, text) => {
        processIo().write(path, text)
        if (path.endsWith('job.json')) second ??= train(['--out', folder, '--seed', '7'])
      },
    })
    equal(first.code, 0, first.err)
    const { code, err } = await second!
    equal(code, 1)
    match(err, /one holds the metrics of another run; name another folder with --out \[run\/exists\]/)
    equal(readFileSync(join(folder, 'metrics.jsonl'), 'utf8').trimEnd().split('\n').length, 4)
  })

  test('two runs that begin at once and name no folder have one each', async () => {
    const cli = fileURLToPath(new URL('../../bin/lockstep.mjs', import.meta.url))
    const args = [cli, 'train', at('job.yaml'), '--kernels', 'reference', '--save-every', '2', '--json']
    const folder = at('side by side')
    mkdirSync(folder)
    const both = [1, 2].map(() => finished(process.execPath, args, { cwd: folder }).done)
    for (const { code, out, err } of await Promise.all(both)) equal(code, 0, err + out)
    const names = namesIn(join(folder, 'runs'))
    equal(names.length, 3, names.join(' '))
    match(names.join(' '), /^(\d{4}-\d\d-\d\d-job) \1-2 latest$/)
    for (const name of names.slice(0, 2)) {
      const lines = readFileSync(join(folder, 'runs', name, 'metrics.jsonl'), 'utf8')
        .trimEnd()
        .split('\n')
      deepEqual(
        lines.map(line => JSON.parse(line).step),
        [1, 2, 3, 4],
      )
    }
  })

  test('shards of two runs are not one checkpoint, though every checksum is right', async () => {
    const [a, b] = [at('a'), at('b')]
    for (const [folder, seed] of [
      [a, '1'],
      [b, '2'],
    ])
      equal((await train(['--save', folder, '--seed', seed])).code, 0)
    const mixed = at('mixed')
    cpSync(join(a, 'step-00000004'), mixed, { recursive: true })
    cpSync(join(b, 'step-00000004', 'rank-00001.safetensors'), join(mixed, 'rank-00001.safetensors'))
    const { code, err } = await train(['--resume', mixed, '--steps', '5'])
    equal(code, 1)
    match(err, /rank-00001\.safetensors \(written by rank 1\): is a shard of run [\w-]{36}, but the manifest is of run/)
    equal(opened(join(a, 'step-00000004')).run === opened(join(b, 'step-00000004')).run, false)
  })

  test('a lock that another run has taken in the meantime: nothing is written, and the other is named', async () => {
    const saved = at('taken')
    const { code, err } = await train(['--save', saved], {
      append: (path, text) => {
        processIo().append(path, text)
        writeFileSync(join(saved, 'run.lock'), JSON.stringify({ run: 'other', pid: 1, host: 'there', since: 'now' }))
      },
    })
    equal(code, 1)
    match(err, /taken is in use by run other \(process 1 on there, since now\)/)
    deepEqual(namesIn(saved), ['run.lock'])
  })
})

describe('locks that were left behind', () => {
  const { pid: dead } = spawnSync(process.execPath, ['-e', ''])
  const left = (folder: string, holder: object) => {
    mkdirSync(folder)
    writeFileSync(join(folder, 'run.lock'), JSON.stringify({ run: 'before', since: 'yesterday', ...holder }))
  }
  const stale: [string, object][] = [['its process has ended', { host: hostname(), pid: dead }]]
  if (process.platform === 'linux')
    stale.push(['its number is another process now', { host: hostname(), pid: process.pid, born: '1' }])
  for (const [what, holder] of stale)
    test(`${what}: taken over with a word`, async () => {
      const saved = at(`stale${ran}`)
      left(saved, holder)
      const { code, err } = await train(['--save', saved])
      equal(code, 0, err)
      match(
        err,
        /run\.lock was locked by run before \(process \d+ on .*, since yesterday\), which has ended: taken over\n/,
      )
      deepEqual(namesIn(saved), ['step-00000004'])
    })

  for (const [what, content] of [
    ['of another host', JSON.stringify({ run: 'before', pid: dead, host: 'elsewhere', since: 'yesterday' })],
    ['that cannot be read', ''],
  ])
    test(`a lock ${what}: nobody knows whether it has ended, so it is refused with what to delete`, async () => {
      const saved = at(`foreign${ran}`)
      mkdirSync(saved)
      writeFileSync(join(saved, 'run.lock'), content)
      const { code, err } = await train(['--save', saved])
      equal(code, 1)
      match(err, /, or delete \S+\/run\.lock if that run has ended \[checkpoint\/locked\]/)
      deepEqual(namesIn(saved), ['run.lock'])
    })

  test('a run that is killed: the next is told whose lock it was, and how to resume', async () => {
    const [saved, cli] = [at('killed'), fileURLToPath(new URL('../../bin/lockstep.mjs', import.meta.url))]
    const args = ['train', at('job.yaml'), '--kernels', 'reference', '--save', saved, '--save-every', '1', '--json']
    const { child, done } = finished(process.execPath, [cli, ...args, '--steps', '100000', '--out', at('killed-run')])
    while (!existsSync(saved) || !namesIn(saved).some(name => /^step-\d+$/.test(name))) await setTimeout(20)
    child.kill('SIGKILL')
    await done
    ok(existsSync(join(saved, 'run.lock')))
    const fresh = await train(['--save', saved])
    equal(fresh.code, 1)
    match(
      fresh.err,
      /killed has checkpoints of another run, the latest is step-\d+; this run would start at step 1; resume with --resume \S+, or set another folder with --save \[checkpoint\/exists\]/,
    )
    const last = Math.max(...namesIn(saved).flatMap(name => (/^step-\d+$/.test(name) ? [Number(name.slice(5))] : [])))
    const resumed = await train(['--resume', saved, '--save', saved, '--steps', String(last + 2)])
    equal(resumed.code, 0, resumed.err)
    match(resumed.err, /which has ended: taken over/)
  })
})

test('a disk too full for the lock is said in words', async () => {
  const { code, err } = await train(['--save', at('full')], {
    create: (path, text) => {
      if (path.endsWith('run.lock')) throw new Error('no space left on the disk')
      return processIo().create(path, text)
    },
  })
  equal(code, 1)
  match(err, /^error: cannot write \S+run\.lock: no space left on the disk \[run\/write\]$/m)
})

test('metrics that cannot be written end a run, but not before the step is saved', async () => {
  const saved = at('unwritten')
  const { code, err } = await train(['--save', saved, '--save-every', '100', '--steps', '50'], {
    append: (path, text) => {
      if (String(text).includes('"step":3,')) throw new Error('the disk is read-only')
      processIo().append(path, text)
    },
  })
  equal(code, 1)
  match(err, /cannot write \S+metrics\.jsonl: the disk is read-only/)
  deepEqual(namesIn(saved), ['step-00000003'])
  const resumed = await train(['--resume', saved, '--save', saved])
  equal(resumed.code, 0, resumed.err)
})

test('a disk too full for metrics is said once; the run goes on, and its lines are there when there is room', async () => {
  const out = at('full-metrics')
  let appends = 0
  let full = 0
  const { code, err } = await train(['--out', out, '--steps', '8', '--tensorboard', at('board')], {
    append: (path, text) => {
      if (path.endsWith('metrics.jsonl') && ++appends > 2 && appends < 6) {
        full++
        processIo().append(path, String(text).slice(0, 9)) // as much as fits
        throw new Error('no space left on the disk')
      }
      if (path.includes('tfevents') && appends > 2) throw new Error('no space left on the disk')
      processIo().append(path, text)
    },
  })
  equal(code, 0, err)
  equal(full, 3)
  equal(err.match(/metrics\.jsonl: no space left on the disk; the run continues/g)?.length, 1, err)
  equal(err.match(/metrics\.jsonl: there is room again/g)?.length, 1, err)
  equal(err.match(/TensorBoard/g)?.length, 1, err)
  deepEqual(
    readRun(out, nodeFiles()).steps.map(({ step }) => step),
    [1, 2, 3, 4, 5, 6, 7, 8],
  )
})

test('a line of metrics names a checkpoint when it is complete, and none that could not be written', async () => {
  const [out, saved] = [at('named'), at('named-saved')]
  const { code, err } = await train(
    ['--out', out, '--save', saved, '--save-every', '2', '--steps', '6', '--fault', 'full-disk:step=4'],
    { startWriter: processIo().startWriter },
  )
  equal(code, 0, err)
  const named = readRun(out, nodeFiles()).steps.flatMap(({ step, checkpoint }) =>
    checkpoint ? [[step, checkpoint]] : [],
  )
  deepEqual(
    named.map(([, path]) => path),
    ['step-00000002', 'step-00000006'].map(name => join(saved, name)),
  )
  equal(named.at(-1)?.[0], 6, 'that of the last step is waited for')
  ok(Number(named[0][0]) >= 2)
})

test('a run that does not begin leaves its folder free', async () => {
  const [folder, server] = [at('free'), createServer()]
  await new Promise<void>(done => void server.listen(0, '127.0.0.1', done))
  const { port } = server.address() as AddressInfo // it listens on one
  const refused = await train(['--out', folder, '--prometheus', String(port)])
  server.close()
  equal(refused.code, 1)
  match(refused.err, /the address is already in use/)
  deepEqual(namesIn(folder), [])
  equal((await train(['--out', folder])).code, 0)
})

test('SIGTERM saves the step it is at, as Ctrl-C does, and releases the folder', async () => {
  const [saved, cli] = [at('terminated'), fileURLToPath(new URL('../../bin/lockstep.mjs', import.meta.url))]
  const args = ['train', at('job.yaml'), '--kernels', 'reference', '--save', saved, '--json', '--steps', '100000']
  const { child, done } = finished(process.execPath, [cli, ...args, '--out', at('terminated-run')])
  await new Promise(resolve => child.stdout.once('data', resolve))
  child.kill('SIGTERM')
  const { code, out } = await done
  equal(code, 143)
  const { step, checkpoint } = JSON.parse(out.trim().split('\n').at(-1)!)
  deepEqual(namesIn(saved), [`step-${String(step).padStart(8, '0')}`])
  equal(checkpoint ?? join(saved, namesIn(saved)[0]), join(saved, namesIn(saved)[0]))
})

test('a terminal that is closed saves the step too, though it says so twice', async () => {
  const [saved, cli] = [at('hung-up'), fileURLToPath(new URL('../../bin/lockstep.mjs', import.meta.url))]
  const args = ['train', at('job.yaml'), '--kernels', 'reference', '--save', saved, '--json', '--steps', '100000']
  const { child, done } = finished(process.execPath, [cli, ...args, '--out', at('hung-up-run')])
  await new Promise(resolve => child.stdout.once('data', resolve))
  child.kill('SIGHUP')
  child.kill('SIGHUP')
  const { code, out } = await done
  equal(code, 129)
  const { step } = JSON.parse(out.trim().split('\n').at(-1)!)
  deepEqual(namesIn(saved), [`step-${String(step).padStart(8, '0')}`])
})

describe('checkpoints of another run', () => {
  test('a fresh run is told of them, and deletes nothing; a run that resumes the last adds its own', async () => {
    const saved = at('line')
    equal((await train(['--save', saved, '--save-every', '2'])).code, 0)
    const before = opened(join(saved, 'step-00000004'))
    for (const args of [[], ['--init', saved], ['--seed', '7']]) {
      const { code, err } = await train(['--save', saved, ...args])
      equal(code, 1)
      match(err, /line has checkpoints of another run, the latest is step-00000004; this run would start at step 1/)
    }
    const early = await train(['--resume', join(saved, 'step-00000002'), '--save', saved])
    match(early.err, /has step-00000004 of another run, which is later than step 2, where this run resumes/)
    equal((await train(['--resume', saved, '--save', saved, '--steps', '6'])).code, 0)
    deepEqual(namesIn(saved), ['step-00000002', 'step-00000004', 'step-00000006'])
    equal(opened(join(saved, 'step-00000004')).run, before.run)
    equal(opened(join(saved, 'step-00000006')).run === before.run, false)
  })

  test('a folder of somebody else with the name of a step is not touched', async () => {
    const saved = at('occupied')
    mkdirSync(join(saved, 'step-00000004'), { recursive: true })
    writeFileSync(join(saved, 'step-00000004', 'notes.txt'), 'mine')
    const { code, err } = await train(['--save', saved, '--save-every', '2'])
    equal(code, 1)
    match(err, /cannot write \S+step-00000004: the name is taken/)
    deepEqual(namesIn(saved), ['step-00000002', 'step-00000004'])
    equal(readFileSync(join(saved, 'step-00000004', 'notes.txt'), 'utf8'), 'mine')
  })
})

test('a checkpoint carries the job and the tokenizer', async () => {
  writeFileSync(at('text.txt'), 'the cat sat on the mat and the dog sat on the log. '.repeat(40))
  const text = job.replace('vocab: 8', 'vocab: 280').concat('\ndata: { source: text.txt, tokenizer: bpe }')
  writeFileSync(at('text.yaml'), text)
  const { code, err } = await train(['--save', at('carried'), '--out', at('carried-run')], {}, at('text.yaml'))
  equal(code, 0, err)
  const checkpoint = opened(at('carried', 'step-00000004'))
  equal(checkpoint.tokenizer(), readFileSync(at('carried-run', 'tokenizer.json'), 'utf8'))
  deepEqual(checkpoint.job(), JSON.parse(readFileSync(at('carried-run', 'job.json'), 'utf8')))
  match(JSON.stringify(checkpoint.job()), /"vocab":280.*"source":"\/.*text\.txt"/)
  // Its tokenizer is enough to train on other text.
  writeFileSync(at('again.yaml'), text.replace('tokenizer: bpe', 'tokenizer: carried/step-00000004/tokenizer.json'))
  const again = await train(['--init', at('carried'), '--save', at('again')], {}, at('again.yaml'))
  equal(again.code, 0, again.err)
  equal(opened(at('again', 'step-00000004')).tokenizer(), checkpoint.tokenizer())
  doesNotMatch(again.err, /error/)
})
