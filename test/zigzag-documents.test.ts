/**
 * Documents that are cut in zigzag one by one: each rank has two chunks of every document, so all have as much to do, and the
 * step is the one that any other plan makes of the same batch.
 */
import { deepEqual, equal } from 'node:assert/strict'
import { test } from 'node:test'
import { orderOf } from '../src/geometry/index.js'
import type { Job, PlanInput } from '../src/plan/index.js'
import { readFixture } from './fixtures.js'
import { computesWhatOneRankComputes, jobOf, type ModelName, packed, titleOf } from './jobs.js'

interface Packed {
  readonly docs: readonly number[]
  readonly cp: number
  readonly positions: readonly (readonly number[])[]
  readonly pairs_rank: readonly number[]
}
const { packed_documents }: { packed_documents: readonly Packed[] } = JSON.parse(readFixture('cp/splits.json'))

for (const { docs, cp, positions, pairs_rank } of packed_documents)
  test(`documents of ${docs.join(', ')} tokens over cp ${cp} lie as others lay them, rank after rank, in equal shares`, () => {
    const inDocument = docs.flatMap(length => Array.from({ length }, (_, i) => i))
    const order = [...orderOf(inDocument, cp)]
    const held = inDocument.length / cp
    const ranks = Array.from({ length: cp }, (_, rank) => order.slice(rank * held, (rank + 1) * held))
    deepEqual(ranks, positions)
    deepEqual(
      ranks.map(tokens => tokens.reduce((pairs, token) => pairs + inDocument[token] + 1, 0)),
      pairs_rank,
    )
    equal(new Set(pairs_rank).size, 1)
  })

const hybrid = { ulysses: 2, ring: 2 } as const

const plans: readonly (readonly [ModelName, PlanInput, pad: number])[] = [
  ['gpt', { cp: 2, zero: 3, microbatches: 2 }, 4],
  ['gpt', { cp: 2, tp: 2, sequenceParallel: true, attention: 'ring', recompute: 'full' }, 8],
  ['llama', { cp: 4, attention: 'ring', zero: 1 }, 8],
  ['llama tied', { cp: 2, attention: 'ring', overlap: false }, 4],
  ['llama tied', { cp: 4, attention: hybrid }, 4],
  ['latent', { cp: 2, tp: 2, sequenceParallel: true, attention: 'ring' }, 4],
  ['llama', { cp: 2, pp: 2, microbatches: 4, schedule: 'zb-v', zero: 2 }, 4],
]

/** As many layers as stages, of sequences of 16 tokens. */
function jobIn(name: ModelName, plan: PlanInput, pad: number): Job {
  const job = packed(jobOf(name, { ...plan, zigzag: 'documents' }, { seq: 16, globalBatch: 4 }), pad)
  const { pp, chunks } = job.plan
  return { ...job, model: { ...job.model, layers: pp * chunks } }
}

for (const [model, plan, pad] of plans)
  test(`${model} with ${titleOf(plan)}, documents of multiples of ${pad}, computes what one rank computes`, () =>
    computesWhatOneRankComputes(jobIn(model, plan, pad)))
