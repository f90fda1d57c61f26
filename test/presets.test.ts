import { deepEqual, equal, ok } from 'node:assert/strict'
import { test } from 'node:test'
import {
  fromHuggingFace,
  ModelConfig,
  type ModelInput,
  type PresetName,
  parametersOf,
  presetNames,
  presets,
} from '../src/model/index.js'

const count = (name: PresetName, seq: number) => parametersOf(ModelConfig.parse(presets[name]), seq)

test('presets have the parameters that were published', () => {
  const published: readonly (readonly [PresetName, seq: number, parameters: number])[] = [
    ['gpt2', 1024, 124_439_808],
    ['gpt2-medium', 1024, 354_823_168],
    ['gpt2-large', 1024, 774_030_080],
    ['gpt2-xl', 1024, 1_557_611_200],
    ['llama2-7b', 4096, 6_738_415_616],
    ['llama2-13b', 4096, 13_015_864_320],
    ['llama2-70b', 4096, 68_976_648_192],
    ['llama3-8b', 8192, 8_030_261_248],
    ['llama3-70b', 8192, 70_553_706_496],
    ['llama3-405b', 8192, 405_853_388_800],
  ]
  for (const [name, seq, parameters] of published) equal(count(name, seq), parameters, name)
})

/** P = 12 l h^2 (1 + 13 / 12h + (V + s) / 12lh), equation 2 of the paper, which leaves out the final norm. */
test('the Megatron-LM models follow their paper', () => {
  const billions = {
    '1.7b': 1.7,
    '3.6b': 3.6,
    '7.5b': 7.5,
    '18b': 18.4,
    '39b': 39.1,
    '76b': 76.1,
    '145b': 145.6,
    '310b': 310.1,
    '530b': 529.6,
    '1t': 1008,
  }
  for (const [size, published] of Object.entries(billions)) {
    const name = `megatron-${size}` as PresetName // the tests of the type are the names above
    const {
      embed: h,
      layers: l,
      vocab: V,
    } = ModelConfig.parse(presets[name]) as Extract<ModelConfig, { family: 'gpt' }>
    const parameters = count(name, 2048)
    equal(parameters - 2 * h, 12 * l * h * h + 13 * l * h + (V + 2048) * h, name)
    equal(Number((parameters / 1e9).toFixed(published > 1000 ? 0 : 1)), published, name)
  }
  equal(Object.keys(billions).length, 10)
})

test('gpt3-175b has 175 billion parameters', () => ok(Math.abs(count('gpt3-175b', 2048) / 174.6e9 - 1) < 0.001))

test('every preset parses, and parsing what was parsed changes nothing', () => {
  for (const name of presetNames) {
    const config = ModelConfig.parse(presets[name])
    deepEqual(ModelConfig.parse(config), config, name)
  }
})

test('defaults are resolved', () => {
  deepEqual(ModelConfig.parse({ family: 'mlp', layers: 1, embed: 8 }), { family: 'mlp', layers: 1, embed: 8, ffn: 32 })
  deepEqual(ModelConfig.parse({ family: 'llama', layers: 1, embed: 8, heads: 2, ffn: 9, vocab: 10 }), {
    family: 'llama',
    layers: 1,
    embed: 8,
    heads: 2,
    ffn: 9,
    vocab: 10,
    kvHeads: 2,
    headDim: 4,
    ropeTheta: 10000,
    eps: 1e-5,
    tied: false,
    qkvBias: false,
    qkNorm: false,
  })
})

test('biases, norms of heads and tying are counted', () => {
  const base: ModelInput = { family: 'llama', layers: 2, embed: 8, heads: 4, kvHeads: 2, ffn: 16, vocab: 32 }
  const n = (change: object) => parametersOf(ModelConfig.parse({ ...base, ...change }), 4)
  equal(n({ tied: true }), n({}) - 32 * 8)
  equal(n({ qkvBias: true }), n({}) + 2 * 8 * 2)
  equal(n({ qkNorm: true }), n({}) + 2 * 4)
})

const llama = {
  model_type: 'llama',
  hidden_size: 4096,
  num_hidden_layers: 32,
  num_attention_heads: 32,
  num_key_value_heads: 8,
  intermediate_size: 14336,
  vocab_size: 128256,
  rope_theta: 500000,
  rms_norm_eps: 1e-5,
  max_position_embeddings: 8192,
  hidden_act: 'silu',
  tie_word_embeddings: false,
  torch_dtype: 'bfloat16',
}
const gpt2 = {
  model_type: 'gpt2',
  n_embd: 768,
  n_layer: 12,
  n_head: 12,
  vocab_size: 50257,
  n_positions: 1024,
  activation_function: 'gelu_new',
  resid_pdrop: 0.1,
  attn_pdrop: 0.1,
  embd_pdrop: 0.1,
}
const qwen2 = {
  model_type: 'qwen2',
  hidden_size: 896,
  num_hidden_layers: 24,
  num_attention_heads: 14,
  num_key_value_heads: 2,
  intermediate_size: 4864,
  vocab_size: 151936,
  tie_word_embeddings: true,
  use_sliding_window: false,
  sliding_window: 32768,
  max_window_layers: 21,
  rms_norm_eps: 1e-6,
  rope_theta: 1000000,
}
const qwen3 = {
  model_type: 'qwen3',
  hidden_size: 1024,
  num_hidden_layers: 28,
  num_attention_heads: 16,
  num_key_value_heads: 8,
  head_dim: 128,
  intermediate_size: 3072,
  vocab_size: 151936,
  tie_word_embeddings: true,
  attention_bias: false,
  use_sliding_window: false,
  sliding_window: null,
  rms_norm_eps: 1e-6,
  rope_theta: 1000000,
}
const mistral = { ...llama, model_type: 'mistral', vocab_size: 32000, rope_theta: 10000, sliding_window: 4096 }

test('Hugging Face configs give the published models', () => {
  const parameters = (raw: object, seq: number) => {
    const { config, problems } = fromHuggingFace(raw)
    deepEqual(problems, [])
    return parametersOf(config!, seq)
  }
  deepEqual(fromHuggingFace(llama).config, ModelConfig.parse(presets['llama3-8b']))
  equal(parameters(gpt2, 1024), 124_439_808)
  equal(parameters(qwen2, 4096), 494_032_768) // Qwen2.5-0.5B
  equal(parameters(qwen3, 4096), 596_049_920) // Qwen3-0.6B
  equal(parameters(mistral, 4096), 7_241_732_096) // Mistral-7B-v0.1
})

test('Hugging Face configs: windows, and what is ignored or refused', () => {
  const says = (raw: object) => fromHuggingFace(raw).problems.map(p => `${p.severity} ${p.path}`)
  const window = (raw: object) => (fromHuggingFace(raw).config as { window?: number }).window
  equal(window(mistral), 4096)
  equal(window(qwen2), undefined)
  equal(window({ ...qwen2, use_sliding_window: true, max_window_layers: 0 }), 32768)
  equal(window({ ...qwen2, use_sliding_window: true, max_window_layers: 24 }), undefined)
  deepEqual(says({ ...qwen2, use_sliding_window: true }), ['warning sliding_window'])
  deepEqual(says({ ...llama, attention_bias: true }), ['warning attention_bias'])
  deepEqual(says({ ...gpt2, attn_pdrop: 0 }), ['warning attn_pdrop'])
  deepEqual(says({ ...llama, hidden_act: 'relu' }), ['error hidden_act'])
  deepEqual(says({ ...llama, model_type: 'lama' }), ['error model_type'])
  deepEqual(says({ ...llama, hidden_size: 4095 }), ['error hidden_size'])
  deepEqual(says({ ...llama, hidden_size: '4096', vocab_size: 0 }), ['error hidden_size', 'error vocab_size'])
  for (const junk of [
    null,
    [],
    3,
    'x',
    {},
    { model_type: 3 },
    { model_type: '__proto__' },
    { model_type: 'toString' },
  ]) {
    const { config, problems } = fromHuggingFace(junk)
    ok(config === undefined && problems.length === 1, JSON.stringify(junk))
  }
})
