/** The model, as one of two families: what lies between them takes the nearer one, and every difference is named. */

import { readExpertsOfModel } from './experts.js'
import type { Terms } from './terms.js'
import { readVocab } from './vocab.js'

export interface Sizes {
  readonly layers?: number
  readonly embed?: number
}

type Shape = ReturnType<typeof shapeOf>

export function readModel(t: Terms): Sizes {
  const [layers, embed, heads] = ['num-layers', 'hidden-size', 'num-attention-heads'].map(term => t.whole(term, 1))
  if (layers === undefined || embed === undefined || heads === undefined) {
    for (const [term, field] of [
      ['num-layers', 'layers'],
      ['hidden-size', 'embed'],
      ['num-attention-heads', 'heads'],
    ] as const)
      if (!t.has(term)) t.reading.missing(`model.${field}`, `${t.path(term)} is not in the file`)
    partial(t, { layers, embed, heads })
    return { ...(layers !== undefined && { layers }), ...(embed !== undefined && { embed }) }
  }
  const shape = shapeOf(t, embed, heads)
  t.carry('num-layers', 'model.layers', layers)
  t.carry('hidden-size', 'model.embed', embed)
  t.carry('num-attention-heads', 'model.heads', heads)
  const family = shape.gated ? 'llama' : 'gpt' // a third matrix in each layer is what weighs most
  t.reading.set('model.family', family)
  readWidths(t, shape, embed)
  if (family === 'llama') readLlama(t, shape)
  else readGpt(t, shape)
  readVocab(t)
  readExpertsOfModel(t, Number(t.reading.field('model.ffn')), layers)
  nameDifferences(t, shape, family)
  return { layers, embed }
}

/** Some sizes alone make no model; those that are there are said all the same. */
function partial(t: Terms, sizes: Readonly<Record<string, number | undefined>>): void {
  const terms = { layers: 'num-layers', embed: 'hidden-size', heads: 'num-attention-heads' } as const
  for (const [field, term] of Object.entries(terms))
    if (sizes[field] !== undefined) t.drop(term, 'the rest of the model is not in the file')
  for (const term of [
    'swiglu',
    'normalization',
    'position-embedding-type',
    'ffn-hidden-size',
    'kv-channels',
    'rotary-base',
  ])
    if (t.has(term)) t.drop(term, 'the rest of the model is not in the file')
}

function shapeOf(t: Terms, embed: number, heads: number) {
  const norm = t.is('use-rms-norm')
    ? 'RMSNorm'
    : (t.word('normalization') ?? String(t.defaults.value('normalization') ?? 'LayerNorm'))
  const word = t.word('position-embedding-type')
  const rotary = t.is('use-rotary-position-embeddings') || /^(rope|rotary|yarn)$/.test(word ?? '')
  const positions = rotary
    ? 'rope'
    : (word ?? String(t.defaults.value('position-embedding-type') ?? 'learned_absolute'))
  const gated =
    t.is('swiglu') || /^swiglu$/i.test(t.word('glu-activation') ?? '') || /^swiglu$/i.test(t.word('activation') ?? '')
  const bias = t.has('add-bias-linear') ? t.is('add-bias-linear') : !t.is('disable-bias-linear')
  const groups =
    t.is('group-query-attention') || t.defaults.value('grouped') === true ? t.whole('num-query-groups', 1) : undefined
  const kvHeads = groups ?? t.whole('num-key-value-heads', 1) ?? t.whole('num-attention-heads-kv', 1)
  t.read('use-rms-norm', 'normalization', 'position-embedding-type', 'use-rotary-position-embeddings', 'swiglu')
  t.read('add-bias-linear', 'disable-bias-linear', 'group-query-attention', 'num-query-groups', 'num-key-value-heads')
  t.read('no-position-embedding', 'num-attention-heads-kv')
  return { embed, heads, norm, positions, gated, bias, kvHeads: kvHeads ?? heads }
}

function readWidths(t: Terms, { gated, kvHeads }: Shape, embed: number): void {
  const ffn = t.whole('ffn-hidden-size', 1)
  if (ffn !== undefined) t.carry('ffn-hidden-size', 'model.ffn', ffn)
  else {
    const usual = gated ? Math.floor((4 * embed * 2) / 3 / 64) * 64 : 4 * embed
    t.derive(
      'ffn-hidden-size',
      'model.ffn',
      usual,
      gated ? `not set: (8 / 3) x ${embed}, down to a multiple of 64` : `not set: 4 x ${embed}`,
    )
  }
  const untied = t.is('untie-embeddings-and-output-weights') || t.is('no-tie-embed-logits')
  const term = t.is('no-tie-embed-logits') ? 'no-tie-embed-logits' : 'untie-embeddings-and-output-weights'
  if (untied || t.has(term)) t.carry(term, 'model.tied', !untied)
  else if (t.defaults.value('untie-embeddings-and-output-weights') !== undefined)
    t.reading.assume(t.path(term), 'model.tied', true, `not set: the head is tied to the embedding, ${t.defaults.of}`)
  t.reading.set('model.kvHeads', kvHeads)
  const eps = ['norm-epsilon', 'layernorm-epsilon', 'rms-norm-eps'].find(one => t.has(one)) ?? 'norm-epsilon'
  t.numeric(eps, 'model.eps')
  const positions = t.whole('max-position-embeddings', 1)
  if (positions !== undefined) t.carry('max-position-embeddings', 'model.positions', positions)
}

function readLlama(t: Terms, { embed, heads }: Shape): void {
  const width = t.whole('kv-channels', 1)
  if (width !== undefined) t.carry('kv-channels', 'model.headDim', width)
  else t.reading.set('model.headDim', Number.isInteger(embed / heads) ? embed / heads : undefined)
  const theta =
    ['rotary-base', 'rope-theta', 'rotary-position-embeddings-theta'].find(one => t.has(one)) ?? 'rotary-base'
  t.numeric(theta, 'model.ropeTheta')
  t.carry('add-qkv-bias', 'model.qkvBias', t.is('add-qkv-bias'))
  if (t.is('qk-layernorm')) t.carry('qk-layernorm', 'model.qkNorm', true)
  readWindow(t)
  readScaling(t)
  readLatent(t)
  const dropped = dropoutOf(t)
  if (dropped > 0) t.drop('hidden-dropout', `${dropped}: this family has none`)
}

/** How many tokens to the left a query sees beside itself. */
function readWindow(t: Terms): void {
  if (!t.has('window-size')) return
  const said = (t.list('window-size') ?? []).join(',')
  const left = Number(/^[([\s]*(-?\d+)\s*(,|$)/.exec(said)?.[1] ?? Number.NaN)
  if (Number.isNaN(left))
    t.refuse('window-size', `expected tokens to the left and to the right, such as 1023,0, got ${said}`)
  else if (left >= 0) t.derive('window-size', 'model.window', left + 1, `${left} to the left and the token itself`)
  else t.read('window-size')
}

function readScaling(t: Terms): void {
  const factor = t.number('rope-scaling-factor')
  const positions = t.whole('original-max-position-embeddings', 1)
  const isYarn = t.choice('rope-type', { rope: false, yarn: true }, 'positions are used as with rope') === true
  if (t.is('use-rope-scaling'))
    t.carry(
      'use-rope-scaling',
      'model.ropeScaling',
      { kind: 'llama3', factor: factor ?? 8, original: positions ?? 8192 },
      'Llama 3.1',
    )
  else if (t.word('position-embedding-type') === 'yarn' || isYarn)
    t.carry(
      'position-embedding-type',
      'model.ropeScaling',
      { kind: 'yarn', factor: t.number('rotary-scaling-factor') ?? 40, original: positions ?? 4096 },
      'YaRN',
    )
  t.read(
    'rope-scaling-factor',
    'original-max-position-embeddings',
    'rotary-scaling-factor',
    'rope-type',
    'use-rope-scaling',
  )
  const stretch = t.number('rotary-seq-len-interpolation-factor') ?? 1
  if (stretch > 1)
    t.carry('rotary-seq-len-interpolation-factor', 'model.ropeScaling', { kind: 'linear', factor: stretch })
  else t.read('rotary-seq-len-interpolation-factor')
}

function readLatent(t: Terms): void {
  const terms = ['q-lora-rank', 'kv-lora-rank', 'qk-pos-emb-head-dim', 'qk-head-dim', 'v-head-dim']
  if (t.is('multi-latent-attention')) {
    const [qLoraRank, kvLoraRank = 32, qkRopeHeadDim = 64, qkNopeHeadDim = 128, vHeadDim = 128] = terms.map(term =>
      t.whole(term, 1),
    )
    const latent = { ...(qLoraRank !== undefined && { qLoraRank }), kvLoraRank, qkRopeHeadDim, qkNopeHeadDim, vHeadDim }
    t.carry('multi-latent-attention', 'model.mla', latent, 'latent attention')
    t.reading.set('model.headDim', qkNopeHeadDim + qkRopeHeadDim)
    t.reading.set('model.kvHeads', Number(t.reading.field('model.heads')))
  }
  t.read('multi-latent-attention', ...terms)
}

const dropoutOf = (t: Terms): number => {
  const [hidden, attention] = ['hidden-dropout', 'attention-dropout'].map(
    term => t.number(term) ?? Number(t.defaults.value(term) ?? 0),
  )
  t.read('hidden-dropout', 'attention-dropout')
  return Math.max(hidden ?? 0, attention ?? 0)
}

function readGpt(t: Terms, { embed, heads }: Shape): void {
  const hidden = t.number('hidden-dropout') ?? t.defaults.value('hidden-dropout')
  const attention = t.number('attention-dropout') ?? t.defaults.value('attention-dropout')
  if (t.has('hidden-dropout')) t.carry('hidden-dropout', 'model.dropout', hidden)
  else if (hidden !== undefined) t.usual('hidden-dropout', 'model.dropout')
  if (attention !== undefined && attention !== hidden)
    t.drop('attention-dropout', `${attention}: one dropout rate, ${hidden}, is used everywhere`)
  else t.read('attention-dropout')
  const width = t.whole('kv-channels', 1)
  if (width !== undefined && width * heads !== embed)
    t.drop('kv-channels', `head dim must be embed / heads = ${embed / heads}, not ${width}`)
  else t.read('kv-channels')
}

/** Norms of the families, by the names that Megatron, NeMo and GPT-NeoX give them. */
const norms = {
  llama: /^(te_)?rms_?norm$/i,
  gpt: /^(te_|low_precision_)?layer_?norm(1p)?$/i,
} as const

/** What the family has that the model has not, or the other way round. */
function nameDifferences(t: Terms, shape: Shape, family: 'llama' | 'gpt'): void {
  const { norm, positions, bias } = shape
  const llama = family === 'llama'
  if (!norms[family].test(norm)) t.drop('normalization', `${norm}: this family has ${llama ? 'RMSNorm' : 'LayerNorm'}`)
  if (positions !== (llama ? 'rope' : 'learned_absolute'))
    t.drop('position-embedding-type', `${positions}: this family has ${llama ? 'rotary' : 'learned'} positions`)
  if (bias === llama)
    t.drop('disable-bias-linear', `${bias ? 'biases' : 'no biases'}: this family has ${llama ? 'none' : 'them'}`)
  if (t.is('squared-relu')) t.drop('squared-relu', `this family has ${llama ? 'SwiGLU' : 'GELU'}`)
  else if (llama && !shape.gated) t.drop('swiglu', 'GELU: this family has SwiGLU, with a third matrix in each layer')
  const gate = t.word('glu-activation')
  if (gate !== undefined && !/^swiglu$/i.test(gate))
    t.drop('glu-activation', `${gate}: this family has ${llama ? 'SwiGLU' : 'GELU, without a gate'}`)
  const share = t.number('rotary-percent') ?? 1
  if (share < 1)
    t.drop('rotary-percent', `${share}: partial rotary embeddings are not supported, the full head is rotated`)
  t.read('glu-activation', 'squared-relu', 'rotary-percent', 'add-qkv-bias', 'qk-layernorm', 'rotary-base')
}
