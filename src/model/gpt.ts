/**
 * GPT: learned positions, LayerNorm before each half, GELU, biases everywhere, the head tied to the embedding if asked; several query
 * heads may share a key-value head (StarCoder).
 */
import { defineModel, normal, zeros } from './builder.js'
import type { GptConfig } from './config.js'
import type { StepShape } from './experts.js'
import type { Model, Value } from './graph.js'
import { placedIn, type TransformerBlock } from './transformer.js'

const small = normal(0.02)

/** What writes into the residual stream starts smaller, so that its variance does not grow with depth (GPT-2). */
const residualOf = ({ layers }: GptConfig) => normal(0.02 / Math.sqrt(2 * layers))

function attend(b: TransformerBlock, x: Value, c: GptConfig, step: StepShape): Value {
  const many = ['batch', 'seq', 'kvHeads', 'group', 'headDim'] as const
  const few = ['batch', 'seq', 'kvHeads', 'headDim'] as const
  const q = b.contract(x, b.param('attn.q', ['embed', 'kvHeads', 'group', 'headDim'], small), [...many], 'q')
  const k = b.contract(x, b.param('attn.k', ['embed', 'kvHeads', 'headDim'], small), [...few], 'k')
  const v = b.contract(x, b.param('attn.v', ['embed', 'kvHeads', 'headDim'], small), [...few], 'v')
  const heads = b.attention(
    b.add(q, b.param('attn.q.bias', ['kvHeads', 'group', 'headDim'], zeros, { role: 'bias' })),
    b.add(k, b.param('attn.k.bias', ['kvHeads', 'headDim'], zeros, { role: 'bias' })),
    b.add(v, b.param('attn.v.bias', ['kvHeads', 'headDim'], zeros, { role: 'bias' })),
    { dropout: c.dropout, ...placedIn(b, step) },
  )
  const out = b.contract(
    heads,
    b.param('attn.out', ['kvHeads', 'group', 'headDim', 'embed'], residualOf(c), { inputs: 3 }),
    ['batch', 'seq', 'embed'],
    'attended',
  )
  return b.add(out, b.param('attn.out.bias', ['embed'], zeros))
}

function feed(b: TransformerBlock, x: Value, c: GptConfig): Value {
  const up = b.contract(x, b.param('mlp.up', ['embed', 'ffn'], small), ['batch', 'seq', 'ffn'], 'up')
  const hidden = b.gelu(b.add(up, b.param('mlp.up.bias', ['ffn'], zeros)), { approximate: true })
  const table = b.param('mlp.down', ['ffn', 'embed'], residualOf(c))
  const down = b.contract(hidden, table, ['batch', 'seq', 'embed'], 'down')
  return b.add(down, b.param('mlp.down.bias', ['embed'], zeros))
}

/** A vector for each place in the sequence, or in the document of a token. */
function placed(b: TransformerBlock, step: StepShape): Value {
  const { positions } = placedIn(b, step)
  const init = normal(0.01)
  return positions
    ? b.embed(positions, b.param('positions', ['position', 'embed'], init, { role: 'embedding' }))
    : b.param('positions', ['seq', 'embed'], init, { role: 'embedding' })
}

export function gpt(c: GptConfig, step: StepShape): Model {
  const { embed, heads, kvHeads, ffn, vocab } = c
  const { batch, seq } = step
  const ofSequence = { batch, seq, position: seq, slot: seq }
  const ofHeads = { kvHeads, group: heads / kvHeads, headDim: embed / heads }
  const sizes = { ...ofSequence, ...ofHeads, embed, ffn, vocab }
  return defineModel('gpt', sizes, model => {
    model.block('embed', b => {
      const tokens = b.embed(
        b.input('tokens', ['batch', 'seq'], 'i32'),
        b.param('tokens', ['vocab', 'embed'], small, { role: 'embedding' }),
      )
      return { x: b.dropout(b.add(tokens, placed(b, step)), c.dropout, placedIn(b, step)) }
    })
    model.repeat('layers', c.layers, (b, { x }) => {
      const dropped = (of: Value) => b.dropout(of, c.dropout, placedIn(b, step))
      const middle = b.add(x, dropped(attend(b, b.layerNorm(x, 'norm1', ['embed'], c.eps), c, step)))
      return { x: b.add(middle, dropped(feed(b, b.layerNorm(middle, 'norm2', ['embed'], c.eps), c))) }
    })
    model.block('head', (b, { x }) => {
      const table = c.tied ? b.tied('embed.tokens') : b.param('out', ['vocab', 'embed'], small, { role: 'head' })
      const logits = b.contract(b.layerNorm(x, 'norm', ['embed'], c.eps), table, ['batch', 'seq', 'vocab'], 'logits')
      b.crossEntropy(logits, b.input('labels', ['batch', 'seq'], 'i32'))
      return {}
    })
  })
}
