/** Fields that people type from habit are answered with ours, and with the value converted. */
import { equal, match, ok } from 'node:assert/strict'
import { test } from 'node:test'
import { parseJob } from '../src/plan/index.js'

const job = (section: string, line: string) =>
  parseJob(
    JSON.stringify({
      model: { family: 'gpt', layers: 8, embed: 16, heads: 4, vocab: 32, ...given('model', section, line) },
      training: {
        seq: 16,
        globalBatch: 64,
        steps: 200,
        optimizer: { kind: 'adamw', lr: 1e-3 },
        ...given('training', section, line),
      },
      plan: { dp: 2, pp: 2, ...given('plan', section, line) },
      data: { ...given('data', section, line) },
      ...given('', section, line),
    }),
  )

const given = (name: string, section: string, line: string): object => {
  const [, key, value] = /^([^:]+): (.*)$/.exec(line) ?? []
  return name === section ? { [key]: JSON.parse(value) } : {}
}

/** section | what was typed -> what is suggested */
const rows = `
plan | gradient_accumulation_steps: 8 -> write \`microbatches: 8\`
plan | per_device_train_batch_size: 4 -> write \`microbatches: 8\`
plan | train_micro_batch_size_per_gpu: 5 -> did you mean \`microbatches\`?
training | gradient_accumulation_steps: 8 -> write \`plan.microbatches: 8\`
 | data_parallel_size: 4 -> write \`plan.dp: 4\`
plan | data_parallel_shard_degree: 4 -> write \`dp: 4\` and \`zero: 3\`
plan | tensor-model-parallel-size: 2 -> write \`tp: 2\`
plan | pipeline_parallel_degree: 2 -> write \`pp: 2\`
plan | ulysses_sequence_parallel_size: 2 -> write \`cp: 2\` and \`attention: ulysses\`
plan | cp_comm_type: "p2p" -> write \`attention: ring\`
plan | expert_tensor_parallel_size: 1 -> write \`etp: 1\`
plan | virtual_pipeline_model_parallel_size: 2 -> write \`chunks: 2\`
plan | num_layers_per_virtual_pipeline_stage: 2 -> write \`chunks: 2\`
plan | decoder_first_pipeline_num_layers: 3 -> write \`layers.first: 3\`
plan | zero_optimization: {"stage":2} -> write \`zero: 2\`
plan | sharding_strategy: "FULL_SHARD" -> write \`zero: 3\`
plan | fsdp: "shard_grad_op auto_wrap" -> write \`zero: 3\` and \`gather: step\`
plan | fsdp: "full_shard auto_wrap" -> write \`zero: 3\`
plan | use_distributed_optimizer: true -> write \`zero: 1\`
plan | reshard_after_forward: false -> write \`gather: step\`
 | fp16: true -> write \`plan.precision: f16\`
 | fp16: {"enabled":true} -> write \`plan.precision: f16\`
 | bf16: true -> write \`plan.precision: bf16\`
 | bf16: false -> did you mean \`plan.precision\`?
plan | mixed_precision: "bf16" -> write \`precision: bf16\`
plan | torch_dtype: "torch.bfloat16" -> write \`precision: bf16\`
plan | grad_reduce_in_bf16: true -> write \`gradients: bf16\`
plan | accumulate_allreduce_grads_in_fp32: true -> write \`gradients: f32\`
plan | fp8_recipe: "tensorwise" -> write \`fp8.recipe: current\`
plan | gradient_checkpointing: true -> write \`recompute: full\`
plan | activation_checkpoint: {"mode":"selective"} -> write \`recompute: selective\`
plan | recompute_activations: true -> write \`recompute: selective\`
plan | bucket_cap_mb: 25 -> write \`bucket: 25MiB\`
plan | offload_optimizer: {"device":"cpu"} -> write \`offload.optimizer: host\`
plan | offload_param: {"device":"nvme"} -> write \`offload.parameters: disk\`
plan | cpu_offload: true -> did you mean \`offload\`? ({ optimizer: host or disk
plan | use_tp_pp_dp_mapping: true -> write \`rankOrder: tp-cp-ep-pp-dp\`
plan | flash_attention: true -> leave it out
plan | world_size: 8 -> dp x cp x tp x pp
training | learning_rate: 0.0003 -> write \`optimizer.lr: 0.0003\`
training | betas: [0.9,0.95] -> write \`optimizer.beta1: 0.9\` and \`optimizer.beta2: 0.95\`
training | adam_epsilon: 1e-8 -> write \`optimizer.eps: 1e-8\`
training | weight_decay: 0.1 -> write \`optimizer.weightDecay: 0.1\`
model | n_head: 4 -> write \`heads: 4\`
training | global_batch: 4 -> write \`globalBatch: 4\`
plan | lr: 0.1 -> write \`training.optimizer.lr: 0.1\`
training | warmup_steps: 10 -> write \`lrSchedule.warmup: 10\`
training | warmup_ratio: 0.05 -> write \`lrSchedule.warmup: 10\`
training | min_lr_ratio: 0.1 -> write \`lrSchedule.minLr: 0.0001\`
training | lr_scheduler_type: "constant_with_warmup" -> write \`lrSchedule.kind: constant\`
training | lr_decay_iters: 100 -> write \`lrSchedule.decaySteps: 100\`
training | max_steps: 500 -> write \`steps: 500\`
training | train_samples: 6400 -> write \`steps: 100\`
training | num_train_epochs: 3 -> did you mean \`steps\`? (a run is N steps
training | max_grad_norm: 1 -> write \`clip: 1\`
training | initial_scale_power: 16 -> write \`lossScale.initial: 65536\`
training | rampup_batch_size: [16,16,1000] -> did you mean \`batchRamp\`?
training | max_seq_length: 4096 -> write \`seq: 4096\`
training | optim: "adamw_torch_fused" -> write \`optimizer.kind: adamw\`
training | save_steps: 500 -> lockstep train --save FOLDER
training | eval_interval: 100 -> write \`evalEvery: 100\`
training | seed_everything: 1 -> one of
model | num_hidden_layers: 4 -> write \`layers: 4\`
model | hidden_size: 64 -> write \`embed: 64\`
model | untie_embeddings_and_output_weights: true -> write \`tied: false\`
model | ffn_hidden_size: 64 -> write \`ffn: 64\`
model | num_experts_per_tok: 2 -> write \`moe.topK: 2\`
model | kv_lora_rank: 512 -> write \`mla.kvLoraRank: 512\`
model | rotary_base: 500000 -> write \`ropeTheta: 500000\`
model | swiglu: true -> llama has RMSNorm and SwiGLU
data | data_path: "books" -> write \`source: books\`
data | tokenizer_model: "tokenizer.json" -> write \`tokenizer: tokenizer.json\`
`
  .trim()
  .split('\n')

for (const row of rows)
  test(row, () => {
    const [, section, line, hint] = /^(\w*) \| (.*) -> (.*)$/.exec(row) ?? []
    const { problems } = job(section, line)
    const found = problems.filter(({ code }) => code === 'schema/key')
    equal(found.length, 1, JSON.stringify(problems))
    ok(found[0].suggestion?.includes(hint), found[0].suggestion)
  })

test('a value that the field does not take is not suggested', () => {
  match(job('plan', 'zero_stage: 5').problems[0].suggestion ?? '', /^did you mean `zero`\?/)
  match(job('plan', 'tensor_parallel_size: "many"').problems[0].suggestion ?? '', /^did you mean `tp`\?/)
})
