/**
 * Sequences of several documents on real ranks, with native kernels and with WebAssembly: within an f32 bound of one rank in f64,
 * peaks equal to the plan byte by byte. And the data they come from: separators, labels, evaluation, resumed runs.
 */
import { deepEqual, equal, match, notEqual, ok } from 'node:assert/strict'
import { after, test } from 'node:test'
import { compileJob } from '../src/compile/index.js'
import { batchAt, batchesInOrder, datasetOfIds, packed as packedData, positionsOf } from '../src/data/index.js'
import { compareRun } from '../src/engine/index.js'
import { nativeMissing, Pool } from '../src/engine/native/index.js'
import type { PlanInput } from '../src/plan/index.js'
import { jobOf, type ModelName, optionsOf, packed, serialOf, titleOf } from './jobs.js'
import { lockstep } from './memory-io.js'
import { isWithinBounds, record } from './recorded.js'

const pool = new Pool()
after(() => pool.close())

const cases: readonly (readonly [ModelName, PlanInput])[] = [
  ['gpt tied', { cp: 2, tp: 2, sequenceParallel: true }],
  ['llama tied', { cp: 4, attention: 'ring', dp: 2, zero: 1 }],
  ['llama', { cp: 4, attention: { ulysses: 2, ring: 2 }, recompute: 'full' }],
  ['latent', { cp: 2, attention: 'ring', zigzag: false, tp: 2, sequenceParallel: true }],
  ['llama', { pp: 2, microbatches: 4, schedule: 'zb-v' }],
]
for (const [model, plan] of cases)
  for (const kernels of ['native', 'wasm'] as const)
    test(`${kernels}: ${model} with ${titleOf(plan)}`, { skip: kernels === 'native' && nativeMissing() }, async () => {
      const job = packed(jobOf(model, plan, { seq: 16, globalBatch: 4 }))
      const program = compileJob(job)
      isWithinBounds(compareRun(program, await record(program, kernels, pool, optionsOf(job)), serialOf(job)))
    })

test('positions count from 0 after each separator, which belongs to the document it ends', () => {
  deepEqual([...positionsOf(Int32Array.of(5, 6, 0, 0, 7, 8, 9, 0), 0)], [0, 1, 2, 0, 0, 1, 2, 3])
  deepEqual([...positionsOf(Int32Array.of(0, 5, 6), 0)], [0, 0, 1])
})

const ids = Uint8Array.of(1, 2, 0, 3, 4, 5, 0, 6, 7, 0, 1, 1, 2, 0, 3, 3, 3)
const plain = datasetOfIds(ids, { seq: 4, evalFraction: 0.4, name: 'ids' })

test('sequences begin a document, labels cross into the next or not, and what is held out has positions too', () => {
  const [all, within] = (['all', 'within'] as const).map(labels => packedData(plain, { separator: 0, labels }))
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
  const { code, out } = await train(documents, 'cp: 2', '--beside', '2')
  equal(code, 0)
  match(out, /one rank/)
})

test('a tokenizer that ends no text leaves it to the job', async () => {
  const { code, err } = await train('source: texts, tokenizer: t.json, documents: {}')
  equal(code, 1)
  ok(err.includes('t.json'))
})
