/**
 * Latent attention (DeepSeek-V2): keys and values of all heads are read off one narrow latent per token, and queries, where
 * asked, off another. Positions turn a part of each query and one key that all heads share; the rest of queries and keys
 * has none. Pairs that turn are halves apart, as everywhere here: published weights have them side by side and are to be
 * permuted when they are loaded, queries and keys alike, which changes no score. The RMSNorms of the latents have an epsilon of
 * their own: published code leaves them at 1e-6 whatever the other norms have.
 */
import { scoreGrowthOf } from '../base/index.js'
import { normal } from './builder.js'
import type { LlamaConfig } from './config.js'
import type { Value } from './graph.js'
import type { LlamaBlock, LlamaDim, Placed } from './transformer.js'

export type LatentConfig = NonNullable<LlamaConfig['mla']>

export const latentSizes = ({ qLoraRank, kvLoraRank, qkRopeHeadDim, qkNopeHeadDim, vHeadDim }: LatentConfig) => ({
  ...{ ...(qLoraRank && { qLoraRank }), latent: kvLoraRank, qkRopeHeadDim, qkNopeHeadDim, vHeadDim },
})

/** What attention writes into the residual stream. */
export function latentAttention(
  b: LlamaBlock,
  x: Value,
  { mla, ...c }: LlamaConfig & { readonly mla: LatentConfig },
  placed: Placed,
): Value {
  const small = normal(0.02)
  const heads: LlamaDim[] = ['kvHeads', 'group']
  const product = (of: Value, name: string, from: LlamaDim, to: LlamaDim[]) =>
    b.contract(of, b.param(`attn.${name}`, [from, ...to], small), ['batch', 'seq', ...to], name)
  const latent = (name: string, to: LlamaDim) =>
    b.rmsNorm(product(x, `${name}.down`, 'embed', [to]), `attn.${name}.norm`, [to], mla.eps)
  const turned = (of: Value) => b.rope(of, c.ropeTheta, { scaling: c.ropeScaling, positions: placed.positions })

  const [from, asked] = mla.qLoraRank ? (['qLoraRank', latent('q', 'qLoraRank')] as const) : (['embed', x] as const)
  const q = b.join(
    product(asked, 'q.plain', from, [...heads, 'qkNopeHeadDim']),
    turned(product(asked, 'q.rope', from, [...heads, 'qkRopeHeadDim'])),
    ['batch', 'seq', ...heads, 'headDim'],
    'q',
  )
  const known = latent('kv', 'latent')
  const shared = turned(product(x, 'k.rope', 'embed', ['qkRopeHeadDim']))
  const plain = product(known, 'k.plain', 'latent', ['kvHeads', 'qkNopeHeadDim'])
  const k = b.join(plain, shared, ['batch', 'seq', 'kvHeads', 'headDim'], 'k')
  const v = product(known, 'v', 'latent', ['kvHeads', 'vHeadDim'])
  const growth = scoreGrowthOf(c.ropeScaling)
  const seen = b.attention(q, k, v, {
    ...(c.window && { window: c.window }),
    ...(growth !== 1 && { scale: growth / Math.sqrt(c.headDim) }),
    ...placed,
  })
  const out = b.param('attn.out', [...heads, 'vHeadDim', 'embed'], small, { inputs: heads.length + 1 })
  return b.contract(seen, out, ['batch', 'seq', 'embed'], 'attended')
}
