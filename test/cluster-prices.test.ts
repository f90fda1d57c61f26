/** Instructions as kernels and groups as members: what a compiled program costs on a cluster of the catalog. */
import { deepEqual, equal, ok } from 'node:assert/strict'
import { test } from 'node:test'
import { worldOf } from '../src/base/index.js'
import { clusterOf } from '../src/cluster/index.js'
import { compileJob } from '../src/compile/index.js'
import { isKernel, type Kernel, priceCollective, workOf } from '../src/cost/index.js'
import type { InstrOf } from '../src/ir/index.js'
import { Job, type JobInput } from '../src/plan/index.js'
import { clusterPrices, simulate } from '../src/simulate/index.js'
import { toy } from './toy.js'

const shape = { layers: 2, embed: 64, heads: 8, kvHeads: 4, ffn: 128, vocab: 96 }
const [seq, globalBatch] = [32, 8]
const tokens = seq * globalBatch

const programOf = (plan: JobInput['plan'], layers = shape.layers) =>
  compileJob(Job.parse({ model: { family: 'llama', ...shape, layers }, training: { seq, globalBatch }, plan }))

const kernels = (name: string, kind: string, plan: JobInput['plan'] = {}): Kernel[] => {
  const { segments, mesh } = programOf(plan)
  const segment = segments[name]
  return segment.instrs
    .filter(instr => instr.kind === kind)
    .flatMap(instr => {
      const work = workOf(instr, segment, { mesh })
      return isKernel(work) ? [work] : []
    })
}

const show = (kernel: Kernel): string =>
  kernel.kind === 'matmul'
    ? `${kernel.batch} x [${kernel.m} ${kernel.k}] [${kernel.k} ${kernel.n}] ${kernel.precision}`
    : kernel.kind === 'attention'
      ? `${kernel.pass} ${kernel.batch} x ${kernel.heads}/${kernel.kvHeads} heads ${kernel.queries} x ${kernel.keys} of ${kernel.headDim}`
      : `${kernel.read} -> ${kernel.written}`

test('contractions are matmuls: q, k, v, out, gate, up, down', () => {
  const of = (tp: number) => kernels('layers.F', 'contract', { tp }).map(show)
  deepEqual(of(1), [
    '1 x [256 64] [64 64] f32',
    '1 x [256 64] [64 32] f32',
    '1 x [256 64] [64 32] f32',
    '1 x [256 64] [64 64] f32',
    '1 x [256 64] [64 128] f32',
    '1 x [256 64] [64 128] f32',
    '1 x [256 128] [128 64] f32',
  ])
  equal(of(4)[0], '1 x [256 64] [64 16] f32')
  equal(of(4)[6], '1 x [256 32] [32 64] f32')
})

test('attention keeps its heads, split over tp', () => {
  deepEqual(kernels('layers.F', 'attention').map(show), ['forward 8 x 8/4 heads 32 x 32 of 8'])
  deepEqual(kernels('layers.B', 'attentionGrad', { tp: 2 }).map(show), ['backward 8 x 4/2 heads 32 x 32 of 8'])
})

test('an embedding reads the rows it takes, not the table; a sum reads what it adds to', () => {
  const rows = 4 * tokens * shape.embed
  deepEqual(kernels('embed.F', 'embed').map(show), [`${4 * tokens + rows} -> ${rows}`])
  const [grad] = kernels('layers.B', 'accumulate')
  ok(grad.kind === 'memory' && grad.read === 2 * grad.written, show(grad))
})

test('of several tensors the bytes add up, and a part of a line has its own', () => {
  const { segments, mesh } = toy({ zero: 1, dp: 2, embed: 5, ffn: 7 })
  const workIn = (name: string) => workOf(segments[name].instrs[0], segments[name], { mesh })
  const gathered = workIn('gather.both')
  ok(gathered.kind === 'collective' && gathered.bytes === 2 * 35 * 4)
  const squares = workIn('norm')
  ok(squares.kind === 'memory' && squares.read === 18 * 4 + 4)
})

test('products may be in another precision than what is stored', () => {
  const { segments, mesh } = programOf({})
  const segment = segments['head.F']
  const product = segment.instrs.find((instr): instr is InstrOf<'contract'> => instr.kind === 'contract')!
  equal(show(workOf(product, segment, { mesh, multiply: 'bf16' }) as Kernel), '1 x [256 64] [64 96] bf16')
})

const flopsOf = (plan: JobInput['plan']) => {
  const program = programOf(plan)
  return simulate(program, clusterPrices(program, clusterOf('h100', worldOf(program.mesh)))).flops
}

const { embed, ffn, layers, vocab } = shape
const matrices = layers * (embed * (2 * embed + 2 * (embed / 2)) + 3 * embed * ffn) + embed * vocab
const attention = layers * globalBatch * 8 * ((seq * seq) / 2) * 8 * (4 + 10)

test('a step executes 6 FLOPs for each weight and token, and the attention', () =>
  equal(flopsOf({}).executed, 6 * matrices * tokens + attention))

const plans: JobInput['plan'][] = [
  { dp: 2, tp: 2, pp: 2, microbatches: 4 },
  { dp: 4, zero: 3, gather: 'use' },
  { tp: 4, sequenceParallel: true, pp: 2, microbatches: 2, schedule: 'zb-h1' },
]
for (const plan of plans)
  test(`${JSON.stringify(plan)} executes what one rank executes`, () =>
    equal(flopsOf(plan).executed, flopsOf({}).executed))

test('full recomputation repeats the forward of every layer and of the head', () => {
  const { executed, repeated } = flopsOf({ recompute: 'full' })
  equal(executed - repeated, flopsOf({}).executed)
  ok(repeated > 0.25 * executed - attention && repeated <= executed / 4 + attention, `${repeated} of ${executed}`)
})

test('a collective is priced by the ranks it joins, a message by how far it goes', () => {
  const program = programOf({ dp: 2, tp: 2, pp: 4, microbatches: 4 }, 4)
  const cluster = clusterOf('h100', 16)
  const prices = clusterPrices(program, cluster)
  deepEqual(prices.links, ['nvlink', 'infiniband'])
  const segment = program.segments['layers.F']
  const reduce = segment.instrs.find((instr): instr is InstrOf<'all-reduce'> => instr.kind === 'all-reduce')!
  const bytes = (4 * tokens * embed) / 2 / 4
  deepEqual(prices.collective(reduce, segment), {
    seconds: priceCollective({ kind: 'all-reduce', bytes, group: { size: 2, stride: 1 } }, cluster),
    link: 0,
  })
  // Ranks 0, 4, 8, 12 on nodes of 8: the next stage is in the same node or not.
  const near = prices.message(1e6, 0, 1)
  const far = prices.message(1e6, 0, 2)
  deepEqual([near.link, far.link], [0, 1])
  ok(far.seconds > near.seconds && far.held === far.seconds)
})
