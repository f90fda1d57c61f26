/** GPT-NeoX: YAML that looks like JSON, keys with - or _, those of DeepSpeed among them. */
import { isMapping, type Mapping, mappingOf } from '../../plan/index.js'
import { readMeaning } from '../megatron/meaning.js'
import { type Defaults, Terms } from '../megatron/terms.js'
import type { Reader } from '../note.js'
import { booleanOf, type KeyTable, numberOf, Reading, wordOf } from '../reading.js'
import { readTree } from '../tree.js'

const paths: Readonly<Record<string, string>> = {
  ...{
    'tensor-model-parallel-size': 'model_parallel_size',
    'pipeline-model-parallel-size': 'pipe_parallel_size',
    zero: 'zero_optimization',
  },
  ...{
    'micro-batch-size': 'train_micro_batch_size_per_gpu',
    'global-batch-size': 'train_batch_size',
    'seq-length': 'seq_length',
  },
  ...{
    'num-layers': 'num_layers',
    'hidden-size': 'hidden_size',
    'num-attention-heads': 'num_attention_heads',
    normalization: 'norm',
  },
  ...{
    'ffn-hidden-size': 'intermediate_size',
    'num-query-groups': 'num_kv_heads',
    'position-embedding-type': 'pos_emb',
    swiglu: 'activation',
  },
  ...{
    'rotary-base': 'rotary_emb_base',
    'rotary-percent': 'rotary_pct',
    'untie-embeddings-and-output-weights': 'no_weight_tying',
  },
  ...{
    'max-position-embeddings': 'max_position_embeddings',
    'hidden-dropout': 'hidden_dropout',
    'attention-dropout': 'attention_dropout',
  },
  ...{
    'make-vocab-size-divisible-by': 'make_vocab_size_divisible_by',
    'train-iters': 'train_iters',
    'lr-decay-iters': 'lr_decay_iters',
  },
  ...{
    'lr-decay-style': 'lr_decay_style',
    'lr-warmup-fraction': 'warmup',
    'min-lr': 'min_lr',
    lr: 'optimizer',
    optimizer: 'optimizer',
  },
  ...{ 'adam-beta1': 'optimizer', 'adam-beta2': 'optimizer', 'adam-eps': 'optimizer', 'weight-decay': 'weight_decay' },
  ...{
    'clip-grad': 'gradient_clipping',
    bf16: 'bf16',
    fp16: 'fp16',
    'checkpoint-activations': 'checkpoint_activations',
    seed: 'seed',
  },
  ...{
    'checkpoint-num-layers': 'checkpoint_num_layers',
    'disable-bias-linear': 'use_bias_in_attn_linear',
    'vocab-file': 'vocab_file',
  },
  ...{ 'tokenizer-type': 'tokenizer_type', 'context-parallel-size': 'context_parallel_size' },
}
const pathOf = (term: string): string => paths[term] ?? term.replaceAll('-', '_')

const told: KeyTable = {
  gpt_j_residual: 'parallel attention and MLP blocks are not supported',
  rotary_pct: 'partial rotary embeddings are not supported, the full head is rotated',
  init_method: 'Lockstep initializes weights with std 0.02; no job field sets it',
  output_layer_init_method: 'Lockstep initializes weights with std 0.02; no job field sets it',
  optimizer: '',
  zero_optimization: '',
}
const plain = [
  'vocab_file',
  'save',
  'load',
  'data_path',
  'output_layer_parallelism',
  '*fusion',
  'data_impl',
  'split',
  'synchronize_each_layer',
  'distributed_backend',
  'checkpoint_factor',
  'eval_*',
  'log_*',
  'steps_per_print',
  'wall_clock_breakdown',
  'tokenizer_type',
  'tensorboard*',
  'mlp_multiple_of',
  'num_workers',
  'launcher',
  'keep_last_n_checkpoints',
  'hostfile',
  'merge_file',
  'train_data_paths',
  'valid_data_paths',
  'test_data_paths',
  'wandb*',
  'use_wandb',
  'deepspeed*',
  'data*',
  'attention_softmax_in_fp32',
  'master_port',
  'hysteresis',
  'use_bias_in_*',
  'include',
  'comment',
]
const known: KeyTable = { ...told, ...Object.fromEntries(plain.map(key => [key, ''])) }

const usual: Readonly<Record<string, string | number | boolean>> = {
  ...{
    'tensor-model-parallel-size': 1,
    'context-parallel-size': 1,
    recompute: 'none',
    grouped: true,
    'norm-epsilon': 1e-5,
  },
  ...{
    'untie-embeddings-and-output-weights': false,
    'rotary-base': 10000,
    'hidden-dropout': 0,
    'attention-dropout': 0,
  },
  ...{ 'make-vocab-size-divisible-by': 128, 'adam-beta1': 0.9, 'adam-beta2': 0.999, 'adam-eps': 1e-8 },
}
const defaults: Defaults = { of: 'GPT-NeoX', value: term => usual[term] }

export const readNeox: Reader = (text, given) => {
  const tree = readTree(text, 'yaml')
  const value = isMapping(tree.value)
    ? Object.fromEntries(Object.entries(tree.value).map(([key, one]) => [key.replaceAll('-', '_'), one]))
    : tree.value
  const reading = new Reading({ framework: 'neox', format: 'yaml' }, { ...tree, value })
  if (!reading.refused) {
    readMeaning(new Terms(reading, pathOf, defaults, valuesOf(reading, given.world)), given)
    readScale(reading)
    readMemory(reading)
    readAttention(reading)
    reading.seen('precision', 'activation', 'rms_norm_epsilon', 'mlp_multiple_of')
  }
  return reading.finish(known, 'a key of GPT-NeoX without a job field')
}

/** The global batch follows from the other two; 0 pipelines are one stage. */
function valuesOf(r: Reading, world: number | undefined): ReadonlyMap<string, unknown> {
  const values = new Map<string, unknown>(Object.keys(paths).map(term => [term, r.raw(pathOf(term))]))
  const pp = numberOf(r.raw('pipe_parallel_size'))
  values.set('pipeline-model-parallel-size', pp === undefined || pp === 0 ? 1 : pp)
  const optimizer = mappingAt(r, 'optimizer')
  const params = mappingOf(optimizer.params)
  for (const [term, key] of [
    ['lr', 'lr'],
    ['adam-eps', 'eps'],
  ] as const)
    values.set(term, params[key])
  const betas = Array.isArray(params.betas) ? params.betas : []
  for (const i of [0, 1]) values.set(`adam-beta${i + 1}`, betas[i])
  values.set('optimizer', optimizer.type)
  values.set('weight-decay', r.raw('weight_decay') ?? params.weight_decay)
  for (const half of ['bf16', 'fp16']) {
    const section = r.raw(half)
    values.set(
      half,
      (isMapping(section) ? booleanOf(section.enabled ?? section[half]) === true : section === true) || undefined,
    )
  }
  const half = r.choice(
    'precision',
    { bfloat16: 'bf16', fp16: 'fp16', fp32: undefined },
    'bf16 and fp16 take precedence',
  )
  if (half !== undefined) values.set(half, true)
  const activation = String(r.raw('activation') ?? 'gelu')
  values.set('swiglu', gated.includes(activation) || undefined)
  values.set('ffn-hidden-size', widthOf(r, gated.includes(activation)))
  if (activation !== 'gelu' && activation !== 'swiglu')
    r.drop('activation', `${activation}: this family has ${gated.includes(activation) ? 'SwiGLU' : 'GELU'}`)
  values.set(
    'position-embedding-type',
    r.raw('pos_emb') === 'learned' || r.raw('pos_emb') === undefined ? 'learned_absolute' : r.raw('pos_emb'),
  )
  values.set('disable-bias-linear', booleanOf(r.raw('use_bias_in_attn_linear')) === false || undefined)
  const rms = r.raw('norm') === 'rmsnorm'
  values.set('norm-epsilon', rms ? (r.raw('rms_norm_epsilon') ?? 1e-8) : r.raw('layernorm_epsilon'))
  r.seen(rms ? 'layernorm_epsilon' : 'rms_norm_epsilon')
  const stage = mappingAt(r, 'zero_optimization').stage
  if (stage === 0 || stage === 1 || stage === 2 || stage === 3) r.carry('zero_optimization', 'plan.zero', stage)
  else if (stage !== undefined) r.refuse('zero_optimization', `expected stage 0, 1, 2 or 3, got ${wordOf(stage)}`)
  values.set('global-batch-size', r.raw('train_batch_size') ?? batchOf(r, values, world))
  return values
}

const gated = ['swiglu', 'geglu', 'reglu', 'bilinear', 'glu']

/** Of a gated layer GPT-NeoX takes two thirds of the width for gate and input together, up to a multiple. */
function widthOf(r: Reading, isGated: boolean): number | undefined {
  const [given, factor, embed] = ['intermediate_size', 'expansion_factor', 'hidden_size'].map(key =>
    numberOf(r.raw(key)),
  )
  const whole = given ?? (embed === undefined ? undefined : Math.trunc((factor ?? 4) * embed))
  if (given === undefined && r.has('expansion_factor')) r.seen('expansion_factor')
  if (whole === undefined || !isGated) return whole
  const by = numberOf(r.raw('mlp_multiple_of')) ?? 1
  const ffn = Math.ceil(Math.floor(Math.trunc((whole * 2) / 3) / 2) / by) * by
  r.derive('intermediate_size', '', undefined, `${ffn} = half of two thirds of ${whole}, up to a multiple of ${by}`)
  return ffn
}

function readMemory(r: Reading): void {
  const path = 'partition_activations'
  if (r.bool(path)) r.drop(path, 'saved layer inputs are not sharded over tp')
  else r.cosmetic(path)
}

/** Kinds of attention, layer by layer; the whole sequence is attended to here, by whatever kernel. */
function readAttention(r: Reading): void {
  const path = 'attention_config'
  const kinds = (r.list(path) ?? []).flat(2).filter(one => typeof one === 'string')
  const others = [...new Set(kinds)].filter(kind => kind !== 'global' && kind !== 'flash')
  if (others.length > 0) r.drop(path, `${others.join(', ')}: every layer attends to the full sequence`)
  else r.cosmetic(path)
}

/** DeepSpeed scales the loss, with what stands under fp16. */
function readScale(r: Reading): void {
  if (r.field('plan.precision') !== 'f16') return
  const half = mappingAt(r, 'fp16')
  const number = (key: string, usual: number) => numberOf(half[key]) ?? usual
  const fixed = number('loss_scale', 0)
  const scaler = {
    ...{ kind: 'deepspeed', initial: 2 ** number('initial_scale_power', 16), min: number('min_loss_scale', 1) },
    ...{ interval: number('loss_scale_window', 1000), hysteresis: number('hysteresis', 2) },
  }
  r.carry('fp16', 'training.lossScale', fixed > 0 ? fixed : scaler, 'as DeepSpeed scales it')
}

const mappingAt = (r: Reading, path: string): Mapping => mappingOf(r.raw(path))

function batchOf(r: Reading, values: ReadonlyMap<string, unknown>, world: number | undefined): number | undefined {
  const numbers = ['train_micro_batch_size_per_gpu', 'gradient_accumulation_steps'].map(key => numberOf(r.raw(key)))
  const [micro, steps = 1] = numbers
  const dp =
    world === undefined
      ? undefined
      : world / Number(values.get('pipeline-model-parallel-size')) / (numberOf(r.raw('model_parallel_size')) ?? 1)
  r.seen('gradient_accumulation_steps')
  return micro === undefined || dp === undefined || !Number.isInteger(dp) ? undefined : micro * steps * dp
}
