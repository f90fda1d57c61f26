/** The numbers of a model that its cost depends on. */
import { type LlamaConfig, type ModelConfig, routedLayers } from '../model/index.js'
import type { Experts, Latent, Shape } from './shape.js'

/** Without adapters; undefined of what is no transformer. */
export function plainShape(model: ModelConfig, seq: number): Shape | undefined {
  if (model.family === 'mlp') return undefined
  const { layers, embed, heads, kvHeads, ffn, vocab, tied } = model
  const sizes = { layers, embed, heads, kvHeads, ffn, vocab, tied, seq }
  if (model.family === 'llama') {
    const { headDim, mla, window } = model
    const experts = expertsOf(model)
    return {
      ...{ ...sizes, headDim, gated: true, biases: false, norm: 'rms', dropout: false, positions: 'rotary' },
      ...(experts && { experts }),
      ...(mla && { latent: latentOf(mla) }),
      ...(window !== undefined && { window: { tokens: window, layers: 'all' as const } }),
    }
  }
  const headDim = embed / heads
  const dropout = model.dropout > 0
  return { ...sizes, headDim, gated: false, biases: true, norm: 'layer', dropout, positions: 'learned' }
}

function expertsOf(model: LlamaConfig): Experts | undefined {
  const { moe, layers } = model
  if (!moe) return undefined
  const { experts: count, topK: active, ffn, shared = 0, groups, topKGroups } = moe
  const dense = layers - routedLayers(model).length
  const limited = groups !== undefined && topKGroups !== undefined && { groups: { all: groups, chosen: topKGroups } }
  const spread = moe.every > 1 && { spread: true as const }
  return { count, active, ffn, shared, dense, ...spread, ...limited }
}

const latentOf = ({
  qLoraRank,
  kvLoraRank,
  qkNopeHeadDim,
  qkRopeHeadDim,
  vHeadDim,
}: NonNullable<LlamaConfig['mla']>): Latent => ({
  ...{ keyValues: kvLoraRank, plain: qkNopeHeadDim, turned: qkRopeHeadDim, values: vHeadDim },
  ...(qLoraRank !== undefined && { queries: qLoraRank }),
})
