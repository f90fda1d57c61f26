/** A deep residual MLP on sequences of vectors: the smallest model with everything a plan can split. */
import { defineModel, normal, zeros } from './builder.js'
import type { MlpConfig } from './config.js'
import type { Model } from './graph.js'

export const mlp = ({ layers, embed, ffn }: MlpConfig, { batch, seq }: { batch: number; seq: number }): Model =>
  defineModel('mlp', { batch, seq, features: embed, embed, ffn }, model => {
    model.block('input', b => {
      const weight = b.param('in', ['features', 'embed'], normal(0.1))
      return { x: b.contract(b.input('x', ['batch', 'seq', 'features']), weight, ['batch', 'seq', 'embed'], 'in') }
    })
    model.repeat('layers', layers, (b, { x }) => {
      const up = b.contract(x, b.param('up', ['embed', 'ffn'], normal(0.1)), ['batch', 'seq', 'ffn'], 'up')
      const hidden = b.gelu(b.add(up, b.param('up.bias', ['ffn'], zeros)))
      const down = b.contract(hidden, b.param('down', ['ffn', 'embed'], normal(0.1)), ['batch', 'seq', 'embed'], 'down')
      return { x: b.add(x, b.add(down, b.param('down.bias', ['embed'], zeros))) }
    })
    model.block('loss', (b, { x }) => {
      b.meanSquare(x, b.input('target', ['batch', 'seq', 'embed']))
      return {}
    })
  })
