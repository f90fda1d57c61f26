/** From a config to the model it names. */
import type { ModelConfig } from './config.js'
import type { StepShape } from './experts.js'
import { gpt } from './gpt.js'
import type { Model } from './graph.js'
import { llama } from './llama.js'
import { mlp } from './mlp.js'

/** Builds the graph of a model for one microbatch: `batch` is the global batch over the number of microbatches. */
export function buildModel(config: ModelConfig, step: Omit<StepShape, 'microbatches'> & Partial<StepShape>): Model {
  const shape = { microbatches: 1, ...step }
  switch (config.family) {
    case 'mlp':
      return mlp(config, shape)
    case 'gpt':
      return gpt(config, shape)
    case 'llama':
      return llama(config, shape)
  }
}

/** Without what only training has: masks, and losses that balance experts. */
export function withoutTraining(model: ModelConfig): ModelConfig {
  if (model.family === 'gpt') return { ...model, dropout: 0 }
  if (model.family !== 'llama' || !model.moe) return model
  return { ...model, moe: { ...model.moe, loss: undefined } }
}
