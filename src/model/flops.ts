/**
 * Floating-point operations that training on one token takes, as PaLM counts them (appendix B): 6 for each parameter
 * that a token meets (2 forward, 4 backward) and 12 x heads x headDim x seq for the attention of each layer (where values have another width
 * than keys, headDim is the mean of the two). The causal half of the
 * attention counts whole, recomputation not at all: what is useful, not what is executed. A frozen parameter has no gradient: 4, beside 6 of
 * those of its adapters. Where tokens see a window, or their own document, the *extent* of attention takes the place of seq.
 */
import type { Adapters } from './adapters.js'
import { activeParametersOf, type LlamaConfig, type ModelConfig, routedLayers } from './config.js'

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
    products: adapters ? 4 * met + 6 * adapterParametersOf(model, adapters, 'met') : 6 * met,
    attention: model.family === 'mlp' ? 0 : 12 * model.layers * attentionWidth(model) * extent,
  }
}

/** Both factors of every adapter: of all experts, or of those that a token meets. */
export function adapterParametersOf(model: ModelConfig, { rank, targets }: Beside, of: 'all' | 'met' = 'all'): number {
  const widths = targets.flatMap(target =>
    target === 'gate' || target === 'up' || target === 'down'
      ? [feedWidths(model, of)]
      : widthsOf(model, target).map(([from, to]) => model.layers * (from + to)),
  )
  return rank * widths.reduce((sum, width) => sum + width, 0)
}

/** Both sides of one matrix of the feed-forward part, of all layers. */
function feedWidths(model: ModelConfig, of: 'all' | 'met'): number {
  const { embed, ffn, layers } = model
  if (model.family !== 'llama' || !model.moe) return layers * (embed + ffn)
  const { experts, topK, ffn: each, shared = 0 } = model.moe
  const routed = routedLayers(model).length
  const beside = shared > 0 ? embed + shared : 0
  return (layers - routed) * (embed + ffn) + routed * ((of === 'all' ? experts : topK) * (embed + each) + beside)
}

type Widths = readonly [from: number, to: number]
type AttentionTarget = Exclude<Beside['targets'][number], 'gate' | 'up' | 'down'>

/** What the matrices of a target sum over, and what they make. */
function widthsOf(model: ModelConfig, target: AttentionTarget): readonly Widths[] {
  const { embed } = model
  if (model.family === 'mlp') return [[embed, embed]]
  if (model.family === 'gpt')
    return [[embed, target === 'k' || target === 'v' ? (model.kvHeads * embed) / model.heads : embed]]
  const { heads, kvHeads, headDim, mla } = model
  if (target === 'out') return [[heads * (mla?.vHeadDim ?? headDim), embed]]
  return mla ? latentWidths(model, mla, target) : [[embed, (target === 'q' ? heads : kvHeads) * headDim]]
}

function latentWidths(
  { embed, heads }: ModelConfig & { heads: number },
  { qLoraRank, kvLoraRank, qkRopeHeadDim, qkNopeHeadDim, vHeadDim }: NonNullable<LlamaConfig['mla']>,
  target: AttentionTarget,
): readonly Widths[] {
  const [plain, turned] = [heads * qkNopeHeadDim, heads * qkRopeHeadDim]
  if (target === 'v') return [[kvLoraRank, heads * vHeadDim]]
  if (target === 'k')
    return [
      [embed, kvLoraRank],
      [kvLoraRank, plain],
      [embed, qkRopeHeadDim],
    ]
  const from = qLoraRank ?? embed
  return [...(qLoraRank ? [[embed, qLoraRank] as const] : []), [from, plain], [from, turned]]
}

function attentionWidth(model: Exclude<ModelConfig, { family: 'mlp' }>): number {
  if (model.family === 'gpt') return model.embed
  return (model.heads * (model.headDim + (model.mla?.vHeadDim ?? model.headDim))) / 2
}
