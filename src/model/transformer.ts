/** What the families of transformers share. */
import type { BlockBuilder } from './builder.js'
import type { Value } from './graph.js'

/** `position`: places in a document, as many as in a sequence, by which learned positions are looked up. */
export type TransformerDim = 'batch' | 'seq' | 'embed' | 'kvHeads' | 'group' | 'headDim' | 'ffn' | 'vocab' | 'position'

/** Experts as a token sees them and as they are held, the chosen ones, the rows of choices; widths of experts. */
export type ExpertDim = 'candidate' | 'expert' | 'choice' | 'row' | 'expertFfn' | 'sharedFfn'

/** Widths of latents, of the parts of a head with and without positions, and of values. */
export type LatentDim = 'queryRank' | 'latent' | 'ropeDim' | 'plainDim' | 'valueDim'

export type LlamaDim = TransformerDim | ExpertDim | LatentDim

export type TransformerBlock = BlockBuilder<TransformerDim>
export type LlamaBlock = BlockBuilder<LlamaDim>

/** Where tokens stand in their documents, for ops that ask for it: nothing where a sequence is one document. */
export const positionsIn = (
  b: Pick<TransformerBlock, 'input'>,
  { documents }: { readonly documents?: boolean },
): { readonly positions?: Value } => (documents ? { positions: b.input('positions', ['batch', 'seq'], 'i32') } : {})
