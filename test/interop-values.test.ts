/** Enumerated keys of other frameworks: a value that no reader knows is named, and never becomes a default in silence. */
import { deepEqual, ok } from 'node:assert/strict'
import { test } from 'node:test'
import { type Given, type Imported, importConfig } from '../src/interop/index.js'
import type { ForeignFramework } from '../src/plan/index.js'

const unknown = 'nosuchvalue'

/** Whether a note that a user is shown has the value in it. */
const isNamed = ({ notes }: Imported): boolean =>
  notes.some(
    ({ kind, message }) => (kind === 'notCarried' || kind === 'refused') && message.toLowerCase().includes(unknown),
  )

interface Case {
  readonly framework: ForeignFramework
  readonly given?: Given
  /** A configuration in which the key is read, by key: `VALUE` stands for its value. */
  readonly texts: Readonly<Record<string, string>>
}

const megatron = (flags: string, gated = true): string =>
  `torchrun --nproc-per-node 8 pretrain_gpt.py --num-layers 4 --hidden-size 64 --num-attention-heads 4 --seq-length 64 \
  --max-position-embeddings 64 --vocab-size 128 --micro-batch-size 1 --global-batch-size 8 --train-iters 10 --lr 1e-3 \
  ${gated ? '--swiglu --normalization RMSNorm --position-embedding-type rope --disable-bias-linear' : ''} ${flags}\n`

const experts = '--bf16 --num-experts 4 --expert-model-parallel-size 2'
const flags: Readonly<Record<string, string>> = {
  'moe-router-score-function': experts,
  'moe-router-load-balancing-type': experts,
  'moe-token-drop-policy': `${experts} --moe-expert-capacity-factor 2`,
  'main-grads-dtype': '--bf16',
  'exp-avg-dtype': '--bf16',
  'fp8-format': '--bf16',
  'fp8-recipe': '--bf16 --fp8-format hybrid',
  'fp8-amax-compute-algo': '--bf16 --fp8-format hybrid',
  'recompute-granularity': '',
  'recompute-method': '--recompute-granularity full --recompute-num-layers 1',
  'recompute-modules': '--recompute-granularity selective',
  'activations-checkpoint-method': '',
  'cp-comm-type': '--context-parallel-size 2',
  'data-parallel-sharding-strategy': '--use-megatron-fsdp',
  optimizer: '',
  'lr-decay-style': '',
  'lr-wsd-decay-style': '--lr-decay-style WSD --lr-wsd-decay-iters 3',
  normalization: '',
  'position-embedding-type': '',
  'rope-type': '',
  'glu-activation': '',
  'window-size': '',
  'zero-bubble-v-schedule-mem-setup': '--pipeline-model-parallel-size 2 --zero-bubble-v-schedule',
  'pp-partition-method': '--pipeline-model-parallel-size 8 --deepspeed',
  'pipeline-model-parallel-layout': '--pipeline-model-parallel-size 2',
}

const neox = (line: string): string => `{ "pipe_parallel_size": 1, "model_parallel_size": 1, "num_layers": 2,
  "hidden_size": 64, "num_attention_heads": 4, "seq_length": 64, "train_micro_batch_size_per_gpu": 1, "train_iters": 10,
  "optimizer": { "type": "Adam", "params": { "lr": 1e-3 } }, "vocab_size": 128, ${line} }`

const nemo = (model: string, trainer = ''): string => `
trainer: { devices: 8, num_nodes: 1, max_steps: 100${trainer} }
model:
  micro_batch_size: 1
  global_batch_size: 16
  encoder_seq_length: 64
  num_layers: 2
  hidden_size: 64
  ffn_hidden_size: 128
  num_attention_heads: 4
${model}
`

const bridge = (lines: string): string =>
  `
model: { tensor_model_parallel_size: 1, pipeline_model_parallel_size: 1, context_parallel_size: 1, num_layers: 2, hidden_size: 64,
  ffn_hidden_size: 128, num_attention_heads: 4, seq_length: 64, vocab_size: 128, gated_linear_unit: true, num_moe_experts: 4,
  VALUES }
train: { global_batch_size: 8, micro_batch_size: 1, train_iters: 10 }
`.replace('VALUES', lines.startsWith('model: ') ? lines.slice(7) : 'add_bias_linear: false') +
  (lines.startsWith('model: ') ? '' : lines)

const titan = (section: string, line: string): string => {
  const sections: Record<string, string[]> = {
    model: ['name = "llama3"', 'flavor = "8B"'],
    training: ['local_batch_size = 8', 'seq_len = 2048'],
    lr_scheduler: ['warmup_steps = 20'],
    parallelism: ['tensor_parallel_degree = 2', 'context_parallel_degree = 2', 'pipeline_parallel_degree = 2'],
    compile: [],
  }
  const key = line.split(' ')[0]
  sections[section] = [...(sections[section] ?? []).filter(one => one.split(' ')[0] !== key), line]
  return Object.entries(sections)
    .map(([name, lines]) => `[${name}]\n${lines.join('\n')}\n`)
    .join('')
}

const tree = (value: object): string => JSON.stringify(value)

const deepspeed = (more: object): string =>
  tree({ train_batch_size: 8, train_micro_batch_size_per_gpu: 1, bf16: { enabled: true }, ...more })

const accelerate = (more: object): string =>
  tree({ distributed_type: 'FSDP', num_processes: 8, mixed_precision: 'bf16', ...more })

const nanotron = (path: string): string => {
  const value = {
    parallelism: { dp: 2, tp: 2, pp: 2, tp_mode: 'REDUCE_SCATTER', pp_engine: '1f1b' },
    tokens: { sequence_length: 64, micro_batch_size: 2, batch_accumulation_per_replica: 4, train_steps: 10 },
    model: {
      dtype: 'bfloat16',
      model_config: {
        ...{ hidden_size: 64, intermediate_size: 128, num_hidden_layers: 4, num_attention_heads: 4, vocab_size: 128 },
        hidden_act: 'silu',
      },
    },
    optimizer: {
      ...{ zero_stage: 1, optimizer_factory: { name: 'adamW' } },
      learning_rate_scheduler: {
        ...{ learning_rate: 1e-3, min_decay_lr: 0, lr_warmup_steps: 2 },
        ...{ lr_warmup_style: 'linear', lr_decay_style: 'cosine' },
      },
    },
  }
  const keys = path.split('.')
  const holder = keys
    .slice(0, -1)
    .reduce((at, key) => at[key] as Record<string, unknown>, value as Record<string, unknown>)
  ok(Object.hasOwn(holder, keys[keys.length - 1]), path)
  holder[keys[keys.length - 1]] = 'VALUE'
  return tree(value)
}

const byKey = (keys: readonly string[], text: (key: string) => string) =>
  Object.fromEntries(keys.map(key => [key, text(key)]))

const cases: readonly Case[] = [
  {
    framework: 'megatron',
    given: { world: 8 },
    texts: {
      ...byKey(Object.keys(flags), key => megatron(`${flags[key]} --${key} VALUE`)),
      ...Object.fromEntries(
        ['normalization', 'position-embedding-type'].map(key => [`${key} of gpt`, megatron(`--${key} VALUE`, false)]),
      ),
    },
  },
  {
    framework: 'neox',
    given: { world: 8 },
    texts: {
      ...byKey(['activation', 'norm', 'pos_emb', 'precision', 'lr_decay_style'], key => neox(`"${key}": "VALUE"`)),
      ...{ 'norm of a gated layer': neox('"activation": "swiglu", "norm": "VALUE"') },
      ...{ optimizer: neox('"optimizer": { "type": "VALUE", "params": { "lr": 1e-3 } }') },
      ...{ 'an optimizer whose name has adam in it': neox('"optimizer": { "type": "VALUEadam", "params": {} }') },
      ...{
        zero: neox('"zero_optimization": { "stage": "VALUE" }'),
        attention: neox('"attention_config": [[["VALUE"], 2]]'),
      },
    },
  },
  {
    framework: 'nemo',
    texts: {
      ...byKey(['activation', 'normalization', 'position_embedding_type', 'activations_checkpoint_granularity'], key =>
        nemo(`  ${key}: VALUE`),
      ),
      activations_checkpoint_method: nemo(
        '  activations_checkpoint_granularity: full\n  activations_checkpoint_method: VALUE',
      ),
      precision: nemo('', ', precision: VALUE'),
      optimizer: nemo('  optim: { name: VALUE, lr: 1e-3 }'),
      'an optimizer whose name has adam in it': nemo('  optim: { name: VALUE_adam, lr: 1e-3 }'),
      schedule: nemo('  optim: { name: adam, lr: 1e-3, sched: { name: VALUE } }'),
    },
  },
  {
    framework: 'bridge',
    given: { world: 8 },
    texts: {
      mixed_precision: bridge('mixed_precision: VALUE'),
      fp8: bridge('mixed_precision: { bf16: true, fp8: VALUE }'),
      fp8_recipe: bridge('mixed_precision: { bf16: true, fp8: hybrid, fp8_recipe: VALUE }'),
      optimizer: bridge('optimizer: { optimizer: VALUE, lr: 1e-3 }'),
      lr_decay_style: bridge('scheduler: { lr_decay_style: VALUE }'),
      weight_decay: bridge(
        'scheduler: { weight_decay_incr_style: VALUE, start_weight_decay: 0.1, end_weight_decay: 0.2 }',
      ),
      ...byKey(
        ['normalization', 'position_embedding_type', 'moe_router_score_function', 'moe_router_load_balancing_type'],
        key => bridge(`model: ${key}: VALUE`),
      ),
      activation_func: bridge('model: activation_func: VALUE'),
      recompute_method: bridge('model: recompute_granularity: full, recompute_method: VALUE'),
      recompute_granularity: bridge('model: recompute_granularity: VALUE'),
    },
  },
  {
    framework: 'torchtitan',
    given: { world: 8 },
    texts: {
      ...byKey(
        ['optimizer.name', 'lr_scheduler.decay_type', 'activation_checkpoint.mode', 'model.name', 'model.flavor'],
        key => titan(key.split('.')[0], `${key.split('.')[1]} = "VALUE"`),
      ),
      ...byKey(['dtype', 'mixed_precision_param', 'mixed_precision_reduce'], key =>
        titan('training', `${key} = "VALUE"`),
      ),
      ...byKey(['pipeline_parallel_schedule', 'context_parallel_rotate_method', 'fsdp_reshard_after_forward'], key =>
        titan('parallelism', `${key} = "VALUE"`),
      ),
      converters: titan('model', 'converters = ["VALUE"]'),
      norm: titan('model', 'norm_type = "VALUE"'),
    },
  },
  {
    framework: 'nanotron',
    texts: byKey(
      [
        ...['parallelism.pp_engine', 'parallelism.tp_mode', 'model.dtype', 'model.model_config.hidden_act'],
        ...['optimizer.optimizer_factory.name', 'optimizer.learning_rate_scheduler.lr_warmup_style'],
        'optimizer.learning_rate_scheduler.lr_decay_style',
      ],
      nanotron,
    ),
  },
  {
    framework: 'picotron',
    texts: {
      pp_engine: tree({
        distributed: { tp_size: 1, pp_size: 2, pp_engine: 'VALUE' },
        model: { name: 'a/b' },
        training: {},
      }),
    },
  },
  {
    framework: 'deepspeed',
    given: { world: 8 },
    texts: {
      optimizer: deepspeed({ optimizer: { type: 'VALUE', params: { lr: 1e-3 } } }),
      scheduler: deepspeed({ scheduler: { type: 'VALUE', params: {} } }),
      warmup_type: deepspeed({
        optimizer: { type: 'AdamW', params: { lr: 1e-3 } },
        scheduler: { type: 'WarmupLR', params: { warmup_type: 'VALUE' } },
      }),
      grad_accum_dtype: deepspeed({ data_types: { grad_accum_dtype: 'VALUE' } }),
      communication_data_type: deepspeed({ communication_data_type: 'VALUE' }),
      offload: deepspeed({ zero_optimization: { stage: 3, offload_optimizer: { device: 'VALUE' } } }),
    },
  },
  {
    framework: 'accelerate',
    texts: {
      distributed_type: accelerate({ distributed_type: 'VALUE' }),
      mixed_precision: accelerate({ mixed_precision: 'VALUE' }),
      sharding: accelerate({ fsdp_config: { fsdp_sharding_strategy: 'VALUE' } }),
      wrapping: accelerate({ fsdp_config: { fsdp_auto_wrap_policy: 'VALUE' } }),
      cp_comm_strategy: accelerate({
        parallelism_config: {
          ...{ parallelism_config_dp_shard_size: 4, parallelism_config_cp_size: 2 },
          parallelism_config_cp_comm_strategy: 'VALUE',
        },
      }),
      recompute: accelerate({
        distributed_type: 'MEGATRON_LM',
        megatron_lm_config: { megatron_lm_recompute_granularity: 'VALUE', megatron_lm_context_parallel_size: 1 },
      }),
      offload: accelerate({ distributed_type: 'DEEPSPEED', deepspeed_config: { offload_optimizer_device: 'VALUE' } }),
    },
  },
]

for (const { framework, given, texts } of cases)
  test(`${framework}: a value that is not known is named, for each of ${Object.keys(texts).length} enumerated keys`, () => {
    const silent = Object.entries(texts)
      .filter(([, text]) => !isNamed(importConfig(text.replaceAll('VALUE', unknown), given, framework)))
      .map(([key]) => key)
    deepEqual(silent, [])
  })
