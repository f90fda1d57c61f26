/** The price of a step: its parts add up, and the formulas a reader knows come out. */
import { deepEqual, equal, ok } from 'node:assert/strict'
import { test } from 'node:test'
import { choices, seconds } from '../src/base/index.js'
import { clusterOf, type Precision } from '../src/cluster/index.js'
import {
  calibrated,
  estimate,
  flopDefinitions,
  flopsOfStep,
  frameworks,
  type Parts,
  type Setup,
  type Shape,
  type Split,
} from '../src/estimate/index.js'

const gpt: Shape = {
  layers: 96,
  embed: 12288,
  heads: 96,
  kvHeads: 96,
  headDim: 128,
  ffn: 4 * 12288,
  gated: false,
  vocab: 51200,
  tied: true,
  biases: true,
  norm: 'layer',
  dropout: true,
  positions: 'learned',
  seq: 2048,
}
const one: Split = {
  tp: 1,
  pp: 1,
  dp: 1,
  cp: 1,
  ep: 1,
  sequenceParallel: false,
  zero: 0,
  schedule: '1f1b',
  chunks: 1,
  microbatches: 1,
  microbatch: 1,
  recompute: 'none',
}
const worldOf = ({ tp, pp, dp, cp, ep }: Split) => tp * pp * dp * cp * ep

function setup(split: Partial<Split>, changes: Partial<Setup> = {}): Setup {
  const whole = { ...one, ...split }
  return {
    shape: gpt,
    split: whole,
    cluster: clusterOf('a100-80', worldOf(whole)),
    precision: 'bf16',
    software: frameworks['megatron-2021'],
    ...changes,
  }
}
const stepOf = (split: Partial<Split>, changes: Partial<Setup> = {}) => estimate(setup(split, changes)).step
const sumOf = (parts: Parts) => Object.values(parts).reduce((a, b) => a + b, 0)
const close = (got: number, want: number, within = 1e-9) =>
  ok(Math.abs(got / want - 1) <= within, `${got}, expected ${want}`)

for (const [p, m] of [
  [2, 8],
  [4, 8],
  [8, 64],
] as const)
  test(`1f1b, ${p} stages and ${m} microbatches: a bubble of (p-1)/m of the work`, () => {
    // Ends would tilt it: layers only.
    const bare = { shape: { ...gpt, vocab: 128 } }
    const { parts } = estimate(setup({ tp: 8, pp: p, microbatches: m }, bare))
    close(parts.bubble / (parts.compute + parts.tp + parts.other), (p - 1) / m, 0.03)
    const { parts: cut } = estimate(setup({ tp: 8, pp: p, microbatches: m, chunks: 3, schedule: 'interleaved' }, bare))
    // A third of it, and what messages take.
    const idle = (cut.bubble + cut.pp) / parts.bubble
    ok(idle > 0.99 / 3 && idle < 1.01 / 3 + cut.pp / parts.bubble, `${idle}`)
  })

test('full recompute takes a third more compute, and the collectives of the forward again', () => {
  const plain = estimate(setup({ tp: 8, microbatches: 4 }))
  const full = estimate(setup({ tp: 8, microbatches: 4, recompute: 'full' }))
  ok(full.parts.recompute > 0.28 * plain.parts.compute && full.parts.recompute < 0.38 * plain.parts.compute)
  ok(full.parts.tp > 1.4 * plain.parts.tp)
  equal(full.flops.model, plain.flops.model)
  close(full.flops.hardware / plain.flops.hardware, 4 / 3, 0.01)
})

test('sequence parallel has the traffic of tensor parallel, and divides the residual stream', () => {
  const [plain, split] = [false, true].map(sequenceParallel =>
    estimate(setup({ tp: 8, microbatches: 4, sequenceParallel }, { software: frameworks.torchtitan })),
  )
  close(split.parts.tp, plain.parts.tp, 0.1)
  ok(split.parts.compute < plain.parts.compute)
})

test('definitions of FLOPs agree where they should: 96 = 4/3 x 72, and 72 BLsh^2 is 6N and attention', () => {
  const noHead = { ...gpt, vocab: 1 }
  close(flopDefinitions.sc21(noHead) / flopDefinitions.korthikanti(noHead), 4 / 3, 1e-4)
  close(flopDefinitions.korthikanti(gpt), flopDefinitions.palm(gpt), 1e-4)
  close(flopDefinitions.palm(gpt) - flopDefinitions.llama3(gpt), 6 * gpt.layers * gpt.embed * gpt.seq ** 2)
})

test('model FLOPs are those of PaLM, whatever the plan', () =>
  close(
    flopsOfStep(setup({ tp: 8, pp: 2, dp: 2, microbatches: 3, microbatch: 2 })).model,
    12 * flopDefinitions.palm(gpt),
  ))

for (const seed of Array.from({ length: 40 }, (_, i) => i + 1))
  test(`the parts of a step add up to it (SEED=${seed})`, () => {
    const { pick } = choices(seed)
    const chunks = pick([1, 1, 2])
    const split: Partial<Split> = {
      tp: pick([1, 2, 8]),
      pp: pick([1, 2, 4, 8]),
      dp: pick([1, 2, 16]),
      cp: pick([1, 1, 2]),
      zero: pick([0, 1, 2, 3] as const),
      sequenceParallel: pick([true, false]),
      schedule: chunks > 1 ? pick(['interleaved', 'zb-v']) : pick(['1f1b', 'gpipe', 'zb-h1', 'zb-h2']),
      chunks,
      microbatches: pick([1, 3, 16]),
      microbatch: pick([1, 2]),
      recompute: pick(['none', 'selective', 'full', 'per-op'] as const),
    }
    const precision: Precision = pick(['f32', 'bf16', 'fp8'] as const)
    const software = pick(Object.values(frameworks))
    const { step, parts } = estimate(setup(split, { precision, software }))
    close(sumOf(parts), step)
    ok(
      Object.values(parts).every(part => part >= 0),
      JSON.stringify(parts),
    )
  })

test('a faster network, device or memory never makes a step longer', () => {
  const split = { tp: 8, pp: 4, dp: 4, zero: 1, microbatches: 8 } as const
  const cluster = clusterOf('a100-80', 128)
  const { device } = cluster
  const base = stepOf(split, { cluster })
  for (const faster of [
    clusterOf('a100-80', 128, { nicBandwidth: 50e9 }),
    clusterOf('a100-80', 128, { nodeBandwidth: 600e9 }),
    { ...cluster, device: { ...device, bandwidth: 2 * device.bandwidth } },
    { ...cluster, device: { ...device, peak: { ...device.peak, bf16: 624e12 } } },
  ])
    ok(stepOf(split, { cluster: faster }) < base)
})

test('fewer NICs for a node make data parallel slower, not tensor parallel', () => {
  const at = (nicsPerNode: number, split: Partial<Split>) =>
    estimate(setup(split, { cluster: clusterOf('a100-80', 64, { nicsPerNode }) })).parts
  ok(at(1, { tp: 8, dp: 8 }).dp > 7 * at(8, { tp: 8, dp: 8 }).dp)
  equal(at(1, { tp: 8, dp: 8 }).tp, at(8, { tp: 8, dp: 8 }).tp)
})

test('a host that launches slowly is the floor of a small layer', () => {
  const small: Shape = { ...gpt, embed: 256, heads: 4, headDim: 64, kvHeads: 4, ffn: 1024, seq: 128, layers: 12 }
  const { parts, step } = estimate(setup({ microbatches: 4 }, { shape: small }))
  const { forward, backward } = frameworks['megatron-2021'].launch
  ok(step > 4 * 12 * (forward + backward))
  ok(parts.other > 0.5 * step)
})

const small: Shape = { ...gpt, embed: 1024, heads: 16, headDim: 64, kvHeads: 16, ffn: 4096, seq: 1024, layers: 12 }

test("Megatron's softmax is one kernel for a multiple of 4 matrices of scores, several launches otherwise", () => {
  const eight = { tp: 8, microbatches: 1 } // 2 heads a rank
  const [odd, even] = [1, 2].map(microbatch => estimate(setup({ ...eight, microbatch }, { shape: small })).parts)
  ok(odd.other > even.other && odd.compute < even.compute)
  const fused = { shape: small, software: frameworks['megatron-2024'] }
  const [one, two] = [1, 2].map(microbatch => estimate(setup({ ...eight, microbatch }, fused)).parts)
  ok(one.other < 1.2 * two.other)
})

test('a host that is as late as the device costs more where ranks meet than where they do not', () => {
  const at = (tp: number) => estimate(setup({ tp, microbatches: 1 }, { shape: { ...small, dropout: false } }))
  const [alone, met] = [1, 2].map(at)
  const { forward, backward, batch } = frameworks['megatron-2021'].launch
  close(alone.step - alone.parts.optimizer - alone.parts.compute, alone.parts.other)
  ok(met.step > 12 * 1.05 * (forward + backward) + batch)
  ok(met.parts.other > alone.parts.other)
})

test('a recomputation that stops early repeats neither the last product of a layer nor its sum over tp', () => {
  const { stopsEarly: _, ...whole } = frameworks.torchtitan
  const saved = (split: Partial<Split>, shape: Shape = gpt) => {
    const [early, all] = [frameworks.torchtitan, whole].map(software => estimate(setup(split, { shape, software })))
    return {
      recompute: 1 - early.parts.recompute / all.parts.recompute,
      tp: all.parts.tp - early.parts.tp,
      flops: all.flops.hardware - early.flops.hardware,
    }
  }
  const full = saved({ recompute: 'full', microbatches: 1 })
  ok(full.recompute > 0.2 && full.recompute < 0.34, `${full.recompute}`) // a third of the linear layers' products
  close(full.flops, 2 * gpt.seq * gpt.layers * gpt.embed * gpt.ffn)
  ok(saved({ recompute: 'full', tp: 8, microbatches: 1 }).tp > 0)
  const experts = { count: 8, active: 2, ffn: gpt.ffn, shared: 0, dense: 0 }
  equal(saved({ recompute: 'full', microbatches: 1 }, { ...gpt, experts }).recompute, 0)
  equal(saved({ recompute: 'selective', microbatches: 1 }).flops, 0)
})

test('every stage fetches its microbatch before it computes', () => {
  const { batch } = frameworks['megatron-2021'].launch
  const without = { ...frameworks['megatron-2021'] }
  const slower = (split: Partial<Split>) =>
    stepOf(split) - stepOf(split, { software: { ...without, launch: { ...without.launch, batch: 0 } } })
  close(slower({ tp: 8, microbatches: 4 }), 4 * batch, 1e-6)
  close(slower({ tp: 8, pp: 4, microbatches: 4 }), (4 + 3) * batch, 1e-6)
})

test('gradients in buckets: latency of every rank for each of them, so that large dp costs more', () => {
  const software = { ...frameworks['scaling-2023'], exposed: frameworks['megatron-2021'].exposed }
  const dpOf = (dp: number, bucket: number) =>
    estimate(setup({ tp: 8, pp: 2, dp, zero: 1, microbatches: 8 }, { software: { ...software, bucket } })).parts.dp
  const extra = (dp: number) => dpOf(dp, 25e6) - dpOf(dp, 0)
  ok(dpOf(16, 25e6) > dpOf(16, 250e6) && dpOf(16, 250e6) > dpOf(16, 0))
  close(extra(64) / extra(32), 2, 0.15)
})

test('experts: every token is multiplied by those that see it, and travels there and back', () => {
  const moe: Shape = { ...gpt, experts: { count: 8, active: 2, ffn: gpt.ffn, shared: 0, dense: 0 } }
  const [dense, sparse] = [gpt, moe].map(shape => estimate(setup({ tp: 8, ep: 8, microbatches: 2 }, { shape })))
  ok(sparse.parts.compute > 1.4 * dense.parts.compute && sparse.parts.compute < 2.2 * dense.parts.compute)
  ok(sparse.parts.ep > 0 && dense.parts.ep === 0)
})

test('calibrated: one measured step scales every part alike', () => {
  const guess = estimate(setup({ tp: 8, pp: 2, microbatches: 8 }))
  const known = calibrated(guess, seconds(4.2))
  equal(known.step, 4.2)
  close(sumOf(known.parts), 4.2)
  close(known.parts.bubble / known.parts.compute, guess.parts.bubble / guess.parts.compute)
  deepEqual(known.memory, guess.memory)
})

test('asked twice, the same answer', () => {
  const asked = setup({ tp: 8, pp: 4, dp: 2, microbatches: 8, zero: 3 })
  deepEqual(estimate(asked), estimate(asked))
})
