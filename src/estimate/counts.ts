/** Parameters of one rank, counted from the shape: a layer, the embedding, the head. */
import { gcd } from '../base/index.js'
import type { AdapterTarget } from '../model/index.js'
import { denseOf, routedOf, routedShare } from './experts.js'
import type { Split } from './setup.js'
import type { Latent, Shape } from './shape.js'

/** Parameters, and of these those of experts, which other ranks have copies of than of the rest. */
export interface Held {
  readonly all: number
  readonly experts: number
}

type ExpertCut = Pick<Split, 'tp' | 'ep' | 'etp'>

/** Elements of one layer by how tp splits them: evenly, by kv heads only, not at all. Experts are apart: ep splits them. */
export interface LayerCounts {
  readonly split: number
  readonly byKvHeads: number
  readonly experts: number
  readonly whole: number
}

/** Where only some layers are routed, of the mean layer. */
export function layerCounts(shape: Shape): LayerCounts {
  const { embed, biases, experts } = shape
  const bias = biases ? 1 : 0
  const feed = (width: number) => (shape.gated ? 3 : 2) * embed * width + bias * width
  const routed = routedShare(shape)
  const attention = attentionCounts(shape)
  return {
    split: attention.split + (1 - routed) * feed(shape.ffn) + routed * feed(experts?.shared ?? 0),
    byKvHeads: attention.byKvHeads,
    experts: experts ? routed * experts.count * feed(experts.ffn) : 0,
    whole:
      attention.whole +
      (shape.norm === 'layer' ? 4 : 2) * embed +
      2 * bias * embed +
      (experts ? routed * experts.count * embed : 0),
  }
}

function attentionCounts({ embed, heads, kvHeads, headDim, biases, latent }: Shape): Omit<LayerCounts, 'experts'> {
  const bias = biases ? 1 : 0
  if (!latent) {
    const split = 2 * embed * heads * headDim + bias * heads * headDim
    return { split, byKvHeads: 2 * (embed + bias) * kvHeads * headDim, whole: 0 }
  }
  const { queries, keyValues, plain, turned, values } = latent
  const asked = heads * (plain + turned)
  return {
    split: (queries ?? embed) * asked + keyValues * heads * (plain + values) + heads * values * embed,
    byKvHeads: 0,
    whole: (queries ? (embed + 1) * queries : 0) + embed * (keyValues + turned) + keyValues,
  }
}

/** Query heads split over all of tp; kv heads over as much of it as divides them, the rest holds copies. */
export const kvSplit = ({ kvHeads }: Shape, tp: number): number => gcd(kvHeads, tp)

export const layerParameters = (shape: Shape, cut: ExpertCut): number =>
  commonParameters(shape, cut.tp) + expertParameters(shape, cut) + commonAdapters(shape, cut.tp)

/** What of it is trained: all, or adapters alone. */
export function trainedParameters(shape: Shape, cut: ExpertCut): Held {
  const experts = shape.adapters ? expertAdapters(shape, cut) : expertParameters(shape, cut)
  return { all: experts + (shape.adapters ? commonAdapters : commonParameters)(shape, cut.tp), experts }
}

type Widths = readonly [from: number, to: number]

/** Widths of the matrices of a target, as a rank has them: what each sums over, and what it makes. Of a layer with experts all but theirs. */
export function adaptedWidths(shape: Shape, tp: number, target: AdapterTarget): readonly Widths[] {
  const { embed, heads, kvHeads, headDim, latent, experts } = shape
  const known = (kvHeads * headDim) / kvSplit(shape, tp)
  const attended = (heads * (latent?.values ?? headDim)) / tp
  if (target === 'out') return [[attended, embed]]
  if (isFeed(target)) {
    const ffn = (experts ? experts.shared : shape.ffn) / tp
    return ffn > 0 ? [target === 'down' ? [ffn, embed] : [embed, ffn]] : []
  }
  return latent ? latentWidths(shape, latent, tp, target) : [[embed, target === 'q' ? (heads * headDim) / tp : known]]
}

/** Queries and keys of latent attention have several; what makes narrow vectors is whole on every rank. */
function latentWidths({ embed, heads }: Shape, latent: Latent, tp: number, target: 'q' | 'k' | 'v'): readonly Widths[] {
  const { queries, keyValues, plain, turned, values } = latent
  const each = heads / tp
  const from = queries ?? embed
  const of = {
    q: [...(queries ? [[embed, queries] as const] : []), [from, each * plain], [from, each * turned]],
    k: [[embed, keyValues] as const, [keyValues, each * plain] as const, [embed, turned] as const],
    v: [[keyValues, each * values]],
  } as const satisfies Readonly<Record<'q' | 'k' | 'v', readonly Widths[]>>
  return of[target]
}

const isFeed = (target: AdapterTarget): target is 'gate' | 'up' | 'down' =>
  target === 'gate' || target === 'up' || target === 'down'

/** Of the mean layer on one rank, but for those of experts. */
function commonAdapters(shape: Shape, tp: number): number {
  const { rank, targets } = shape.adapters ?? { rank: 0, targets: [] }
  const of = (one: Shape) => targets.flatMap(target => adaptedWidths(one, tp, target).flat()).reduce((a, b) => a + b, 0)
  const share = routedShare(shape)
  return rank * (share * of(routedOf(shape)) + (1 - share) * of(denseOf(shape)))
}

/** Widths of the adapted matrices of one expert. */
export const expertWidths = ({ embed, experts, adapters }: Shape, etp = 1): readonly Widths[] =>
  experts ? (adapters?.targets ?? []).filter(isFeed).map(() => [embed, experts.ffn / etp]) : []

/** Of the experts of one rank, in the mean layer. */
const expertAdapters = (shape: Shape, { ep, etp }: ExpertCut): number =>
  expertWidths(shape, etp)
    .flat()
    .reduce((sum, width) => sum + width, 0) *
  ((routedShare(shape) * (shape.experts?.count ?? 0) * (shape.adapters?.rank ?? 0)) / ep)

/** But for the experts. */
export function commonParameters(shape: Shape, tp: number): number {
  const { split, byKvHeads, whole } = layerCounts(shape)
  return split / tp + byKvHeads / kvSplit(shape, tp) + whole
}

/** Of the experts of one rank, in the mean layer, with their adapters. */
export const expertParameters = (shape: Shape, cut: ExpertCut): number =>
  layerCounts(shape).experts / ((cut.etp ?? 1) * cut.ep) + expertAdapters(shape, cut)

/** The token table, split over so many ranks, and learned positions. */
export const embeddingParameters = ({ vocab, embed, positions, seq }: Shape, ranks: number): number =>
  (vocab * embed) / ranks + (positions === 'learned' ? seq * embed : 0)

/** The last norm and the head's matrix, a tied one too where it cannot share the embedding's memory. */
export const headParameters = ({ vocab, embed, norm, tied }: Shape, ranks: number, sharesEmbedding: boolean): number =>
  (norm === 'layer' ? 2 : 1) * embed + (tied && sharesEmbedding ? 0 : (vocab * embed) / ranks)

/** Ranks that share a table of ours: one that tp does not divide is whole on every rank. */
export const tableRanks = ({ vocab }: Shape, tp: number): number => (vocab % tp === 0 ? tp : 1)

/** Parameters of a layer: matrices and vectors that tp splits, and those that it does not. */
export function tensorCounts({ gated, biases, norm }: Pick<Shape, 'gated' | 'biases' | 'norm'>) {
  const norms = norm === 'layer' ? 4 : 2
  return { matrices: gated ? 7 : 6, split: biases ? 4 : 0, whole: norms + (biases ? 2 : 0) }
}

/** All of them, and both matrices of each adapter. */
export function layerTensors(shape: Shape): number {
  const { matrices, split, whole } = tensorCounts(shape)
  const adapted = (shape.adapters?.targets ?? []).flatMap(target => adaptedWidths(shape, 1, target))
  return matrices + split + whole + 2 * (adapted.length + expertWidths(shape).length)
}
