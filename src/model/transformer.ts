/** What the families of transformers share. */
import type { BlockBuilder } from './builder.js'
import type { StepShape } from './experts.js'
import type { Value } from './graph.js'

/**
 * `position`: places in a document, as many as in a sequence, by which learned positions are looked up. `slot`: where the tokens of a
 * sequence lie, of which every rank knows all.
 */
export type TransformerDim = SequenceDim | 'embed' | 'kvHeads' | 'group' | 'headDim' | 'ffn' | 'vocab'

type SequenceDim = 'batch' | 'seq' | 'position' | 'slot'

/** Experts as a token sees them and as they are held, the chosen ones, the rows of choices; widths of experts. */
export type ExpertDim = 'candidate' | 'expert' | 'choice' | 'row' | 'expertFfn' | 'sharedFfn'

/** Widths of latents, of the parts of a head with and without positions, and of values. */
export type LatentDim = 'qLoraRank' | 'latent' | 'qkRopeHeadDim' | 'qkNopeHeadDim' | 'vHeadDim'

export type LlamaDim = TransformerDim | ExpertDim | LatentDim

export type TransformerBlock = BlockBuilder<TransformerDim>
export type LlamaBlock = BlockBuilder<LlamaDim>

/** What is known of the tokens of documents, for ops that ask for it: nothing where a sequence is one document. */
export interface Placed {
  /** Where they stand in their documents. */
  readonly positions?: Value
  /** Which of them lies where. */
  readonly order?: Value
}

export function placedIn(b: Pick<TransformerBlock, 'input'>, { documents }: Pick<StepShape, 'documents'>): Placed {
  if (!documents) return {}
  const { every, ordered } = documents
  return {
    positions: b.input('positions', ['batch', 'seq'], 'i32', every),
    ...(ordered && { order: b.input('order', ['batch', 'slot'], 'i32') }),
  }
}
