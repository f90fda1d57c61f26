/** FLOPs count what tokens see: of a window its tokens, of packed documents their own; each is compared with counting one by one. */
import { equal, ok } from 'node:assert/strict'
import { test } from 'node:test'
import { clusterOf } from '../src/cluster/index.js'
import { datasetOfIds, extentOfDocuments, packed } from '../src/data/index.js'
import { flopsOfStep, frameworks, shapeOf } from '../src/estimate/index.js'
import { extentOf, flopsDefinitionOf, flopsPerToken, ModelConfig } from '../src/model/index.js'

const seq = 64
const llama = { family: 'llama', layers: 3, embed: 32, heads: 4, kvHeads: 2, ffn: 64, vocab: 64 } as const
const parsed = (window?: number) => ModelConfig.parse({ ...llama, ...(window && { window }) })

/** Twice the tokens that each token sees, itself by half, on average: documents of these lengths, one token at a time. */
function counted(documents: readonly number[], window = Number.POSITIVE_INFINITY): number {
  let [tokens, seen] = [0, 0]
  for (const length of documents)
    for (let query = 0; query < length; query++, tokens++)
      for (let key = 0; key <= query; key++) if (query - key < window) seen += key === query ? 0.5 : 1
  return (2 * seen) / tokens
}

for (const window of [1, 7, 16, 63, 64, 100])
  test(`a token that sees ${window} of ${seq} has the FLOPs of those`, () => {
    const attention = 12 * llama.layers * llama.embed * counted([seq], window)
    equal(extentOf(seq, window), counted([seq], window))
    const products = flopsPerToken(parsed(), seq) - 12 * llama.layers * llama.embed * seq
    ok(Math.abs(flopsPerToken(parsed(window), seq) - products - attention) < 1e-6)
  })

const lengths = [5, 20, 1, 38, 30, 30, 4, 64]

for (const window of [undefined, 8])
  test(`packed documents${window ? `, of which a token sees ${window},` : ''} have the FLOPs of each of them`, () => {
    const ids = Uint8Array.from([...lengths.flatMap(length => [...new Uint8Array(length - 1).fill(1), 0]), 1])
    const documents = { eod: 0, eodMaskLoss: false, pad: 1 } as const
    const { train } = packed(datasetOfIds(ids, { seq, evalFraction: 0, name: 'documents' }), documents)
    equal(train.count, 3)
    ok(Math.abs(extentOfDocuments(train, window)! - counted(lengths, window)) < 1e-9)
  })

test('where a sequence is one document its data says nothing', () => {
  const { train } = datasetOfIds(new Uint8Array(200), { seq, evalFraction: 0, name: 'one' })
  equal(extentOfDocuments(train), undefined)
})

test('FLOPs of a step, the model’s and those of what is computed again, know windows of all layers and of every second', () => {
  const flopsWith = (recompute: 'none' | 'full', layers?: 'all' | 'half') => {
    const shape = { ...shapeOf(parsed(), seq)!, ...(layers && { window: { tokens: 16, layers } }) }
    const split = { tp: 1, pp: 1, dp: 1, cp: 1, ep: 1, microbatches: 1, microbatch: 1, chunks: 1, zero: 0 } as const
    const cut = { ...split, sequenceParallel: false, schedule: '1f1b', recompute } as const
    return flopsOfStep({
      shape,
      split: cut,
      cluster: clusterOf('H100', 1),
      precision: 'bf16',
      software: frameworks.lockstep,
    })
  }
  const passOver = (tokens: number) => 4 * llama.layers * llama.embed * seq * tokens
  const left = { all: seq - extentOf(seq, 16), half: (seq - extentOf(seq, 16)) / 2 }
  for (const layers of ['all', 'half'] as const) {
    const [whole, some] = [flopsWith('full'), flopsWith('full', layers)]
    equal(Math.round(whole.model - some.model), Math.round(3 * passOver(left[layers])))
    equal(Math.round(whole.hardware - some.hardware), Math.round(4 * passOver(left[layers])))
    equal(flopsWith('none', layers).hardware, some.model)
  }
})

test('the definition beside the number says so', () => {
  equal(
    flopsDefinitionOf({ adapters: false, limited: true }),
    '6 x parameters + 12 x layers x heads x headDim x twice the tokens seen for each token',
  )
})
