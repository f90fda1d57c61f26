/** A job for nanotron, and for picotron. */
import { stringify } from 'yaml'
import type { Job } from '../../plan/index.js'
import { type KeysOf, withoutUnset } from './unset.js'
import { json, microbatchOf, type Refuse, type Writer } from './writing.js'

const scheduler = 'optimizer.learning_rate_scheduler'
const nanotronKeys: KeysOf = {
  'training.optimizer': [`${scheduler}.learning_rate`, 'optimizer.optimizer_factory', 'optimizer.weight_decay'],
  'training.lrSchedule': [
    'lr_warmup_steps',
    'lr_warmup_style',
    'lr_decay_style',
    'lr_decay_starting_step',
    'lr_decay_steps',
    'min_decay_lr',
  ].map(key => `${scheduler}.${key}`),
  'training.clip': ['optimizer.clip_grad'],
  'training.steps': ['tokens.train_steps'],
  'training.seed': ['general.seed'],
}

export const writeNanotron: Writer = (job, refuse, unset) => {
  const { plan, training, model } = job
  if (plan.zero > 1) refuse('plan.zero', 'nanotron supports ZeRO 0 and 1')
  if (plan.recompute !== 'none' && plan.recompute !== 'full')
    refuse('plan.recompute', 'nanotron recomputes full layers or nothing')
  if (plan.precision === 'f16' || plan.precision === 'bf16-no-masters')
    refuse('plan.precision', `nanotron has no ${plan.precision}`)
  if (plan.ep > 1) refuse('plan.ep', 'nanotron’s expert-parallel ranks are not part of dp')
  onlyPlain(job, refuse, 'nanotron')
  const o = training.optimizer
  const config = {
    general: { project: 'lockstep', run: job.name ?? 'exported', seed: training.seed },
    model: {
      dtype: plan.precision === 'f32' ? 'float32' : 'bfloat16',
      init_method: { std: 0.02 },
      make_vocab_size_divisible_by: 1,
      model_config: { is_llama_config: true, ...sizesOf(model) },
    },
    optimizer: {
      ...{
        accumulate_grad_in_fp32: plan.precision !== 'pure-bf16',
        clip_grad: training.clip ?? null,
        zero_stage: plan.zero,
        weight_decay: o.weightDecay,
      },
      optimizer_factory: {
        name: 'adamW',
        ...(o.kind === 'adamw' && { adam_beta1: o.beta1, adam_beta2: o.beta2, adam_eps: o.eps }),
        torch_adam_is_fused: true,
      },
      learning_rate_scheduler: rateOf(job),
    },
    parallelism: {
      ...{
        dp: plan.dp,
        tp: plan.tp,
        pp: plan.pp,
        context_parallel_size: plan.cp,
        expert_parallel_size: 1,
        pp_engine: plan.schedule === 'gpipe' ? 'afab' : '1f1b',
      },
      ...{
        tp_mode: plan.sequenceParallel ? 'REDUCE_SCATTER' : 'ALL_REDUCE',
        recompute_layer: plan.recompute === 'full',
      },
    },
    tokens: {
      sequence_length: training.seq,
      train_steps: training.steps,
      micro_batch_size: microbatchOf(job),
      batch_accumulation_per_replica: plan.microbatches,
    },
  }
  const files = new Map([['config.yaml', stringify(withoutUnset(config, nanotronKeys, unset))]])
  const std = config.model.init_method.std
  const fixed = [
    { path: `model.init_method.std ${std}`, message: 'how Lockstep initializes weights; no job field sets it' },
  ]
  return { files, given: {}, keys: nanotronKeys, fixed }
}

/** What neither has. */
function onlyPlain({ plan, training, model }: Job, refuse: Refuse, name: string): void {
  if (training.optimizer.kind !== 'adamw')
    refuse('training.optimizer.kind', `export to ${name} supports adamw, not ${training.optimizer.kind}`)
  if (plan.pp > 1 && plan.schedule !== '1f1b' && plan.schedule !== 'gpipe')
    refuse('plan.schedule', `${name} supports 1f1b and afab (gpipe)`)
  if (model.family !== 'llama' || model.moe || model.mla) refuse('model', `${name} supports dense Llama models only`)
  if (plan.cp > 1 && plan.attention !== 'ring') refuse('plan.attention', `${name} supports ring attention only`)
}

function sizesOf(model: Job['model']) {
  if (model.family !== 'llama') return {}
  return {
    ...{ hidden_act: 'silu', hidden_size: model.embed, intermediate_size: model.ffn, num_hidden_layers: model.layers },
    ...{
      num_attention_heads: model.heads,
      num_key_value_heads: model.kvHeads,
      vocab_size: model.vocab,
      rms_norm_eps: model.eps,
    },
    ...{ rope_theta: model.ropeTheta, tie_word_embeddings: model.tied, attention_bias: model.qkvBias },
    ...(model.positions !== undefined && { max_position_embeddings: model.positions }),
    ...(model.window !== undefined && { sliding_window_size: model.window }),
  }
}

function rateOf({
  training: {
    optimizer: { lr },
    lrSchedule: s,
    steps,
  },
}: Job) {
  const base = { learning_rate: lr, lr_warmup_steps: s.warmup, lr_warmup_style: 'linear' }
  const cooldown = s.cooldown ?? Math.ceil(steps / 10)
  if (s.kind === 'wsd')
    return {
      ...base,
      lr_decay_style: s.cooldownShape === 'minus-sqrt' ? '1-sqrt' : (s.cooldownShape ?? 'linear'),
      lr_decay_starting_step: steps - cooldown,
      lr_decay_steps: cooldown,
      min_decay_lr: s.minLr,
    }
  if (s.kind !== 'linear' && s.kind !== 'cosine') return base
  return {
    ...base,
    lr_decay_style: s.kind,
    lr_decay_starting_step: s.warmup,
    lr_decay_steps: (s.decaySteps ?? steps) - s.warmup,
    min_decay_lr: s.minLr,
  }
}

/** picotron hands `model.name` to AutoConfig.from_pretrained, which reads the file of that name. */
const modelFile = 'model.json'

const picotronKeys: KeysOf = {
  'training.optimizer': ['training.learning_rate'],
  'training.steps': ['training.total_train_steps'],
  'training.seed': ['training.seed'],
}

export const writePicotron: Writer = (job, refuse, unset) => {
  const { plan, training, model } = job
  if (plan.zero > 0) refuse('plan.zero', 'picotron has no ZeRO')
  if (plan.sequenceParallel && plan.tp > 1) refuse('plan.sequenceParallel', 'picotron has no sequence parallelism')
  if (plan.precision !== 'pure-bf16' && plan.precision !== 'f32')
    refuse('plan.precision', 'picotron supports pure bf16 on GPUs and f32 on CPUs')
  if (training.clip !== undefined) refuse('training.clip', 'picotron has no gradient clipping')
  if (training.lrSchedule.kind !== 'constant' || training.lrSchedule.warmup > 0)
    refuse('training.lrSchedule', 'picotron has no learning-rate schedule')
  if (plan.recompute !== 'none') refuse('plan.recompute', 'picotron has no recomputation')
  onlyPlain(job, refuse, 'picotron')
  const config = {
    distributed: {
      tp_size: plan.tp,
      cp_size: plan.cp,
      pp_size: plan.pp,
      dp_size: plan.dp,
      pp_engine: plan.schedule === 'gpipe' ? 'afab' : '1f1b',
      backend: plan.precision === 'f32' ? 'gloo' : 'nccl',
      use_cpu: plan.precision === 'f32',
    },
    model: {
      name: modelFile,
      num_hidden_layers: model.layers,
      ...(model.family === 'llama' && { num_attention_heads: model.heads, num_key_value_heads: model.kvHeads }),
    },
    training: {
      seed: training.seed,
      learning_rate: training.optimizer.lr,
      total_train_steps: training.steps,
      seq_length: training.seq,
      micro_batch_size: microbatchOf(job),
      gradient_accumulation_steps: plan.microbatches,
    },
  }
  const sizes = { model_type: 'llama', ...sizesOf(model) }
  return {
    files: new Map([
      ['config.json', json(withoutUnset(config, picotronKeys, unset))],
      [modelFile, json(sizes)],
    ]),
    given: { model: sizes },
    keys: picotronKeys,
  }
}
