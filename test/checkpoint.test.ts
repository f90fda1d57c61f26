/** The format of checkpoints, and those of emitted runs: read here, gone on from by train and back, refused when damaged. */
import { deepEqual, equal, match, ok, throws } from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { type Dim, elementsOf, uniform } from '../src/base/index.js'
import { type Box, copyShared, elementsIn } from '../src/checkpoint/box.js'
import {
  checkpointProblems,
  crc32,
  parseSafetensors,
  printCheckpoint,
  printSafetensors,
  readCheckpoint,
  type Shard,
} from '../src/checkpoint/index.js'
import { compileJob } from '../src/compile/index.js'
import type { PlanInput } from '../src/plan/index.js'
import { expectedOf, finished, temporaryFolder, torchrun, writeEmittedJob } from './emitted.js'
import { jobOf, type ModelName, titleOf } from './jobs.js'
import { lockstep } from './memory-io.js'
import { findPython, noPython } from './python.js'

const text = (content: string) => new TextEncoder().encode(content)
const values = Float32Array.of(1, -2, 0.5, 3)
const file = printSafetensors({ w: { dtype: 'F32', shape: [2, 2], values } }, { format: 'test' })

test('crc32 is the one of zip', () => equal(crc32(text('123456789')), 0xcbf43926))

test('a printed safetensors file parses back to itself', () => {
  deepEqual(parseSafetensors(file)('w'), { dtype: 'F32', shape: [2, 2], values })
})

test('bf16 is the upper half of f32', () => {
  const header = JSON.stringify({ w: { dtype: 'BF16', shape: [3], data_offsets: [0, 6] } }).padEnd(64)
  const bytes = [64, 0, 0, 0, 0, 0, 0, 0, ...text(header), 0x80, 0x3f, 0x20, 0xc0, 0x01, 0x00]
  deepEqual([...parseSafetensors(Uint8Array.from(bytes))('w').values], [1, -2.5, 2 ** -133])
})

const changed = (at: number): Uint8Array => file.map((byte, i) => (i === at ? byte ^ 1 : byte))
const damages: readonly (readonly [string, Uint8Array, RegExp])[] = [
  ['empty', new Uint8Array(0), /is cut short: there is no header/],
  ['cut in the header', file.subarray(0, 40), /the header is longer than the file/],
  ['cut in a tensor', file.subarray(0, -4), /tensor w is cut short: 12 of 16 bytes are there/],
  ['one bit of a tensor', changed(file.length - 1), /tensor w is damaged: its CRC-32/],
  ['one bit of the header', changed(8), /has a header that is not JSON/],
]
for (const [what, bytes, message] of damages)
  test(`a damaged file is refused: ${what}`, () => throws(() => parseSafetensors(bytes)('w'), message))

test('a tensor that is not there is named', () => throws(() => parseSafetensors(file)('x'), /there is no tensor x/))

const manifest = (shards: object[]) =>
  text(
    JSON.stringify({
      format: 'lockstep checkpoint 1',
      step: 1,
      seed: 1,
      tensors: { 'param.w': { dims: [{ name: 'embed', size: 4 }], shards } },
    }),
  )
const bad: readonly (readonly [string, Uint8Array, RegExp])[] = [
  ['no JSON', text('{'), /manifest.json is not JSON/],
  ['another format', text('{"format":"other"}'), /is not of a lockstep checkpoint 1/],
  [
    'a path out of the folder',
    manifest([{ rank: 0, file: '../w', start: [0], shape: [4] }]),
    /lacks step, tensors or their shards/,
  ],
]
for (const [what, bytes, message] of bad)
  test(`a manifest is refused: ${what}`, () => throws(() => readCheckpoint(() => bytes), message))

test('shards that do not cover a tensor are refused', () => {
  const part = printSafetensors({ 'param.w': { dtype: 'F32', shape: [2], values: values.slice(0, 2) } }, {})
  const whole = manifest([{ rank: 0, file: 'rank-0', start: [0], shape: [2] }])
  const read = (name: string, begin: number, end: number) =>
    (name === 'manifest.json' ? whole : part).subarray(begin, end)
  throws(() => readCheckpoint(read).tensor('param.w'), /the shards of param.w do not cover it/)
})

for (let seed = 1; seed <= 20; seed++)
  test(`parts of one tensor share what both hold, and nothing else is touched (SEED=${seed})`, () => {
    const { int, part } = drawn(seed)
    const dims = Array.from({ length: 1 + int(4) }, () => 1 + int(5))
    const [from, to] = [part(dims), part(dims)]
    const target = new Float64Array(elementsIn(to)).fill(-1)
    const copied = copyShared(from, Float64Array.from(numbered(dims, from)), to, target)
    const held = new Set(numbered(dims, from))
    const expected = numbered(dims, to).map(index => (held.has(index) ? index : -1))
    deepEqual([...target], expected)
    equal(copied, expected.filter(index => index >= 0).length)
  })

const written: readonly (readonly [ModelName, PlanInput, number?])[] = [
  ['gpt', {}],
  ['gpt', {}, 600],
  ['gpt', { dp: 2, zero: 3, microbatches: 2 }, 200],
  ['gpt tied', { pp: 2, dp: 2, zero: 1, microbatches: 2 }],
  ['llama', { tp: 4, order: 'tp-pp-dp' }],
  ['llama tied', { pp: 2, tp: 2, microbatches: 4, schedule: 'dualpipe' }],
  ['llama', { dp: 2, tp: 2, zero: 3, precision: 'bf16' }],
  ['mlp', { dp: 4, tp: 2, zero: 2 }],
]
for (const [model, plan, mostBytes] of written)
  test(`${model}, ${titleOf(plan)}: what ranks write is every element once${mostBytes ? `, in files of ${mostBytes} bytes` : ''}`, () => {
    const program = compileJob(jobOf(model, plan))
    const position = { step: 7, seed: 1, data: { samples: 112, epoch: 0, fingerprint: 'f' } }
    const sizesOf = (dims: readonly Dim[]) => dims.map(({ size }) => size)
    /** Every rank holds the number of each element in the whole tensor, and something behind it. */
    const held = (shard: Shard) => Float32Array.of(...numbered(sizesOf(shard.dims), shard), -1)
    const files = new Map(
      [...printCheckpoint(program, position, held, mostBytes)].map(([name, content]) => [
        name,
        typeof content === 'string' ? text(content) : content,
      ]),
    )
    equal([...files.keys()].at(-1), 'manifest.json', 'it is made last')
    if (mostBytes) ok([...files.keys()].some(name => /^rank-\d+-2\.safetensors$/.test(name)))
    const { step, seed, data, ...checkpoint } = readCheckpoint((name, begin, end) =>
      files.get(name)!.subarray(begin, end),
    )
    deepEqual({ step, seed, data }, position)
    deepEqual([...files.keys()].slice(0, -1).sort(), checkpoint.files)
    deepEqual(checkpointProblems(program, { ...checkpoint, step, seed }, 'everything'), [])
    for (const { name, dims } of program.params)
      for (const kind of ['param', 'm', 'v'])
        deepEqual([...checkpoint.tensor(`${kind}.${name}`)], [...Array(elementsOf(dims)).keys()], `${kind}.${name}`)
  })

/** The index in the whole of every element of a part, in the part's order. */
const numbered = (dims: readonly number[], { start, shape }: Box): number[] =>
  dims.reduce(
    (found, size, d) => found.flatMap(at => Array.from({ length: shape[d] }, (_, i) => at * size + start[d] + i)),
    [0],
  )

function drawn(seed: number) {
  const source = uniform({ seed, name: 'boxes' })
  let drawn = 0
  const int = (n: number) => Math.floor(source(drawn++) * n)
  const part = (dims: readonly number[]): Box => {
    const start = dims.map(size => int(size))
    return { start, shape: dims.map((size, d) => 1 + int(size - start[d])) }
  }
  return { int, part }
}

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
  const other = jobOf('gpt tied', { tp: 2 }, { steps: 4 })
  const saved = join(root, 'first', 'checkpoints', 'step-00000002')
  const run = async (folder: string, ranks: number, ...args: string[]) => {
    const { code, out, err } = await torchrun(python!, ranks, ['train.py', '--precision', 'f64', ...args], {
      cwd: join(root, folder),
    }).done
    equal(code, 0, err)
    return lossesIn(out)
  }
  let losses: readonly number[]

  before(async () => {
    writeEmittedJob(join(root, 'first'), job)
    writeEmittedJob(join(root, 'second'), other)
    losses = await run('first', 4, '--save-every', '2')
  })
  after(() => rmSync(root, { recursive: true, force: true }))

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

  test('train goes on from it under another plan, and a third plan, emitted, from what train has saved', async () => {
    const near = (actual: readonly number[], expected: readonly number[]) => {
      equal(actual.length, expected.length)
      for (const [i, loss] of actual.entries())
        ok(Math.abs(loss - expected[i]) <= 1e-10, `${actual} is not ${expected}`)
    }
    const third = join(root, 'job.json')
    writeFileSync(third, JSON.stringify(jobOf('gpt tied', { dp: 2, pp: 2, zero: 3, microbatches: 4 }, { steps: 4 })))
    const kept = join(root, 'kept')
    const trained = finished(
      process.execPath,
      [cli, 'train', third, '--kernels', 'reference', '--json', '--resume', saved, '--save', kept, '--save-every', '1'],
      { cwd: root },
    )
    const { code, out, err } = await trained.done
    equal(code, 0, err)
    near(lossesIn(out), losses.slice(2))
    near(await run('second', 2, '--resume', join(kept, 'step-00000003')), losses.slice(3))
  })

  test('an emitted program finds the last whole one, and refuses those of another seed, other data, another batch', () => {
    const script = [
      'import json, sys',
      'from runtime import checkpoint',
      'found = checkpoint.complete_in("checkpoints")',
      'manifest = checkpoint.read_manifest(found)',
      'def said(**changes):',
      '    position = {"step": manifest["step"], "seed": manifest["seed"], "data": manifest["data"], **changes}',
      '    try: checkpoint.require_continuation(found, manifest, position)',
      '    except checkpoint.Damaged as refusal: return str(refusal)',
      'other = lambda **changes: {"data": {**manifest["data"], **changes}}',
      'print(json.dumps([found, said(), said(seed=2), said(**other(fingerprint="x")), said(**other(samples=5))]))',
    ]
    const { stdout, stderr } = spawnSync(python!, ['-c', script.join('\n')], {
      cwd: join(root, 'first'),
      encoding: 'utf8',
    })
    ok(stdout, stderr)
    const [found, same, seed, data, batch] = JSON.parse(stdout)
    equal(found, 'checkpoints/step-00000004')
    equal(same, null)
    match(seed, /step-00000004: the checkpoint's seed is 1, the run's 2; --init starts anew from its weights/)
    match(data, /was trained on other data, or on sequences cut otherwise/)
    match(batch, /has seen 64 sequences in 4 steps, not 5/)
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
      /rank-00000\.safetensors \(written by rank 0\): tensor param\.\S+ is damaged/,
    )
    match(
      (await emitted({}, { model: { ...job.model, ffn: 16 } })).err,
      /parameter layers\.0\.mlp\.up is 8 x 8 in the checkpoint, but 8 x 16 in the job/,
    )
  })
})
