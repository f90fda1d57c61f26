/** The formulas of the books, as sums over the instructions of a compiled program. */
import { equal, ok } from 'node:assert/strict'
import { test } from 'node:test'
import { sizeOf, worldOf } from '../src/base/index.js'
import { type Cluster, deviceOf } from '../src/cluster/index.js'
import { compileJob } from '../src/compile/index.js'
import { type Work, workFlops, workOf } from '../src/cost/index.js'
import type { Instr, Program, Segment } from '../src/ir/index.js'
import { parametersOf } from '../src/model/index.js'
import { Job, type JobInput, type ScheduleName } from '../src/plan/index.js'
import { clusterPrices, simulate } from '../src/simulate/index.js'
import { layersOn, taskPrices } from './toy-prices.js'

const model = { family: 'llama', layers: 4, embed: 64, heads: 8, kvHeads: 8, ffn: 128, vocab: 128 } as const
const { layers, embed, ffn, vocab } = model
const training = { seq: 32, globalBatch: 8 }
const tokens = training.seq * training.globalBatch
type Plan = JobInput['plan']
const programOf = (plan: Plan): Program => compileJob(Job.parse({ model, training, plan }))

/** Over everything one rank of each stream does in a step. */
function sum(program: Program, of: (instr: Instr, segment: Segment) => number): number {
  let total = 0
  for (const { steps } of program.streams)
    for (const step of steps) {
      if (step.kind !== 'call') continue
      const segment = program.segments[step.segment]
      for (const instr of segment.instrs) total += of(instr, segment)
    }
  return total
}

const close = (got: number, want: number, within = 1e-9) =>
  ok(Math.abs(got / want - 1) <= within, `${got}, expected ${want}`)

/** Weights that multiply every token: four square matrices, gate, up and down, and the head. */
const N = layers * (4 * embed * embed + 3 * embed * ffn) + embed * vocab
/** With the token table and two gains a layer and one at the end. */
const Psi = N + vocab * embed + (2 * layers + 1) * embed

test('the parameters are counted as the model counts them', () =>
  equal(parametersOf(Job.parse({ model, training }).model, training.seq), Psi))

for (const plan of [
  {},
  { dp: 8, zero: 3 },
  { tp: 4, sequenceParallel: true, dp: 2, zero: 2, microbatches: 2 },
  { pp: 4, dp: 2, microbatches: 4, schedule: 'zb-h1' },
  { tp: 2, pp: 2, microbatches: 8, schedule: 'interleaved', recompute: 'selective' },
] as const satisfies Plan[])
  test(`${JSON.stringify(plan)}: products of 6N FLOPs a token`, () => {
    const program = programOf(plan)
    const products = sum(program, (instr, segment) => {
      const work = workOf(instr, segment, program)
      return work.kind === 'matmul' ? workFlops(work) : 0
    })
    equal(products * (worldOf(program.mesh) / program.streams.length), 6 * N * tokens)
  })

test('attention: 4 s^2 h FLOPs a layer and sequence forward, 10 backward, half of it behind the mask', () => {
  const program = programOf({})
  const flops = sum(program, (instr, segment) => {
    const work = workOf(instr, segment, program)
    return work.kind === 'attention' ? workFlops(work) : 0
  })
  equal(flops, (layers * training.globalBatch * 14 * training.seq ** 2 * embed) / 2)
})

/** Links of 1 byte a second that start at once: seconds are bytes a rank sends. */
const wire = (devices: number): Cluster => ({
  ...{ name: 'wire', device: deviceOf('h100'), devices, sources: ['this test'] },
  topology: {
    kind: 'tree',
    levels: [
      {
        ...{ name: 'node', size: devices, ports: 1, oversubscription: 1 },
        link: { kind: 'nvlink', bandwidth: 1, efficiency: 1, latency: 0, half: 0 },
      },
    ],
  },
})

const isSum = (work: Work): boolean => work.kind === 'collective' && work.bytes > 64

/** Bytes a rank sends in a step in collectives, but for scalars. */
function sent(program: Program): number {
  const prices = clusterPrices(program, wire(worldOf(program.mesh)))
  return sum(program, (instr, segment) =>
    isSum(workOf(instr, segment, program)) && 'group' in instr ? prices.collective(instr, segment).seconds : 0,
  )
}

for (const n of [2, 4, 8]) {
  test(`tp ${n}: all-reduces of 2(n-1)/n of the activations, two a layer forward and two backward`, () => {
    const program = programOf({ tp: n })
    const activations = 4 * tokens * embed
    const inLayers = sum(program, (instr, segment) =>
      instr.kind === 'all-reduce' && segment.name.startsWith('layers.') ? 1 : 0,
    )
    equal(inLayers, 4 * layers)
    const prices = clusterPrices(program, wire(n))
    const reduces = program.segments['layers.F'].instrs.filter(instr => instr.kind === 'all-reduce')
    for (const instr of reduces)
      close(prices.collective(instr, program.segments['layers.F']).seconds, ((2 * (n - 1)) / n) * activations, 1e-6)
  })

  for (const [zero, passes, what] of [
    [0, 2, 'DDP sends 2 (n-1)/n Psi'],
    [1, 2, 'ZeRO-1 as much'],
    [2, 2, 'ZeRO-2 as much'],
    [
      3,
      3,
      'ZeRO-3 half as much again, but for the table that backward does not read and the head, which is still there',
    ],
  ] as const)
    test(`dp ${n}: ${what}`, () => {
      const program = programOf({ dp: n, zero })
      equal(sizeOf(program.mesh, 'dp'), n)
      const head = vocab * embed + embed
      const notGathered = zero === 3 ? vocab * embed + head : 0
      close(sent(program), (4 * (n - 1) * (passes * Psi - notGathered)) / n, 0.01)
    })
}

for (const [stored, bytes, what] of [
  [{ precision: 'f32' }, 16, 'parameter, gradient and two moments of 4'],
  [{ precision: 'bf16' }, 18, 'parameter of 2; gradient, master and two moments of 4'],
  [{ precision: 'bf16', gradients: 'bf16' }, 16, 'parameter and gradient of 2; master and two moments of 4'],
  [{ precision: 'bf16-no-masters', gradients: 'bf16' }, 12, 'moments of 4, the others of 2'],
  [{ precision: 'pure-bf16', gradients: 'f32' }, 10, 'gradient of 4, the others of 2'],
  [{ precision: 'pure-bf16' }, 8, 'four of 2'],
] as const)
  test(`${Object.values(stored).join(', gradients ')}: ${bytes} bytes a parameter stay from step to step: ${what}`, () => {
    const [{ frames, resident }] = programOf(stored).streams
    // Beside them only the scalars of the step are there.
    const states = resident.map(frame => frames[frame]).filter(({ kind }) => kind !== 'workspace')
    equal(states.reduce((total, frame) => total + frame.bytes, 0) / Psi, bytes)
  })

for (const [schedule, chunks] of [
  ['gpipe', 1],
  ['1f1b', 1],
  ['interleaved', 2],
  ['interleaved', 4],
] as const satisfies [ScheduleName, number][])
  for (const [p, m] of [
    [2, 4],
    [4, 8],
    [8, 8],
    [8, 32],
  ])
    test(`${schedule}, ${chunks} chunks on ${p} ranks, ${m} microbatches: a bubble of (p-1)/(m v) of the work`, () => {
      const program = layersOn({ pp: p, chunks, microbatches: m, schedule })
      const { parts } = simulate(program, taskPrices({ F: 1, I: 1.2, W: 0.8, C: 0 }))
      close(parts.bubble / parts.compute, (p - 1) / (m * chunks))
    })
