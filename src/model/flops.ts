/**
 * Floating-point operations that training on one token takes, as PaLM counts them (appendix B): 6 for each parameter
 * that a token meets (2 forward, 4 backward) and 12 x heads x headDim x seq for the attention of each layer (where values have another width
 * than keys, headDim is the mean of the two). The causal half of the
 * attention counts whole, recomputation not at all: what is useful, not what is executed. A frozen parameter has no gradient: 4, beside 6 of
 * those of its adapters.
 */
import type { Adapters } from './adapters.js'
import { activeParametersOf, type ModelConfig } from './config.js'

type Beside = Pick<Adapters, 'rank' | 'targets'>

export const flopsPerToken = (model: ModelConfig, seq: number, adapters?: Beside): number => {
  const { products, attention } = flopsOfToken(model, seq, adapters)
  return products + attention
}

/** Products with parameters, and scores with what they weigh. */
export function flopsOfToken(
  model: ModelConfig,
  seq: number,
  adapters?: Beside,
): { readonly products: number; readonly attention: number } {
  const met = activeParametersOf(model, seq)
  return {
    products: adapters ? 4 * met + 6 * adapterParametersOf(model, adapters) : 6 * met,
    attention: model.family === 'mlp' ? 0 : 12 * model.layers * attentionWidth(model) * seq,
  }
}

/** Both factors of every adapter. */
export const adapterParametersOf = (model: ModelConfig, { rank, targets }: Beside): number =>
  model.layers * targets.reduce((sum, target) => sum + rank * widthsOf(model, target).reduce((a, b) => a + b), 0)

/** What a matrix sums over, and what it makes. */
function widthsOf(model: ModelConfig, target: Beside['targets'][number]): readonly [from: number, to: number] {
  const { embed } = model
  if (target === 'gate' || target === 'up' || target === 'down') return [embed, model.ffn]
  if (model.family === 'mlp') return [embed, embed]
  if (model.family === 'gpt')
    return [embed, target === 'k' || target === 'v' ? (model.kvHeads * embed) / model.heads : embed]
  const { heads, kvHeads, headDim, mla } = model
  if (target === 'out') return [heads * (mla?.valueDim ?? headDim), embed]
  return [embed, (target === 'q' ? heads : kvHeads) * headDim]
}

function attentionWidth(model: Exclude<ModelConfig, { family: 'mlp' }>): number {
  if (model.family === 'gpt') return model.embed
  return (model.heads * (model.headDim + (model.mla?.valueDim ?? model.headDim))) / 2
}
