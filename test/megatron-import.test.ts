/** Megatron's flags in: launch scripts that are read and not run, YAML of flags, what a run prints. */
import { deepEqual, equal, match, ok } from 'node:assert/strict'
import { test } from 'node:test'
import { type Given, importConfig } from '../src/interop/index.js'
import { Plan } from '../src/plan/index.js'

const scriptOf = (flags: string, launcher = 'torchrun --nnodes 2 --nproc_per_node 8') =>
  `#!/bin/bash\n${launcher} pretrain_gpt.py ${flags}\n`

const gpt =
  '--num-layers 96 --hidden-size 12288 --num-attention-heads 96 --seq-length 2048 --micro-batch-size 1 --lr 6e-5 --train-iters 100'

function jobOf(text: string, given: Given = {}) {
  const { job, world, notes } = importConfig(text, given)
  // A draft of a job is checked by what is asked of it here.
  const { plan, training, model } = (job ?? {}) as Record<'plan' | 'training' | 'model', Record<string, unknown>>
  const said = (path: string) => notes.filter(note => note.path === `--${path}`).map(({ kind }) => kind)
  const refused = notes.filter(({ kind }) => kind === 'refused').map(({ path }) => path)
  return { plan, training, model, world, said, refused, notes }
}

test('GPT-3 175B: 1024 ranks = tp 8 x pp 16 x dp 8, 192 microbatches; on one node it is refused', () => {
  const text = scriptOf(
    `${gpt} --global-batch-size 1536 --tensor-model-parallel-size 8 --pipeline-model-parallel-size 16 --fp16`,
  )
  const { plan, world, model } = jobOf(text, { world: 1024 })
  deepEqual(
    [world, plan.dp, plan.microbatches, plan.precision, model.ffn, model.family],
    [1024, 8, 192, 'f16', 49152, 'gpt'],
  )
  ok(jobOf(text).refused.includes('--tensor-model-parallel-size'))
})

const bloom = `#!/bin/bash
#SBATCH --nodes=24
#SBATCH --ntasks-per-node=1
#SBATCH --gres=gpu:8
STAGE=0
cat <<EOT > ds.json
{ "zero_optimization": { "stage": $STAGE }, "bf16": { "enabled": true } }
EOT
ARGS=" \\
    --pp-partition-method 'type:transformer|embedding' \\
    --num-layers 70 --hidden-size 14336 --num-attention-heads 112 --seq-length 2048 --micro-batch-size 2 \\
    --global-batch-size 2048 --train-samples 220_000_000 --lr 6e-5 --bf16 --checkpoint-activations \\
    --position-embedding-type alibi --pad-vocab-size-to 250880 \\
    "
LAUNCHER="python -m torch.distributed.run --nproc_per_node 8 --nnodes $SLURM_NNODES"
CMD="pretrain_gpt.py --tensor-model-parallel-size 4 --pipeline-model-parallel-size 12 $ARGS --deepspeed --deepspeed_config ds.json"
srun bash -c "$LAUNCHER --node_rank \\$SLURM_PROCID $CMD" 2>&1 | tee log
`

test('BLOOM: 192 ranks, layers 5 6 .. 6 5, ZeRO 1 although its stage is 0, 256 microbatches', () => {
  const { plan, world, model, training } = jobOf(bloom)
  deepEqual([world, plan.dp, plan.zero, plan.microbatches, plan.recompute], [192, 4, 1, 256, 'full'])
  deepEqual(plan.layers, [5, ...Array(10).fill(6), 5])
  deepEqual([model.vocab, training.steps], [250880, 107421])
})

test('one array element of two words, comments inside arrays, defaults of variables, case, arithmetic', () => {
  const text = `#!/bin/bash
: "\${GBS:=$((8 * 8))}"
A=(
  --num-layers \${LAYERS:-8} # of a small model
  "--fp8-format hybrid"
  # --num-layers 80
)
case $1 in small) A+=(--hidden-size 512) ;; *) A+=(--hidden-size 1024) ;; esac
if [[ "$TP" -gt 1 ]]; then A+=(--sequence-parallel); fi
torchrun --nproc_per_node=8 pretrain_gpt.py \${A[@]} --num-attention-heads 8 --seq_length=128 --micro-batch-size 1 \\
  --global-batch-size $GBS --train-iters 10 --lr 1e-4 --bf16 --tensor-model-parallel-size $TP
`
  const { plan, model, training } = jobOf(text, { args: ['small'], env: { TP: '2' } })
  deepEqual([model.layers, model.embed, training.globalBatch, training.seq], [8, 512, 64, 128])
  deepEqual([plan.sequenceParallel, plan.dp, Plan.parse(plan).fp8?.algo], [true, 4, 'most_recent'])
})

const stages = (flags: string) =>
  jobOf(scriptOf(`${gpt} --num-layers 14 --pipeline-model-parallel-size 4 ${flags}`)).plan?.layers
for (const [flags, layers] of [
  ["--pipeline-model-parallel-layout 'Et|(tt|)*6,tL'", [1, 2, 2, 2, 2, 2, 2, 1]],
  ['--account-for-embedding-in-pipeline-split --account-for-loss-in-pipeline-split', [3, 4, 4, 3]],
  ['--decoder-first-pipeline-num-layers 2 --decoder-last-pipeline-num-layers 4', [2, 4, 4, 4]],
] as const)
  test(`${flags}: ${layers.join(' ')}`, () => deepEqual(stages(flags), layers))

test('tp 1 switches sequence parallelism off; unknown flags are named; a release is assumed', () => {
  const { plan, said, notes } = jobOf(scriptOf(`${gpt} --sequence-parallel --no-such-thing 3 --use-megatron-fsdp`))
  equal(plan.sequenceParallel, false)
  deepEqual(said('no-such-thing'), ['notCarried'])
  match(
    notes.find(({ path }) => path === '--data-parallel-sharding-strategy')?.message ?? '',
    /depends|default of Megatron-LM/,
  )
})

test('what a run has printed', () => {
  const printed = {
    num_layers: 4,
    hidden_size: 64,
    num_attention_heads: 4,
    seq_length: 128,
    micro_batch_size: 2,
    lr: 0.001,
    bf16: 'True',
    add_bias_linear: 'False',
    train_iters: 5,
    virtual_pipeline_model_parallel_size: 2,
    pipeline_model_parallel_size: 2,
  }
  const lines = Object.entries(printed).map(([name, value]) => `  ${name} ${'.'.repeat(20)} ${value}`)
  const { plan, world } = jobOf(
    `using world size: 8, data-parallel size: 4\n------ arguments ------\n${lines.join('\n')}\n--- end of arguments ---\n`,
  )
  deepEqual([world, plan.dp, plan.chunks, plan.schedule, plan.precision], [8, 4, 2, 'interleaved', 'bf16'])
})

test('scripts that double a word, call themselves or loop for ever end', () => {
  for (const text of [
    'A=x; for i in {1..60}; do A="$A$A"; done',
    'f() { f; f; }; f',
    'while true; do :; done',
    '$('.repeat(500),
    '${A:-'.repeat(500),
    'if '.repeat(2000),
    `X=${nested('$((', '1', '))', 3000)}`,
    `X=${nested('$(a', '1', ')', 2400)}`,
    `cat <<E\n${nested('$((', '1', '))', 3000)}\nE`,
    'cat <<E\n$( is not closed\nE',
    `${'a && '.repeat(20_000)}a`,
  ])
    ok(importConfig(`${text}\n${scriptOf(gpt)}`).notes.length > 0)
})

const nested = (open: string, inner: string, close: string, deep: number): string =>
  open.repeat(deep) + inner + close.repeat(deep)

test('NeMo 1: a launcher for GPT-3 175B, with values that follow from others', () => {
  const text = `
trainer: { num_nodes: 128, devices: 8, precision: bf16, max_steps: 75000, gradient_clip_val: 1.0 }
model:
  micro_batch_size: 1
  global_batch_size: 2048
  tensor_model_parallel_size: 4
  pipeline_model_parallel_size: 8
  virtual_pipeline_model_parallel_size: 6
  encoder_seq_length: 2048
  num_layers: 96
  hidden_size: 12288
  ffn_hidden_size: \${multiply:4, \${.hidden_size}}
  num_attention_heads: 96
  sequence_parallel: True
  megatron_amp_O2: True
  optim: { name: mcore_distributed_optim, lr: 0.9e-4, betas: [0.9, 0.95], sched: { name: CosineAnnealing, warmup_steps: 115, constant_steps: 12500, min_lr: 0.9e-5 } }
`
  const { plan, world, model, training, notes } = jobOf(text)
  deepEqual([world, plan.dp, plan.chunks, plan.microbatches, plan.zero, model.ffn], [1024, 32, 6, 64, 1, 49152])
  // Of 75,000 steps the last 12,500 have the least rate.
  const decaySteps = 62500
  deepEqual(training.lrSchedule, { kind: 'cosine', minLr: 0.9e-5, decaySteps, warmup: 115, warmupFrom: 0 })
  ok(!notes.some(({ path, kind }) => path.endsWith('constant_steps') && kind === 'notCarried'))
})

test('GPT-NeoX: YAML that looks like JSON, the batch from its factors', () => {
  const text = `{ "pipe_parallel_size": 4, "model-parallel-size": 2, "num_layers": 44, "hidden_size": 6144, "num_attention_heads": 64, # widths
    "seq_length": 2048, "pos_emb": "rotary", "gpt_j_residual": True, "zero_optimization": { "stage": 1, }, "train_micro_batch_size_per_gpu": 4,
    "gradient_accumulation_steps": 32, "fp16": { "enabled": true }, "train_iters": 150000, "lr_decay_iters": 150000, "warmup": 0.01,
    "lr_decay_style": "cosine", "optimizer": { "type": "Adam", "params": { "lr": 0.97e-4, "betas": [0.9, 0.95] } }, }`
  const { plan, training } = jobOf(text, { world: 96 })
  deepEqual([plan.dp, plan.microbatches, plan.zero, training.globalBatch], [12, 32, 1, 1536])
  equal((training.lrSchedule as { warmup: number }).warmup, 1500)
  deepEqual(jobOf(text, { world: 100 }).refused.slice(0, 2), ['model_parallel_size', 'pipe_parallel_size'])
})

test('variables that a script exports: 256 ranks = pp 4 x dp 64', () => {
  const text =
    'export NNODES=64\nexport GPUS_PER_NODE=4\nexport TENSOR_PARALLEL_SIZE=1\nexport PIPELINE_PARALLEL_SIZE=4\nexport GBS=$(( 64 * 256 ))\nexport MBS=1\nexport MAX_LR=2.4e-5\n'
  const { plan, world } = jobOf(text)
  deepEqual([world, plan.dp, plan.microbatches], [256, 64, 256])
})

const recipe = `
from megatron.bridge.training.config import ConfigContainer


def small() -> ConfigContainer:
    """What others build on."""
    cfg = _common()
    cfg.model = Provider(num_layers=24, hidden_size=2 * 1024, num_attention_heads=16, ffn_hidden_size=8_192,  # widths
                         tensor_model_parallel_size=2, pipeline_model_parallel_size=4, context_parallel_size=1)
    cfg.dataset.seq_length = 4096
    cfg.mixed_precision = precision("bf16_mixed")
    cfg.mixed_precision.grad_reduce_in_fp32 = True
    cfg.train.micro_batch_size, cfg.train.rest = 2, 3
    return cfg

def larger():
    cfg = small()
    if others():
        cfg.model.num_layers = 1
    cfg.model.virtual_pipeline_model_parallel_size = 3
    cfg.train.global_batch_size = 256
    cfg.train.micro_batch_size = 2
    cfg.optimizer.lr = 3e-4
    tune(cfg)
    return cfg
`

test('a recipe of Bridge: literals, keywords and functions of the file; the rest is named by its line', () => {
  const { plan, training, model, notes } = jobOf(recipe, { function: 'larger', world: 64 })
  deepEqual([plan.dp, plan.chunks, plan.microbatches, plan.precision], [8, 3, 16, 'bf16'])
  deepEqual([model.layers, model.embed, model.ffn, training.seq, training.globalBatch], [24, 2048, 8192, 4096, 256])
  const named = notes.filter(({ path }) => path.startsWith('line ')).map(({ path, message }) => `${path}: ${message}`)
  deepEqual(
    named.map(one => one.slice(0, 40).trim()),
    [
      'line 7: the settings of _common() are not',
      'line 13: not followed: cfg . train . micro_b'.slice(0, 40),
      'line 18: not followed: if others ( )',
      'line 24: not followed: tune ( cfg )',
    ].map(one => one.slice(0, 40).trim()),
  )
  const [{ path, message }] = importConfig(recipe, { world: 64 }).notes
  match(`${path}: ${message}`, /^--function: one of small, larger; or use run_config\.yaml/)
})

test('recipes that call themselves, are cut off or nested without end are read in no time', () => {
  const calls = `from megatron.bridge import x\ndef f():\n${'    cfg = f()\n'.repeat(50)}    return cfg\n`
  const deep = `from megatron.bridge import x\ndef f():\n    return ${'('.repeat(5000)}1\n`
  for (const text of [calls, deep, recipe.slice(0, 300), recipe.replaceAll('"""', '"')])
    ok(importConfig(text, { function: text === calls || text === deep ? 'f' : 'small', world: 8 }).notes.length > 0)
})
