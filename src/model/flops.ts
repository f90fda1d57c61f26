/**
 * Floating-point operations that training on one token takes, as PaLM counts them (appendix B): 6 for each parameter
 * that a token meets (2 forward, 4 backward) and 12 x heads x headDim x seq for the attention of each layer (where values have another width
 * than keys, headDim is the mean of the two). The causal half of the
 * attention counts whole, recomputation not at all: what is useful, not what is executed.
 */
import { activeParametersOf, type ModelConfig } from './config.js'

export function flopsPerToken(model: ModelConfig, seq: number): number {
  const dense = 6 * activeParametersOf(model, seq)
  if (model.family === 'mlp') return dense
  return dense + 12 * model.layers * attentionWidth(model) * seq
}

function attentionWidth(model: Exclude<ModelConfig, { family: 'mlp' }>): number {
  if (model.family === 'gpt') return model.embed
  return (model.heads * (model.headDim + (model.mla?.valueDim ?? model.headDim))) / 2
}
