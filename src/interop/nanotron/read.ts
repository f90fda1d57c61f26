/** nanotron's YAML. What is left out matters: no pp_engine is all forwards first, no min_decay_lr is no decay. */
import { fromHuggingFace } from '../../model/index.js'
import { isMapping } from '../../plan/index.js'
import type { Given, Reader } from '../note.js'
import { type KeyTable, Reading } from '../reading.js'
import { readTokens } from '../tokens.js'
import { readTree } from '../tree.js'

const known: KeyTable = {
  ...Object.fromEntries(
    'checkpoints general lighteval logging metrics_logging profiler s3_upload tokenizer'
      .split(' ')
      .map(key => [key, '']),
  ),
  data_stages: 'data stages are not supported: set data.source',
  'tokens.limit_*': '',
  'tokens.val_check_interval': '',
  'model.ddp_bucket_cap_mb': 'tuning: buckets of gradients',
  'model.init_method': 'how parameters begin',
  'model.make_vocab_size_divisible_by': '',
  'optimizer.optimizer_factory.torch_adam_is_fused': '',
  'optimizer.weight_decay_exclude_named_params': 'parameters without weight decay: set training.paramGroups',
  'parallelism.tp_linear_async_communication': 'tuning: TP matmuls and collectives in chunks',
  'parallelism.tp_recompute_allgather':
    'activations gathered over tp are gathered again in the backward pass: affects memory',
  'parallelism.moe_layer_recompute': 'only experts are recomputed',
  'model.model_config.no_rope_layer': 'layers without positions',
  'model.model_config._use_doc_masking': 'attention within documents: set data.documents',
  'model.model_config.moe_config': 'expert settings of nanotron',
  'model.model_config.z_loss_enabled': 'z-loss',
  'model.model_config.rope_seq_len_interpolation_factor': 'position interpolation: set model.ropeScaling',
  'model.model_config.flex_attention_mask': 'a custom attention mask',
  'model.model_config.moe_capacity_factor': 'expert capacity (token dropping): set model.moe.capacity',
  ...Object.fromEntries(
    (
      '_attn_implementation _fused_rms_norm _fused_rotary_emb _use_qkv_packed bos_token_id dtype eos_token_id is_llama_config ' +
      'is_llamoe_config is_qwen2_config initializer_range log_attn_probs pad_token_id pretraining_tp ' +
      'ring_attn_heads_k_stride use_cache z_loss_coefficient'
    )
      .split(' ')
      .map(key => [`model.model_config.${key}`, '']),
  ),
}

export const readNanotron: Reader = (text, given) => {
  const r = new Reading({ framework: 'nanotron', format: 'yaml' }, readTree(text, 'yaml'))
  if (!r.refused) {
    readMesh(r, given)
    readTokens(r, {
      ...{ seq: 'tokens.sequence_length', steps: 'tokens.train_steps', seed: 'general.seed' },
      ...{ micro: 'tokens.micro_batch_size', accumulation: 'tokens.batch_accumulation_per_replica' },
    })
    readOptimizer(r)
    readSchedule(r)
    readModel(r)
    r.switchedOff()
  }
  return r.finish(known, 'nanotron rejects unknown keys')
}

/** Whether activations between products are split; nanotron takes the names of its enum in both cases. */
const tpModes = { ALL_REDUCE: false, all_reduce: false, REDUCE_SCATTER: true, reduce_scatter: true }

function readMesh(r: Reading, { world }: Given): void {
  const at = (key: string) => `parallelism.${key}`
  const size = (key: string, field: string): number => {
    const value = r.whole(at(key), 1)
    if (value === undefined) r.assume(at(key), field, 1, '1, the default of nanotron')
    else r.carry(at(key), field, value)
    return value ?? 1
  }
  const [dp, tp, pp] = [size('dp', 'plan.dp'), size('tp', 'plan.tp'), size('pp', 'plan.pp')]
  const cp = size('context_parallel_size', 'plan.cp')
  const ep = size('expert_parallel_size', 'plan.ep')
  const product = dp * tp * pp * cp * ep
  if (ep > 1)
    r.derive(
      at('expert_parallel_size'),
      'plan.dp',
      dp * ep,
      `dp ${dp * ep} = dp ${dp} x ep ${ep}: in a job, ep ranks are part of dp`,
    )
  r.world = world ?? product
  if (world !== undefined && world !== product)
    r.refuse('parallelism', `dp ${dp} x tp ${tp} x pp ${pp} x cp ${cp} x ep ${ep} = ${product} ranks, not ${world}`)
  const engine = r.word(at('pp_engine'))
  if (engine !== undefined && !/^(1f1b|afab)$/i.test(engine))
    r.refuse(at('pp_engine'), `expected 1f1b or afab, got ${engine}`)
  const schedule = /^1f1b$/i.test(engine ?? '') ? '1f1b' : 'gpipe'
  if (engine === undefined)
    r.assume(at('pp_engine'), 'plan.schedule', schedule, 'not set: nanotron runs all forward passes first (AFAB)')
  else r.carry(at('pp_engine'), 'plan.schedule', schedule)
  const split = r.choice(at('tp_mode'), tpModes, 'activations are all-reduced')
  if (split === undefined && r.has(at('tp_mode'))) r.set('plan.sequenceParallel', false)
  else
    r.carry(
      at('tp_mode'),
      'plan.sequenceParallel',
      split === true && tp > 1,
      tp === 1 ? 'it has no effect with tp 1' : '',
    )
  r.carry(at('recompute_layer'), 'plan.recompute', r.bool(at('recompute_layer')) ? 'full' : 'none')
  r.assume('parallelism', 'plan.rankOrder', 'tp-cp-ep-dp-pp', 'tp ranks are adjacent, then cp, dp and pp')
}

function readOptimizer(r: Reading): void {
  const at = (key: string) => `optimizer.${key}`
  const zero = r.whole(at('zero_stage')) ?? 0
  if (zero > 1) r.refuse(at('zero_stage'), `nanotron supports ZeRO 0 and 1, not ${zero}`)
  else r.carry(at('zero_stage'), 'plan.zero', zero)
  const clip = r.number(at('clip_grad'))
  r.carry(at('clip_grad'), 'training.clip', clip || undefined, clip ? '' : 'no clipping')
  const name = r.word(at('optimizer_factory.name')) ?? 'adamW'
  if (/^adamw$/i.test(name)) r.carry(at('optimizer_factory.name'), 'training.optimizer.kind', 'adamw')
  else if (/^sgd$/i.test(name)) r.carry(at('optimizer_factory.name'), 'training.optimizer.kind', 'sgd')
  else r.refuse(at('optimizer_factory.name'), `expected adamW or sgd, got ${name}`)
  const set = (key: string, field: string) => {
    const value = r.number(at(key))
    if (value !== undefined) r.carry(at(key), `training.optimizer.${field}`, value)
  }
  r.assume(
    at('weight_decay'),
    'training.paramGroups',
    { norm: { weightDecay: 1 }, bias: { weightDecay: 1 } },
    'nanotron applies weight decay to norms and biases too',
  )
  set('learning_rate_scheduler.learning_rate', 'lr')
  set('weight_decay', 'weightDecay')
  if (/^adamw$/i.test(name))
    for (const [key, field] of [
      ['adam_beta1', 'beta1'],
      ['adam_beta2', 'beta2'],
      ['adam_eps', 'eps'],
    ])
      set(`optimizer_factory.${key}`, field)
  const dtype = r.word('model.dtype') ?? 'bfloat16'
  const wide = r.bool(at('accumulate_grad_in_fp32')) ?? false
  const bits = /^(torch\.)?(b?float(?:16|32))$/.exec(dtype)?.[2]
  const precision = bits === 'float32' ? 'f32' : bits === 'bfloat16' ? (wide ? 'bf16' : 'pure-bf16') : undefined
  if (precision === undefined) r.refuse('model.dtype', `expected bfloat16 or float32, got ${dtype}`)
  r.carry('model.dtype', 'plan.precision', precision)
  r.carry(
    at('accumulate_grad_in_fp32'),
    'plan.precision',
    undefined,
    wide ? 'with f32 master weights' : 'without master weights',
  )
}

function readSchedule(r: Reading): void {
  const at = (key: string) => `optimizer.learning_rate_scheduler.${key}`
  const set = (field: string, value: unknown) => r.set(`training.lrSchedule.${field}`, value)
  const lr = r.number(at('learning_rate')) ?? 0
  const steps = Number(r.field('training.steps') ?? 0)
  const warmup = r.whole(at('lr_warmup_steps')) ?? 0
  r.carry(at('lr_warmup_steps'), 'training.lrSchedule.warmup', warmup)
  const styles = { linear: true, constant: false }
  const rises = r.choice(at('lr_warmup_style'), styles, 'the learning rate rises linearly')
  if (rises === false) r.drop(at('lr_warmup_style'), 'constant: the learning rate does not rise during warmup')
  else if (rises) r.cosmetic(at('lr_warmup_style'))
  if (warmup > 0) set('warmupFrom', 0)
  const least = r.number(at('min_decay_lr'))
  const style = r.word(at('lr_decay_style')) ?? 'linear'
  const shapes: Readonly<Record<string, string>> = { linear: 'linear', cosine: 'cosine', '1-sqrt': 'minus-sqrt' }
  if (least === undefined) {
    r.assume(at('min_decay_lr'), 'training.lrSchedule.kind', 'constant', 'defaults to learning_rate: no decay')
    r.cosmetic(at('lr_decay_style'), at('lr_decay_steps'), at('lr_decay_starting_step'))
    return
  }
  if (!Object.hasOwn(shapes, style)) r.refuse(at('lr_decay_style'), `expected linear, cosine or 1-sqrt, got ${style}`)
  const start = r.whole(at('lr_decay_starting_step')) ?? warmup
  // As many steps as follow the warm-up, wherever the decay starts.
  const decay = r.whole(at('lr_decay_steps')) ?? Math.max(0, steps - warmup)
  const end = start + decay
  r.carry(at('min_decay_lr'), 'training.lrSchedule.minLr', least, least > lr ? 'it is more than learning_rate' : '')
  const stays = start > warmup + 1
  const falling = style === '1-sqrt'
  r.carry(at('lr_decay_style'), 'training.lrSchedule.kind', falling ? 'wsd' : shapes[style])
  if (falling) {
    set('cooldown', decay)
    set('cooldownShape', shapes[style])
  } else if (stays)
    r.drop(
      at('lr_decay_starting_step'),
      `constant learning rate until step ${start}; in a job: { kind: wsd, cooldown: ${decay}, cooldownShape: ${shapes[style]}, decaySteps: ${end} }`,
    )
  if (end !== steps && end > 0 && (falling || !stays))
    r.derive(at('lr_decay_steps'), 'training.lrSchedule.decaySteps', end, `the decay ends at step ${end}`)
  r.seen(at('lr_decay_steps'), at('lr_decay_starting_step'))
}

const sized = [
  'hidden_size',
  'intermediate_size',
  'num_hidden_layers',
  'num_attention_heads',
  'num_key_value_heads',
  'vocab_size',
  'rms_norm_eps',
  'rope_theta',
  'tie_word_embeddings',
  'hidden_act',
  'rope_scaling',
  'max_position_embeddings',
]

function readModel(r: Reading): void {
  const at = (key: string) => `model.model_config.${key}`
  const config = r.raw('model.model_config')
  if (!isMapping(config)) return
  for (const other of ['starcoder2', 'mamba'])
    if (r.bool(at(`is_${other}_config`))) {
      r.refuse(at(`is_${other}_config`), `no model family supports ${other}`)
      return
    }
  const { config: model, problems } = fromHuggingFace({
    ...config,
    model_type: 'llama',
    rms_norm_eps: config.rms_norm_eps ?? 1e-6,
  })
  if (!model) {
    for (const { path, message } of problems.filter(p => p.severity === 'error')) r.refuse(at(path), message)
    return
  }
  const window = r.whole(at('sliding_window_size'))
  const biased = r.bool(at('attention_bias')) === true
  const moe = expertsOf(r)
  r.set('model', { ...model, ...(window ? { window } : {}), ...(biased && { qkvBias: true }), ...(moe && { moe }) })
  for (const key of sized) if (r.raw(at(key)) !== undefined) r.carry(at(key), 'model', undefined)
  if (window) r.carry(at('sliding_window_size'), 'model.window', undefined)
  if (biased) r.carry(at('attention_bias'), 'model.qkvBias', undefined)
  if (r.bool(at('rope_interleaved')))
    r.drop(at('rope_interleaved'), 'interleaved RoPE rotates adjacent pairs; a job rotates halves')
  if (r.has(at('no_rope_layer'))) r.drop(at('no_rope_layer'), 'layers without positions')
}

/** Those of Qwen stand in a mapping of their own, with nanotron's defaults; those of its older example beside the sizes. */
function expertsOf(r: Reading) {
  const at = (key: string) => `model.model_config.moe_config.${key}`
  const width = r.whole('model.model_config.intermediate_size', 1)
  const older = r.whole('model.model_config.moe_num_experts', 1) ?? 1
  if (older > 1) {
    const topK = r.whole('model.model_config.num_experts_per_tok', 1) ?? 1
    r.carry('model.model_config.moe_num_experts', 'model.moe', undefined, `${older} experts, top-${topK}`)
    r.seen('model.model_config.num_experts_per_tok')
    return { experts: older, topK, ffn: width }
  }
  if (!isMapping(r.raw('model.model_config.moe_config'))) return undefined
  const experts = r.whole(at('num_experts'), 1) ?? r.whole(at('num_local_experts'), 1) ?? 8
  const topK = r.whole(at('top_k'), 1) ?? r.whole(at('num_experts_per_token'), 1) ?? 2
  r.drop('model.model_config.moe_config', 'which layers are routed, and the dispatch settings, are dropped')
  return {
    ...{ experts, topK, ffn: r.whole(at('moe_intermediate_size'), 1) ?? 1408 },
    normalize: false,
    ...(r.bool(at('enable_shared_expert')) && {
      ...{ shared: r.whole(at('shared_expert_intermediate_size'), 1) ?? 5632, sharedGate: true },
    }),
  }
}
