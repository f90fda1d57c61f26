/** The model as Megatron is told it. */
import type { Job } from '../../plan/index.js'
import type { Flags } from './megatron.js'
import type { Refuse } from './writing.js'

type Model = Job['model']
type Llama = Extract<Model, { readonly family: 'llama' }>

export function modelFlags(model: Model, seq: number, refuse: Refuse): Flags {
  if (model.family === 'mlp') {
    refuse('model.family', 'Megatron trains transformers only')
    return {}
  }
  return {
    'num-layers': model.layers,
    'hidden-size': model.embed,
    'num-attention-heads': model.heads,
    'ffn-hidden-size': model.ffn,
    'max-position-embeddings': model.positions ?? seq,
    'padded-vocab-size': model.vocab,
    'norm-epsilon': model.eps,
    ...(!model.tied && { 'untie-embeddings-and-output-weights': true }),
    'init-method-std': 0.02,
    ...(model.family === 'llama'
      ? llamaFlags(model, refuse)
      : {
          normalization: 'LayerNorm',
          'position-embedding-type': 'learned_absolute',
          ...(model.kvHeads !== model.heads && { 'group-query-attention': true, 'num-query-groups': model.kvHeads }),
          'hidden-dropout': model.dropout,
          'attention-dropout': model.dropout,
        }),
  }
}

function llamaFlags(model: Llama, refuse: Refuse): Flags {
  return {
    swiglu: true,
    normalization: 'RMSNorm',
    'position-embedding-type': 'rope',
    'rotary-base': model.ropeTheta,
    'disable-bias-linear': true,
    'hidden-dropout': '0.0',
    'attention-dropout': '0.0',
    ...(model.qkvBias && { 'add-qkv-bias': true }),
    ...(model.qkNorm && { 'qk-layernorm': true }),
    ...(model.window !== undefined && { 'window-size': `${model.window - 1},0` }),
    ...headFlags(model),
    ...scalingFlags(model.ropeScaling, refuse),
    ...expertFlags(model, refuse),
  }
}

function headFlags({ mla, kvHeads, headDim }: Llama): Flags {
  if (mla)
    return {
      'multi-latent-attention': true,
      'q-lora-rank': mla.qLoraRank,
      'kv-lora-rank': mla.kvLoraRank,
      'qk-pos-emb-head-dim': mla.qkRopeHeadDim,
      'qk-head-dim': mla.qkNopeHeadDim,
      'v-head-dim': mla.vHeadDim,
    }
  return { 'group-query-attention': true, 'num-query-groups': kvHeads, 'kv-channels': headDim }
}

function scalingFlags(scaling: Llama['ropeScaling'], refuse: Refuse): Flags {
  if (!scaling) return {}
  if (scaling.kind === 'linear') return { 'rotary-seq-len-interpolation-factor': scaling.factor }
  if (scaling.kind === 'llama3') return { 'use-rope-scaling': true, 'rope-scaling-factor': scaling.factor }
  refuse('model.ropeScaling', `export to Megatron supports linear and llama3 scaling, not ${scaling.kind}`)
  return {}
}

function expertFlags({ moe, layers }: Llama, refuse: Refuse): Flags {
  if (!moe) return {}
  const { dense = 0, every = 1, loss, capacity } = moe
  if (dense > 0 && every > 1) refuse('model.moe', 'leading dense layers cannot be combined with an MoE interval')
  return {
    'num-experts': moe.experts,
    'moe-router-topk': moe.topK,
    'moe-ffn-hidden-size': moe.ffn,
    'moe-layer-freq': dense > 0 ? `'([0]*${dense}+[1]*${layers - dense})'` : every,
    'moe-router-score-function': moe.scores === 'sigmoid' ? 'sigmoid' : 'softmax',
    ...(moe.normalize === false && { 'moe-router-pre-softmax': true }),
    ...(moe.scale !== undefined && moe.scale !== 1 && { 'moe-router-topk-scaling-factor': moe.scale }),
    ...(moe.bias && { 'moe-router-enable-expert-bias': true, 'moe-router-bias-update-rate': moe.bias }),
    ...(moe.groups && { 'moe-router-num-groups': moe.groups, 'moe-router-group-topk': moe.topKGroups }),
    ...(moe.shared && { 'moe-shared-expert-intermediate-size': moe.shared }),
    ...(moe.sharedGate && { 'moe-shared-expert-gate': true }),
    'moe-router-load-balancing-type': loss?.sequence ? 'seq_aux_loss' : loss?.microbatch ? 'aux_loss' : 'none',
    'moe-aux-loss-coeff': loss?.sequence ?? loss?.microbatch ?? 0,
    ...(loss?.z && { 'moe-z-loss-coeff': loss.z }),
    ...(capacity && { 'moe-expert-capacity-factor': capacity.factor }),
  }
}
