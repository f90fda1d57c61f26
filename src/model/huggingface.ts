/**
 * A Hugging Face config.json as a model. What changes the numbers and cannot be expressed here is an error; what can
 * be left out without changing shapes is a warning. Nothing is dropped in silence.
 */
import { z } from 'zod'
import { hasErrors, nearest, type Problem, problemsOf, shorten, valueSaid } from '../base/index.js'
import { ModelConfig, type ModelInput } from './config.js'
import {
  deepseekFields,
  deepseekRouting,
  mixtralFields,
  mixtralRouting,
  qwenFields,
  qwenRouting,
  type Routing,
} from './huggingface-experts.js'
import { ropeFields, ropeOf } from './huggingface-rope.js'
import { advised, clause, type IgnoredPhrase, refused } from './phrases.js'

export interface ModelImport {
  readonly config?: ModelConfig
  readonly problems: readonly Problem[]
}

const count = z.int().min(1)

/** Fields of the Llama family; others are allowed, those that matter are looked at by name. */
const LlamaLike = z.looseObject({
  model_type: z.string(),
  hidden_size: count,
  num_hidden_layers: count,
  num_attention_heads: count,
  num_key_value_heads: count.nullish(),
  head_dim: count.nullish(),
  intermediate_size: count,
  vocab_size: count,
  rms_norm_eps: z.number().positive().default(1e-6),
  tie_word_embeddings: z.boolean().default(false),
  attention_bias: z.boolean().nullish(),
  sliding_window: z.int().min(0).nullish(),
  use_sliding_window: z.boolean().nullish(),
  max_window_layers: z.int().min(0).nullish(),
  layer_types: z.array(z.string()).nullish(),
  qkv_bias: z.boolean().nullish(),
  ...ropeFields,
  hidden_act: z.string().default('silu'),
})
type LlamaLike = z.output<typeof LlamaLike>

/** Where a field is missing, what transformers takes for it in the family: null says none, or as many as there are heads. */
const Mistral = LlamaLike.extend({
  num_key_value_heads: count.nullable().default(8),
  sliding_window: z.int().min(0).nullable().default(4096),
})
const Mixtral = LlamaLike.extend({
  ...mixtralFields,
  num_key_value_heads: count.nullable().default(8),
  rms_norm_eps: z.number().positive().default(1e-5),
})
const Qwen3 = LlamaLike.extend({ head_dim: count.nullable().default(128) })
const Qwen2Moe = LlamaLike.extend(qwenFields)
const Qwen3Moe = Qwen2Moe.extend({ num_key_value_heads: count.nullable().default(4) })

const Gpt2 = z.looseObject({
  model_type: z.string(),
  n_embd: count,
  n_layer: count,
  n_head: count,
  n_inner: count.nullish(),
  vocab_size: count,
  n_positions: count.nullish(),
  activation_function: z.string().default('gelu_new'),
  layer_norm_epsilon: z.number().positive().default(1e-5),
  tie_word_embeddings: z.boolean().default(true),
  resid_pdrop: z.number().default(0.1),
  attn_pdrop: z.number().default(0.1),
  embd_pdrop: z.number().default(0.1),
})
type Gpt2 = z.output<typeof Gpt2>

const GptBigCode = Gpt2.extend({
  activation_function: z.string().default('gelu_pytorch_tanh'),
  multi_query: z.boolean().default(true),
})

interface Translation {
  readonly input: ModelInput
  readonly problems: readonly Problem[]
}

/** Present, and not one of the ways to say "no". */
const isSet = (value: unknown): boolean => value !== undefined && value !== null && value !== false && value !== 0

const ignored = (raw: object, reasons: Readonly<Record<string, IgnoredPhrase>>): Problem[] =>
  Object.entries(reasons)
    .filter(([key]) => isSet((raw as Record<string, unknown>)[key])) // a loose object has any key
    .map(([key, reason]) => advised(key, reason))

const activation = (key: string, value: string, allowed: readonly string[]): Problem[] =>
  allowed.includes(value)
    ? []
    : [refused(key, 'model/unsupported/activation', { activation: shorten(value, 60), allowed: [...allowed] })]

/** Llama has no window whatever its config says; Qwen writes one even where it is off, and may have it in some layers only. */
function windowOf(c: LlamaLike): { window?: number; problems: Problem[] } {
  const { sliding_window: window, model_type: type, num_hidden_layers: all } = c
  if (!window) return { problems: [] }
  if (type === 'llama') return { problems: [advised('sliding_window', 'model/ignored/no-window')] }
  if (!type.startsWith('qwen')) return { window, problems: [] }
  if (!c.use_sliding_window) return { problems: [] }
  const layers = Array.from({ length: all }, (_, layer) => hasWindow(c, layer)).filter(Boolean).length
  if (layers === all) return { window, problems: [] }
  return { problems: layers === 0 ? [] : [advised('sliding_window', 'model/ignored/window', { layers, all })] }
}

function hasWindow({ model_type: type, layer_types: types, max_window_layers: edge }: LlamaLike, layer: number) {
  if (type === 'qwen3_moe') return true
  if (types) return types[layer] === 'sliding_attention'
  return type === 'qwen2_moe' ? layer % 2 === 0 && layer < (edge ?? 28) : layer >= (edge ?? 28)
}

/** Settings of other families that change what is computed: this one's code has none of them, but its author may have meant them. */
const foreign = [
  ...['attn_logit_softcapping', 'final_logit_softcapping', 'logit_scale', 'logits_scaling', 'query_pre_attn_scalar'],
  ...['embedding_multiplier', 'residual_multiplier', 'attention_multiplier', 'scale_emb', 'scale_depth'],
  ...['clip_qkv', 'use_qk_norm', 'qk_layernorm', 'alibi', 'rope_interleaved', 'no_rope_layers', 'attention_chunk_size'],
  ...['use_parallel_residual', 'parallel_attn', 'norm_after', 'attention_sinks'],
]

const foreignProblems = (c: LlamaLike): Problem[] =>
  foreign
    .filter(key => isSet(c[key]) && !(key === 'use_qk_norm' && c.model_type.startsWith('qwen3')))
    .map(key => advised(key, 'model/ignored/foreign', { family: c.model_type }))

function fromLlama(c: LlamaLike): Translation {
  const { window, problems } = windowOf(c)
  const rope = ropeOf(c, c.model_type === 'mixtral' ? 1e6 : 1e4)
  const input: ModelInput = {
    family: 'llama',
    layers: c.num_hidden_layers,
    embed: c.hidden_size,
    heads: c.num_attention_heads,
    kvHeads: c.num_key_value_heads ?? c.num_attention_heads,
    ...(c.head_dim && { headDim: c.head_dim }),
    ffn: c.intermediate_size,
    vocab: c.vocab_size,
    ropeTheta: rope.theta,
    ...(rope.scaling && { ropeScaling: rope.scaling }),
    eps: c.rms_norm_eps,
    tied: c.tie_word_embeddings,
    qkvBias: c.model_type.startsWith('qwen2') ? c.qkv_bias !== false : c.attention_bias === true,
    qkNorm: c.model_type.startsWith('qwen3'),
    ...(window && { window }),
    ...(c.max_position_embeddings && { positions: c.max_position_embeddings }),
  }
  return {
    input,
    problems: [
      ...problems,
      ...(c.head_dim || c.hidden_size % c.num_attention_heads === 0
        ? []
        : [refused('hidden_size', 'model/heads/hidden', { width: c.hidden_size, heads: c.num_attention_heads })]),
      ...activation('hidden_act', c.hidden_act, ['silu', 'swish']),
      ...ignored(c, {
        attention_dropout: 'model/ignored/dropout',
        mlp_bias: 'model/ignored/mlp-bias',
        quantization_config: 'model/ignored/quantised',
      }),
      ...(c.attention_bias === true && !c.model_type.startsWith('qwen2')
        ? [advised('attention_bias', 'model/ignored/output-bias')]
        : []),
      ...foreignProblems(c),
      ...rope.problems,
    ],
  }
}

const routed = ({ input, problems }: Translation, routing: Routing): Translation => ({
  input: { ...input, ...routing.input } as ModelInput, // of one family
  problems: [...problems, ...routing.problems],
})

const DeepSeek = LlamaLike.extend(deepseekFields)

/** Every head has a key of its own, as wide as its two parts; what the config says of either means something else. */
function fromDeepSeek(c: z.output<typeof DeepSeek>): Translation {
  const heads = { num_key_value_heads: c.num_attention_heads, head_dim: c.qk_nope_head_dim + c.qk_rope_head_dim }
  return routed(fromLlama({ ...c, ...heads, attention_bias: false }), deepseekRouting(c))
}

/** One key-value head for all query heads, or one for each. */
function fromGptBigCode(c: z.output<typeof GptBigCode>): Translation {
  const { input, problems } = fromGpt2(c)
  return { input: { ...input, ...(c.multi_query && { kvHeads: 1 }) } as ModelInput, problems } // of one family
}

/** What others call the GELU that is made of a tanh, which is ours. */
const tanhGelus = ['gelu_new', 'gelu_pytorch_tanh', 'gelu_fast']
const exactGelu = 'gelu'

function fromGpt2(c: Gpt2): Translation {
  const rates = [c.resid_pdrop, c.attn_pdrop, c.embd_pdrop]
  return {
    input: {
      family: 'gpt',
      layers: c.n_layer,
      embed: c.n_embd,
      heads: c.n_head,
      ...(c.n_inner && { ffn: c.n_inner }),
      vocab: c.vocab_size,
      tied: c.tie_word_embeddings,
      dropout: c.resid_pdrop,
      eps: c.layer_norm_epsilon,
      ...(c.n_positions && { positions: c.n_positions }),
    },
    problems: [
      ...activation('activation_function', c.activation_function, [...tanhGelus, exactGelu]),
      ...(c.activation_function === exactGelu ? [advised('activation_function', 'model/ignored/exact-gelu')] : []),
      ...(c.scale_attn_weights === false ? [refused('scale_attn_weights', 'model/unsupported/unscaled')] : []),
      ...(rates.some(rate => rate !== c.resid_pdrop)
        ? [advised('attn_pdrop', 'model/ignored/rates', { rate: c.resid_pdrop })]
        : []),
      ...ignored(c, {
        scale_attn_by_inverse_layer_idx: 'model/ignored/scaled',
        add_cross_attention: 'model/ignored/cross',
        quantization_config: 'model/ignored/quantised',
      }),
    ],
  }
}

const translate = <S extends z.ZodType>(schema: S, raw: unknown, to: (c: z.output<S>) => Translation): ModelImport => {
  const parsed = schema.safeParse(raw)
  if (!parsed.success) return { problems: problemsOf(parsed.error.issues, schema, raw) }
  const { input, problems } = to(parsed.data)
  if (hasErrors(problems)) return { problems }
  const config = ModelConfig.safeParse(input)
  if (!config.success) return { problems: [...problems, ...problemsOf(config.error.issues, ModelConfig, input)] }
  return { config: config.data, problems }
}

const families: Readonly<Record<string, (raw: unknown) => ModelImport>> = {
  llama: raw => translate(LlamaLike, raw, fromLlama),
  mistral: raw => translate(Mistral, raw, fromLlama),
  qwen2: raw => translate(LlamaLike, raw, fromLlama),
  qwen3: raw => translate(Qwen3, raw, fromLlama),
  mixtral: raw => translate(Mixtral, raw, c => routed(fromLlama(c), mixtralRouting(c))),
  qwen2_moe: raw => translate(Qwen2Moe, raw, c => routed(fromLlama(c), qwenRouting(c))),
  qwen3_moe: raw => translate(Qwen3Moe, raw, c => routed(fromLlama(c), qwenRouting(c))),
  deepseek_v3: raw => translate(DeepSeek, raw, fromDeepSeek),
  kimi_k2: raw => translate(DeepSeek, raw, fromDeepSeek),
  gpt2: raw => translate(Gpt2, raw, fromGpt2),
  gpt_bigcode: raw => translate(GptBigCode, raw, fromGptBigCode),
}

/** Families of their own, whatever their names are near to. */
const others = (
  'deepseek_v2 deepseek_v32 deepseek_vl gpt_j gptj gpt_neo kimi_k25 llama4 mllama llava ' +
  'ministral ministral3 mistral3 mistral4 mpt opt qwen qwen2_vl qwen3_5 qwen3_next qwen3_vl'
).split(' ')

/** `raw` is what JSON.parse made of a config.json. Paths of the problems are keys of that file. */
export function fromHuggingFace(raw: unknown): ModelImport {
  if (typeof raw !== 'object' || raw === null || Array.isArray(raw))
    return { problems: [refused('', 'model/config', { got: valueSaid(raw) })] }
  const type = (raw as Record<string, unknown>).model_type // any key of an object, undefined if it has none
  const known = Object.keys(families)
  if (typeof type !== 'string') return { problems: [refused('model_type', 'model/config/type', { families: known })] }
  if (Object.hasOwn(families, type)) return families[type](raw)
  const near = others.includes(type) ? undefined : nearest(shorten(type, 60), known)
  const instead = near
    ? clause('.nearest', { name: near })
    : clause('.supported', { families: { joint: 'and', of: known } })
  return { problems: [refused('model_type', 'model/unsupported/type', { type: shorten(type, 60), instead })] }
}
