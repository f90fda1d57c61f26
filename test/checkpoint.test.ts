/** The format of checkpoints: what is written parses back, and whatever else is there is refused. */
import { deepEqual, equal, match, ok, throws } from 'node:assert/strict'
import { test } from 'node:test'
import { type Dim, elementsOf, uniform } from '../src/base/index.js'
import { type Box, copyShared, elementsIn } from '../src/checkpoint/box.js'
import {
  checkpointProblems,
  crc32,
  type Manifest,
  openSafetensors,
  parseSafetensors,
  printCheckpoint,
  printManifest,
  printSafetensors,
  type ReadFile,
  readCheckpoint,
  type Shard,
} from '../src/checkpoint/index.js'
import { compileJob } from '../src/compile/index.js'
import type { PlanInput } from '../src/plan/index.js'
import { withEarlierNames } from './earlier-names.js'
import { jobOf, type ModelName, titleOf } from './jobs.js'

const text = (content: string) => new TextEncoder().encode(content)
const values = Float32Array.of(1, -2, 0.5, 3)
const file = printSafetensors({ w: { dtype: 'f32', shape: [2, 2], values } }, { format: 'test' })

test('crc32 is the one of zip', () => equal(crc32(text('123456789')), 0xcbf43926))

test('a printed safetensors file parses back to itself', () => {
  deepEqual(parseSafetensors(file).tensor('w'), { dtype: 'f32', shape: [2, 2], values })
})

test('bf16 is the upper half of f32', () => {
  const header = JSON.stringify({ w: { dtype: 'BF16', shape: [3], data_offsets: [0, 6] } }).padEnd(64)
  const bytes = [64, 0, 0, 0, 0, 0, 0, 0, ...text(header), 0x80, 0x3f, 0x20, 0xc0, 0x01, 0x00]
  deepEqual([...parseSafetensors(Uint8Array.from(bytes)).tensor('w').values], [1, -2.5, 2 ** -133])
})

const changed = (at: number): Uint8Array => file.map((byte, i) => (i === at ? byte ^ 1 : byte))
const damages: readonly (readonly [string, Uint8Array, RegExp])[] = [
  ['empty', new Uint8Array(0), /is truncated: there is no header/],
  ['cut in the header', file.subarray(0, 40), /the header is longer than the file/],
  ['cut in a tensor', file.subarray(0, -4), /tensor w is truncated: 12 of 16 bytes are there/],
  ['one bit of a tensor', changed(file.length - 1), /tensor w is corrupt: its CRC-32/],
  ['one bit of the header', changed(8), /has a header that is not JSON/],
]
for (const [what, bytes, message] of damages)
  test(`a damaged file is refused: ${what}`, () => throws(() => parseSafetensors(bytes).tensor('w'), message))

/** A file with a header of one's own, and so many bytes behind it. */
const handmade = (header: string, bytes: number): Uint8Array => {
  const head = text(header)
  return Uint8Array.from([
    ...new Uint8Array(new BigUint64Array([BigInt(head.length)]).buffer),
    ...head,
    ...new Uint8Array(bytes),
  ])
}
const entry = (name: string, begin: number, end: number, count = 2): string =>
  `"${name}":{"dtype":"F32","shape":[${count}],"data_offsets":[${begin},${end}]}`

const malformed: readonly (readonly [string, Uint8Array, RegExp])[] = [
  [
    'two tensors overlap',
    handmade(`{${entry('a', 0, 8)},${entry('b', 4, 12)}}`, 12),
    /tensor b begins at byte 4, but tensor a before it ends at 8/,
  ],
  [
    'two tensors are the same bytes',
    handmade(`{${entry('a', 0, 8)},${entry('b', 0, 8)}}`, 8),
    /tensor b begins at byte 0, but tensor a before it ends at 8/,
  ],
  [
    'bytes of no tensor',
    handmade(`{${entry('a', 0, 8)},${entry('b', 12, 20)}}`, 20),
    /tensor b begins at byte 12, but tensor a before it ends at 8/,
  ],
  [
    'a gap behind the header',
    handmade(`{${entry('a', 8, 16)}}`, 16),
    /tensor a begins at byte 8, but the header before it ends at 0/,
  ],
  [
    'bytes behind the last tensor',
    handmade(`{${entry('a', 0, 8)}}`, 9),
    /is longer than the \d+ bytes that its header declares/,
  ],
  ['a tensor twice', handmade(`{${entry('a', 0, 8)},${entry('a', 8, 16)}}`, 16), /has "a" twice in its header/],
  [
    'a tensor twice, once with an escape',
    handmade(`{${entry('a', 0, 8)},${entry('\\u0061', 8, 16)}}`, 16),
    /has "a" twice in its header/,
  ],
  [
    'a field twice',
    handmade('{"a":{"dtype":"F32","dtype":"F16","shape":[2],"data_offsets":[0,8]}}', 8),
    /has "dtype" twice/,
  ],
  ['more bytes than its shape', handmade(`{${entry('a', 0, 8, 1)}}`, 8), /tensor a has 8 bytes, but its shape needs 4/],
  ['an end before its beginning', handmade(`{${entry('a', 8, 0)}}`, 8), /tensor a ends before it begins/],
]
for (const [what, bytes, message] of malformed)
  test(`a file that Hugging Face's library refuses is refused: ${what}`, () =>
    throws(() => parseSafetensors(bytes), message))

test('a header longer than any is not read', () => {
  const asked: number[] = []
  const read = (begin: number, end: number) => {
    asked.push(end)
    return new Uint8Array(Math.min(end, 8) - begin).fill(0x7f)
  }
  throws(() => openSafetensors(read), /has a header of \d+ bytes, more than 100000000/)
  deepEqual(asked, [8])
})

test('a tensor that is not there is named', () =>
  throws(() => parseSafetensors(file).tensor('x'), /there is no tensor x/))

const run = '00000000-0000-4000-8000-000000000000'
type Shards = Manifest['tensors'][string]['shards']

/** A checkpoint of one tensor of four elements, in memory: its manifest and its shards, each with the values it holds. */
function small(shards: readonly (Shards[number] & { values: Float32Array; said?: object })[], changes: object = {}) {
  const contents = shards.map(({ rank, file, values, said, ...box }) => [
    file,
    printSafetensors(
      { 'param.w': { dtype: 'f32', shape: box.shape, values } },
      { run, step: '1', rank: String(rank), parts: JSON.stringify({ 'param.w': box }), ...said },
    ),
  ]) as [string, Uint8Array][]
  const files = Object.fromEntries(contents.map(([name, bytes]) => [name, parseSafetensors(bytes).headSum]))
  const parts = shards.map(({ values: _, said: __, ...part }) => part)
  const tensors = { 'param.w': { dims: [{ name: 'embed' as const, size: 4 }], shards: parts } }
  const format = 'lockstep checkpoint 2'
  const manifest = printManifest({ format, name: 'small', run, step: 1, seed: 1, tensors, files, ...changes })
  return new Map<string, Uint8Array>([...contents, ['manifest.json', text(manifest)]])
}

const reading =
  (files: ReadonlyMap<string, Uint8Array>): ReadFile =>
  (name, begin, end) => {
    const bytes = files.get(name)
    if (!bytes) throw new Error('no such file')
    return bytes.subarray(begin, end)
  }
const readFrom = (files: ReadonlyMap<string, Uint8Array>) => readCheckpoint(reading(files))

const halves = [
  { rank: 0, file: 'rank-0', start: [0], shape: [2], values: values.slice(0, 2) },
  { rank: 1, file: 'rank-1', start: [2], shape: [2], values: values.slice(2) },
]
test('a checkpoint in memory is read', () =>
  deepEqual(readFrom(small(halves)).tensor('param.w'), Float64Array.from(values)))

const [left, right] = halves
// biome-ignore format: a fault a line
const bad: readonly (readonly [string, ReadonlyMap<string, Uint8Array>, RegExp])[] = [
  ['no JSON', new Map([['manifest.json', text('{')]]), /manifest.json is not JSON/],
  ['format 1', new Map([['manifest.json', text('{"format":"lockstep checkpoint 1"}')]]), /a checkpoint of format 1, written by an earlier version; .* resume it with the version that wrote it/],
  ['a later format', new Map([['manifest.json', text('{"format":"lockstep checkpoint 3"}')]]), /its format is "lockstep checkpoint 3", but this version of lockstep reads "lockstep checkpoint 2"/],
  ['another format', new Map([['manifest.json', text('{"format":"something"}')]]), /is not that of a lockstep checkpoint 2/],
  ['a path out of the folder', small([{ ...left, file: '../w' }]), /lacks step, run, files, tensors or their shards/],
  ['no run', small(halves, { run: 7 }), /lacks step, run, files/],
  ['files it does not name', small(halves, { files: {} }), /lacks step, run, files/],
  ['shards that do not cover a tensor', small([left]), /the shards of param.w do not cover it/],
  ['files swapped', small([{ ...left, file: 'rank-1', said: { rank: '1' } }, { ...right, file: 'rank-0', said: { rank: '0' } }]), /rank-1 \(written by rank 0\): was written by rank 1; rank-0 \(written by rank 1\): was written by rank 0/],
  ['parts swapped', small([{ ...left, said: { parts: '{"param.w":{"start":[2],"shape":[2]}}' } }, right]), /rank-0 .*: holds the part {"start":\[2\],"shape":\[2\]} of tensor param.w, but the manifest says {"start":\[0\]/],
  ['a shard of another run', small([left, { ...right, said: { run: 'other' } }]), /rank-1 \(written by rank 1\): is a shard of run other, but the manifest is of run 0000/],
  ['a shard that names no run', small([left, { ...right, said: { run: undefined } }]), /rank-1 .*: is a shard of run none/],
  ['a shard of another step', small([left, { ...right, said: { step: '2' } }]), /rank-1 .*: is a shard of step 2, but the manifest is of step 1/],
  ['another header', small(halves, { files: { 'rank-0': '00000000', 'rank-1': '00000000' } }), /rank-0 .*: is corrupt: the CRC-32 of its header/],
  ['NaN', small([left, { ...right, values: Float32Array.of(1, Number.NaN) }]), /rank-1 .*: tensor param.w has 1 non-finite \(NaN\/Inf\) values of 2, the first \(NaN\) at element 1/],
  ['infinity', small([left, { ...right, values: Float32Array.of(-1 / 0, Number.NaN) }]), /tensor param.w has 2 non-finite \(NaN\/Inf\) values of 2, the first \(-Infinity\) at element 0/],
]
for (const [what, files, message] of bad)
  test(`a checkpoint is refused: ${what}`, () => throws(() => readFrom(files).tensor('param.w'), message))

test('a manifest somebody has changed is refused, whatever was changed', () => {
  const files = small(halves)
  const whole = new TextDecoder().decode(files.get('manifest.json'))
  for (const [from, to] of [
    ['"step": 1', '"step": 2'],
    ['rank-0', 'rank-1'],
    [run, run.replace('4', '5')],
    ['\n}\n', '\n} \n'],
  ]) {
    ok(whole.includes(from), from)
    files.set('manifest.json', text(whole.replace(from, to)))
    throws(() => readFrom(files), /manifest.json is corrupt or was changed: its CRC-32/)
  }
})

test('non-finite values are not written', () => {
  const program = compileJob(jobOf('mlp', {}))
  const held = ({ shape }: Shard) => new Float32Array(shape.reduce((n, size) => n * size, 1)).fill(Number.NaN)
  const printed = printCheckpoint(program, { step: 1, seed: 1, run, job: {} }, held)
  throws(
    () => [...printed],
    /tensor param\.\S+ has (\d+) non-finite \(NaN\/Inf\) values of \1, the first \(NaN\) at element 0/,
  )
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
  ['llama', { tp: 4, rankOrder: 'tp-pp-dp' }],
  ['llama tied', { pp: 2, tp: 2, microbatches: 4, schedule: 'dualpipe' }],
  ['llama', { dp: 2, tp: 2, zero: 3, precision: 'bf16' }],
  ['mlp', { dp: 4, tp: 2, zero: 2 }],
  ['gpt', { dp: 3, zero: 3, offload: { optimizer: 'host', parameters: 'host' } }],
  ['llama', { dp: 7, zero: 1 }],
  ['gpt tied', { dp: 10, tp: 2, zero: 2 }],
]
for (const [model, plan, mostBytes] of written)
  test(`${model}, ${titleOf(plan)}: what ranks write is every element once${mostBytes ? `, in files of ${mostBytes} bytes` : ''}`, () => {
    const program = compileJob(jobOf(model, plan))
    const position = { step: 7, seed: 1, data: { samples: 112, epoch: 0, fingerprint: 'f' } }
    const beside = { run, job: jobOf(model, plan), tokenizer: '{"model":"ä"}' }
    const sizesOf = (dims: readonly Dim[]) => dims.map(({ size }) => size)
    /** Every rank holds the number of each element in the whole tensor, and something behind it. */
    const held = (shard: Shard) => Float32Array.of(...numbered(sizesOf(shard.dims), shard), -1)
    const files = new Map(
      [...printCheckpoint(program, { ...position, ...beside }, held, mostBytes)].map(([name, content]) => [
        name,
        typeof content === 'string' ? text(content) : content,
      ]),
    )
    equal([...files.keys()].at(-1), 'manifest.json', 'it is made last')
    if (mostBytes) ok([...files.keys()].some(name => /^rank-\d+-2\.safetensors$/.test(name)))
    const { step, seed, data, ...checkpoint } = readFrom(files)
    deepEqual({ step, seed, data }, position)
    deepEqual({ run: checkpoint.run, job: checkpoint.job(), tokenizer: checkpoint.tokenizer() }, beside)
    deepEqual([...files.keys()].slice(0, -1).sort(), checkpoint.files)
    deepEqual(checkpointProblems(program, { ...checkpoint, step, seed }, 'everything'), [])
    for (const { name, dims } of program.params)
      for (const kind of ['param', 'm', 'v'])
        deepEqual([...checkpoint.tensor(`${kind}.${name}`)], [...Array(elementsOf(dims)).keys()], `${kind}.${name}`)
  })

test('a checkpoint with the parameter names of earlier versions is read under those of today', () => {
  const program = compileJob(jobOf('llama', { dp: 2, tp: 2, zero: 1 }))
  const sizesOf = (dims: readonly Dim[]) => dims.map(({ size }) => size)
  const held = (shard: Shard) => Float64Array.from(numbered(sizesOf(shard.dims), shard))
  const before = { run, step: 3, seed: 1, job: jobOf('llama', {}) }
  const printed = [...printCheckpoint(program, before, held)]
  const now = new Map(printed.map(([name, content]) => [name, typeof content === 'string' ? text(content) : content]))
  const files = withEarlierNames(program, reading(now))
  const manifest = new TextDecoder().decode(files.get('manifest.json'))
  ok(manifest.includes('"param.layers.1.norm2.gain"') && !/norm\d?\.weight/.test(manifest))
  const checkpoint = readFrom(files)
  deepEqual(checkpointProblems(program, checkpoint, 'everything'), [])
  deepEqual(checkpoint.damages(), [])
  const names = [...readFrom(now).tensors.keys()]
  deepEqual([...checkpoint.tensors.keys()], names)
  ok(names.filter(name => /norm\d?\.weight$/.test(name)).length > 10)
  for (const name of names) deepEqual(checkpoint.tensor(name), readFrom(now).tensor(name), name)
  // A shard is still held to what the manifest says of it.
  const swapped = new Map(files).set('rank-00001.safetensors', files.get('rank-00000.safetensors')!)
  match(readFrom(swapped).damages()[0].message, /was written by rank 0/)
  // Other parameters may be called gain.
  const own = small(halves, { tensors: { 'param.first.gain': { dims: [], shards: [] } } })
  deepEqual([...readFrom(own).tensors.keys()], ['param.first.gain'])
})

/** The index in the whole of every element of a part, in the part's order. */
const numbered = (dims: readonly number[], { start, shape, line = [0, Infinity] }: Box): number[] =>
  dims
    .reduce(
      (found, size, d) => found.flatMap(at => Array.from({ length: shape[d] }, (_, i) => at * size + start[d] + i)),
      [0],
    )
    .slice(...line)

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
