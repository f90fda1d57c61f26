/** What the families of transformers share. */
import type { BlockBuilder } from './builder.js'

export type TransformerDim = 'batch' | 'seq' | 'embed' | 'kvHeads' | 'group' | 'headDim' | 'ffn' | 'vocab'

/** Experts as a token sees them and as they are held, the chosen ones, the rows of choices; widths of experts. */
export type ExpertDim = 'candidate' | 'expert' | 'choice' | 'row' | 'expertFfn' | 'sharedFfn'

/** Widths of latents, of the parts of a head with and without positions, and of values. */
export type LatentDim = 'queryRank' | 'latent' | 'ropeDim' | 'plainDim' | 'valueDim'

export type LlamaDim = TransformerDim | ExpertDim | LatentDim

export type TransformerBlock = BlockBuilder<TransformerDim>
export type LlamaBlock = BlockBuilder<LlamaDim>
