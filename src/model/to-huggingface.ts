/**
 * A model as a Hugging Face config.json: the other direction of huggingface.ts. What was written is read again, and every
 * setting that comes back as another one is said: an error where it changes what the model computes.
 */
import { error, type Problem, type RopeScaling, warning } from '../base/index.js'
import { type GptConfig, type LlamaConfig, type ModelConfig, type MoeConfig, routedLayers } from './config.js'
import { fromHuggingFace } from './huggingface.js'

export interface ModelExport {
  /** undefined: no family of theirs is like it. */
  readonly config?: Readonly<Record<string, unknown>> & { readonly model_type: string }
  readonly problems: readonly Problem[]
}

const architectures: Readonly<Record<string, string>> = {
  gpt2: 'GPT2LMHeadModel',
  gpt_bigcode: 'GPTBigCodeForCausalLM',
  llama: 'LlamaForCausalLM',
  mistral: 'MistralForCausalLM',
  qwen2: 'Qwen2ForCausalLM',
  qwen3: 'Qwen3ForCausalLM',
  mixtral: 'MixtralForCausalLM',
  qwen2_moe: 'Qwen2MoeForCausalLM',
  qwen3_moe: 'Qwen3MoeForCausalLM',
  deepseek_v3: 'DeepseekV3ForCausalLM',
}

/** `seq`: tokens of a sequence, where the model does not say for how many it was made; rows of its learned positions. */
export function toHuggingFace(model: ModelConfig, { seq }: { readonly seq: number }): ModelExport {
  const type = typeOf(model)
  if (model.family === 'mlp' || type === undefined)
    return { problems: [error('weights/family', 'model', 'transformers has no model family mlp')] }
  const config = {
    ...{ model_type: type, architectures: [architectures[type]], vocab_size: model.vocab },
    ...{ tie_word_embeddings: model.tied, use_cache: true },
    ...(model.family === 'gpt' ? gptFields(model, type, seq) : llamaFields(model, type, seq)),
  }
  const { config: read, problems } = fromHuggingFace(config)
  const wrong = problems.filter(({ severity }) => severity === 'error')
  const lost = read ? differences(model, read).map(path => lostProblem(path, type)) : wrong
  return lost.some(({ severity }) => severity === 'error') ? { problems: lost } : { config, problems: lost }
}

/** The family of theirs that has what the model has. */
function typeOf(model: ModelConfig): string | undefined {
  if (model.family === 'mlp') return undefined
  if (model.family === 'gpt') return model.kvHeads === model.heads ? 'gpt2' : 'gpt_bigcode'
  if (model.mla) return 'deepseek_v3'
  if (model.moe) return model.moe.shared ? 'qwen2_moe' : model.qkNorm || model.moe.dense > 0 ? 'qwen3_moe' : 'mixtral'
  return model.qkNorm ? 'qwen3' : model.qkvBias ? 'qwen2' : model.window ? 'mistral' : 'llama'
}

const gptFields = (c: GptConfig, type: string, seq: number) => ({
  ...{ n_embd: c.embed, n_layer: c.layers, n_head: c.heads, n_positions: seq },
  n_inner: c.ffn === 4 * c.embed ? null : c.ffn,
  ...(type === 'gpt2'
    ? { activation_function: 'gelu_new' }
    : { activation_function: 'gelu_pytorch_tanh', multi_query: c.kvHeads === 1 }),
  layer_norm_epsilon: c.eps,
  ...{ resid_pdrop: c.dropout, attn_pdrop: c.dropout, embd_pdrop: c.dropout },
})

function llamaFields(c: LlamaConfig, type: string, seq: number) {
  const rope = { rope_theta: c.ropeTheta, ...(c.ropeScaling ? ropeFields(c.ropeScaling) : { rope_type: 'default' }) }
  return {
    ...{ hidden_size: c.embed, num_hidden_layers: c.layers, num_attention_heads: c.heads },
    ...{ num_key_value_heads: c.kvHeads, ...(!c.mla && { head_dim: c.headDim }) },
    ...{ intermediate_size: type === 'mixtral' ? (c.moe?.ffn ?? c.ffn) : c.ffn, hidden_act: 'silu' },
    ...{ max_position_embeddings: c.positions ?? seq, rms_norm_eps: c.eps, attention_bias: false },
    ...{ attention_dropout: 0, rope_parameters: rope, rope_theta: c.ropeTheta },
    ...(c.ropeScaling && { rope_scaling: ropeFields(c.ropeScaling) }),
    ...windowFields(c, type),
    ...(c.moe && (type === 'mixtral' ? mixtralFields(c.moe) : type === 'deepseek_v3' ? {} : qwenFields(c, c.moe))),
    ...(c.mla && deepseekFields(c, c.mla)),
  }
}

const windowFields = ({ window, layers }: LlamaConfig, type: string) =>
  type.startsWith('qwen')
    ? {
        ...{ use_sliding_window: window !== undefined, sliding_window: window ?? null, max_window_layers: 0 },
        // Without it Qwen 2 with experts would have windows in every second layer.
        ...(window &&
          type === 'qwen2_moe' && { layer_types: Array.from({ length: layers }, () => 'sliding_attention') }),
      }
    : ['mistral', 'mixtral'].includes(type)
      ? { sliding_window: window ?? null }
      : {}

function ropeFields(scaling: RopeScaling) {
  switch (scaling.kind) {
    case 'linear':
      return { rope_type: 'linear', factor: scaling.factor }
    case 'llama3': {
      const { factor, low, high, original } = scaling
      return {
        ...{ rope_type: 'llama3', factor, low_freq_factor: low, high_freq_factor: high },
        original_max_position_embeddings: original,
      }
    }
    case 'yarn': {
      const { factor, original, fast, slow, scale, scaleAll } = scaling
      const grown =
        scaleAll > 0
          ? { mscale: scale, mscale_all_dim: scaleAll }
          : scale === 1
            ? {}
            : { attention_factor: 0.1 * scale * Math.log(factor) + 1 }
      return {
        ...{ rope_type: 'yarn', factor, original_max_position_embeddings: original },
        ...{ beta_fast: fast, beta_slow: slow, ...grown },
      }
    }
  }
}

const auxiliary = ({ loss }: MoeConfig) => ({ router_aux_loss_coef: loss?.microbatch ?? 0 })

const mixtralFields = (moe: MoeConfig) => ({
  ...{ num_local_experts: moe.experts, num_experts_per_tok: moe.topK, ...auxiliary(moe) },
})

/** Layers that are not routed are named where they are the first, and counted where they alternate. */
function qwenFields(c: LlamaConfig, moe: MoeConfig) {
  const first = Array.from({ length: moe.dense }, (_, layer) => layer)
  return {
    ...{ num_experts: moe.experts, num_experts_per_tok: moe.topK, moe_intermediate_size: moe.ffn },
    ...{ norm_topk_prob: moe.normalize, decoder_sparse_step: moe.every, mlp_only_layers: first, ...auxiliary(moe) },
    ...(moe.shared && { shared_expert_intermediate_size: moe.shared, qkv_bias: c.qkvBias }),
  }
}

function deepseekFields(c: LlamaConfig, mla: NonNullable<LlamaConfig['mla']>) {
  const { moe } = c
  return {
    ...{ q_lora_rank: mla.qLoraRank ?? null, kv_lora_rank: mla.kvLoraRank, rope_interleave: true },
    ...{ qk_rope_head_dim: mla.qkRopeHeadDim, qk_nope_head_dim: mla.qkNopeHeadDim, v_head_dim: mla.vHeadDim },
    ...{ n_routed_experts: moe?.experts ?? 1, num_experts_per_tok: moe?.topK ?? 1 },
    ...{ moe_intermediate_size: moe?.ffn ?? c.ffn, first_k_dense_replace: moe ? moe.dense : c.layers },
    ...{ n_shared_experts: moe?.shared ? moe.shared / moe.ffn : 0, norm_topk_prob: moe?.normalize ?? true },
    ...{ routed_scaling_factor: moe?.scale ?? 1, n_group: moe?.groups ?? 1, topk_group: moe?.topKGroups ?? 1 },
    ...{ scoring_func: moe?.scores ?? 'sigmoid', topk_method: moe?.bias === undefined ? 'greedy' : 'noaux_tc' },
    ...(moe?.loss?.sequence && { aux_loss_alpha: moe.loss.sequence, seq_aux: true }),
  }
}

/** Settings that only training reads: another value changes no logit. */
const ofTraining = ['moe.loss', 'moe.capacity', 'moe.bias', 'dropout', 'positions']

const lostProblem = (path: string, type: string): Problem => {
  const message = `config.json of ${type} has no field for it`
  return ofTraining.some(known => path.startsWith(known))
    ? warning('weights/family', `model.${path}`, `${message}; only training reads it`)
    : error('weights/family', `model.${path}`, `${message}: transformers would give different results`)
}

/** Settings in which two models compute something else, by their paths. */
export const modelDifferences = (a: ModelConfig, b: ModelConfig): string[] =>
  differences(a, b).filter(path => !ofTraining.some(known => path.startsWith(known)))

/** Paths of settings that are not the same. Whose layers are all dense has no experts, whatever is said of them. */
function differences(model: ModelConfig, read: ModelConfig): string[] {
  const plain = (config: ModelConfig): unknown =>
    config.family === 'llama' && config.moe && routedLayers(config).length === 0
      ? { ...config, moe: undefined }
      : { ...config }
  return pathsOf(plain(model), plain(read)).filter(path => !rateOfBias(path, model, read) && !idle(path, model))
}

/** The rate is in no config. */
const rateOfBias = (path: string, ...of: ModelConfig[]): boolean =>
  path === 'moe.bias' && of.every(config => config.family === 'llama' && config.moe?.bias !== undefined)

/** What has no effect: the width of dense layers where all are routed, positions the model is told of anyway. */
const idle = (path: string, model: ModelConfig): boolean =>
  path === 'positions' ||
  (path === 'ffn' && model.family === 'llama' && routedLayers(model).length === model.layers) ||
  (path === 'dropout' && model.family !== 'gpt')

function pathsOf(a: unknown, b: unknown, path = ''): string[] {
  const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
    typeof value === 'object' && value !== null
  if (typeof a === 'number' && typeof b === 'number') return Math.abs(a - b) <= 1e-12 * Math.abs(a) ? [] : [path]
  if (isObject(a) && isObject(b))
    return [...new Set([...Object.keys(a), ...Object.keys(b)])].flatMap(key =>
      pathsOf(a[key], b[key], path === '' ? key : `${path}.${key}`),
    )
  return a === b || isNothing(a, b) ? [] : [path]
}

/** Not said, and said to be nothing, are the same. */
const isNothing = (a: unknown, b: unknown): boolean => {
  const empty = (value: unknown) =>
    value === undefined ||
    value === 0 ||
    value === false ||
    (typeof value === 'object' && value !== null && Object.values(value).every(inner => inner === 0))
  return empty(a) && empty(b)
}
