/** Llama and its relatives: RMSNorm, rotary positions, grouped-query or latent attention, SwiGLU; no biases unless asked (Qwen2). */
import { defineModel, normal, zeros } from './builder.js'
import { type LlamaConfig, routedLayers } from './config.js'
import { expertSizes, routed, type StepShape } from './experts.js'
import type { Model, Value } from './graph.js'
import { latentAttention, latentSizes } from './latent.js'
import { type LlamaBlock, type LlamaDim, placedIn } from './transformer.js'

const sizesOf = (c: LlamaConfig, step: StepShape) =>
  ({
    ...{ batch: step.batch, seq: step.seq, slot: step.seq, embed: c.embed, ffn: c.ffn, vocab: c.vocab },
    ...{ kvHeads: c.kvHeads, group: c.heads / c.kvHeads, headDim: c.headDim },
    ...(c.moe && expertSizes(c.moe, step)),
    ...(c.mla && latentSizes(c.mla)),
  }) as Record<LlamaDim, number> // who has no experts or latents asks for none of their dims

export function llama(c: LlamaConfig, step: StepShape): Model {
  const small = normal(0.02)
  const many: LlamaDim[] = ['kvHeads', 'group', 'headDim']
  const few: LlamaDim[] = ['kvHeads', 'headDim']

  /** One of q, k, v: project, bias if the family has one, norm per head if it has one. */
  const project = (b: LlamaBlock, x: Value, name: string, dims: LlamaDim[], norm: boolean): Value => {
    const plain = b.contract(x, b.param(`attn.${name}`, ['embed', ...dims], small), ['batch', 'seq', ...dims], name)
    const biased = c.qkvBias ? b.add(plain, b.param(`attn.${name}.bias`, dims, zeros, { role: 'bias' })) : plain
    return norm && c.qkNorm ? b.rmsNorm(biased, `attn.${name}.norm`, ['headDim'], c.eps) : biased
  }

  const attend = (b: LlamaBlock, x: Value): Value => {
    const placed = placedIn(b, step)
    if (c.mla) return latentAttention(b, x, { ...c, mla: c.mla }, placed)
    const turned = (of: Value) => b.rope(of, c.ropeTheta, { scaling: c.ropeScaling, positions: placed.positions })
    const [q, k] = [turned(project(b, x, 'q', many, true)), turned(project(b, x, 'k', few, true))]
    const heads = b.attention(q, k, project(b, x, 'v', few, false), {
      ...(c.window && { window: c.window }),
      ...placed,
    })
    const out = b.param('attn.out', [...many, 'embed'], small, { inputs: many.length })
    return b.contract(heads, out, ['batch', 'seq', 'embed'], 'attended')
  }

  const feed = (b: LlamaBlock, x: Value): Value => {
    const gate = b.contract(x, b.param('mlp.gate', ['embed', 'ffn'], small), ['batch', 'seq', 'ffn'], 'gate')
    const up = b.contract(x, b.param('mlp.up', ['embed', 'ffn'], small), ['batch', 'seq', 'ffn'], 'up')
    return b.contract(
      b.swiglu(gate, up),
      b.param('mlp.down', ['ffn', 'embed'], small),
      ['batch', 'seq', 'embed'],
      'down',
    )
  }

  const isRouted = new Set(routedLayers(c))
  const kinds = Array.from({ length: c.layers }, (_, i) => (isRouted.has(i) ? 'routed' : 'layers'))
  return defineModel('llama', sizesOf(c, step), model => {
    model.block('embed', b => {
      const tokens = b.input('tokens', ['batch', 'seq'], 'i32')
      return { x: b.embed(tokens, b.param('tokens', ['vocab', 'embed'], small, { role: 'embedding' })) }
    })
    model.layers('layers', kinds, kind => (b, { x }) => {
      const middle = b.add(x, attend(b, b.rmsNorm(x, 'norm1', ['embed'], c.eps)))
      const normed = b.rmsNorm(middle, 'norm2', ['embed'], c.eps)
      return { x: b.add(middle, c.moe && kind === 'routed' ? routed(b, normed, c.moe, step) : feed(b, normed)) }
    })
    model.block('head', (b, { x }) => {
      const table = c.tied ? b.tied('embed.tokens') : b.param('out', ['vocab', 'embed'], small, { role: 'head' })
      const logits = b.contract(b.rmsNorm(x, 'norm', ['embed'], c.eps), table, ['batch', 'seq', 'vocab'], 'logits')
      b.crossEntropy(logits, b.input('labels', ['batch', 'seq'], 'i32'))
      return {}
    })
  })
}
