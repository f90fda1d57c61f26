/** GPT: learned positions, LayerNorm before each half, GELU, biases everywhere, the head tied to the embedding if asked. */
import { type BlockBuilder, defineModel, normal, zeros } from './builder.js'
import type { GptConfig } from './config.js'
import type { Model, Value } from './graph.js'

type D = 'batch' | 'seq' | 'embed' | 'kvHeads' | 'group' | 'headDim' | 'ffn' | 'vocab'

export function gpt(c: GptConfig, { batch, seq }: { batch: number; seq: number }): Model {
  const sizes = {
    batch,
    seq,
    embed: c.embed,
    kvHeads: c.heads,
    group: 1,
    headDim: c.embed / c.heads,
    ffn: c.ffn,
    vocab: c.vocab,
  }
  const small = normal(0.02)
  /** What writes into the residual stream starts smaller, so that its variance does not grow with depth (GPT-2). */
  const residual = normal(0.02 / Math.sqrt(2 * c.layers))

  const attend = (b: BlockBuilder<D>, x: Value): Value => {
    const q = b.contract(
      x,
      b.param('attn.q', ['embed', 'kvHeads', 'group', 'headDim'], small),
      ['batch', 'seq', 'kvHeads', 'group', 'headDim'],
      'q',
    )
    const k = b.contract(
      x,
      b.param('attn.k', ['embed', 'kvHeads', 'headDim'], small),
      ['batch', 'seq', 'kvHeads', 'headDim'],
      'k',
    )
    const v = b.contract(
      x,
      b.param('attn.v', ['embed', 'kvHeads', 'headDim'], small),
      ['batch', 'seq', 'kvHeads', 'headDim'],
      'v',
    )
    const heads = b.attention(
      b.add(q, b.param('attn.q.bias', ['kvHeads', 'group', 'headDim'], zeros, { decay: false })),
      b.add(k, b.param('attn.k.bias', ['kvHeads', 'headDim'], zeros, { decay: false })),
      b.add(v, b.param('attn.v.bias', ['kvHeads', 'headDim'], zeros, { decay: false })),
      { dropout: c.dropout },
    )
    const out = b.contract(
      heads,
      b.param('attn.out', ['kvHeads', 'group', 'headDim', 'embed'], residual),
      ['batch', 'seq', 'embed'],
      'attended',
    )
    return b.add(out, b.param('attn.out.bias', ['embed'], zeros))
  }

  const feed = (b: BlockBuilder<D>, x: Value): Value => {
    const up = b.contract(x, b.param('mlp.up', ['embed', 'ffn'], small), ['batch', 'seq', 'ffn'], 'up')
    const hidden = b.gelu(b.add(up, b.param('mlp.up.bias', ['ffn'], zeros)), { approximate: true })
    const down = b.contract(hidden, b.param('mlp.down', ['ffn', 'embed'], residual), ['batch', 'seq', 'embed'], 'down')
    return b.add(down, b.param('mlp.down.bias', ['embed'], zeros))
  }

  return defineModel('gpt', sizes, model => {
    model.block('embed', b => {
      const tokens = b.embed(b.input('tokens', ['batch', 'seq'], 'i32'), b.param('tokens', ['vocab', 'embed'], small))
      return { x: b.dropout(b.add(tokens, b.param('positions', ['seq', 'embed'], normal(0.01))), c.dropout) }
    })
    model.repeat('layers', c.layers, (b, { x }) => {
      const middle = b.add(x, b.dropout(attend(b, b.layerNorm(x, 'norm1', ['embed'], c.eps)), c.dropout))
      return { x: b.add(middle, b.dropout(feed(b, b.layerNorm(middle, 'norm2', ['embed'], c.eps)), c.dropout)) }
    })
    model.block('head', (b, { x }) => {
      const table = c.tied ? b.tied('embed.tokens') : b.param('out', ['vocab', 'embed'], small)
      const logits = b.contract(b.layerNorm(x, 'norm', ['embed'], c.eps), table, ['batch', 'seq', 'vocab'], 'logits')
      b.crossEntropy(logits, b.input('labels', ['batch', 'seq'], 'i32'))
      return {}
    })
  })
}
