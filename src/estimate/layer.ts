/** A layer, an embedding and a head as kernels: what one rank computes for one microbatch. */

import { activationBytes, isCast, uncast } from '../base/index.js'
import type { Precision } from '../cluster/index.js'
import type { Kernel } from '../cost/index.js'
import { expertLoad, routedTokens } from './experts.js'
import type { Software } from './others/software.js'
import { embeddingTraffic, layerTraffic, type Stream } from './others/traffic.js'
import type { Split } from './setup.js'
import type { Experts, Latent, Shape } from './shape.js'

/** How one rank's part of a layer is cut: everything its kernels depend on beside shape and software. */
export const cutFields = [
  'tp',
  'cp',
  'ep',
  'etp',
  'sequenceParallel',
  'inOrder',
  'ulysses',
  'ring',
  'imbalance',
  'microbatch',
  'fp8',
  'overlap',
] as const satisfies readonly (keyof Split)[]
export type Cut = Pick<Split, (typeof cutFields)[number]> & {
  /** fp8 by what is greatest now: the ranks of dp, which agree on it before anything is coded. */
  readonly agreeing?: number
}

/** The cut of what every token passes: who shares experts has no say in it. */
export const streamFields = [
  'tp',
  'cp',
  'sequenceParallel',
  'inOrder',
  'ulysses',
  'ring',
  'microbatch',
  'fp8',
  'overlap',
  'agreeing',
] as const satisfies readonly (keyof Cut)[]
export type StreamCut = Pick<Cut, (typeof streamFields)[number]>

/** A split as its kernels see it. */
export const cutOf = (split: Cut & Pick<Split, 'dp'>): Cut =>
  split.fp8 === 'current' ? { ...split, agreeing: split.dp } : split

export interface Kernels {
  readonly forward: readonly Kernel[]
  /** Gradients of the input, and of the weights. */
  readonly input: readonly Kernel[]
  readonly weight: readonly Kernel[]
  /** The part of forward between queries, keys, values and the output projection: what selective recompute repeats. */
  readonly core: readonly Kernel[]
  /** The product that ends forward: nothing in the layer's backward pass needs its result. None with experts, whose weights in the sum do. */
  readonly last: readonly Kernel[]
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
    last: shape.experts ? [] : linears.slice(-1).map(l => product(l, 'forward', precision, software)),
  }
}

interface Linear {
  /** Experts: so many of the same size. */
  readonly batch: number
  readonly rows: number
  readonly in: number
  readonly out: number
}

const linearsOf = (shape: Shape, cut: Cut): readonly Linear[] => [
  ...(shape.latent ? latentLinears(shape, shape.latent, cut) : attentionLinears(shape, cut)),
  ...(shape.experts
    ? routedLinears(shape, shape.experts, cut)
    : feedLinears(shape, shape.ffn / cut.tp, rowsOf(shape, cut))),
]

const rowsOf = ({ seq }: Shape, { microbatch, cp }: Cut): number => (microbatch * seq) / cp

function attentionLinears(shape: Shape, cut: Cut): Linear[] {
  const { tp } = cut
  const rows = rowsOf(shape, cut)
  const queries = (shape.heads * shape.headDim) / tp
  const keys = (Math.max(shape.kvHeads, tp) * shape.headDim) / tp
  return [
    { batch: 1, rows, in: shape.embed, out: queries + 2 * keys },
    { batch: 1, rows, in: queries, out: shape.embed },
  ]
}

/** Narrow vectors are made by every rank, of its own tokens where the sequence is split; tp splits what is made of them. */
function latentLinears({ embed, heads, ...shape }: Shape, latent: Latent, cut: Cut): Linear[] {
  const { queries, keyValues, plain, turned, values } = latent
  const rows = rowsOf({ embed, heads, ...shape }, cut)
  const own = cut.sequenceParallel ? rows / cut.tp : rows
  const each = heads / cut.tp
  const asked: Linear[] = queries
    ? [
        { batch: 1, rows: own, in: embed, out: queries },
        { batch: 1, rows, in: queries, out: each * (plain + turned) },
      ]
    : [{ batch: 1, rows, in: embed, out: each * (plain + turned) }]
  return [
    ...asked,
    { batch: 1, rows: own, in: embed, out: keyValues + turned },
    { batch: 1, rows, in: keyValues, out: each * (plain + values) },
    { batch: 1, rows, in: each * values, out: embed },
  ]
}

const feedLinears = ({ embed, gated }: Shape, ffn: number, rows: number, batch = 1): Linear[] => [
  { batch, rows, in: embed, out: gated ? 2 * ffn : ffn },
  { batch, rows, in: ffn, out: embed },
]

/** The choice, the experts of a rank, and what every token passes beside them. */
function routedLinears(shape: Shape, experts: Experts, cut: Cut): Linear[] {
  const load = expertLoad(shape, experts, cut, cut.imbalance)
  return [
    { batch: 1, rows: routedTokens(shape, cut), in: shape.embed, out: experts.count },
    ...feedLinears(shape, load.ffn, load.rows, load.experts),
    ...(experts.shared > 0 ? feedLinears(shape, experts.shared / cut.tp, rowsOf(shape, cut)) : []),
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

function attentionKernels(shape: Shape, cut: Cut, precision: Precision, { attention }: Software) {
  const exchanging = cut.ulysses ?? 1
  const heads = shape.heads / (cut.tp * exchanging)
  const [queries, keys] = [(exchanging * shape.seq) / cut.cp, shape.seq]
  const kvHeads = shape.latent ? heads : Math.max(1, shape.kvHeads / (cut.tp * exchanging))
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
  const fused = (pass: 'forward' | 'backward', batch = cut.microbatch, window?: number): Kernel => ({
    kind: 'attention',
    pass,
    batch,
    heads,
    kvHeads,
    queries,
    keys: window ?? keys,
    headDim: shape.latent ? meanWidth(shape.latent, pass) : shape.headDim,
    causal: window === undefined,
    // Of a sequence that is cut in order the last rank sees most: its pairs over those of the average.
    ...(cut.inOrder && window === undefined && { unevenness: 2 - exchanging / cut.cp }),
    precision: uncast(precision),
    generation: attention,
  })
  const { window } = shape
  if (window === undefined || window.tokens >= keys)
    return { forward: [fused('forward')], backward: [fused('backward')] }
  // Where only half of the layers have it, the mean layer sees all tokens in half of its sequences.
  const half = cut.microbatch / 2
  const both = (pass: 'forward' | 'backward') =>
    window.layers === 'all'
      ? [fused(pass, cut.microbatch, window.tokens)]
      : [fused(pass, half), fused(pass, half, window.tokens)]
  return { forward: both('forward'), backward: both('backward') }
}

/** The one width with which the products are what they are: of two forward one is with values, of five backward two are. */
const meanWidth = ({ plain, turned, values }: Latent, pass: 'forward' | 'backward'): number =>
  pass === 'forward' ? (plain + turned + values) / 2 : (3 * (plain + turned) + 2 * values) / 5

/** One for each sequence of the microbatch and each head of the rank. */
export const scoreMatrices = ({ heads }: Shape, { microbatch, tp }: Pick<Cut, 'microbatch' | 'tp'>): number =>
  (microbatch * heads) / tp

/** The memory-bound kernels, one for each tensor they work on. */
function smallKernels(shape: Shape, cut: Cut, precision: Precision, software: Software) {
  const { tp, cp, sequenceParallel, microbatch } = cut
  const tokens = (microbatch * shape.seq) / cp
  const { experts, latent } = shape
  const rows = experts ? routedTokens(shape, cut) * experts.active : 0
  const elements: Readonly<Record<Stream, number>> = {
    residual: (tokens * shape.embed) / (sequenceParallel ? tp : 1),
    query: (tokens * shape.heads * (latent ? latent.plain + latent.turned : shape.headDim)) / tp,
    keyValue: latent
      ? (tokens * shape.heads * (latent.plain + latent.turned + latent.values)) / tp
      : (2 * tokens * Math.max(shape.kvHeads, tp) * shape.headDim) / tp,
    hidden: experts ? rows * experts.ffn + (tokens * experts.shared) / tp : (tokens * shape.ffn) / tp,
    routed: rows * shape.embed,
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

/** Rows of one rank's part of the table: a multiple of 128, where it is padded. */
const paddedVocab = ({ vocab }: Shape, tp: number, { padsVocab }: Software): number =>
  tp === 1 && !padsVocab ? vocab : Math.ceil(vocab / (128 * tp)) * 128

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
    last: [],
  }
}

export function embeddingKernels(shape: Shape, cut: Cut): Kernels {
  const { forward, backward } = embeddingTraffic(shape)
  const elements = ((cut.microbatch * shape.seq) / cut.cp) * shape.embed
  const [rows, sums] = [memory(forward * elements), memory(backward * elements)]
  return { forward: [rows], input: [], weight: [sums], core: [], last: [] }
}
