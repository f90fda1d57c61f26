/** Damaged configurations: whatever is in them, there is an answer, and each refusal names a key or a line. */
import { ok } from 'node:assert/strict'
import process from 'node:process'
import { importConfig } from '../src/interop/index.js'
import type { ForeignFramework } from '../src/plan/index.js'
import { test } from './families.js'

const files: Readonly<Partial<Record<ForeignFramework, string>>> = {
  deepspeed: `{ "train_batch_size": 64, "train_micro_batch_size_per_gpu": 2,
  "zero_optimization": { "stage": 3, "offload_param": { "device": "cpu" }, "reduce_bucket_size": 5e8 },
  "fp16": { "enabled": true, "initial_scale_power": 16 }, "gradient_clipping": 1.0,
  "optimizer": { "type": "AdamW", "params": { "lr": 1e-4, "betas": [0.9, 0.95] } },
  "scheduler": { "type": "WarmupDecayLR", "params": { "warmup_num_steps": 10, "total_num_steps": 100 } } }`,
  accelerate: `distributed_type: FSDP
num_processes: 8
mixed_precision: bf16
fsdp_config:
  fsdp_version: 2
  fsdp_reshard_after_forward: true
parallelism_config:
  parallelism_config_dp_shard_size: 4
  parallelism_config_tp_size: 2
`,
  torchtitan: `[model]
name = "llama3"
flavor = "8B"
[training]
local_batch_size = 8
seq_len = 2048
[lr_scheduler]
warmup_steps = 20
decay_ratio = 0.5
[parallelism]
tensor_parallel_degree = 2
pipeline_parallel_degree = 2
pipeline_parallel_layers_per_stage = 17
`,
  nanotron: `parallelism: { dp: 2, tp: 2, pp: 2, tp_mode: REDUCE_SCATTER }
tokens: { sequence_length: 64, micro_batch_size: 2, batch_accumulation_per_replica: 4, train_steps: 10 }
model: { dtype: bfloat16, model_config: { hidden_size: 64, intermediate_size: 128, num_hidden_layers: 4, num_attention_heads: 4, vocab_size: 128 } }
optimizer:
  zero_stage: 1
  learning_rate_scheduler: { learning_rate: 1e-3, min_decay_lr: 0 }
`,
  picotron: `{ "distributed": { "tp_size": 2, "cp_size": 1, "pp_size": 2, "dp_size": 2, "pp_engine": "afab" },
  "model": { "name": "a/b", "num_hidden_layers": 4 },
  "training": { "seq_length": 64, "micro_batch_size": 2, "gradient_accumulation_steps": 4, "learning_rate": 3e-4 } }`,
}

const values = [
  '-1',
  '0',
  '1e308',
  '99999999999',
  '"text"',
  'null',
  '[1, 2]',
  '{ "a": { } }',
  '"auto"',
  'nan',
  '1.5',
  '""',
  '"\\u0000"',
]

function damaged(text: string, seed: number): string {
  const at = (seed * 7919) % text.length
  const lines = text.split('\n')
  const numbers = [...text.matchAll(/(?<=[:=] ?)"?[\w.+-]+"?/g)]
  const number = numbers[seed % numbers.length]
  switch (seed % 6) {
    case 0:
      return text.slice(0, at) + String.fromCharCode(32 + (seed % 95)) + text.slice(at + 1)
    case 1:
      return lines.filter((_, i) => i !== seed % lines.length).join('\n')
    case 2:
      return text.slice(0, at)
    case 3:
      return text.slice(0, at) + '[{'.repeat(seed % 300) + text.slice(at)
    default:
      return text.slice(0, number.index) + values[seed % values.length] + text.slice(number.index + number[0].length)
  }
}

const count = Number(process.env.LOCKSTEP_MUTATIONS ?? 100)

for (const [framework, text] of Object.entries(files) as [ForeignFramework, string][])
  test(`${framework}: ${count} damaged files (seeds 1 on)`, () => {
    for (let seed = 1; seed <= count; seed++) {
      const imported = importConfig(damaged(text, seed), { world: 8 }, framework)
      const refusals = imported.notes.filter(({ kind }) => kind === 'refused')
      ok(imported.job || refusals.length > 0, `seed ${seed}: no job and no refusal`)
      for (const { path, line, message } of refusals)
        ok(path !== '' || line !== undefined, `seed ${seed}: ${message} names neither key nor line`)
    }
  })
