/** Our own programs with experts: the estimate beside the simulation of the compiled program, in time and memory. */
import { ok } from 'node:assert/strict'
import { test } from 'node:test'
import { Job, type PlanInput } from '../src/plan/index.js'
import { compared, spread } from './random-plans.js'

const routed = {
  ...{ family: 'llama' as const, layers: 8, embed: 4096, heads: 32, kvHeads: 8, ffn: 14336, vocab: 32000 },
  moe: { experts: 8, topK: 2, ffn: 3584 },
}
const latent = {
  ...{ family: 'llama' as const, layers: 6, embed: 4096, heads: 32, ffn: 11008, vocab: 32000 },
  moe: { experts: 32, topK: 4, ffn: 1536, shared: 1536, dense: 1, scores: 'sigmoid' as const },
  mla: { qLoraRank: 1536, kvLoraRank: 512, qkRopeHeadDim: 64, qkNopeHeadDim: 128, vHeadDim: 128 },
}
const usual: PlanInput = { dp: 8, zero: 1, microbatches: 4, precision: 'bf16' }

const plans: readonly (readonly [model: typeof routed | typeof latent, plan: PlanInput])[] = [
  [routed, { ep: 8 }],
  [routed, { ep: 4 }],
  [routed, { ep: 1 }],
  [routed, { ep: 8, expertCapacity: 1 }],
  [routed, { ep: 4, tp: 2, dp: 4, sequenceParallel: true }],
  [routed, { ep: 4, pp: 2, dp: 4 }],
  [routed, { ep: 8, recompute: 'full' }],
  [routed, { ep: 8, zero: 3 }],
  [routed, { ep: 4, cp: 2, dp: 4 }],
  [latent, { ep: 8 }],
  [latent, { ep: 4, pp: 2, dp: 4 }],
]

const limits = { time: [0.015, 0.12], memory: [0.02, 0.1] } as const

test(`${plans.length} plans with experts: time within 1.5 % on average and 12 % at the worst, memory within 2 and 10 %`, () => {
  const found = plans.map(([model, plan]) => {
    const job = Job.parse({ model, training: { seq: 2048, globalBatch: 32 }, plan: { ...usual, ...plan } })
    return compared({ job, device: 'h100' })!
  })
  for (const what of ['time', 'memory'] as const) {
    const { mean, worst } = spread(found.map(one => one[what]))
    const text = found.map(one => `${(100 * one[what]).toFixed(1)} %`).join(', ')
    ok(mean <= limits[what][0] && worst <= limits[what][1], `${what}: ${text}`)
  }
})
