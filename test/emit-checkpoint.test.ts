/** Checkpoints of emitted runs: read here, resumed by train and back, refused when damaged or of two runs. */
import { deepEqual, equal, match, ok } from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { cpSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { hostname } from 'node:os'
import { join } from 'node:path'
import { after, before, describe } from 'node:test'
import { fileURLToPath } from 'node:url'
import { checkpointProblems, readCheckpoint } from '../src/checkpoint/index.js'
import { compileJob } from '../src/compile/index.js'
import { Job, type PlanInput } from '../src/plan/index.js'
import { withEarlierNames } from './earlier-names.js'
import { expectedOf, finished, temporaryFolder, writeEmittedJob } from './emitted.js'
import { expertModels } from './expert-models.js'
import { later, test } from './families.js'
import { Forking } from './forked.js'
import { jobOf } from './jobs.js'
import { lockstep } from './memory-io.js'
import { findPython, noPython } from './python.js'

const python = findPython()

const cli = fileURLToPath(new URL('../../bin/lockstep.mjs', import.meta.url))
const lossesIn = (out: string): number[] =>
  out
    .trim()
    .split('\n')
    .map(line => JSON.parse(line).loss)

describe('checkpoints of emitted runs', { skip: python ? false : noPython }, () => {
  const root = temporaryFolder()
  const job = jobOf('gpt tied', { pp: 2, dp: 2, zero: 2, microbatches: 2 }, { steps: 4 })
  const other = jobOf('gpt tied', { tp: 2, zero: 3, offload: { optimizer: 'host', parameters: 'host' } }, { steps: 4 })
  const saved = join(root, 'first', 'checkpoints', 'step-00000002')
  let copies: Forking
  const run = async (folder: string, ranks: number, ...args: string[]) => {
    const started = await copies.ranks(ranks, ['train.py', '--precision', 'f64', ...args], join(root, folder))
    const ended = await Promise.all(started.map(({ done }) => done))
    for (const { code, err } of ended) equal(code, 0, err)
    return lossesIn(ended.map(({ out }) => out).join(''))
  }
  let losses: readonly number[]

  before(async () => {
    copies = new Forking(python!)
    writeEmittedJob(join(root, 'first'), job)
    writeEmittedJob(join(root, 'second'), other)
    losses = await run('first', 4, '--save-every', '2')
  })
  after(async () => {
    await copies.close()
    rmSync(root, { recursive: true, force: true })
  })

  test('every logical tensor is there once, and equals the reference after as many steps', () => {
    const checkpoint = readCheckpoint((name, begin, end) => readFileSync(join(saved, name)).subarray(begin, end))
    equal(checkpoint.step, 2)
    const expected = expectedOf(job, 2)
    deepEqual(
      [...checkpoint.tensors.keys()].filter(name => name.startsWith('param.')).sort(),
      expected.names.map(name => `param.${name}`).sort(),
    )
    for (const name of expected.names) {
      const [actual, wanted] = [checkpoint.tensor(`param.${name}`), expected.parameter(name)]
      ok(
        actual.every((value, i) => Math.abs(value - wanted[i]) <= 1e-10),
        name,
      )
    }
    deepEqual(checkpointProblems(compileJob(job), checkpoint), [])
  })

  const runs = /[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}/g
  /** The files of a checkpoint, whichever run wrote them. */
  const contents = (path: string) =>
    readdirSync(path)
      .filter(name => name !== 'manifest.json')
      .map(name => [name, readFileSync(join(path, name)).toString('latin1').replace(runs, 'run')])
  const eventsIn = (out: string) =>
    out
      .split('\n')
      .flatMap(line => (line.includes('"event"') ? [JSON.parse(line) as { event: string; step: number }] : []))

  later(
    'written beside the run they are byte for byte what is written while it stands still; a full disk is said, and the next is there',
    async () => {
      const args = [
        '--precision',
        'f64',
        '--save-sync',
        '--save',
        'now',
        '--save-every',
        '1',
        '--fault',
        'full-disk:step=1',
      ]
      const started = await copies.ranks(4, ['train.py', ...args, '--metrics', 'now.jsonl'], join(root, 'first'))
      const ended = await Promise.all(started.map(({ done }) => done))
      for (const { code, err } of ended) equal(code, 0, err)
      const [failed] = eventsIn(ended.map(({ out }) => out).join('\n'))
      deepEqual([failed.event, failed.step], ['saveFailed', 1])
      deepEqual(readdirSync(join(root, 'first', 'now')), ['step-00000002', 'step-00000003', 'step-00000004'])
      for (const step of ['step-00000002', 'step-00000004'])
        deepEqual(contents(join(root, 'first', 'now', step)), contents(join(root, 'first', 'checkpoints', step)))
    },
  )

  later(
    '--keep leaves the last; a full disk at the end is an error of the run, and what was there is there',
    async () => {
      const train = async (...args: string[]) => {
        const words = ['train.py', '--save', 'few', '--save-every', '1', ...args]
        const started = await copies.ranks(2, words, join(root, 'second'))
        return Promise.all(started.map(({ done }) => done))
      }
      for (const { code, err } of await train('--steps', '3', '--keep', '1', '--keep-every', '2')) equal(code, 0, err)
      const left = () => readdirSync(join(root, 'second', 'few'))
      deepEqual(left(), ['step-00000002', 'step-00000003'])
      const [first] = await train('--steps', '4', '--resume', 'few', '--keep', '1', '--fault', 'full-disk:step=4')
      ok(first.code !== 0)
      match(first.err, /the last checkpoint could not be written: No space left on device: \S+rank-00000\.safetensors/)
      deepEqual(left(), ['step-00000002', 'step-00000003'])
    },
  )

  const damages = Number(process.env.DAMAGES ?? 20)
  test(`${damages} flipped bits, files cut short, longer or gone: the runtime finds and names each, and takes the one before`, async () => {
    const script = readFileSync(new URL('../../test/damage.py', import.meta.url), 'utf8')
    cpSync(join(root, 'first', 'checkpoints'), join(root, 'first', 'damaged'), { recursive: true })
    const { done } = await copies.start(['-c', script, 'damaged', String(damages)], { cwd: join(root, 'first') })
    const { out, err } = await done
    ok(out, err)
    deepEqual(JSON.parse(out), { missed: [], whole: ['damaged/step-00000004', []] })
  })

  /** From a step of an emitted run `train` goes on under another plan, and a third plan, emitted, from what train has saved. */
  async function goesOn(from: string, expected: readonly number[], plan: Job, emitted: string, ranks: number) {
    const near = (actual: readonly number[], expected: readonly number[]) => {
      equal(actual.length, expected.length)
      for (const [i, loss] of actual.entries())
        ok(Math.abs(loss - expected[i]) <= 1e-10, `${actual} is not ${expected}`)
    }
    const [file, kept] = [join(root, `${emitted}.json`), join(root, emitted, 'kept')]
    writeFileSync(file, JSON.stringify(plan))
    const saving = ['--save', kept, '--save-every', '1']
    const trained = finished(
      process.execPath,
      [cli, 'train', file, '--kernels', 'reference', '--json', '--resume', from, ...saving],
      { cwd: root },
    )
    const { code, out, err } = await trained.done
    equal(code, 0, err)
    near(lossesIn(out), expected.slice(2))
    near(await run(emitted, ranks, '--resume', join(kept, 'step-00000003')), expected.slice(3))
  }

  test('one with the parameter names of earlier versions is resumed by train and by an emitted run', async () => {
    const read = (name: string, begin: number, end: number) => readFileSync(join(saved, name)).subarray(begin, end)
    const before = join(root, 'before')
    mkdirSync(before)
    for (const [name, bytes] of withEarlierNames(compileJob(job), read)) writeFileSync(join(before, name), bytes)
    match(readFileSync(join(before, 'manifest.json'), 'utf8'), /"param\.layers\.0\.norm1\.gain"/)
    deepEqual(await run('first', 4, '--save', 'again', '--resume', before), losses.slice(2))
    await goesOn(before, losses, jobOf('gpt tied', { tp: 2 }, { steps: 4 }), 'second', 2)
  })

  later('train goes on from it under another plan, and a third plan, emitted, from what train has saved', async () => {
    const third = jobOf('gpt tied', { dp: 2, pp: 2, zero: 3, microbatches: 4 }, { steps: 4 })
    await goesOn(saved, losses, third, 'second', 2)
  })

  later('experts saved under ep 4 go on under ep 2, etp 2 and cp 2, and under ep 2, emitted', async () => {
    const experts = (plan: PlanInput): Job =>
      Job.parse({
        ...{ model: { ...expertModels.deepseek, layers: 2 }, training: { seq: 8, globalBatch: 4, steps: 4 } },
        plan: { expertCapacity: 'worst', ...plan },
      })
    writeEmittedJob(join(root, 'ep 4'), experts({ dp: 4, ep: 4, zero: 1 }))
    writeEmittedJob(join(root, 'ep 2'), experts({ dp: 2, ep: 2 }))
    const expected = await run('ep 4', 4, '--save-every', '2')
    const resumed = experts({ cp: 2, tp: 2, ep: 2, etp: 2 })
    await goesOn(join(root, 'ep 4', 'checkpoints', 'step-00000002'), expected, resumed, 'ep 2', 2)
  })

  test('an emitted program finds the last whole one, and refuses those of another seed, other data, another batch', async () => {
    const { said } = await asked(
      'import json, sys',
      'from runtime import checkpoint, latest',
      'found = latest.candidates("checkpoints")["paths"][0]',
      'manifest = checkpoint.read_manifest(found)',
      'def said(**changes):',
      '    position = {"step": manifest["step"], "seed": manifest["seed"], "data": manifest["data"], **changes}',
      '    try: checkpoint.require_continuation(found, manifest, position)',
      '    except checkpoint.Corrupt as refusal: return str(refusal)',
      'other = lambda **changes: {"data": {**manifest["data"], **changes}}',
      'print(json.dumps([found, said(), said(seed=2), said(**other(fingerprint="x")), said(**other(samples=5))]))',
    )
    const [found, same, seed, data, batch] = said
    equal(found, 'checkpoints/step-00000004')
    equal(same, null)
    match(seed, /step-00000004: the checkpoint's seed is 1, the run's 2; --init starts a new run from its weights/)
    match(data, /was trained on different data, or on different sequences/)
    match(batch, /has seen 64 sequences in 4 steps, not 5/)
  })

  /** What the runtime of the first folder says, as JSON, when it is asked in Python. */
  const asked = async (...script: string[]) => {
    const { done } = await copies.start(['-c', script.join('\n')], { cwd: join(root, 'first') })
    const { out, err } = await done
    ok(out, err)
    return { said: JSON.parse(out), err }
  }
  const refusals = [
    'import json, os, shutil, sys',
    'from runtime import checkpoint',
    'from runtime.lock import Lock, Refused',
    'from runtime.saving import Saving, StartState',
    'def refusal(work, *args):',
    '    try: work(*args)',
    '    except (checkpoint.Corrupt, Refused) as error: return str(error)',
    'store = type("Store", (), {"set": lambda self, key, value: None})()',
  ]

  test('it carries the job; its manifest and shards are those of one run', async () => {
    const checkpoint = readCheckpoint((name, begin, end) => readFileSync(join(saved, name)).subarray(begin, end))
    deepEqual(checkpoint.job(), JSON.parse(JSON.stringify(job)))
    equal(checkpoint.tokenizer(), undefined)
    const { said } = await asked(
      ...refusals,
      'def read(tamper):',
      '    shutil.rmtree("copy", ignore_errors=True)',
      '    shutil.copytree("checkpoints/step-00000002", "copy")',
      '    tamper()',
      '    manifest = checkpoint.read_manifest("copy")',
      '    shards = checkpoint.Shards("copy", manifest)',
      '    for name, entry in manifest["tensors"].items():',
      '        for part in entry["shards"]: shards.values(part, name)',
      'def changed(path, old, new):',
      '    def change():',
      '        with open(path, "rb") as file: data = file.read()',
      '        assert old in data',
      '        with open(path, "wb") as file: file.write(data.replace(old, new, 1))',
      '    return change',
      'later = lambda: shutil.copy("checkpoints/step-00000004/rank-00001.safetensors", "copy/rank-00001.safetensors")',
      'run = checkpoint.read_manifest("checkpoints/step-00000002")["run"].encode()',
      'shard, other = "copy/rank-00001.safetensors", b"00000000-0000-4000-8000-000000000000"',
      'faults = [lambda: None, later, changed(shard, run, other), changed("copy/manifest.json", b"00001.safe", b"00000.safe")]',
      'print(json.dumps([refusal(read, fault) for fault in faults]))',
    )
    equal(said[0], null)
    match(said[1], /rank-00001\.safetensors is a shard of step 4, but the manifest is of step 2 \(written by rank 1\)/)
    match(said[2], /rank-00001\.safetensors is a shard of run 00000000-.*, but the manifest is of run [\w-]{36}/)
    match(said[3], /manifest\.json is corrupt or was changed: its CRC-32/)
  })

  later('non-finite values are named: file, tensor and element', async () => {
    const { said } = await asked(
      ...refusals,
      'import torch',
      'from runtime.safetensors import write',
      'manifest = checkpoint.read_manifest("checkpoints/step-00000002")',
      'os.makedirs("bad", exist_ok=True)',
      'part = {"rank": 0, "file": "w", "start": [0], "shape": [3]}',
      'parts = json.dumps({"w": {"start": [0], "shape": [3]}})',
      'said = {"run": manifest["run"], "step": "2", "rank": "0", "parts": parts}',
      'write("bad/w", {"w": torch.tensor([1.0, float("nan"), float("inf")])}, said)',
      'print(json.dumps(refusal(checkpoint.Shards("bad", {**manifest, "files": {}}).values, part, "w")))',
    )
    match(
      said,
      /bad\/w: tensor w has 2 non-finite \(NaN\/Inf\) values of 3, the first \(nan\) at element 1 \(written by rank 0\)/,
    )
  })

  later('its folder is locked as train locks it, and closed to a run that starts anew', async () => {
    const holder = { run: 'mine', pid: process.pid, host: hostname(), since: 'now' }
    for (const [folder, text] of [
      ['held', JSON.stringify(holder)],
      ['left', JSON.stringify({ ...holder, pid: spawnSync('true').pid })],
    ]) {
      mkdirSync(join(root, folder))
      writeFileSync(join(root, folder, 'run.lock'), text)
    }
    const { said, err } = await asked(
      ...refusals,
      'opened = lambda folder, taken: refusal(Saving, folder, ".", StartState(taken), 0, store)',
      'said = [opened("../held", 0), opened("../left", 0), opened("checkpoints", 0), opened("checkpoints", 2)]',
      'print(json.dumps([*said, opened("checkpoints", 4), sorted(os.listdir("checkpoints"))]))',
    )
    const [held, left, fresh, early, after, names] = said
    match(held, /held is in use by run mine \(process \d+ on .*, since now\), which is running; set another folder/)
    equal(left, null)
    match(err, /run\.lock was locked by run mine .*, which has ended: taken over/)
    match(fresh, /has checkpoints of another run, the latest is step-00000004; this run would start at step 1/)
    match(early, /has step-00000004 of another run, which is later than step 2, where this run resumes/)
    equal(after, null)
    deepEqual(names, ['run.lock', 'step-00000002', 'step-00000004'])
    // Python has ended without releasing the folder: train knows that process is gone.
    writeFileSync(join(root, 'job.json'), JSON.stringify(job))
    const args = [
      '--kernels',
      'reference',
      '--resume',
      join(root, 'first'),
      '--save',
      join(root, 'first', 'checkpoints'),
    ]
    const trained = finished(process.execPath, [cli, 'train', 'job.json', '--steps', '5', ...args], { cwd: root })
    const { code, err: told } = await trained.done
    equal(code, 0, told)
    match(told, /checkpoints\/run\.lock was locked by run [\w-]{36} .*, which has ended: taken over/)
  })

  test('emit --init copies it into the folder, and refuses what does not fit or is damaged', async () => {
    const files = Object.fromEntries(
      readdirSync(saved).map(name => [`saved/${name}`, new Uint8Array(readFileSync(join(saved, name)))]),
    )
    const { name: _, ...rest } = job
    const emitted = (changes: Record<string, Uint8Array>, more: object = {}) =>
      lockstep(['emit', 'job.json', '--out', 'run', '--init', 'saved'], {
        ...files,
        ...changes,
        'job.json': JSON.stringify({ ...rest, ...more }),
      })
    const good = await emitted({})
    equal(good.code, 0, good.err)
    ok(Object.hasOwn(good.written, 'run/init/manifest.json'))
    const damaged = files['saved/rank-00000.safetensors'].map((byte, i, all) =>
      i > all.length - 4000 ? byte ^ 1 : byte,
    )
    match(
      (await emitted({ 'saved/rank-00000.safetensors': damaged })).err,
      /rank-00000\.safetensors \(written by rank 0\): tensor param\.\S+ is corrupt/,
    )
    match(
      (await emitted({}, { model: { ...job.model, ffn: 16 } })).err,
      /parameter layers\.0\.mlp\.up is 8 x 8 in the checkpoint, but 8 x 16 in the job/,
    )
  })
})
