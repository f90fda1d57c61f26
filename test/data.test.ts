import { deepEqual, equal, notDeepEqual, ok, rejects, throws } from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { coordinatesOf } from '../src/base/index.js'
import { compileJob } from '../src/compile/index.js'
import {
  type Batch,
  batchAt,
  batchesInOrder,
  bpeTokenizer,
  byteTokenizer,
  cursorAt,
  datasetOfIds,
  encodeAll,
  fingerprint,
  looksBinary,
  permutation,
  printTokenizer,
  readIds,
  readTokenizer,
  type Samples,
  syntheticDataset,
  type Tokenizer,
  trainMerges,
  windows,
  wordsIn,
} from '../src/data/index.js'
import { boot, type Observation } from '../src/engine/index.js'
import { jobOf } from './jobs.js'

const utf8 = (text: string) => new TextEncoder().encode(text)
const seed = Number(process.env.SEED ?? 7)

const prose = [
  'the cat sat on the mat, the cat sat on the hat; the rat ate the cat that sat on the mat.\n'.repeat(20),
  'naïve café über straße — Ελληνικά 日本語 русский 🎉🎉👩‍👩‍👧 \u0301\n\n\n    indented\tby\ttabs  \n'.repeat(5),
  "it's we're you've I'm they'll he'd 12345 3.14159 foo_bar(baz) => { return qux }\n".repeat(9),
].map(utf8)
const merges = trainMerges(prose, 400)
const bpe = bpeTokenizer(merges)
const texts = [
  '',
  ' ',
  'the cat',
  '\n\n  \n',
  'naïve 🎉 日本',
  '\u0000\u0001\u007f',
  'x'.repeat(5000),
  '<|endofte',
  '\uFEFFbom',
]

test('every tokenizer gives back the text it was given', async () => {
  const theirs = await readTokenizer(printTokenizer(merges), 'tokenizer.json')
  const roundTrips = (tokenizer: Tokenizer, bytes: Uint8Array) =>
    deepEqual([...tokenizer.decode(tokenizer.encode(bytes))], [...bytes])
  for (const tokenizer of [byteTokenizer, bpe, theirs]) for (const text of texts) roundTrips(tokenizer, utf8(text))
  for (const text of prose) roundTrips(bpe, text)
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 300 }), bytes => roundTrips(byteTokenizer, bytes)),
    { seed },
  )
})

test(`our ids are those of @huggingface/tokenizers, unicode and control letters included (SEED=${seed})`, async () => {
  const theirs = await readTokenizer(printTokenizer(merges), 'tokenizer.json')
  equal(theirs.vocab, bpe.vocab)
  equal(theirs.end, bpe.end)
  const agree = (text: string) => deepEqual(Array.from(theirs.encode(utf8(text))), Array.from(bpe.encode(utf8(text))))
  for (const text of [...texts, ...prose.map(bytes => new TextDecoder().decode(bytes))]) agree(text)
  fc.assert(fc.property(fc.string({ unit: 'grapheme', maxLength: 60 }), agree), { seed })
  fc.assert(fc.property(fc.string({ unit: 'binary', maxLength: 60 }), agree), { seed })
})

test('training merges the most frequent pair first, is the same every time, and stops when nothing repeats', () => {
  deepEqual(trainMerges([utf8('abab abab abab')], 259), [
    [97, 98],
    [257, 257],
  ])
  deepEqual(trainMerges(prose, 400), merges)
  ok(merges.length === 400 - 257)
  deepEqual(trainMerges([utf8('abcdefg')], 1000), [])
  deepEqual(trainMerges([], 1000), [])
  const text = prose[0]
  ok(bpe.encode(text).length < text.length / 2)
})

test('text without spaces is cut into words, which are learned from and encoded as by anybody else', async () => {
  const letters = utf8('abcdefgh'.repeat(40_000))
  const learned = trainMerges([letters], 264)
  deepEqual(learned.slice(0, 2), [
    [97, 98],
    [99, 100],
  ])
  const ours = bpeTokenizer(learned)
  const ids = ours.encode(letters)
  equal(ids.length, letters.length / 8, 'a token for every abcdefgh')
  deepEqual(ours.decode(ids), letters)
  const theirs = await readTokenizer(printTokenizer(learned), 'tokenizer.json')
  for (const text of [
    'x'.repeat(700),
    'ab'.repeat(500),
    ' '.repeat(700),
    `${' '.repeat(300)}a`,
    '🎉'.repeat(300),
    '…'.repeat(600),
  ])
    deepEqual(Array.from(theirs.encode(utf8(text))), Array.from(ours.encode(utf8(text))), text.slice(0, 4))
})

test('a text read in pieces has the words of the whole, wherever it is cut', () => {
  const texts = [
    ...prose,
    utf8('日本語'.repeat(200)),
    utf8(`${' '.repeat(600)}a${'\n'.repeat(3)}🎉${'b'.repeat(800)} c`),
  ]
  for (const text of texts) {
    const whole = [...wordsIn(text)]
    deepEqual(Buffer.concat(whole.map(utf8)), Buffer.from(text))
    for (const piece of [1, 7, 600, 1000]) deepEqual([...wordsIn(text, piece)], whole, `pieces of ${piece}`)
  }
})

test('of too many different words the first are learned from, and whoever asks is told', () => {
  const told: number[] = []
  const words = Array.from({ length: 5000 }, (_, i) => `w${i}`).join(' ')
  const options = { mostBytes: 100, onLimit: (bytes: number) => void told.push(bytes) }
  const few = trainMerges([utf8(`${words} ${'late '.repeat(50)}${'w0 '.repeat(50)}`)], 300, options)
  deepEqual(told, [100])
  deepEqual(few[0], [32, 119], 'w0 was known')
  deepEqual(
    few,
    trainMerges([utf8(`${words.slice(0, 98)} ${'w0 '.repeat(50)}`)], 300, { ...options, mostBytes: 1000 }),
    'nothing was learned of what came late',
  )
  deepEqual(told, [100])
})

test('texts lie one after the other, each with its end', () => {
  deepEqual([...encodeAll(byteTokenizer, [utf8('ab'), utf8(''), utf8('c')])], [97, 98, 0, 0, 99, 0])
  equal(encodeAll(byteTokenizer, []).length, 0)
  ok(encodeAll(bpe, [utf8('a')]) instanceof Uint16Array)
  equal(encodeAll(bpe, [utf8('a')])[1], 256)
})

test('what is not a tokenizer.json is refused in words', async () => {
  await rejects(readTokenizer('{', 'x'), /is not valid JSON/)
  await rejects(readTokenizer('[]', 'x'), /it has no model/)
  await rejects(readTokenizer('{"model":{"type":"Magic"}}', 'x'), /not a tokenizer that @huggingface\/tokenizers reads/)
})

test('token files are u16 or u32, least byte first, with or without the header of llm.c', () => {
  deepEqual([...readIds(Uint8Array.of(1, 0, 0, 1), 'u16')], [1, 256])
  deepEqual([...readIds(Uint8Array.of(1, 0, 0, 1), 'u32')], [1 + 2 ** 24])
  const headed = new Uint8Array(1024 + 4)
  new DataView(headed.buffer).setUint32(0, 20240520, true)
  headed.set([7, 0, 8, 0], 1024)
  deepEqual([...readIds(headed, 'u16')], [7, 8])
  deepEqual([...readIds(new Uint8Array(9).subarray(1, 5), 'u16')], [0, 0])
  throws(() => readIds(new Uint8Array(3), 'u16'), /3 bytes are not a multiple of u16/)
  ok(looksBinary(Uint8Array.of(65, 0, 66)) && !looksBinary(utf8('text')))
})

test('a shuffle is one to one, whatever the number of things', () => {
  for (const n of [1, 2, 3, 5, 16, 17, 100, 1000]) {
    const order = permutation(n, { seed: 3, name: 'order', step: 1 })
    deepEqual(new Set(Array.from({ length: n }, (_, i) => order(i))).size, n)
  }
  const first = (step: number) =>
    Array.from({ length: 50 }, (_, i) => permutation(50, { seed: 3, name: 'order', step })(i))
  notDeepEqual(first(0), first(1))
  deepEqual(first(0), first(0))
})

/** Sample i is `seq` times the token i: a batch shows which samples it holds. */
const numbered = (count: number, seq = 4): Samples =>
  windows(
    Uint16Array.from({ length: count * seq + 1 }, (_, i) => Math.floor(i / seq)),
    seq,
  )
const heldBy = (batch: Batch, seq = 4) => [...batch('tokens')].filter((_, i) => i % seq === 0)

test('every epoch passes every sample once, wherever steps begin and end', () => {
  const samples = numbered(23)
  equal(samples.count, 23)
  const seen = Array.from({ length: 23 }, (_, step) =>
    heldBy(batchAt(samples, { seed: 5, globalBatch: 6 }, step)),
  ).flat()
  for (let epoch = 0; epoch < 6; epoch++) {
    const own = seen.slice(epoch * 23, (epoch + 1) * 23)
    deepEqual(
      own.toSorted((a, b) => a - b),
      Array.from({ length: 23 }, (_, i) => i),
    )
    notDeepEqual(own, seen.slice(0, 23).toSorted())
  }
})

test('the order depends on the seed alone: batches of any size are cuts of one sequence', () => {
  const sequence = (globalBatch: number, seed: number) =>
    Array.from({ length: 48 / globalBatch }, (_, step) =>
      heldBy(batchAt(numbered(31), { seed, globalBatch }, step)),
    ).flat()
  for (const globalBatch of [1, 2, 3, 8, 16, 24, 48]) deepEqual(sequence(globalBatch, 9), sequence(12, 9))
  notDeepEqual(sequence(12, 9), sequence(12, 10))
})

test('what the ranks load is the batch: disjoint over dp and microbatches, complete, and the same under every plan', () => {
  const { train } = syntheticDataset({ seq: 4, vocab: 8 }, 1)
  const batch = batchAt(train, { seed: 1, globalBatch: 16 }, 3)
  const whole = [...batch('tokens')]
  for (const plan of [{}, { dp: 4, microbatches: 2 }, { dp: 2, tp: 2, pp: 2, microbatches: 4 }]) {
    const program = compileJob(jobOf('llama', plan))
    const loaded = new Map<string, number[]>()
    const observe = ({ rank, call, instr, read }: Observation) => {
      if (instr.kind !== 'load' || instr.input !== 'tokens') return
      const place = `${call.microbatch}.${coordinatesOf(program.mesh, rank).dp}`
      const values = [...read(instr.out)]
      deepEqual(loaded.get(place) ?? values, values, 'ranks of one copy see the same')
      loaded.set(place, values)
    }
    boot(program, { seed: 1, observe }).step({ inputs: batch, lr: 0, step: 3 })
    const inOrder = [...loaded].sort(([a], [b]) => (a < b ? -1 : 1)).flatMap(([, values]) => values)
    deepEqual(inOrder, whole)
  }
})

test('labels are the next tokens, and held-out windows share no token with the others', () => {
  const ids = Uint16Array.from({ length: 1000 }, (_, i) => i)
  const { train, heldOut, fingerprint: print } = datasetOfIds(ids, { seq: 16, evalFraction: 0.25, name: 'x' })
  deepEqual([train.count, heldOut.count], [46, 15])
  const everything = (samples: Samples) => {
    const batches = batchesInOrder(samples, 4, 1000)
    return batches.flatMap(batch => [...batch('tokens'), ...batch('labels')].filter(id => id > 0))
  }
  const [a, b] = [new Set(everything(train)), new Set(everything(heldOut))]
  ok([...a].every(id => !b.has(id)) && a.size === 46 * 16 && b.size === 15 * 16 + 1)
  const batch = batchAt(train, { seed: 1, globalBatch: 3 }, 2)
  deepEqual(
    [...batch('labels')],
    [...batch('tokens')].map(id => id + 1),
  )
  notDeepEqual(print, datasetOfIds(ids.with(500, 0), { seq: 16, evalFraction: 0.25, name: 'x' }).fingerprint)
  equal(fingerprint('a', [1, 2, 3]), fingerprint('a', [1, 2, 3]))
  equal(windows(new Uint16Array(0), 4).count, 0)
  equal(windows(new Uint16Array(4), 4).count, 0)
  equal(windows(new Uint16Array(5), 4).count, 1)
})

test('an evaluation passes held-out samples once in order; what is left of the last batch does not count', () => {
  const batches = batchesInOrder(numbered(5), 2, 10)
  deepEqual(
    batches.map(batch => heldBy(batch)),
    [
      [0, 1],
      [2, 3],
      [4, 0],
    ],
  )
  deepEqual([...batches[2]('labels')].slice(4), [-100, -100, -100, -100])
  equal(batchesInOrder(numbered(5), 2, 1).length, 1)
  equal(batchesInOrder(numbered(0), 2, 4).length, 0)
  throws(() => batches[0]('x'), /the data has no x; it has tokens, labels/)
})

test('the cursor says where a run stands', () => {
  const at = { step: 7, fingerprint: 'f' }
  deepEqual(cursorAt(numbered(10), { seed: 1, globalBatch: 3 }, at), { samples: 21, epoch: 2, fingerprint: 'f' })
})

test('the synthetic tasks follow from what was seen, and what is held out is another draw', () => {
  const { train, heldOut } = syntheticDataset({ seq: 6, vocab: 11 }, 4)
  const [a, b] = [train, heldOut].map(samples => batchesInOrder(samples, 8, 1)[0])
  notDeepEqual(a('tokens'), b('tokens'))
  for (let sample = 0; sample < 8; sample++) {
    const [tokens, labels] = ['tokens', 'labels'].map(name => [...a(name).subarray(sample * 6, sample * 6 + 6)])
    const stride = (tokens[1] - tokens[0] + 11) % 11
    deepEqual(labels, [-100, ...tokens.slice(2), (tokens[5] + stride) % 11])
  }
  const vectors = batchAt(syntheticDataset({ seq: 2, embed: 3 }, 4).train, { seed: 1, globalBatch: 1 }, 0)
  const [x, target] = [vectors('x'), vectors('target')]
  deepEqual(
    [...target],
    [1, 2, 0, 4, 5, 3].map(i => x[i] / 2),
  )
})
