/** A plan in outline takes as long as its program: no memory is planned, and everything else is the same. */
import { ok } from 'node:assert/strict'
import { clusterOf } from '../src/cluster/index.js'
import { compileJob, scheduleOf } from '../src/compile/index.js'
import { EstimateBook, frameworks, type Split, shapeOf } from '../src/estimate/index.js'
import type { Part } from '../src/metrics/index.js'
import { ModelConfig, presets } from '../src/model/index.js'
import { jobOf, Outlines, plainSplit, type Request } from '../src/search/index.js'
import { clusterPrices, simulate } from '../src/simulate/index.js'
import { family, test } from './families.js'
import { randomSplits } from './random-splits.js'
import { requestOf } from './search-requests.js'

/** The difference is made by sends that are waited for. */
const bound = 0.01

function agrees(request: Request, split: Split): void {
  const job = jobOf(request, split)
  const schedule = scheduleOf(job.plan)
  const outline = new Outlines(request).of(split, schedule)
  const program = compileJob(job, schedule)
  const one = simulate(outline.program, outline.prices, { watch: [] })
  const other = simulate(program, clusterPrices(program, request.cluster), { watch: [] })
  ok(Math.abs(one.step / other.step - 1) <= bound, `${one.step} s in outline, ${other.step} s compiled`)
  for (const part of Object.keys(other.parts) as Part[])
    ok(Math.abs(one.parts[part] - other.parts[part]) <= bound * other.step, part)
}

const gpt = ModelConfig.parse({ family: 'gpt', layers: 8, embed: 2048, heads: 16, ffn: 8192, vocab: 32768, tied: true })
const tied: Request = {
  ...requestOf({ devices: 16, batch: 16, software: 'lockstep' }),
  ...{ model: gpt, shape: shapeOf(gpt, 2048)! },
}
const llama = requestOf({ devices: 16, batch: 16, layers: 8, software: 'lockstep' })

const cases: readonly (readonly [Split['schedule'], Partial<Split>])[] = [
  ['1f1b', { pp: 4, dp: 4, microbatches: 4 }],
  ['1f1b', { dp: 16, zero: 3 }],
  ['1f1b', { dp: 8, zero: 3, reduce: 'step', microbatches: 2 }],
  ['interleaved', { pp: 2, chunks: 2, dp: 8, zero: 3, gather: 'step', microbatches: 2 }],
  ['zb-h1', { pp: 2, dp: 8, zero: 2, reduce: 'step', microbatches: 2 }],
  ['1f1b', { tp: 16, sequenceParallel: true, microbatches: 16 }],
  ['gpipe', { pp: 2, dp: 8, microbatches: 2, layers: [5, 3] }],
  ['interleaved', { pp: 4, chunks: 2, dp: 2, tp: 2, microbatches: 8, zero: 1 }],
  ['looped-bfs', { pp: 4, chunks: 2, dp: 2, tp: 2, microbatches: 8, zero: 2 }],
  ['interleaved-zb', { pp: 2, chunks: 4, dp: 8, microbatches: 2, recompute: 'full' }],
  ['zb-h1', { pp: 4, dp: 4, microbatches: 4, zero: 3 }],
  ['zb-h2', { pp: 8, dp: 2, microbatches: 8, recompute: 'selective' }],
  ['zb-v', { pp: 4, chunks: 2, dp: 2, tp: 2, sequenceParallel: true, microbatches: 8 }],
  ['v-half', { pp: 4, chunks: 2, dp: 4, microbatches: 4 }],
  ['v-min', { pp: 4, chunks: 2, dp: 4, microbatches: 4, zero: 2 }],
  ['dualpipe', { pp: 4, dp: 2, tp: 2, microbatches: 8, zero: 1 }],
  ['dualpipe', { pp: 3, dp: 4, microbatches: 4 }],
  ['dualpipe', { pp: 5, dp: 2, microbatches: 8, zero: 1 }],
  ['dualpipe', { pp: 7, dp: 2, microbatches: 8, zero: 3 }],
  ['dualpipe-v', { pp: 4, chunks: 2, dp: 2, tp: 2, microbatches: 8 }],
]

const tested = family('simulated outlines', 3)
for (const [name, request] of [['a llama', llama] as const, ['a gpt with one table', tied] as const])
  for (const [schedule, given] of cases)
    tested(`${name}, ${schedule} ${JSON.stringify(given)}: in outline as compiled`, () => {
      const { dp, microbatches } = { ...plainSplit, ...given }
      agrees(request, { ...plainSplit, ...given, schedule, microbatch: 16 / dp / microbatches })
    })

/** A model of two kinds of layers, and one of routed layers alone. */
const routed = (moe: object): Request => {
  const sizes = { layers: 8, embed: 2048, heads: 16, kvHeads: 8, ffn: 8192, vocab: 32768 }
  const experts = { experts: 8, topK: 2, ffn: 4096, loss: { microbatch: 0.01 } }
  const model = ModelConfig.parse({ family: 'llama', ...sizes, moe: { ...experts, ...moe } })
  return { ...llama, model, shape: shapeOf(model, 2048)! }
}
const everyRouted = routed({})
const deepest = routed({ dense: 3, shared: 2048, bias: 0.001, scores: 'sigmoid', loss: { sequence: 0.001 } })
const everyThird = routed({ dense: 1, every: 3 })

const withExperts: readonly (readonly [Request, Split['schedule'], Partial<Split>])[] = [
  [everyRouted, '1f1b', { pp: 2, dp: 8, ep: 4, microbatches: 2, zero: 1 }],
  [everyRouted, 'zb-v', { pp: 4, chunks: 2, dp: 4, ep: 2, microbatches: 4 }],
  [deepest, '1f1b', { dp: 16, ep: 8, zero: 3 }],
  [deepest, '1f1b', { pp: 4, dp: 4, ep: 4, microbatches: 4, zero: 2, layers: [3, 2, 2, 1] }],
  [deepest, 'dualpipe', { pp: 4, dp: 4, ep: 2, microbatches: 4, zero: 1 }],
  [deepest, 'interleaved', { pp: 2, chunks: 4, dp: 4, tp: 2, ep: 8, microbatches: 4, recompute: 'full' }],
  [everyThird, 'zb-h1', { pp: 4, dp: 2, tp: 2, sequenceParallel: true, ep: 4, microbatches: 8, zero: 1 }],
]
for (const [request, schedule, given] of withExperts)
  tested(`experts, ${schedule} ${JSON.stringify(given)}: in outline as compiled`, () => {
    const { dp, microbatches } = { ...plainSplit, ...given }
    agrees(request, { ...plainSplit, ...given, schedule, microbatch: 16 / dp / microbatches })
  })

for (const seed of [1, 2])
  tested(`random plans: in outline as compiled (SEED=${seed})`, () => {
    for (const split of randomSplits(llama, seed, 8)) agrees(llama, split)
  })

test('70B on 512 devices, 8 x 8 x 8: in outline as compiled', () => {
  const model = ModelConfig.parse(presets['llama3-70b'])
  const request: Request = {
    ...{ model, shape: shapeOf(model, 8192)!, globalBatch: 128, cluster: clusterOf('h100', 512) },
    ...{ precision: 'bf16', software: frameworks.lockstep, constraints: [], book: new EstimateBook() },
  }
  const split: Split = { ...plainSplit, tp: 8, pp: 8, dp: 8, zero: 1, sequenceParallel: true, microbatches: 16 }
  agrees(request, { ...split, schedule: 'interleaved', chunks: 2 })
})
