/** The model config of a shape, for the compiler. */
import { GptConfig, LlamaConfig, type ModelConfig } from '../model/index.js'
import { plainShape, type Shape } from './shape.js'

/** The model that a shape was read from, or one with the same sizes if the shape was written by hand. */
export function modelOfShape(shape: Shape): ModelConfig {
  const { config } = shape
  return config && isOf(shape, config) ? { ...config, layers: shape.layers } : modelWith(shape)
}

/** Whether the numbers of a shape are still those of its model. */
function isOf(shape: Shape, config: ModelConfig): boolean {
  const own = plainShape({ ...config, layers: shape.layers }, shape.seq)
  return own !== undefined && Object.entries(own).every(([key, value]) => same(value, shape[key as keyof Shape]))
}

const same = (a: unknown, b: unknown): boolean => a === b || JSON.stringify(a) === JSON.stringify(b)

function modelWith(shape: Shape): ModelConfig {
  const { layers, embed, heads, kvHeads, headDim, ffn, vocab, tied, window } = shape
  const sizes = { layers, embed, heads, kvHeads, ffn, vocab, tied }
  if (!shape.gated) return GptConfig.parse({ ...sizes, family: 'gpt', dropout: shape.dropout ? 0.1 : 0 })
  const { latent, experts } = shape
  return LlamaConfig.parse({
    ...{ ...sizes, family: 'llama', headDim },
    ...(window?.layers === 'all' && { window: window.tokens }),
    ...(latent && {
      mla: {
        ...(latent.queries && { qLoraRank: latent.queries }),
        ...{ kvLoraRank: latent.keyValues, qkRopeHeadDim: latent.turned },
        ...{ qkNopeHeadDim: latent.plain, vHeadDim: latent.values },
      },
    }),
    ...(experts && { moe: mixtureOf(experts, layers) }),
  })
}

const mixtureOf = ({ count, active, ffn, shared, dense, groups }: NonNullable<Shape['experts']>, layers: number) => ({
  ...{ experts: count, topK: active, ffn, dense: Math.min(dense, layers - 1) },
  ...(shared > 0 && { shared }),
  ...(groups && { groups: groups.all, topKGroups: groups.chosen }),
})
