/** Parameters of one rank, counted from the shape: a layer, the embedding, the head. */
import { gcd } from '../base/index.js'
import type { Split } from './setup.js'
import type { Shape } from './shape.js'

/** Elements of one layer by how tp splits them: evenly, by kv heads only, not at all. Experts are apart: ep splits them. */
export interface LayerCounts {
  readonly split: number
  readonly byKvHeads: number
  readonly experts: number
  readonly whole: number
}

export function layerCounts(shape: Shape): LayerCounts {
  const { embed, heads, kvHeads, headDim, ffn, biases, experts } = shape
  const bias = biases ? 1 : 0
  const feed = (shape.gated ? 3 : 2) * embed * ffn + bias * ffn
  return {
    split: 2 * embed * heads * headDim + bias * heads * headDim + (experts ? 0 : feed),
    byKvHeads: 2 * (embed + bias) * kvHeads * headDim,
    experts: experts ? experts.count * feed : 0,
    whole: (shape.norm === 'layer' ? 4 : 2) * embed + 2 * bias * embed + (experts ? experts.count * embed : 0),
  }
}

/** Query heads split over all of tp; kv heads over as much of it as divides them, the rest holds copies. */
export const kvSplit = ({ kvHeads }: Shape, tp: number): number => gcd(kvHeads, tp)

export function layerParameters(shape: Shape, { tp, ep }: Pick<Split, 'tp' | 'ep'>): number {
  const { split, byKvHeads, experts, whole } = layerCounts(shape)
  return split / tp + byKvHeads / kvSplit(shape, tp) + experts / (tp * ep) + whole
}

/** The token table, split over so many ranks, and learned positions. */
export const embeddingParameters = ({ vocab, embed, positions, seq }: Shape, ranks: number): number =>
  (vocab * embed) / ranks + (positions === 'learned' ? seq * embed : 0)

/** The last norm and the head's matrix, a tied one too where it cannot share the embedding's memory. */
export const headParameters = ({ vocab, embed, norm, tied }: Shape, ranks: number, sharesEmbedding: boolean): number =>
  (norm === 'layer' ? 2 : 1) * embed + (tied && sharesEmbedding ? 0 : (vocab * embed) / ranks)

/** Ranks that share a table of ours: one that tp does not divide is whole on every rank. */
export const tableRanks = ({ vocab }: Shape, tp: number): number => (vocab % tp === 0 ? tp : 1)
