/** Keys of other frameworks, of which each is carried, known to change nothing, or named. */
import { deepEqual, equal, match } from 'node:assert/strict'
import { test } from 'node:test'
import { type Given, type Imported, importConfig } from '../src/interop/index.js'

const read = (text: string, given: Given = {}): Imported => importConfig(text, given)
const field = (imported: Imported, path: string): unknown =>
  path.split('.').reduce<unknown>((at, key) => (at as Record<string, unknown> | undefined)?.[key], imported.job)

/** 'kind path' of the notes of some kinds. */
const notes = ({ notes }: Imported, ...kinds: readonly string[]): string[] =>
  notes.filter(({ kind }) => kinds.includes(kind)).map(({ kind, path }) => `${kind} ${path}`)

const nemo = (model: string, trainer = ''): string => `
trainer: { devices: 8, num_nodes: 1, precision: bf16, max_steps: 1000, accumulate_grad_batches: 1, max_epochs: -1${trainer} }
model:
  micro_batch_size: 1
  global_batch_size: 16
  encoder_seq_length: 64
  num_layers: 2
  hidden_size: 64
  ffn_hidden_size: 128
  num_attention_heads: 4
  position_embedding_type: rope
  normalization: rmsnorm
  bias: false
  share_embeddings_and_output_weights: false
  hidden_dropout: 0
  attention_dropout: 0
  megatron_amp_O2: true
  override_vocab_size: 100
  gradient_as_bucket_view: true
${model}
  optim:
    name: mcore_distributed_optim
    lr: 1e-3
    sched: { name: CosineAnnealing, warmup_steps: 12.5, constant_steps: 200, min_lr: 1e-5 }
`

test('NeMo: what is switched off or left as everybody has it is cosmetic, everything else is carried or named', () => {
  const plain = read(
    nemo('  activation: fast-swiglu\n  qkv_bias: true\n  scale_positional_embedding: true\n  window_size: null'),
  )
  deepEqual(notes(plain, 'notCarried', 'refused'), [])
  equal(field(plain, 'model.vocab'), 100)
  equal(field(plain, 'model.qkvBias'), true)
  deepEqual(field(plain, 'model.ropeScaling'), { kind: 'llama3', factor: 8, original: 8192 })
  equal(field(plain, 'training.lrSchedule.decaySteps'), 800)
  equal(field(plain, 'training.lrSchedule.warmup'), 12)
  const odd = read(
    nemo(
      '  activation: fast-geglu\n  use_scaled_init_method: false\n  headscale: true\n  transformer_block_type: post_ln',
    ),
  )
  equal(field(odd, 'model.family'), 'llama')
  deepEqual(notes(odd, 'notCarried'), [
    'notCarried model.activation',
    'notCarried model.use_scaled_init_method',
    'notCarried model.headscale',
    'notCarried model.transformer_block_type',
  ])
})

test('NeMo: accumulation of Lightning is refused, and a schedule that no job has is named', () => {
  const twice = read(
    nemo('  activation: fast-swiglu').replace('accumulate_grad_batches: 1', 'accumulate_grad_batches: 2'),
  )
  deepEqual(notes(twice, 'refused'), ['refused trainer.accumulate_grad_batches'])
  const noam = read(nemo('  activation: fast-swiglu').replace('CosineAnnealing', 'NoamAnnealing'))
  deepEqual(notes(noam, 'notCarried'), ['notCarried model.optim.sched.name'])
})

const bridge = `
model:
  _target_: megatron.bridge.models.gpt_provider.GPTModelProvider
  tensor_model_parallel_size: 2
  pipeline_model_parallel_size: 2
  context_parallel_size: 1
  num_layers: 6
  num_layers_in_first_pipeline_stage: 2
  hidden_size: 64
  ffn_hidden_size: 128
  num_attention_heads: 4
  seq_length: 64
  vocab_size: 128
  normalization: RMSNorm
  position_embedding_type: rope
  rotary_base: 10000
  add_bias_linear: false
  gated_linear_unit: true
  activation_func: { _target_: torch.nn.functional.silu, _call_: false }
  share_embeddings_and_output_weights: false
  hidden_dropout: 0.0
  attention_dropout: 0.0
  multi_latent_attention: true
  q_lora_rank: 24
  kv_lora_rank: 16
  qk_head_dim: 16
  qk_pos_emb_head_dim: 8
  v_head_dim: 16
  num_moe_experts: 4
  moe_ffn_hidden_size: 32
  moe_router_topk: 2
  moe_router_score_function: sigmoid
  moe_layer_freq: [0, 1, 1, 1, 1, 1]
  mamba_state_dim: 128
  masked_softmax_fusion: true
  cuda_graph_impl: none
  window_size: null
train: { global_batch_size: 8, micro_batch_size: 1, train_iters: 10, eval_iters: 2 }
optimizer: { optimizer: adam, lr: 1e-3, min_lr: 1e-4, weight_decay: 0.1, clip_grad: 1.0, muon_momentum: 0.95, adam_beta1: 0.9, adam_beta2: 0.95, adam_eps: 1e-8 }
scheduler: { lr_decay_style: cosine, lr_warmup_iters: 2, start_weight_decay: 0.033, end_weight_decay: 0.033, weight_decay_incr_style: constant }
ddp: { use_distributed_optimizer: true, overlap_grad_reduce: true, num_distributed_optimizer_instances: 2 }
mixed_precision: bf16_mixed
`

test('Bridge: what is written under a flag of Megatron is read, and weight decay is that of the scheduler', () => {
  const imported = read(bridge, { world: 8 })
  deepEqual(field(imported, 'model.mla'), {
    qLoraRank: 24,
    kvLoraRank: 16,
    qkRopeHeadDim: 8,
    qkNopeHeadDim: 16,
    vHeadDim: 16,
  })
  equal(field(imported, 'model.moe.scores'), 'sigmoid')
  equal(field(imported, 'model.moe.dense'), 1)
  deepEqual(field(imported, 'plan.layers'), [2, 4])
  equal(field(imported, 'training.optimizer.weightDecay'), 0.033)
  equal(field(imported, 'plan.shard'), Number(field(imported, 'plan.dp')) / 2)
  deepEqual(notes(imported, 'notCarried', 'refused'), [])
  const laid = read(
    bridge.replace(
      'num_layers_in_first_pipeline_stage: 2',
      'virtual_pipeline_model_parallel_size: 2\n  should_pad_vocab: true\n  pipeline_model_parallel_layout: [[embedding, decoder], [decoder, decoder], [decoder, decoder], [decoder, loss]]',
    ),
    { world: 8 },
  )
  deepEqual(field(laid, 'plan.layers'), [1, 2, 2, 1])
  equal(field(laid, 'model.vocab'), 256)
  const odd = read(
    bridge.replace('functional.silu', 'functional.gelu').replace('window_size: null', 'final_logit_softcapping: 30.0'),
    { world: 8 },
  )
  deepEqual(notes(odd, 'notCarried'), ['notCarried model.activation_func', 'notCarried model.final_logit_softcapping'])
})

const neox = `{ "pipe_parallel_size": 1, "model_parallel_size": 1, "num_layers": 2, "hidden_size": 64, "num_attention_heads": 4,
  "seq_length": 64, "max_position_embeddings": 64, "pos_emb": "rotary", "norm": "rmsnorm", "rms_norm_epsilon": 1.0e-6,
  "no_weight_tying": true, "use_bias_in_attn_linear": False, "activation": "swiglu", "intermediate_size": 500, "mlp_multiple_of": 16,
  "train_micro_batch_size_per_gpu": 2, "train_iters": 10, "lr_decay_style": "cosine", "warmup": 0.1, "precision": "fp16",
  "optimizer": { "type": "Adam", "params": { "lr": 0.001, "betas": [0.9, 0.95] } },
  "fp16": { "enabled": true, "initial_scale_power": 12, "hysteresis": 3 } }`

test('GPT-NeoX: a gated layer has two thirds of its width, and DeepSpeed scales the loss', () => {
  const imported = read(neox, { world: 4 })
  equal(field(imported, 'model.ffn'), 176) // 500 x 2 / 3 = 333, half of it 166, up to a multiple of 16
  deepEqual(field(imported, 'training.lossScale'), {
    ...{ kind: 'deepspeed', initial: 4096, min: 1, interval: 1000, hysteresis: 3 },
  })
  deepEqual(notes(imported, 'notCarried', 'refused'), [])
  equal(field(imported, 'model.eps'), 1e-6)
  equal(field(read(neox.replace('"rms_norm_epsilon": 1.0e-6,', ''), { world: 4 }), 'model.eps'), 1e-8)
  const dense = read(neox.replace('"swiglu"', '"relu"'), { world: 4 })
  equal(field(dense, 'model.ffn'), 500)
  equal(notes(dense, 'notCarried')[0], 'notCarried activation')
})

const nanotron = (schedule: string, model = ''): string => `
parallelism: { dp: 2, tp: 1, pp: 1, pp_engine: 1f1b }
tokens: { sequence_length: 64, micro_batch_size: 1, batch_accumulation_per_replica: 1, train_steps: 1000 }
optimizer:
  zero_stage: 0
  clip_grad: 1.0
  weight_decay: 0.1
  accumulate_grad_in_fp32: true
  optimizer_factory: { name: adamW, adam_beta1: 0.9, adam_beta2: 0.95, adam_eps: 1.0e-8 }
  learning_rate_scheduler: { learning_rate: 1.0e-3, lr_warmup_steps: 100, lr_warmup_style: linear, min_decay_lr: 0, ${schedule} }
model:
  dtype: bfloat16
  model_config: { hidden_size: 64, intermediate_size: 128, num_hidden_layers: 2, num_attention_heads: 4, vocab_size: 128, max_position_embeddings: 64, use_cache: true${model} }
`

test('nanotron: a decay lasts as long as what follows the warm-up, wherever it starts', () => {
  const schedule = (text: string) => field(read(nanotron(text)), 'training.lrSchedule')
  const shared = { warmup: 100, warmupFrom: 0, minLr: 0 }
  deepEqual(schedule('lr_decay_style: cosine'), { ...shared, kind: 'cosine' })
  deepEqual(schedule('lr_decay_style: 1-sqrt, lr_decay_starting_step: 300'), {
    ...{ ...shared, kind: 'wsd', cooldown: 900, cooldownShape: 'minus-sqrt', decaySteps: 1200 },
  })
  const late = read(nanotron('lr_decay_style: linear, lr_decay_starting_step: 300'))
  const said = late.notes.find(({ kind }) => kind === 'notCarried')
  match(said?.message ?? '', /until step 300; .* cooldown: 900, cooldownShape: linear, decaySteps: 1200/)
})

test('nanotron: experts of its older example, models of no family, norms that are decayed, and keys nobody knows', () => {
  const routed = read(nanotron('lr_decay_style: cosine', ', moe_num_experts: 4, num_experts_per_tok: 2'))
  equal(field(routed, 'model.experts'), 4)
  equal(field(routed, 'model.topK'), 2)
  deepEqual(field(routed, 'training.paramGroups'), { norm: { weightDecay: 1 }, bias: { weightDecay: 1 } })
  deepEqual(notes(routed, 'notCarried', 'refused'), [])
  deepEqual(notes(read(nanotron('lr_decay_style: cosine', ', is_starcoder2_config: true')), 'refused'), [
    'refused model.model_config.is_starcoder2_config',
  ])
  deepEqual(notes(read(nanotron('lr_decay_style: cosine', ', flex_attention_mask: document')), 'notCarried'), [
    'notCarried model.model_config.flex_attention_mask',
  ])
})

test('Megatron: flags that change memory or numbers, and no field stands for, are named', () => {
  const flags = [
    'moe-layer-recompute',
    'no-rope-freq 2',
    'partition-activations',
    'checkpoint-in-cpu',
    'use-bnb-optimizer',
  ]
  const sizes =
    '--num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 64 --max-position-embeddings 64 --vocab-size 128'
  const steps = '--micro-batch-size 1 --global-batch-size 16 --train-iters 10 --lr 1e-3'
  const imported = read(`torchrun --nproc-per-node 8 pretrain_gpt.py ${sizes} ${steps} --${flags.join(' --')}`)
  const named = notes(imported, 'notCarried').filter(note => flags.some(flag => note.includes(flag.split(' ')[0])))
  deepEqual(named.sort(), flags.map(flag => `notCarried --${flag.split(' ')[0]}`).sort())
})

test('Megatron: delayed scaling takes the most recent maximum where no algorithm is given', () => {
  const sizes = '--num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 64 --max-position-embeddings 64'
  const steps = '--vocab-size 128 --micro-batch-size 1 --global-batch-size 16 --train-iters 10 --lr 1e-3 --bf16'
  const imported = read(`torchrun --nproc-per-node 8 pretrain_gpt.py ${sizes} ${steps} --fp8-format hybrid`)
  equal(field(imported, 'plan.fp8.algo'), 'most_recent')
  deepEqual(
    imported.problems?.filter(({ severity }) => severity === 'error'),
    [],
  )
})

test('GPT-NeoX: Adam without betas has those of its framework; settings that change memory or attention are named', () => {
  const plain = read(neox.replace(/"betas": \[[^\]]*\],?/, ''), { world: 4 })
  deepEqual(notes(plain, 'refused'), [])
  equal(field(plain, 'training.optimizer.beta2'), 0.999)
  const odd = read(neox.replace('{', '{ "partition_activations": true, "attention_config": [[["sparse_fixed"], 2]],'), {
    world: 4,
  })
  deepEqual(notes(odd, 'notCarried').sort(), ['notCarried attention_config', 'notCarried partition_activations'])
})

test('nanotron: stages of the data are named', () =>
  deepEqual(
    notes(
      read(`${nanotron('lr_decay_style: cosine')}data_stages: [{ name: a, start_training_step: 1 }]`),
      'notCarried',
    ),
    ['notCarried data_stages'],
  ))

const sized = (flags: string): string =>
  `torchrun --nproc-per-node 8 pretrain_gpt.py --tensor-model-parallel-size 1 --seq-length 64 --micro-batch-size 1 \
  --global-batch-size 16 --train-iters 10 --lr 1e-3 ${flags}`

test('Megatron: layers of the first and the last rank are counted from those of --model', () => {
  const model = 'llama3-8b' // 32 layers
  const layersOf = (flags: string) => field(read(sized(flags), { model }), 'plan.layers')
  const uneven = '--pipeline-model-parallel-size 4 --decoder-last-pipeline-num-layers 5'
  deepEqual(layersOf(uneven), [9, 9, 9, 5])
  const accounted = '--account-for-embedding-in-pipeline-split --account-for-loss-in-pipeline-split'
  deepEqual(layersOf(`--pipeline-model-parallel-size 2 ${accounted}`), [16, 16])
  const chunked = read(sized('--pipeline-model-parallel-size 2 --num-layers-per-virtual-pipeline-stage 4'), { model })
  equal(field(chunked, 'plan.chunks'), 4)
  const [left] = read(sized(uneven)).notes.filter(({ path }) => path === '--decoder-last-pipeline-num-layers')
  match(left.message, /set --model/)
})

test('Megatron: a model without experts keeps no ranks for them', () => {
  const gpt = '--num-layers 2 --hidden-size 64 --num-attention-heads 4 --max-position-embeddings 64 --vocab-size 128'
  const experts = '--num-experts 4 --expert-model-parallel-size 2 --expert-tensor-parallel-size 1'
  const imported = read(sized(`${gpt} ${experts}`))
  deepEqual(
    [field(imported, 'plan.ep'), field(imported, 'plan.etp'), field(imported, 'plan.dp')],
    [undefined, undefined, 8],
  )
  const errors = imported.problems?.filter(({ severity }) => severity === 'error')
  deepEqual(errors, [])
  const named = notes(imported, 'notCarried')
  deepEqual(
    ['--num-experts', '--expert-model-parallel-size'].filter(flag => !named.includes(`notCarried ${flag}`)),
    [],
  )
})

test('Megatron-DeepSpeed: f16 has a loss scale, that of the configuration or of DeepSpeed', () => {
  const half = '--num-layers 2 --hidden-size 64 --num-attention-heads 4 --vocab-size 128 --fp16 --deepspeed'
  const script = sized(`${half} --deepspeed_config ds.json`)
  const usual = { kind: 'deepspeed', initial: 2 ** 16, min: 1, interval: 1000, hysteresis: 2 }
  const absent = read(script)
  deepEqual(field(absent, 'training.lossScale'), usual)
  deepEqual(
    absent.notes.filter(({ field }) => field === 'training.lossScale').map(({ kind }) => kind),
    ['assumed'],
  )
  const there = read(script, { read: () => '{ "fp16": { "enabled": true, "initial_scale_power": 10 } }' })
  deepEqual(field(there, 'training.lossScale'), { ...usual, initial: 1024 })
})

test('NeMo: as many constant steps as the training has are named', () => {
  const all = read(nemo('  activation: fast-swiglu').replace('constant_steps: 200', 'constant_steps: 1200'))
  deepEqual(notes(all, 'notCarried'), ['notCarried model.optim.sched.constant_steps'])
})

test('a recipe of Bridge: constants of its module, and a precision by the name of its function', () => {
  const recipe = `
from megatron.bridge.recipes import *

LAYERS: int = 6
WIDTH = 16 * 4


def small():
    cfg = _common()
    cfg.model = Provider(num_layers=LAYERS, hidden_size=WIDTH, num_attention_heads=4, ffn_hidden_size=2 * WIDTH,
                         tensor_model_parallel_size=1, pipeline_model_parallel_size=1, context_parallel_size=1)
    cfg.mixed_precision = bf16_mixed()
    cfg.mixed_precision.grad_reduce_in_fp32 = False
    return cfg
`
  const imported = read(recipe, { world: 8 })
  deepEqual([field(imported, 'model.layers'), field(imported, 'model.ffn')], [6, 128])
  equal(field(imported, 'plan.precision'), 'bf16')
  deepEqual(
    notes(imported, 'notCarried').filter(note => note.includes('line ') && !note.includes('line 9')),
    [],
  )
})

test('torchtitan: layers are dealt out to stages as --model has them', () => {
  const toml = `
[model]
name = "llama3"
flavor = "8B"
[training]
local_batch_size = 8
seq_len = 2048
[compile]
[parallelism]
pipeline_parallel_degree = 4
data_parallel_shard_degree = -1
`
  const imported = read(toml, { world: 8, model: 'llama3-70b' })
  const layers = field(imported, 'plan.layers') as readonly number[]
  equal(layers.length, 4)
  equal(
    layers.reduce((a, b) => a + b, 0),
    80,
  )
})
