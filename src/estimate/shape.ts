/** A transformer as the few numbers its price depends on, whatever its family and whoever wrote it. */
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
  /** Mixture of experts: how many there are, and how many see a token. */
  readonly experts?: { readonly count: number; readonly active: number }
}
