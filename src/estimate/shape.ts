import { type Adapters, type LlamaConfig, type ModelConfig, routedLayers } from '../model/index.js'

/** A transformer as the few numbers its cost depends on, whatever its family. */
export interface Shape {
  readonly layers: number
  readonly embed: number
  readonly heads: number
  readonly kvHeads: number
  readonly headDim: number
  readonly ffn: number
  /** Three matrices in the feed-forward layer (SwiGLU) instead of two. */
  readonly gated: boolean
  readonly vocab: number
  /** The head uses the embedding table. */
  readonly tied: boolean
  readonly biases: boolean
  readonly norm: 'layer' | 'rms'
  /** Dropout on the residual stream and in attention. */
  readonly dropout: boolean
  readonly positions: 'learned' | 'rotary' | 'alibi'
  readonly seq: number
  /** Layers whose feed-forward layer is routed; the others are `ffn` wide. */
  readonly experts?: Experts
  /** Keys and values are made from a narrow vector of each token. */
  readonly latent?: Latent
  /** Heads that predict further tokens, each behind a layer of its own, which `layers` counts. */
  readonly further?: number
  /** Nothing is trained but adapters of this rank beside these matrices of every layer. */
  readonly adapters?: Adapters
  /** The model it was read off. */
  readonly config?: ModelConfig
  /** Sliding-window attention: all layers, or every second one, attend to this many tokens. */
  readonly window?: { readonly tokens: number; readonly layers: 'all' | 'half' }
}

export interface Experts {
  /** How many there are, how many see a token, and the width of one. */
  readonly count: number
  readonly active: number
  readonly ffn: number
  /** Width of what every token passes beside them. */
  readonly shared: number
  /** Layers that have none: the first, or spread among the others. */
  readonly dense: number
  readonly spread?: true
  /** Groups of experts that a token may choose from, of all groups, where its choice is limited. */
  readonly groups?: { readonly all: number; readonly chosen: number }
}

/** Widths of latent attention: of what queries are made from (whole if absent), of what keys and values are made from, and of a head. */
export interface Latent {
  readonly queries?: number
  readonly keyValues: number
  /** Of a query and a key: what is not turned by its position, and what is. */
  readonly plain: number
  readonly turned: number
  readonly values: number
}

/** The shape of a model without adapters; undefined if it is not a transformer. */
export function plainShape(model: ModelConfig, seq: number): Shape | undefined {
  if (model.family === 'mlp') return undefined
  const { layers, embed, heads, kvHeads, ffn, vocab, tied } = model
  const sizes = { layers, embed, heads, kvHeads, ffn, vocab, tied, seq }
  if (model.family === 'llama') {
    const { headDim, mla, window } = model
    const experts = expertsOf(model)
    return {
      ...{ ...sizes, headDim, gated: true, biases: false, norm: 'rms', dropout: false, positions: 'rotary' },
      ...(experts && { experts }),
      ...(mla && { latent: latentOf(mla) }),
      ...(window !== undefined && { window: { tokens: window, layers: 'all' as const } }),
    }
  }
  const headDim = embed / heads
  const dropout = model.dropout > 0
  return { ...sizes, headDim, gated: false, biases: true, norm: 'layer', dropout, positions: 'learned' }
}

function expertsOf(model: LlamaConfig): Experts | undefined {
  const { moe, layers } = model
  if (!moe) return undefined
  const { experts: count, topK: active, ffn, shared = 0, groups, topKGroups } = moe
  const dense = layers - routedLayers(model).length
  const limited = groups !== undefined && topKGroups !== undefined && { groups: { all: groups, chosen: topKGroups } }
  const spread = moe.every > 1 && { spread: true as const }
  return { count, active, ffn, shared, dense, ...spread, ...limited }
}

const latentOf = ({
  qLoraRank,
  kvLoraRank,
  qkNopeHeadDim,
  qkRopeHeadDim,
  vHeadDim,
}: NonNullable<LlamaConfig['mla']>): Latent => ({
  ...{ keyValues: kvLoraRank, plain: qkNopeHeadDim, turned: qkRopeHeadDim, values: vHeadDim },
  ...(qLoraRank !== undefined && { queries: qLoraRank }),
})
