/**
 * Sequences of several documents on real ranks, with native kernels and with WebAssembly: within an f32 bound of one rank in f64,
 * peaks equal to the plan byte by byte. And the data they come from: separators, labels, evaluation, resumed runs.
 */
import { deepEqual, equal, match, notEqual, ok } from 'node:assert/strict'
import { after } from 'node:test'
import { compileJob } from '../src/compile/index.js'
import { batchAt, batchesInOrder, datasetOfIds, documentsIn, packed as packedData, padded } from '../src/data/index.js'
import { compareRun } from '../src/engine/index.js'
import { nativeMissing, Pool } from '../src/engine/native/index.js'
import { Job, type PlanInput } from '../src/plan/index.js'
import { expertModels } from './expert-models.js'
import { family, test } from './families.js'
import { jobOf, type ModelName, optionsOf, packed, serialOf, titleOf } from './jobs.js'
import { lockstep } from './memory-io.js'
import { isWithinBounds, record } from './recorded.js'

const pool = new Pool()
after(() => pool.close())

const cases: readonly (readonly [ModelName, PlanInput, pad?: number])[] = [
  ['gpt tied', { cp: 2, tp: 2, sequenceParallel: true }],
  ['llama tied', { cp: 4, attention: 'ring', dp: 2, zero: 1 }],
  ['llama', { cp: 4, attention: { ulysses: 2, ring: 2 }, recompute: 'full' }],
  ['latent', { cp: 2, attention: 'ring', zigzag: false, tp: 2, sequenceParallel: true }],
  ['llama', { pp: 2, microbatches: 4, schedule: 'zb-v' }],
  ['llama tied', { cp: 2, zigzag: 'documents', attention: 'ring', tp: 2, sequenceParallel: true }, 4],
  ['latent', { cp: 2, zigzag: 'documents', dp: 2, zero: 3 }, 8],
  ['gpt tied', { cp: 2, zigzag: 'documents', tp: 2, sequenceParallel: true }, 4],
]
const training = { seq: 16, globalBatch: 4 }
const tested = family('packed documents on the engine', 6)
for (const [model, plan, pad] of cases)
  for (const kernels of ['native', 'wasm'] as const)
    tested(`${kernels}: ${model} with ${titleOf(plan)}`, { skip: kernels === 'native' && nativeMissing() }, async () =>
      isRight(packed(jobOf(model, plan, training), pad), kernels),
    )

async function isRight(job: Job, kernels: 'native' | 'wasm') {
  const program = compileJob(job)
  isWithinBounds(compareRun(program, await record(program, kernels, pool, optionsOf(job)), serialOf(job)))
}

/** Who gets the little room that experts have is a matter of tokens, not of slots. */
const shared = { cp: 2, dp: 2, ep: 4, expertCapacity: 'worst', zigzag: 'documents' } as const
for (const kernels of ['native', 'wasm'] as const)
  test(`${kernels}: gshard with ${titleOf(shared)}`, { skip: kernels === 'native' && nativeMissing() }, () =>
    isRight(packed(Job.parse({ model: expertModels.gshard, training, plan: shared }), 4), kernels),
  )

test('positions count from 0 after each EOD token, which belongs to the document it ends', () => {
  const positionsOf = (...tokens: number[]) => [...documentsIn(Int32Array.from(tokens), { eod: 0, pad: 1 }).positions]
  deepEqual(positionsOf(5, 6, 0, 0, 7, 8, 9, 0), [0, 1, 2, 0, 0, 1, 2, 3])
  deepEqual(positionsOf(0, 5, 6), [0, 0, 1])
})

test('documents are filled up with EOD tokens, which belong to them and predict nothing', () => {
  const given = Uint16Array.of(5, 6, 0, 7, 8, 9, 0, 0, 4, 4, 4, 4, 0, 3)
  const ids = padded(given, { eod: 0, pad: 4 })
  deepEqual([...ids], [5, 6, 0, 0, 7, 8, 9, 0, 0, 0, 0, 0, 4, 4, 4, 4, 0, 0, 0, 0, 3])
  equal(padded(given, { eod: 0, pad: 1 }), given)
  const sample = (eodMaskLoss: boolean, input: string, of = ids) => {
    const into = new Int32Array(20)
    const plain = datasetOfIds(of, { seq: 20, evalFraction: 0, name: 'ids' })
    packedData(plain, { eod: 0, eodMaskLoss, pad: 4 }).train.write(input, 0, into)
    return [...into]
  }
  deepEqual(sample(false, 'tokens'), [...ids.subarray(0, 20)])
  deepEqual(sample(false, 'positions'), [0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 4, 5, 6, 7])
  const x = -100
  deepEqual(sample(false, 'labels'), [6, 0, 7, x, 8, 9, 0, 0, 4, x, x, x, 4, 4, 4, 0, 3, x, x, x])
  deepEqual(sample(true, 'labels'), [6, 0, x, x, 8, 9, 0, x, x, x, x, x, 4, 4, 4, 0, x, x, x, x])
  const named = [1, 4].map(pad => packedData(plain, { eod: 0, eodMaskLoss: false, pad }).fingerprint)
  notEqual(named[0], named[1], 'a checkpoint tells them apart')
  // What counts on and on has no room for it: some of it is left out.
  const counting = Uint8Array.from({ length: 21 }, (_, i) => (i + 2) % 3)
  deepEqual(sample(false, 'tokens', counting), [2, 0, 0, 0, 0, 0, 0, 0, 1, 2, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0])
  deepEqual(sample(false, 'labels', counting), [0, 0, x, x, 1, x, x, x, 2, 0, 2, x, 0, 0, x, x, 1, x, x, x])
})

test('what is held out begins with a document, and blank samples are documents of their own', () => {
  const given = Uint8Array.from({ length: 40 }, (_, i) => (i % 8 === 7 ? 0 : 1 + (i % 5)))
  const plain = datasetOfIds(given, { seq: 8, evalFraction: 0.55, name: 'ids', pad: 8 })
  const { heldOut } = packedData(plain, { eod: 0, eodMaskLoss: false, pad: 8 })
  const [judged] = batchesInOrder(heldOut, 4, 1)
  deepEqual([...judged('positions')], new Array(4).fill([0, 1, 2, 3, 4, 5, 6, 7]).flat())
  deepEqual([...judged('tokens')].slice(0, 8), [...given.subarray(24, 32)])
})

const ids = Uint8Array.of(1, 2, 0, 3, 4, 5, 0, 6, 7, 0, 1, 1, 2, 0, 3, 3, 3)
const plain = datasetOfIds(ids, { seq: 4, evalFraction: 0.4, name: 'ids' })

test('sequences begin a document, labels cross into the next or not, and what is held out has positions too', () => {
  const [all, within] = [false, true].map(eodMaskLoss => packedData(plain, { eod: 0, eodMaskLoss, pad: 1 }))
  const sample = (of: typeof all, input: string) => {
    const into = new Int32Array(4)
    of.train.write(input, 1, into)
    return [...into]
  }
  deepEqual(sample(all, 'tokens'), [4, 5, 0, 6])
  deepEqual(sample(all, 'positions'), [0, 1, 2, 0])
  deepEqual(sample(all, 'labels'), [5, 0, 6, 7])
  deepEqual(sample(within, 'labels'), [5, 0, -100, 7])
  const [judged] = batchesInOrder(all.heldOut, 2, 1)
  deepEqual([...judged('positions')].slice(4), [0, 0, 0, 0])
  equal(batchAt(all.train, { seed: 1, globalBatch: 3 }, 0)('positions').length, 12)
  notEqual(all.fingerprint, plain.fingerprint)
  notEqual(all.fingerprint, within.fingerprint)
})

const job = (data: string, plan = '') => `
model: { family: llama, layers: 1, embed: 8, heads: 2, ffn: 8, vocab: 256 }
training: { seq: 8, globalBatch: 4, steps: 3, optimizer: { kind: adamw, lr: 1e-2 }, evalBatches: 1 }
data: { ${data} }
plan: { ${plan} }
`
const text = { 'texts/a.txt': 'abcab'.repeat(9), 'texts/b.txt': 'xyz', 'texts/c.txt': 'cabba'.repeat(40) }
const train = async (data: string, plan = '', ...more: string[]) => {
  const files = { 'job.yaml': job(data, plan), ...text }
  return lockstep(['train', 'job.yaml', '--kernels', 'reference', ...more], files)
}
const lossesOf = (out: string) =>
  out
    .trimEnd()
    .split('\n')
    .map(line => JSON.parse(line))
    .flatMap(({ loss, evalLoss }) => [loss, evalLoss])
    .filter(loss => loss !== undefined)

test('a folder of texts is trained on document by document, alike on one rank and on several', async () => {
  const documents = 'source: texts, documents: {}'
  const [one, two, beyond] = [
    await train(documents, '', '--json'),
    await train(documents, 'dp: 2, cp: 2, attention: ring', '--json'),
    await train('source: texts', '', '--json'),
  ].map(({ code, out, err }) => {
    equal(code, 0, err)
    return lossesOf(out)
  })
  equal(one.length, 4)
  ok(one.every((loss, i) => Math.abs(loss - two[i]) < 1e-5))
  ok(one.some((loss, i) => Math.abs(loss - beyond[i]) > 1e-6))
  // Filled up, the same batch is another one; cut one by one or as a sequence, it is the same.
  const padded = 'source: texts, documents: { pad: 4 }'
  const [alone, cut, apart] = [
    await train(padded, '', '--json'),
    await train(padded, 'dp: 2, cp: 2, attention: ring', '--json'),
    await train(padded, 'dp: 2, cp: 2, zigzag: documents', '--json'),
  ].map(({ code, out, err }) => {
    equal(code, 0, err)
    return lossesOf(out)
  })
  ok(alone.every((loss, i) => Math.abs(loss - cut[i]) < 1e-5 && Math.abs(loss - apart[i]) < 1e-5))
  ok(alone.some((loss, i) => Math.abs(loss - one[i]) > 1e-6))
  const { code, out } = await train(documents, 'cp: 2', '--single-rank', '2')
  equal(code, 0)
  match(out, /single rank/)
})

test('a tokenizer that ends no text leaves it to the job', async () => {
  const { code, err } = await train('source: texts, tokenizer: t.json, documents: {}')
  equal(code, 1)
  ok(err.includes('t.json'))
})
