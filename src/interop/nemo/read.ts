/** NeMo 1: a YAML file of trainer and model, with the interpolation of OmegaConf. */
import { isMapping } from '../../plan/index.js'
import { readMeaning } from '../megatron/meaning.js'
import { type Defaults, Terms } from '../megatron/terms.js'
import type { Imported, Reader } from '../note.js'
import { booleanOf, type KeyTable, numberOf, Reading, unknownValue } from '../reading.js'
import { readTree } from '../tree.js'
import { cosmeticKeys } from './cosmetic.js'
import { readEnvironment } from './environment.js'
import { nemoPaths } from './paths.js'
import { readParts, readRecipe } from './recipe.js'
import { resolved } from './resolve.js'

const known: KeyTable = {
  'model.optim.sched.constant_steps':
    'constant last steps at the minimum learning rate are not supported: the decay lasts until the end',
  'model.optim.sched.hold_steps': 'constant before the decay; in a job: { kind: wsd }',
  'model.init_method_std': 'Lockstep initializes weights with std 0.02; no job field sets it',
  'model.use_scaled_init_method': 'Lockstep always scales the initialization of residual output layers',
  'model.apply_query_key_layer_scaling':
    'layer-index scaling of attention scores is not supported; it changes rounding only',
  'model.normalize_attention_scores': 'unscaled attention scores are not supported',
  'model.fsdp': 'torch FSDP shards parameters',
  'model.fsdp_*': 'how torch FSDP shards parameters',
  'model.peft': 'LoRA: set training.lora',
  'model.transformer_block_type': 'only pre-norm blocks are supported',
  'model.ffn_dropout': 'dropout inside the feed-forward layer',
  'model.layernorm_zero_centered_gamma':
    'zero-centered gains (1 + gamma) are not supported; results differ by weight decay only',
  'model.make_vocab_size_divisible_by': 'the vocabulary size is not in the file',
  'model.apply_embedding_scaling': 'embedding scaling by sqrt(width) is not supported',
  'model.fp16_lm_cross_entropy': 'the loss is computed in f32, not f16',
  'model.fp32_residual_connection': 'the residual stream has the precision of the plan, not f32',
  'model.rotary_interleaved':
    'interleaved rotary pairs are not supported (Lockstep rotates halves of a head): permute the weights',
  'model.activations_checkpoint_layers_per_pipeline': 'recomputation per pipeline stage is not supported',
  'model.num_micro_batches_with_partial_activation_checkpoints': 'recomputation per microbatch is not supported',
  'model.optim.grad_sync_dtype': 'dtype of the gradient all-reduce: set plan.compress',
  'trainer.max_epochs': 'epochs are not supported: set training.steps',
  'trainer.max_time': 'a time limit is not supported',
  'trainer.limit_train_batches': 'only part of the data is used',
  ...cosmeticKeys,
}

/** Values that every model here has. */
const neutral: Readonly<Record<string, unknown>> = {
  ...{ 'model.megatron_amp_O2': true, 'model.use_scaled_init_method': true, 'model.normalize_attention_scores': true },
  ...{ 'model.ffn_dropout': 0, 'model.transformer_block_type': 'pre_ln', 'model.attention_type': 'multihead' },
  'trainer.limit_train_batches': 1,
}
const isFsdp = (key: string): boolean => key.startsWith('fsdp_')

const usual: Readonly<Record<string, string | number | boolean>> = {
  ...{ 'tensor-model-parallel-size': 1, 'pipeline-model-parallel-size': 1, 'context-parallel-size': 1, zero: 0 },
  ...{ precision: 'f32', recompute: 'none', 'hidden-dropout': 0.1, 'attention-dropout': 0.1, grouped: true },
  ...{ 'untie-embeddings-and-output-weights': false, 'norm-epsilon': 1e-5, 'rotary-base': 10000 },
  ...{ 'adam-beta1': 0.9, 'adam-beta2': 0.999, 'adam-eps': 1e-8, 'weight-decay': 0.01, 'lr-warmup-iters': 0 },
  ...{ 'make-vocab-size-divisible-by': 128, 'lr-decay-style': 'constant', 'min-lr': 0 },
}
const defaults: Defaults = { of: 'NeMo 1', value: term => usual[term] }

const pathOf = (term: string): string => nemoPaths[term] ?? `model.${term.replaceAll('-', '_')}`

export const readNemo: Reader = (text, given, format) => {
  if (format === 'script') return readEnvironment(text, given)
  const source = { framework: 'nemo', format } as const
  if (format === 'python') return readRecipe(text, given)
  if (format !== 'yaml' && format !== 'json') return unread(format)
  const tree = readTree(text, 'yaml')
  const value = isMapping(tree.value) ? resolved(tree.value) : tree.value
  const reading = new Reading(source, { ...tree, value })
  if (reading.has('trainer.strategy')) return readParts(reading, given) // of NeMo 2
  if (!reading.refused) {
    const t = new Terms(reading, pathOf, defaults, valuesOf(reading))
    readMeaning(t, given, given.world ?? worldOf(reading))
    readTrainer(reading)
    for (const [path, value] of Object.entries(neutral)) if (reading.raw(path) === value) reading.cosmetic(path)
    if (reading.raw('model.fsdp') !== true)
      reading.cosmetic(
        ...reading
          .keys('model')
          .filter(isFsdp)
          .map(key => `model.${key}`),
      )
    reading.switchedOff(['model.use_scaled_init_method', 'model.normalize_attention_scores'])
  }
  return reading.finish(known, 'a key of NeMo without a job field')
}

const unread = (format: 'toml' | 'log'): Imported => ({
  ...{ framework: 'nemo', format },
  notes: [{ kind: 'refused', path: 'trainer', line: 1, message: `NeMo writes no ${format}: use its YAML file` }],
})

function worldOf(r: Reading): number | undefined {
  const [nodes, devices] = [r.whole('trainer.num_nodes', 1), r.whole('trainer.devices', 1)]
  return nodes === undefined || devices === undefined ? undefined : nodes * devices
}

/** Lightning's own keys, of which NeMo takes some over. */
function readTrainer(r: Reading): void {
  const parts = r.number('trainer.accumulate_grad_batches') ?? 1
  if (parts > 1)
    r.refuse('trainer.accumulate_grad_batches', `NeMo accumulates by its batch sizes and rejects ${parts} here`)
  else r.cosmetic('trainer.accumulate_grad_batches')
  if (r.has('trainer.max_steps')) r.cosmetic('trainer.max_epochs')
  if (/16/.test(String(r.raw('trainer.precision') ?? '')) && booleanOf(r.raw('model.megatron_amp_O2')) !== true)
    r.drop('model.megatron_amp_O2', 'off: f32 parameters cast for every matmul are not supported')
  const precision = String(r.raw('trainer.precision') ?? '32')
  if (!/^(bf16|fp16|16|fp32|32|64)(-(mixed|true))?$/.test(precision))
    r.drop('trainer.precision', unknownValue(precision, { 'bf16-mixed': 0, '16-mixed': 0, 32: 0 }, 'f32'))
  const style = String(r.raw('model.optim.sched.name') ?? '')
  if (style !== '' && scheduleOf(style) === undefined)
    r.drop('model.optim.sched.name', `schedule ${style} is not supported: constant learning rate after the warmup`)
}

const scheduleOf = (name: string): string | undefined =>
  /^CosineAnnealing$/i.test(name)
    ? 'cosine'
    : /^WarmupAnnealing$/i.test(name)
      ? 'linear'
      : /wsd/i.test(name)
        ? 'WSD'
        : undefined

/** The schedule ends where it is told, else with the training; its last steps may be held at the least rate. */
function decayOf(r: Reading): number | undefined {
  const [steps, held] = ['trainer.max_steps', 'model.optim.sched.constant_steps'].map(path => numberOf(r.raw(path)))
  const end = numberOf(r.raw('model.optim.sched.max_steps_for_lr_sched')) ?? steps
  const last = end === undefined ? undefined : Math.floor(end - (held ?? 0))
  if (last !== undefined && last <= 0 && held !== undefined)
    r.drop(
      'model.optim.sched.constant_steps',
      `the last ${held} of ${end} steps have the minimum learning rate, which is all of them; in Lockstep the decay lasts until the end`,
    )
  return last !== undefined && last > 0 && last !== steps ? last : undefined
}

/** Optimizers of NeMo that are AdamW, with their state split over dp or not. */
const adams = [
  ...['adam', 'adamw', 'fused_adam', 'megatron_fused_adam', 'distributed_adam', 'distributed_fused_adam'],
  ...['mcore_optim', 'mcore_distributed_optim'],
]

/** What is written in other words. */
function valuesOf(r: Reading): ReadonlyMap<string, unknown> {
  const values = new Map<string, unknown>(Object.keys(nemoPaths).map(term => [term, r.raw(pathOf(term))]))
  const precision = String(r.raw('trainer.precision') ?? '')
  values.set('bf16', /^bf16/.test(precision) || undefined)
  values.set('fp16', /^(16|fp16)/.test(precision) || undefined)
  const activation = String(r.raw('model.activation') ?? 'gelu')
  values.set('swiglu', activation.endsWith('glu') || undefined) // gated, whatever the gate
  values.set('squared-relu', activation === 'squared-relu' || undefined)
  values.set('activation', undefined)
  values.set('disable-bias-linear', booleanOf(r.raw('model.bias')) === false || undefined)
  const shares = r.raw('model.share_embeddings_and_output_weights')
  values.set('untie-embeddings-and-output-weights', shares === undefined ? undefined : booleanOf(shares) === false)
  const name = String(r.raw('model.optim.name') ?? '')
  values.set('use-distributed-optimizer', /^(mcore_)?distributed_/.test(name))
  values.set('optimizer', name === '' || adams.includes(name) ? 'adam' : name)
  const betas = r.raw('model.optim.betas')
  if (Array.isArray(betas)) for (const i of [0, 1]) values.set(`adam-beta${i + 1}`, numberOf(betas[i]))
  const style = String(r.raw('model.optim.sched.name') ?? '')
  values.set('lr-decay-style', style === '' ? undefined : (scheduleOf(style) ?? 'constant'))
  values.set('lr-decay-iters', decayOf(r))
  const warmup = numberOf(r.raw('model.optim.sched.warmup_steps'))
  if (warmup !== undefined) values.set('lr-warmup-iters', Math.floor(warmup))
  values.set(
    'fp8-format',
    booleanOf(r.raw('model.fp8')) === true ? (booleanOf(r.raw('model.fp8_e4m3')) ? 'e4m3' : 'hybrid') : undefined,
  )
  values.set('seq-length', r.raw('model.data.seq_length') ?? r.raw('model.encoder_seq_length'))
  const norm = r.raw('model.normalization')
  if (/1p$/.test(String(norm))) r.drop('model.normalization', 'zero-centered gains are not supported: plain LayerNorm')
  if (activation.endsWith('glu') && !/^(fast-)?swiglu$/.test(activation))
    r.drop('model.activation', `${activation}: this family has SwiGLU`)
  if (activation === 'squared-relu') r.drop('model.activation', 'squared ReLU is not supported by any model family')
  else if (!/g[el]lu$|glu$/.test(activation)) r.drop('model.activation', `${activation}: this family has GELU`)
  return values
}
