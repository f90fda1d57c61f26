import type { Adapters, ModelConfig } from '../model/index.js'

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
