/** What configs of routed models say: experts of Mixtral, Qwen and DeepSeek, and DeepSeek's latent attention. */
import { z } from 'zod'
import type { Problem } from '../base/index.js'
import type { LlamaInput } from './config.js'
import { advised, refused } from './phrases.js'

const count = z.int().min(1)
const none = z.int().min(0)

/** What a routed model adds to a model of the family, or changes. */
export interface Routing {
  readonly input: Partial<LlamaInput>
  readonly problems: readonly Problem[]
}

/** A coefficient of 0 is no loss. */
const balanced = (of: 'microbatch' | 'sequence', by: number | null | undefined) => (by ? { loss: { [of]: by } } : {})

export const mixtralFields = {
  num_local_experts: count.default(8),
  num_experts_per_tok: count.default(2),
  router_aux_loss_coef: z.number().min(0).nullish(),
  router_jitter_noise: z.number().nullish(),
}
const Mixtral = z.looseObject({ ...mixtralFields, intermediate_size: count })

export const mixtralRouting = (c: z.output<typeof Mixtral>): Routing => ({
  input: {
    moe: {
      ...{ experts: c.num_local_experts, topK: c.num_experts_per_tok, ffn: c.intermediate_size },
      ...balanced('microbatch', c.router_aux_loss_coef),
    },
  },
  problems: c.router_jitter_noise ? [advised('router_jitter_noise', 'model/ignored/jitter')] : [],
})

export const qwenFields = {
  num_experts: count.nullish(),
  /** What transformers 5 writes for it. */
  num_local_experts: count.nullish(),
  num_experts_per_tok: count,
  moe_intermediate_size: count,
  norm_topk_prob: z.boolean().default(false),
  router_aux_loss_coef: z.number().min(0).nullish(),
  decoder_sparse_step: count.default(1),
  mlp_only_layers: z.array(none).nullish(),
  shared_expert_intermediate_size: none.nullish(),
}
const Qwen = z.looseObject(qwenFields)

/** Layers that are not routed come first here; between routed ones there is none but every n-th. */
export function qwenRouting(c: z.output<typeof Qwen>): Routing {
  const plain = [...(c.mlp_only_layers ?? [])].sort((a, b) => a - b)
  const first = plain.every((layer, i) => layer === i)
  const shared = c.shared_expert_intermediate_size
  return {
    input: {
      moe: {
        ...{
          experts: c.num_experts ?? c.num_local_experts ?? 1,
          topK: c.num_experts_per_tok,
          ffn: c.moe_intermediate_size,
        },
        ...{ normalize: c.norm_topk_prob, dense: plain.length, every: c.decoder_sparse_step },
        ...(shared && { shared, sharedGate: true }),
        ...balanced('microbatch', c.router_aux_loss_coef),
      },
    },
    problems: [
      ...(c.num_experts || c.num_local_experts ? [] : [refused('num_experts', 'model/config/missing')]),
      ...(first && (plain.length === 0 || c.decoder_sparse_step === 1)
        ? []
        : [refused('mlp_only_layers', 'model/unsupported/layers', { layers: { joint: ',', of: plain } })]),
    ],
  }
}

/** Where a field is missing, what transformers takes for it: that of DeepSeek-V3. */
export const deepseekFields = {
  n_routed_experts: count,
  num_experts_per_tok: count,
  moe_intermediate_size: count,
  n_shared_experts: none.nullable().default(1),
  first_k_dense_replace: none.default(3),
  moe_layer_freq: count.default(1),
  norm_topk_prob: z.boolean().default(true),
  routed_scaling_factor: z.number().positive().default(2.5),
  n_group: count.nullable().default(8),
  topk_group: count.nullable().default(4),
  scoring_func: z.string().default('sigmoid'),
  topk_method: z.string().default('noaux_tc'),
  seq_aux: z.boolean().default(true),
  aux_loss_alpha: z.number().min(0).nullish(),
  num_nextn_predict_layers: none.nullish(),
  attention_bias: z.boolean().nullish(),
  q_lora_rank: count.nullable().default(1536),
  kv_lora_rank: count,
  qk_rope_head_dim: count,
  qk_nope_head_dim: count,
  v_head_dim: count,
}
const DeepSeek = z.looseObject(deepseekFields)
type DeepSeek = z.output<typeof DeepSeek>

/** q_a_layernorm and kv_a_layernorm take no epsilon from the config: `rms_norm_eps` is that of the other norms. */
const latentEps = 1e-6

/** The rate of the bias is in no config: that of DeepSeek-V3's report. */
const biasRate = 0.001

export const deepseekRouting = (c: DeepSeek): Routing => ({
  input: {
    mla: {
      ...(c.q_lora_rank && { qLoraRank: c.q_lora_rank }),
      ...{ kvLoraRank: c.kv_lora_rank, qkRopeHeadDim: c.qk_rope_head_dim, qkNopeHeadDim: c.qk_nope_head_dim },
      ...{ vHeadDim: c.v_head_dim, eps: latentEps },
    },
    moe: {
      ...{ experts: c.n_routed_experts, topK: c.num_experts_per_tok, ffn: c.moe_intermediate_size },
      ...{ scores: c.scoring_func === 'softmax' ? 'softmax' : 'sigmoid', normalize: c.norm_topk_prob },
      ...{ scale: c.routed_scaling_factor, dense: c.first_k_dense_replace },
      ...(c.topk_method === 'noaux_tc' && { bias: biasRate }),
      ...(isGrouped(c) && { groups: c.n_group, topKGroups: c.topk_group }),
      ...(c.n_shared_experts && { shared: c.n_shared_experts * c.moe_intermediate_size }),
      ...balanced(c.seq_aux ? 'sequence' : 'microbatch', c.aux_loss_alpha),
    },
  },
  problems: deepseekProblems(c),
})

type Grouped = DeepSeek & { readonly n_group: number; readonly topk_group: number }
const isGrouped = (c: DeepSeek): c is Grouped => (c.n_group ?? 1) > (c.topk_group ?? 1)

function deepseekProblems(c: DeepSeek): Problem[] {
  return [
    ...(['sigmoid', 'softmax'].includes(c.scoring_func)
      ? []
      : [refused('scoring_func', 'model/unsupported/scores', { scores: c.scoring_func })]),
    ...(c.moe_layer_freq === 1
      ? []
      : [refused('moe_layer_freq', 'model/unsupported/frequency', { frequency: c.moe_layer_freq })]),
    ...(c.attention_bias ? [refused('attention_bias', 'model/unsupported/biases')] : []),
    ...(c.num_nextn_predict_layers ? [advised('num_nextn_predict_layers', 'model/ignored/one-token')] : []),
    ...(isGrouped(c) && c.num_experts_per_tok !== 2 * c.topk_group
      ? [advised('topk_group', 'model/ignored/groups', { chosen: c.num_experts_per_tok, groups: c.topk_group })]
      : []),
  ]
}
