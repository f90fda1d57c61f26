import { deepEqual, equal, ok } from 'node:assert/strict'
import { test } from 'node:test'
import {
  activeParametersOf,
  fromHuggingFace,
  ModelConfig,
  type ModelInput,
  type PresetName,
  parametersOf,
  presetNames,
  presets,
  toHuggingFace,
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
    ['mixtral-8x7b', 1, 46_702_792_704],
    ['mixtral-8x22b', 1, 140_630_071_296],
    ['qwen3-30b-a3b', 1, 30_532_122_624],
    ['qwen3-235b-a22b', 1, 235_093_634_560],
    ['deepseek-v3', 1, 671_026_419_200],
  ]
  for (const [name, seq, parameters] of published) equal(count(name, seq), parameters, name)
})

test('of routed models a token meets as many parameters as was published, in billions', () => {
  const active: Partial<Record<PresetName, number>> = {
    'mixtral-8x7b': 12.9,
    'mixtral-8x22b': 39.2,
    'qwen3-30b-a3b': 3.4,
    'qwen3-235b-a22b': 22.2,
    'deepseek-v3': 37.6,
    'kimi-k2': 32.9,
  }
  for (const [name, billions] of Object.entries(active) as [PresetName, number][])
    equal(Number((activeParametersOf(ModelConfig.parse(presets[name]), 1) / 1e9).toFixed(1)), billions, name)
  equal(Math.round(count('kimi-k2', 1) / 1e9), 1026) // a trillion
  equal(activeParametersOf(ModelConfig.parse(presets['llama3-8b']), 8192), count('llama3-8b', 8192))
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

/** Sizes of the configs that were published with the weights. */
const routed = {
  'mixtral-8x7b': {
    ...{ model_type: 'mixtral', hidden_size: 4096, num_hidden_layers: 32, num_attention_heads: 32 },
    ...{ num_key_value_heads: 8, intermediate_size: 14336, vocab_size: 32000, rope_theta: 1e6, rms_norm_eps: 1e-5 },
    ...{ max_position_embeddings: 32768, num_local_experts: 8, num_experts_per_tok: 2, router_aux_loss_coef: 0.02 },
    ...{ sliding_window: null, output_router_logits: false },
  },
  'qwen3-30b-a3b': {
    ...{ model_type: 'qwen3_moe', hidden_size: 2048, num_hidden_layers: 48, num_attention_heads: 32, head_dim: 128 },
    ...{ num_key_value_heads: 4, intermediate_size: 6144, vocab_size: 151936, rope_theta: 1e6, rms_norm_eps: 1e-6 },
    ...{ max_position_embeddings: 40960, num_experts: 128, num_experts_per_tok: 8, moe_intermediate_size: 768 },
    ...{ norm_topk_prob: true, router_aux_loss_coef: 0.001, decoder_sparse_step: 1, mlp_only_layers: [] },
    ...{ attention_bias: false, use_sliding_window: false, sliding_window: null, max_window_layers: 48 },
  },
  'deepseek-v3': {
    ...{ model_type: 'deepseek_v3', hidden_size: 7168, num_hidden_layers: 61, num_attention_heads: 128 },
    ...{ num_key_value_heads: 128, intermediate_size: 18432, vocab_size: 129280, rope_theta: 10000, head_dim: 64 },
    ...{ rms_norm_eps: 1e-6, max_position_embeddings: 163840, n_routed_experts: 256, num_experts_per_tok: 8 },
    ...{ moe_intermediate_size: 2048, n_shared_experts: 1, first_k_dense_replace: 3, moe_layer_freq: 1 },
    ...{ norm_topk_prob: true, routed_scaling_factor: 2.5, n_group: 8, topk_group: 4, scoring_func: 'sigmoid' },
    ...{ topk_method: 'noaux_tc', seq_aux: true, aux_loss_alpha: 0.0001, q_lora_rank: 1536, kv_lora_rank: 512 },
    ...{ qk_rope_head_dim: 64, qk_nope_head_dim: 128, v_head_dim: 128, attention_bias: false },
    rope_scaling: {
      ...{ type: 'yarn', factor: 40, original_max_position_embeddings: 4096, beta_fast: 32, beta_slow: 1 },
      ...{ mscale: 1, mscale_all_dim: 1 },
    },
  },
} as const

for (const [name, raw] of Object.entries(routed))
  test(`the config of ${name} is its preset`, () => {
    const { config, problems } = fromHuggingFace(raw)
    deepEqual(problems, [])
    deepEqual(config, ModelConfig.parse(presets[name as PresetName]))
  })

test('configs of other routed models, and what of them is ignored or refused', () => {
  const moeOf = (raw: object) => (fromHuggingFace(raw).config as { moe?: object } | undefined)?.moe
  const says = (raw: object) => fromHuggingFace(raw).problems.map(p => `${p.severity} ${p.path}`)
  const [qwen, deepseek, mixtral] = [routed['qwen3-30b-a3b'], routed['deepseek-v3'], routed['mixtral-8x7b']]
  const old = { ...qwen, model_type: 'qwen2_moe', shared_expert_intermediate_size: 5632, norm_topk_prob: false }
  deepEqual(fromHuggingFace(old).config, {
    ...{ ...ModelConfig.parse(presets['qwen3-30b-a3b']), qkNorm: false, qkvBias: true },
    moe: { ...(moeOf(qwen) as object), normalize: false, shared: 5632, sharedGate: true },
  })
  deepEqual(moeOf({ ...deepseek, model_type: 'kimi_k2', n_group: 1, topk_group: 1, first_k_dense_replace: 1 }), {
    ...{ experts: 256, topK: 8, ffn: 2048, scores: 'sigmoid', normalize: true, scale: 2.5, bias: 0.001 },
    ...{ shared: 2048, sharedGate: false, dense: 1, every: 1, loss: { sequence: 0.0001, microbatch: 0, z: 0 } },
  })
  deepEqual(says({ ...qwen, mlp_only_layers: [0, 1] }), [])
  deepEqual(says({ ...qwen, mlp_only_layers: [3] }), ['error mlp_only_layers'])
  deepEqual(says({ ...deepseek, num_nextn_predict_layers: 1 }), ['warning num_nextn_predict_layers'])
  deepEqual(says({ ...deepseek, topk_group: 2 }), ['warning topk_group'])
  deepEqual(says({ ...deepseek, scoring_func: 'tanh', moe_layer_freq: 2, attention_bias: true }), [
    ...['error scoring_func', 'error moe_layer_freq', 'error attention_bias'],
  ])
  deepEqual(says({ ...mixtral, router_jitter_noise: 0.1 }), ['warning router_jitter_noise'])
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
  deepEqual(says({ ...gpt2, activation_function: 'gelu' }), ['warning activation_function'])
  deepEqual(says({ ...gpt2, activation_function: 'relu' }), ['error activation_function'])
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

test('fields that a config lacks are what transformers takes for them in its family', () => {
  const read = (raw: object) => fromHuggingFace(raw).config as Record<string, unknown> | undefined
  const without = (raw: object, ...keys: string[]) =>
    Object.fromEntries(Object.entries(raw).filter(([key]) => !keys.includes(key)))
  const bare = without(mistral, 'num_key_value_heads', 'sliding_window')
  equal(read(bare)?.kvHeads, 8)
  equal(read(bare)?.window, 4096)
  equal(read({ ...bare, num_key_value_heads: null, sliding_window: null })?.kvHeads, 32)
  equal(read({ ...bare, num_key_value_heads: null, sliding_window: null })?.window, undefined)
  const mixtral = read(without(routed['mixtral-8x7b'], 'num_key_value_heads', 'rope_theta', 'rms_norm_eps'))
  deepEqual([mixtral?.kvHeads, mixtral?.ropeTheta, mixtral?.eps], [8, 1e6, 1e-5])
  equal(read(without(qwen3, 'head_dim'))?.headDim, 128)
  equal(read(without(routed['qwen3-30b-a3b'], 'num_key_value_heads'))?.kvHeads, 4)
  const fields = [
    'n_shared_experts',
    'first_k_dense_replace',
    'routed_scaling_factor',
    'n_group',
    'topk_group',
    'q_lora_rank',
  ]
  deepEqual(read(without(routed['deepseek-v3'], ...fields)), read(routed['deepseek-v3']))
})

test('windows are those of transformers: none in Llama, in all layers of Qwen or in some, which is said', () => {
  const of = (raw: object) => {
    const { config, problems } = fromHuggingFace(raw)
    return [(config as { window?: number }).window, problems.map(p => `${p.path}: ${p.message}`).join()]
  }
  const said = (layers: number, all: number) =>
    `sliding_window: ignored: ${layers} of ${all} layers have a sliding window; only a window for all layers is supported`
  deepEqual(of({ ...llama, sliding_window: 64 }), [
    undefined,
    'sliding_window: ignored: this family has no sliding window in transformers either',
  ])
  const on = { ...qwen2, use_sliding_window: true, sliding_window: 64, max_window_layers: 0 }
  const types = (windowed: number) =>
    Array.from({ length: 24 }, (_, layer) => (layer < windowed ? 'sliding_attention' : 'full_attention'))
  deepEqual(of({ ...on, layer_types: types(24), max_window_layers: 24 }), [64, ''])
  deepEqual(of({ ...on, layer_types: types(0) }), [undefined, ''])
  deepEqual(of({ ...on, layer_types: types(5) }), [undefined, said(5, 24)])
  deepEqual(of({ ...on, max_window_layers: 20 }), [undefined, said(4, 24)])
  const experts = { ...routed['qwen3-30b-a3b'], use_sliding_window: true, sliding_window: 64, max_window_layers: 10 }
  deepEqual(of(experts), [64, ''])
  deepEqual(of({ ...experts, model_type: 'qwen2_moe' }), [undefined, said(5, 48)])
})

test('Qwen 2 with experts has biases unless it says none; settings of other families are said to be ignored', () => {
  const old = { ...routed['qwen3-30b-a3b'], model_type: 'qwen2_moe' }
  const biased = (raw: object) => (fromHuggingFace(raw).config as { qkvBias?: boolean }).qkvBias
  deepEqual([biased(old), biased({ ...old, qkv_bias: false })], [true, false])
  const says = (raw: object) => fromHuggingFace(raw).problems.map(p => `${p.severity} ${p.path}`)
  deepEqual(says({ ...llama, final_logit_softcapping: 30, rope_interleaved: true, clip_qkv: null, scale_emb: 12 }), [
    'warning final_logit_softcapping',
    'warning scale_emb',
    'warning rope_interleaved',
  ])
  deepEqual(says({ ...routed['qwen3-30b-a3b'], use_qk_norm: true }), [])
})

test('a family that is not supported is not told the name of another', () => {
  for (const type of ['opt', 'llama4', 'qwen', 'deepseek_v2'])
    equal(fromHuggingFace({ ...llama, model_type: type }).problems[0].suggestion?.startsWith('supported: '), true, type)
})

test('a window of Qwen 2 with experts is written so that all layers have it', () => {
  const model = ModelConfig.parse({
    ...{ family: 'llama', layers: 2, embed: 8, heads: 2, ffn: 16, vocab: 32, qkvBias: true, window: 4 },
    moe: { experts: 2, topK: 1, shared: 8, sharedGate: true },
  })
  const { config, problems } = toHuggingFace(model, { seq: 8 })
  deepEqual(problems, [])
  deepEqual([config?.model_type, config?.layer_types], ['qwen2_moe', ['sliding_attention', 'sliding_attention']])
})

test('latent norms have an epsilon of their own: the model’s if not given, 1e-6 in folders of DeepSeek', () => {
  const deepseek = presets['deepseek-tiny']
  const latentEps = (model: ModelConfig | undefined) => model?.family === 'llama' && model.mla?.eps
  equal(latentEps(ModelConfig.parse({ ...deepseek, eps: 1e-3 })), 1e-3)
  const written = (eps: number) =>
    toHuggingFace(ModelConfig.parse({ ...deepseek, eps: 1e-3, mla: { ...deepseek.mla, eps } }), { seq: 8 })
  const { config } = written(1e-6)
  equal(config?.rms_norm_eps, 1e-3)
  equal(latentEps(fromHuggingFace(config).config), 1e-6)
  const refused = written(1e-3)
  equal(refused.config, undefined)
  deepEqual(
    refused.problems.filter(({ severity }) => severity === 'error').map(({ path }) => path),
    ['model.mla.eps'],
  )
})
