/** Configurations of other frameworks: files of our own, each with what must become of it. */
import { deepEqual, equal, match, ok } from 'node:assert/strict'
import { test } from 'node:test'
import { type Given, type Imported, importConfig, importReport, readTree } from '../src/interop/index.js'
import { detect } from '../src/plan/index.js'
import { lockstep } from './memory-io.js'

const read = (text: string, given: Given = {}): Imported => importConfig(text, given)
const field = (imported: Imported, path: string): unknown =>
  path.split('.').reduce<unknown>((at, key) => (at as Record<string, unknown> | undefined)?.[key], imported.job)

/** 'kind path' of the notes of some kinds. */
const notes = ({ notes }: Imported, ...kinds: readonly string[]): string[] =>
  notes.filter(({ kind }) => kinds.includes(kind)).map(({ kind, path }) => `${kind} ${path}`)

const picotron = `{ "distributed": { "tp_size": 2, "cp_size": 1, "pp_size": 2, "dp_size": 2, "pp_engine": "afab" },
  "model": { "name": "a/b", "num_hidden_layers": 4 },
  "training": { "seq_length": 64, "micro_batch_size": 2, "gradient_accumulation_steps": 4, "learning_rate": 3e-4 },
  "colour": "red" }`

test('what a file is, by what stands in it', () => {
  const kinds: readonly (readonly [string, string])[] = [
    [picotron, 'picotron json'],
    ['{ "zero_optimization": { "stage": 2 } }', 'deepspeed json'],
    ['distributed_type: FSDP\nnum_processes: 8', 'accelerate yaml'],
    ['[parallelism]\ntensor_parallel_degree = 2', 'torchtitan toml'],
    ['parallelism:\n  dp: 2\ntokens:\n  micro_batch_size: 1', 'nanotron yaml'],
    ['trainer:\n  devices: 8\nmodel:\n  tensor_model_parallel_size: 2', 'nemo yaml'],
    ['{ "pipe_parallel_size": 1, "model-parallel-size": 2 }', 'neox yaml'],
    ['MODEL_ARGS:\n  --num-layers: 2', 'megatron yaml'],
    ['#!/bin/bash\ntorchrun pretrain_gpt.py --micro-batch-size 1', 'megatron script'],
    ['------------------------ arguments ------------------------\n  lr ... 0.1', 'megatron log'],
    ['model: llama3-8b\ntraining: { seq: 8, globalBatch: 8 }\nplan: { dp: 2 }', 'undefined'],
  ]
  for (const [text, kind] of kinds) {
    const found = detect(text)
    equal(found ? `${found.framework} ${found.format}` : 'undefined', kind)
  }
})

test('every key ends in a note, and none is carried that nobody knows', () => {
  const imported = read(picotron)
  equal(imported.world, 8)
  deepEqual(field(imported, 'plan.schedule'), 'gpipe')
  deepEqual(field(imported, 'training.globalBatch'), 16)
  ok(notes(imported, 'notCarried').includes('notCarried colour'))
  match(importReport(imported), /colour \(line 4\): picotron does not read this key/)
  match(importReport(imported), /micro_batch_size 2 x\s+gradient_accumulation_steps 4 x dp 2 = 16/)
})

test('values of the wrong kind are refused by key and line', () => {
  const { job, notes } = read(picotron.replace('"tp_size": 2', '"tp_size": "two"'))
  equal(job, undefined)
  deepEqual(
    notes.filter(({ kind }) => kind === 'refused').map(({ path, line }) => `${path} ${line}`),
    ['distributed.tp_size 1'],
  )
})

test('JSON as Hjson has it: comments, no commas, no quotes', () => {
  const { value, lineOf } = readTree('{ # one\n a: 1 // two\n "b": [1, 2,]\n c: some words\n /* d */ e: null }', 'json')
  deepEqual(JSON.parse(JSON.stringify(value)), { a: 1, b: [1, 2], c: 'some words', e: null })
  equal(lineOf('c'), 4)
})

test('TOML: tables, dotted keys, arrays over lines, strings', () => {
  const text = `a.b = 1_000 # c
[x.y]
list = [
  "p", # q
  'r',
]
t = { u = true, v.w = -1.5e3 }
[[z]]
k = """one \\
   two"""
[[z]]
k = inf`
  const { value, lineOf } = readTree(text, 'toml')
  const plain = JSON.stringify(value)
  equal(
    plain,
    '{"a":{"b":1000},"x":{"y":{"list":["p","r"],"t":{"u":true,"v":{"w":-1500}}}},"z":[{"k":"one two"},{"k":null}]}',
  )
  equal(lineOf('x.y.t.v.w'), 7)
})

test('texts that cannot be read are refused with their line', () => {
  for (const [text, notation, line] of [
    ['{ "a": 1\n "b": ', 'json', 2],
    ['[a]\nb = ', 'toml', 2],
    ['a: 1\nb: [', 'yaml', 2],
    ['['.repeat(5000), 'json', 1],
    [`a = ${'['.repeat(5000)}`, 'toml', 1],
    ['- '.repeat(5000), 'yaml', 1],
  ] as const) {
    const [first] = readTree(text, notation).refused
    equal(first.line, line, text.slice(0, 20))
  }
})

test('DeepSpeed: T = M G dp, with which numbers it would fit', () => {
  const file = (more: string) => `{ "zero_optimization": { "stage": 2 }, "bf16": { "enabled": true }, ${more} }`
  const whole = read(file('"train_batch_size": 64, "train_micro_batch_size_per_gpu": 2'), { world: 8 })
  equal(field(whole, 'plan.microbatches'), 4)
  const refusal = (more: string, world: number) =>
    read(file(more), { world }).notes.find(({ kind }) => kind === 'refused')
  match(
    refusal('"train_batch_size": 256, "train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 18', 7)!
      .message,
    /256 is not 2 x 18 x 7 .* = 252; it would fit with train_batch_size 252/,
  )
  match(refusal('"train_batch_size": 16, "train_micro_batch_size_per_gpu": 1', 5)!.message, /dp 4 or 8/)
})

test('DeepSpeed: auto is what the Trainer says, and sizes follow from the width', () => {
  const auto = `{ "bf16": { "enabled": "auto" }, "train_batch_size": "auto", "train_micro_batch_size_per_gpu": "auto", "gradient_accumulation_steps": "auto",
    "zero_optimization": { "stage": 3, "reduce_bucket_size": "auto", "stage3_prefetch_bucket_size": "auto", "stage3_param_persistence_threshold": "auto" } }`
  const trainer = { per_device_train_batch_size: 2, gradient_accumulation_steps: 4, bf16: true }
  const imported = read(auto, { world: 16, trainer, model: { hidden_size: 4096 } })
  equal(field(imported, 'training.globalBatch'), 128)
  equal(field(imported, 'plan.precision'), 'bf16')
  const said = imported.notes.map(({ message }) => message).join('\n')
  for (const size of ['16777216', '15099494', '40960']) match(said, new RegExp(`= ${size} elements`))
  equal(read(auto, { world: 16 }).job, undefined)
})

test('Accelerate: YAML 1.1 words, and keys it does not know', () => {
  const file =
    'distributed_type: FSDP\nnum_processes: 8\nmixed_precision: bf16\ndowncast_bf16: no\nfsdp_config:\n  fsdp_version: 2\n  fsdp_reshard_after_forward: off\n'
  const imported = read(file, { trainer: { per_device_train_batch_size: 2, gradient_accumulation_steps: 4 } })
  deepEqual(
    [field(imported, 'plan.zero'), field(imported, 'plan.gather'), field(imported, 'training.globalBatch')],
    [3, 'step', 64],
  )
  deepEqual(notes(read(`${file}what: 1\n`), 'refused'), ['refused what'])
})

test('torchtitan: Llama 3 405B on 512 ranks, embedding and head as layers', () => {
  const file =
    '[model]\nname = "llama3"\nflavor = "405B"\n[training]\nlocal_batch_size = 32\nseq_len = 8192\n[compile]\nenable = true\n[parallelism]\ntensor_parallel_degree = 8\npipeline_parallel_degree = 8\npipeline_parallel_schedule = "Interleaved1F1B"\n'
  const imported = read(file, { world: 512, args: ['--parallelism.pipeline_parallel_layers_per_stage', '8'] })
  deepEqual(field(imported, 'plan.layers'), [7, ...Array.from({ length: 14 }, () => 8), 7])
  deepEqual(
    [field(imported, 'plan.chunks'), field(imported, 'plan.dp'), field(imported, 'training.globalBatch')],
    [2, 8, 256],
  )
  equal(read(file, { world: 500 }).job, undefined)
})

test('nanotron: what is left out matters', () => {
  const file = `parallelism: { dp: 2, tp: 2, pp: 2, tp_mode: REDUCE_SCATTER }
tokens: { sequence_length: 64, micro_batch_size: 2, batch_accumulation_per_replica: 4, train_steps: 10 }
optimizer: { zero_stage: 1, clip_grad: null, weight_decay: 0.1, accumulate_grad_in_fp32: true, optimizer_factory: { name: adamW, adam_beta2: 0.95 }, learning_rate_scheduler: { learning_rate: 1e-3 } }`
  const imported = read(file)
  deepEqual(
    [field(imported, 'plan.schedule'), field(imported, 'training.lrSchedule.kind'), field(imported, 'training.clip')],
    ['gpipe', 'constant', undefined],
  )
  equal(imported.world, 8)
})

const registry = `
from torchtitan.trainer import Trainer

def llama3_8b() -> Trainer.Config:
    model_spec = model_registry("8B", converters=[Float8LinearConverter.Config(filter_fqns=["lm_head"], when=on and "model" in all)])
    return Trainer.Config(
        model_spec=model_spec,
        optimizer=default_adamw(lr=3e-4),
        training=TrainingConfig(num_tokens_per_microbatch_per_dp_rank=2 * 8192, max_context_length=8192, steps=1000),
        parallelism=ParallelismConfig(tensor_parallel_degree=4),
        activation_checkpoint=FullAC.Config(),
        checkpoint=CheckpointManager.Config(interval=500),
    )

def llama3_8b_long():
    config = llama3_8b()
    config.training.steps = 2000
    return config
`

test('a registry of torchtitan: what a function says itself, tokens counted as sequences', () => {
  const { job, notes } = importConfig(registry, { function: 'llama3_8b_long', world: 32 })
  const { plan, training, model } = job as Record<string, Record<string, unknown>>
  deepEqual([plan.dp, plan.tp, plan.zero, plan.recompute, plan.microbatches], [8, 4, 3, 'full', 1])
  deepEqual([training.seq, training.globalBatch, training.steps, model.layers, model.ffn], [8192, 16, 2000, 32, 14336])
  deepEqual(plan.fp8, { recipe: 'current' })
  ok(notes.some(({ path, message }) => path === 'model_spec.converters' && message.startsWith('filter_fqns, when:')))
  ok(notes.some(({ path, kind }) => path === 'checkpoint' && kind === 'cosmetic'))
  const [{ message }] = importConfig(registry, { world: 32 }).notes
  match(
    message,
    /--function names one \(llama3_8b, llama3_8b_long\); or use the file that --debug\.save_config_file writes/,
  )
})

const recipe = `
import nemo_run as run
from nemo.collections.llm.gpt.model.llama import Llama3Config8B, LlamaModel

def model():
    conf = run.Config(Llama3Config8B)
    conf.seq_length = 4096
    return run.Config(LlamaModel, config=conf)

def trainer(tensor_parallelism: int = 2, nodes=1, devices: int = 8, steps: Optional[int] = None):
    if steps is None:
        steps = 500
    elif steps == 7:
        steps = 8
    strategy = run.Config(nl.MegatronStrategy, tensor_model_parallel_size=tensor_parallelism, sequence_parallel=True)
    return run.Config(nl.Trainer, devices=devices, num_nodes=nodes, max_steps=steps, plugins=bf16_mixed(), strategy=strategy)

def pretrain_recipe(num_nodes: int = 1, fast: bool = False, where=None):
    recipe = run.Partial(
        pretrain, model=model(), trainer=trainer(nodes=num_nodes), optim=distributed_fused_adam_with_cosine_annealing(max_lr=3e-4),
        data=run.Config(MockDataModule, seq_length=4096, global_batch_size=64, micro_batch_size=1),
    )
    if fast:
        recipe.trainer.strategy.tensor_model_parallel_size = 4
    if os.environ.get("X"):
        recipe.trainer.max_steps = 1
    return recipe
`

test('a recipe of NeMo 2: defaults and arguments of its functions, conditions that are known; nothing is executed', () => {
  const { job, world, notes } = read(recipe)
  const { plan, training, model } = job as Record<string, Record<string, unknown>>
  deepEqual([world, plan.tp, plan.dp, plan.zero, plan.microbatches, plan.precision], [8, 2, 4, 1, 16, 'bf16'])
  deepEqual([training.seq, training.globalBatch, training.steps, model.layers, model.kvHeads], [4096, 64, 500, 32, 8])
  ok(notes.some(({ line, message }) => line === 25 && message.startsWith('not followed: if os')))
  equal(notes.filter(({ message }) => message.startsWith('not followed')).length, 1)
  const other = read(recipe, { set: { num_nodes: '4', fast: 'True' } })
  deepEqual([other.world, field(other, 'plan.tp'), field(other, 'plan.dp')], [32, 4, 8])
  const odd = read(recipe.replace('devices: int = 8', 'devices: int = 3'))
  ok(odd.notes.some(({ kind, path }) => kind === 'refused' && path === 'num_nodes'))
})

test('a folder that a run has left: what it has resolved comes first, of checkpoints the last', async () => {
  const nanotron = (steps: number) =>
    `parallelism: { dp: 2, tp: 1, pp: 1 }\ntokens: { sequence_length: 64, micro_batch_size: 2, batch_accumulation_per_replica: 1, train_steps: ${steps} }\n`
  const files = {
    'run/9/config.yaml': nanotron(9),
    'run/10/config.yaml': nanotron(10),
    'run/launch.sh': '#!/bin/bash\ntorchrun pretrain_gpt.py --micro-batch-size 1',
    'run/weights.bin': 'tokens',
    'none/notes.txt': 'nothing',
  }
  const { out, err } = await lockstep(['import', 'run', '--json'], files)
  match(err, /run\/10\/config\.yaml: a configuration of nanotron; 2 more in the folder, such as 9\/config\.yaml/)
  equal(JSON.parse(out).job.training.steps, 10)
  const none = await lockstep(['import', 'none'], files)
  equal(none.code, 1)
  match(none.err, /no configuration that is known was found in none/)
})

test('keys that name training data are dropped with a warning, and the report says what the run trains on', () => {
  const flags =
    '--num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 32 --vocab-size 64 --train-iters 5'
  const script = `#!/bin/bash\ntorchrun --nproc_per_node 2 pretrain_gpt.py ${flags} --data-path 0.5 a 0.5 b --save-interval 10`
  const imported = importConfig(script)
  const of = (path: string) =>
    imported.notes.filter(note => note.path === path).map(({ kind, message }) => [kind, message])
  deepEqual(of('--data-path'), [
    ['notCarried', 'training data is not imported: the job trains on synthetic data until data.source is set'],
  ])
  deepEqual(of('--save-interval'), [['cosmetic', '']])
  const report = importReport(imported)
  match(report, /^Dropped:\n( {2}.*\n)* {2}--data-path \(line 2\): training data is not imported/m)
  match(report, /^Data: none imported; the job trains on synthetic data until data\.source is set\.$/m)
  const nanotron = importConfig(
    'data_stages:\n- data: { dataset: { hf_dataset_or_datasets: x } }\nparallelism: { dp: 1, pp: 1, tp: 1 }\n',
    {},
    'nanotron',
  )
  ok(nanotron.notes.some(({ path, kind }) => path === 'data_stages' && kind === 'notCarried'))
})

test('what is said beside a script that stands for a job', async () => {
  const script = `#!/bin/bash
TP=2
torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 32 --vocab-size 64 \\
  --max-position-embeddings 32 --micro-batch-size 1 --global-batch-size 16 --tensor-model-parallel-size $TP --lr 1e-4 --train-iters 10`
  const files = { 'train.sh': script, 'job.yaml': 'model: gpt-tiny\ntraining: { seq: 8, globalBatch: 8 }' }
  const parameters = async (...set: string[]) => {
    const { out, err } = await lockstep(['memory', 'train.sh', '--json', ...set], files)
    match(err, /Megatron-LM config: \d+ keys mapped/)
    return JSON.parse(out).stages[0].peak.parameters
  }
  ok((await parameters('--set', 'TP=4')) < (await parameters()))
  match((await lockstep(['memory', 'job.yaml', '--set', 'TP=4'], files)).err, /--set: sets variables of a script/)
})

test('a batch that grows a hundred times', () => {
  const flags = '--num-layers 2 --micro-batch-size 1 --global-batch-size 224 --rampup-batch-size 16 2 1000'
  const { job } = read(`#!/bin/bash\ntorchrun --nproc_per_node 2 pretrain_gpt.py ${flags}`)
  equal((job?.training as { batchRamp: unknown[] } | undefined)?.batchRamp.length, 104)
})

test('releases of Megatron-LM: whose defaults hold, and which flags there are', async () => {
  const script =
    '#!/bin/bash\ntorchrun pretrain_gpt.py --micro-batch-size 1 --num-layers 2 --use-megatron-fsdp --tensor-model-parallel-size 1'
  const zero = (release: string) => field(read(script, { world: 2, release }), 'plan.zero')
  deepEqual([zero('0.14'), zero('0.19')], [0, 3])
  match(
    read(script, { world: 2, release: '7' }).notes.find(({ kind }) => kind === 'refused')!.message,
    /unknown release 7; use one of 1\.0, /,
  )
  match(read(picotron, { release: '0.14' }).notes[0].message, /applies to Megatron-LM only/)
  const job = 'model: gpt-tiny\ntraining: { seq: 8, globalBatch: 8 }\nplan: { dp: 2 }\n'
  const exported = (release: string) =>
    lockstep(['export', 'job.yaml', '--to', 'megatron', '--out', 'out', '--release', release], { 'job.yaml': job })
  equal((await exported('2026-08')).code, 0)
  const older = await exported('2.0')
  equal(older.code, 1)
  match(older.err, /--[a-z-]+: not in 2\.0, only from /)
})

test('the sequence length that a file does not have is given with --seq; one that it has is kept', async () => {
  const deepspeed = '{ "train_batch_size": 8, "train_micro_batch_size_per_gpu": 1, "bf16": { "enabled": true } }'
  const asked = ['import', 'ds.json', '--model', 'gpt-tiny', '--devices', '2', '--json']
  const imported = async (...more: string[]) =>
    JSON.parse((await lockstep([...asked, ...more], { 'ds.json': deepspeed })).out)
  const missing = ({ problems }: { problems: { kind: string; path: string }[] }) =>
    problems.filter(({ kind }) => kind === 'missing').map(({ path }) => path)
  ok(missing(await imported()).includes('training.seq'))
  const given = await imported('--seq', '1k')
  equal(given.job.training.seq, 1024)
  ok(!missing(given).includes('training.seq'))

  const kept = read(picotron, { seq: 128 })
  equal(field(kept, 'training.seq'), 64)
  ok(notes(kept, 'notCarried').includes('notCarried --seq'))
})

test('NAME=value is an environment variable of the script; other words stay its arguments', async () => {
  const script =
    'torchrun --nproc_per_node 2 pretrain_gpt.py --num-layers $LAYERS --hidden-size $1 --num-attention-heads 4 --seq-length 32 ' +
    '--max-position-embeddings 32 --micro-batch-size 1 --global-batch-size 4 --lr 1e-4 --train-iters 10 --vocab-size 64'
  const { out } = await lockstep(['import', 'train.sh', 'LAYERS=3', '64', '--json'], { 'train.sh': script })
  const { model } = JSON.parse(out).job
  deepEqual([model.layers, model.embed], [3, 64])
})
