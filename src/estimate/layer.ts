/** A layer, an embedding and a head as kernels: what one rank computes for one microbatch. */

import { activationBytes, isCast, uncast } from '../base/index.js'
import type { Precision } from '../cluster/index.js'
import type { Kernel } from '../cost/index.js'
import { tableRanks } from './counts.js'
import type { Software } from './others/software.js'
import { embeddingTraffic, layerTraffic, type Stream } from './others/traffic.js'
import type { Split } from './setup.js'
import type { Shape } from './shape.js'

/** How one rank's part of a layer is cut: everything its kernels depend on beside shape and software. */
export const cutFields = [
  'tp',
  'cp',
  'ep',
  'etp',
  'sequenceParallel',
  'inOrder',
  'microbatch',
] as const satisfies readonly (keyof Split)[]
export type Cut = Pick<Split, (typeof cutFields)[number]>

export interface Kernels {
  readonly forward: readonly Kernel[]
  /** Gradients of the input, and of the weights. */
  readonly input: readonly Kernel[]
  readonly weight: readonly Kernel[]
  /** The part of forward between queries, keys, values and the output projection: what selective recompute repeats. */
  readonly core: readonly Kernel[]
}

export function layerKernels(shape: Shape, cut: Cut, precision: Precision, software: Software): Kernels {
  const linears = linearsOf(shape, cut)
  const attention = attentionKernels(shape, cut, precision, software)
  const small = smallKernels(shape, cut, precision, software)
  return {
    forward: [...linears.map(l => product(l, 'forward', precision, software)), ...attention.forward, ...small.forward],
    input: [...linears.map(l => product(l, 'input', precision, software)), ...attention.backward, ...small.backward],
    weight: linears.flatMap(l => weightKernels(l, precision, software)),
    core: [...attention.forward, ...small.core],
  }
}

interface Linear {
  /** Experts: so many of the same size. */
  readonly batch: number
  readonly rows: number
  readonly in: number
  readonly out: number
}

function linearsOf(shape: Shape, { tp, cp, ep, microbatch }: Cut): readonly Linear[] {
  const rows = (microbatch * shape.seq) / cp
  const queries = (shape.heads * shape.headDim) / tp
  const keys = (Math.max(shape.kvHeads, tp) * shape.headDim) / tp
  const ffn = shape.ffn / tp
  // An expert sees its share of the tokens of all ranks of ep.
  const { count, active } = shape.experts ?? { count: 1, active: 1 }
  const expert = shape.experts
    ? { batch: count / ep, rows: Math.ceil((rows * active * ep) / count) }
    : { batch: 1, rows }
  return [
    { batch: 1, rows, in: shape.embed, out: queries + 2 * keys },
    { batch: 1, rows, in: queries, out: shape.embed },
    { ...expert, in: shape.embed, out: shape.gated ? 2 * ffn : ffn },
    { ...expert, in: ffn, out: shape.embed },
  ]
}

/** Of the three products of a linear layer: y = x w, dx = dy w', dw = x' dy. */
function product(
  linear: Linear,
  which: 'forward' | 'input' | 'weight',
  precision: Precision,
  software: Software,
): Kernel {
  const { rows: r, in: i, out: o, batch } = linear
  const [m, n, k] = which === 'forward' ? [r, o, i] : which === 'input' ? [r, i, o] : [i, o, r]
  const result =
    which === 'weight' && software.fusedAccumulation ? 2 * software.gradientBytes : activationBytes(precision)
  return { kind: 'matmul', m, n, k, batch, precision, resultBytes: result }
}

/** The weight gradient, and where it is not fused the pass that adds it to what was accumulated. */
function weightKernels(linear: Linear, precision: Precision, software: Software): readonly Kernel[] {
  const gradient = product(linear, 'weight', precision, software)
  if (software.fusedAccumulation) return [gradient]
  const elements = linear.batch * linear.in * linear.out
  const read = elements * (activationBytes(precision) + software.gradientBytes)
  return [gradient, { kind: 'memory', read, written: elements * software.gradientBytes }]
}

export function attentionKernels(shape: Shape, cut: Cut, precision: Precision, { attention }: Software) {
  const heads = shape.heads / cut.tp
  const [queries, keys] = [shape.seq / cut.cp, shape.seq]
  if (attention === 'unfused') {
    const batch = cut.microbatch * heads
    const of = (m: number, n: number, k: number): Kernel => ({
      kind: 'matmul',
      m,
      n,
      k,
      batch,
      precision: uncast(precision),
      resultBytes: activationBytes(precision),
    })
    const scores = of(queries, keys, shape.headDim)
    const context = of(queries, shape.headDim, keys)
    const back = of(keys, shape.headDim, queries)
    return { forward: [scores, context], backward: [scores, context, back, back] }
  }
  const fused = (pass: 'forward' | 'backward'): Kernel => ({
    kind: 'attention',
    pass,
    batch: cut.microbatch,
    heads,
    kvHeads: Math.max(1, shape.kvHeads / cut.tp),
    queries,
    keys,
    headDim: shape.headDim,
    causal: true,
    // Of a sequence that is cut in order the last rank sees most: its pairs over those of the average.
    ...(cut.inOrder && { unevenness: 2 - 1 / cut.cp }),
    precision: uncast(precision),
    generation: attention,
  })
  return { forward: [fused('forward')], backward: [fused('backward')] }
}

/** One for each sequence of the microbatch and each head of the rank. */
export const scoreMatrices = ({ heads }: Shape, { microbatch, tp }: Pick<Cut, 'microbatch' | 'tp'>): number =>
  (microbatch * heads) / tp

/** The memory-bound kernels, one for each tensor they work on. */
function smallKernels(shape: Shape, cut: Cut, precision: Precision, software: Software) {
  const { tp, cp, sequenceParallel, microbatch } = cut
  const tokens = (microbatch * shape.seq) / cp
  const active = shape.experts?.active ?? 1
  const elements: Readonly<Record<Stream, number>> = {
    residual: (tokens * shape.embed) / (sequenceParallel ? tp : 1),
    query: (tokens * shape.heads * shape.headDim) / tp,
    keyValue: (2 * tokens * Math.max(shape.kvHeads, tp) * shape.headDim) / tp,
    hidden: (tokens * active * shape.ffn) / tp,
    scores: (microbatch * shape.heads * shape.seq * shape.seq) / cp / tp,
  }
  const traffic = layerTraffic(shape, scoreMatrices(shape, cut), software)
  const casts = isCast(precision) ? castBytes(shape, elements) : { forward: 0, backward: 0 }
  const scale = activationBytes(precision) / 2
  const chains = (pass: 'forward' | 'backward'): readonly Kernel[] => [
    ...(Object.keys(elements) as Stream[]).map(s => memory(scale * elements[s] * traffic[s][pass])), // total by its type
    memory(casts[pass]),
  ]
  return {
    forward: chains('forward').filter(isWork),
    backward: chains('backward').filter(isWork),
    core: [memory(scale * elements.scores * traffic.scores.forward)].filter(isWork),
  }
}

/** Operands of narrow products are cast, and written a second time transposed: 2 bytes read, 2 written. */
function castBytes(shape: Shape, elements: Readonly<Record<Stream, number>>) {
  const hidden = elements.hidden * (shape.gated ? 2 : 1)
  return {
    forward: 4 * (2 * elements.residual + elements.query + elements.hidden),
    backward: 4 * (2 * elements.residual + elements.query + elements.keyValue + hidden),
  }
}

const memory = (bytes: number): Kernel => ({ kind: 'memory', read: bytes / 2, written: bytes / 2 })
const isWork = (kernel: Kernel): boolean => kernel.kind !== 'memory' || kernel.read > 0

/** Rows of one rank's part of the table: a multiple of 128, where it is padded. We pad nothing. */
export const paddedVocab = (shape: Shape, tp: number, { own, padsVocab }: Software): number => {
  const { vocab } = shape
  if (own) return vocab / tableRanks(shape, tp)
  return tp === 1 && !padsVocab ? vocab : Math.ceil(vocab / (128 * tp)) * 128
}

/** The last norm, the product with the table, the loss. */
export function headKernels(shape: Shape, cut: Cut, precision: Precision, software: Software): Kernels {
  const rows = (cut.microbatch * shape.seq) / cut.cp
  const linear = { batch: 1, rows, in: shape.embed, out: paddedVocab(shape, cut.tp, software) }
  const loss = software.lossBytes * rows * linear.out
  return {
    forward: [product(linear, 'forward', uncast(precision), software), memory(0.6 * loss)],
    input: [product(linear, 'input', uncast(precision), software), memory(0.4 * loss)],
    weight: weightKernels(linear, uncast(precision), software),
    core: [],
  }
}

export function embeddingKernels(shape: Shape, cut: Cut): Kernels {
  const { forward, backward } = embeddingTraffic(shape)
  const elements = ((cut.microbatch * shape.seq) / cut.cp) * shape.embed
  return { forward: [memory(forward * elements)], input: [], weight: [memory(backward * elements)], core: [] }
}
