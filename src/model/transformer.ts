/** What the families of transformers share. */
import type { BlockBuilder } from './builder.js'

export type TransformerDim = 'batch' | 'seq' | 'embed' | 'kvHeads' | 'group' | 'headDim' | 'ffn' | 'vocab'

export type TransformerBlock = BlockBuilder<TransformerDim>
