/** Accelerate's plugin for Megatron-LM. Its defaults depend on its age. */
import { modelGiven } from '../given-model.js'
import type { Given } from '../note.js'
import type { Reading } from '../reading.js'
import { deriveBatch } from '../tokens.js'
import { type Trainer, trainerOptimizer, trainerSteps } from '../trainer.js'

const at = (key: string): string => `megatron_lm_config.megatron_lm_${key}`

export function readMegatronPlugin(r: Reading, given: Given & { readonly world: number }, trainer: Trainer): void {
  const { world } = given
  const size = (key: string, field: string): number => {
    const value = r.whole(at(key), 1)
    if (value === undefined) r.assume(at(key), field, 1, "1 is the default of Accelerate's plugin")
    else r.carry(at(key), field, value)
    return value ?? 1
  }
  const [tp, pp] = [size('tp_degree', 'plan.tp'), size('pp_degree', 'plan.pp')]
  const cp = contextRanks(r)
  const ep = r.whole(at('expert_model_parallel_size'), 1)
  if (ep !== undefined) r.carry(at('expert_model_parallel_size'), 'plan.ep', ep)
  const dp = world / (tp * pp * cp)
  if (!Number.isInteger(dp)) {
    r.refuse(at('tp_degree'), `tp ${tp} x pp ${pp} x cp ${cp} does not divide num_processes ${world}`)
    return
  }
  r.derive('num_processes', 'plan.dp', dp, `dp ${dp} = num_processes ${world} / (tp ${tp} x pp ${pp} x cp ${cp})`)
  readSettings(r, tp)
  readChunks(r, pp, modelGiven(given)?.layers)
  readBatch(r, trainer, dp)
  trainerSteps(r, trainer)
  trainerOptimizer(r, trainer)
  r.missing('training.seq', 'the sequence length is not in this file: pass --seq')
}

function contextRanks(r: Reading): number {
  const said = r.whole(at('context_parallel_size'), 1)
  if (said !== undefined) r.carry(at('context_parallel_size'), 'plan.cp', said)
  else {
    r.assume(
      at('context_parallel_size'),
      'plan.cp',
      1,
      'the default of the plugin up to 1.12; Accelerate 1.15 defaults to 2',
    )
    r.missing('plan.cp', 'its meaning depends on the version of Accelerate: write megatron_lm_context_parallel_size')
  }
  return said ?? 1
}

function readSettings(r: Reading, tp: number): void {
  const sequence = r.bool(at('sequence_parallelism')) ?? false
  r.carry(
    at('sequence_parallelism'),
    'plan.sequenceParallel',
    sequence && tp > 1,
    sequence && tp === 1 ? 'it has no effect with tp 1' : '',
  )
  const split = r.bool(at('use_distributed_optimizer')) ?? false
  r.carry(at('use_distributed_optimizer'), 'plan.zero', split ? 1 : 0)
  const clip = r.number(at('gradient_clipping'))
  if (clip !== undefined) r.carry(at('gradient_clipping'), 'training.clip', clip || undefined)
  else r.assume(at('gradient_clipping'), 'training.clip', 1, "1.0 is the default of Accelerate's plugin")
  readRecompute(r)
}

/** Interleaved stages, of so many layers each. */
function readChunks(r: Reading, pp: number, layers: number | undefined): void {
  const path = at('num_layers_per_virtual_pipeline_stage')
  const each = r.whole(path)
  if (!each) return
  if (layers === undefined) {
    r.drop(path, 'the number of interleaved stages depends on the layers of the model: set --model')
    return
  }
  const chunks = layers / pp / each
  if (!Number.isInteger(chunks)) r.refuse(path, `layers ${layers} / pp ${pp} / ${each} = ${chunks}, must be an integer`)
  else r.derive(path, 'plan.chunks', chunks, `chunks ${chunks} = layers ${layers} / pp ${pp} / ${each}`)
  if (chunks > 1) r.set('plan.schedule', 'interleaved')
}

function readRecompute(r: Reading): void {
  const granularity = r.word(at('recompute_granularity'))
  if (granularity !== undefined) {
    if (granularity !== 'full' && granularity !== 'selective')
      r.refuse(at('recompute_granularity'), `expected full or selective, got ${granularity}`)
    r.carry(at('recompute_granularity'), 'plan.recompute', granularity)
    r.cosmetic(at('recompute_activations'))
    return
  }
  const asked = r.bool(at('recompute_activations')) ?? false
  if (asked)
    r.carry(
      at('recompute_activations'),
      'plan.recompute',
      'selective',
      'as in older plugins; the plugin of Accelerate 1.15 always uses full recomputation',
    )
  else
    r.assume(
      at('recompute_activations'),
      'plan.recompute',
      'none',
      'as in older plugins; the plugin of Accelerate 1.15 always uses full recomputation',
    )
}

function readBatch(r: Reading, trainer: Trainer, dp: number): void {
  const microbatches = r.whole(at('num_micro_batches'), 1) ?? 1
  r.carry(at('num_micro_batches'), 'plan.microbatches', microbatches)
  if (!trainer.says('per_device_train_batch_size')) {
    r.missing('training.globalBatch', 'the microbatch size is not in the file: --trainer per_device_train_batch_size=2')
    return
  }
  deriveBatch(r, '--trainer', [
    ['per_device_train_batch_size', trainer.number('per_device_train_batch_size') ?? 1],
    ['num_micro_batches', microbatches],
    ['dp', dp],
  ])
}
