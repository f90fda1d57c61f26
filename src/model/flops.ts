/**
 * Floating-point operations that training on one token takes, as PaLM counts them (appendix B): 6 for each parameter
 * that a token meets (2 forward, 4 backward) and 12 x heads x headDim x seq for the attention of each layer (where values have another width
 * than keys, headDim is the mean of the two). The causal half of the
 * attention counts whole, recomputation not at all: what is useful, not what is executed. A frozen parameter has no gradient: 4, beside 6 of
 * those of its adapters. Where tokens see a window, or their own document, the *extent* of attention takes the place of seq.
 */
import type { Adapters } from './adapters.js'
import { activeParametersOf, type LlamaConfig, type ModelConfig } from './config.js'

type Beside = Pick<Adapters, 'rank' | 'targets'>

/**
 * Twice as many tokens as each of a sequence, or of a document, sees on average, of itself a half: as many as there are, unless a window is
 * shorter. Then (w^2 + (seq - w)(2w - 1)) / seq: about 2w - w^2 / seq.
 */
export const extentOf = (seq: number, window = seq): number =>
  window >= seq ? seq : (window ** 2 + (seq - window) * (2 * window - 1)) / seq

export const windowOf = (model: ModelConfig): number | undefined =>
  model.family === 'llama' ? model.window : undefined

/** `extent`: of a model's data, where its sequences hold several documents. */
export const flopsPerToken = (model: ModelConfig, seq: number, adapters?: Beside, extent?: number): number => {
  const { products, attention } = flopsOfToken(model, seq, adapters, extent)
  return products + attention
}

/** Products with parameters, and scores with what they weigh. */
export function flopsOfToken(
  model: ModelConfig,
  seq: number,
  adapters?: Beside,
  extent = extentOf(seq, windowOf(model)),
): { readonly products: number; readonly attention: number } {
  const met = activeParametersOf(model, seq)
  return {
    products: adapters ? 4 * met + 6 * adapterParametersOf(model, adapters) : 6 * met,
    attention: model.family === 'mlp' ? 0 : 12 * model.layers * attentionWidth(model) * extent,
  }
}

/** Both factors of every adapter. */
export const adapterParametersOf = (model: ModelConfig, { rank, targets }: Beside): number =>
  model.layers * rank * targets.flatMap(target => widthsOf(model, target).flat()).reduce((sum, width) => sum + width, 0)

type Widths = readonly [from: number, to: number]

/** What the matrices of a target sum over, and what they make. */
function widthsOf(model: ModelConfig, target: Beside['targets'][number]): readonly Widths[] {
  const { embed } = model
  if (target === 'gate' || target === 'up' || target === 'down') return [[embed, model.ffn]]
  if (model.family === 'mlp') return [[embed, embed]]
  if (model.family === 'gpt')
    return [[embed, target === 'k' || target === 'v' ? (model.kvHeads * embed) / model.heads : embed]]
  const { heads, kvHeads, headDim, mla } = model
  if (target === 'out') return [[heads * (mla?.valueDim ?? headDim), embed]]
  return mla ? latentWidths(model, mla, target) : [[embed, (target === 'q' ? heads : kvHeads) * headDim]]
}

function latentWidths(
  { embed, heads }: ModelConfig & { heads: number },
  { queryRank, keyValueRank, ropeDim, plainDim, valueDim }: NonNullable<LlamaConfig['mla']>,
  target: Beside['targets'][number],
): readonly Widths[] {
  const [plain, turned] = [heads * plainDim, heads * ropeDim]
  if (target === 'v') return [[keyValueRank, heads * valueDim]]
  if (target === 'k')
    return [
      [embed, keyValueRank],
      [keyValueRank, plain],
      [embed, ropeDim],
    ]
  const from = queryRank ?? embed
  return [...(queryRank ? [[embed, queryRank] as const] : []), [from, plain], [from, turned]]
}

function attentionWidth(model: Exclude<ModelConfig, { family: 'mlp' }>): number {
  if (model.family === 'gpt') return model.embed
  return (model.heads * (model.headDim + (model.mla?.valueDim ?? model.headDim))) / 2
}
