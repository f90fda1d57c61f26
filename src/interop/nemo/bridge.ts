/** Megatron-Bridge: the configuration a run saves, a part of one that stands above a recipe, or what a recipe sets in so many words. */
import { type ForeignFormat, isMapping } from '../../plan/index.js'
import { flagNames } from '../megatron/flags.js'
import { readMeaning } from '../megatron/meaning.js'
import { isWithout, restOf } from '../megatron/rest.js'
import { Terms } from '../megatron/terms.js'
import type { Given, Imported, Reader } from '../note.js'
import { followFunction, functionsOf, literals } from '../python/index.js'
import { booleanOf, type KeyTable, Reading } from '../reading.js'
import { mostText, readTree, type Tree } from '../tree.js'
import { bridgeParts, bridgePaths } from './paths.js'
import { isPrecision, precisionTerms } from './precision.js'

/** No step is another one for these. */
const known: KeyTable = Object.fromEntries(
  (
    'logger checkpoint dataset tokenizer rng profiling validation rerun_state_machine env_vars comm_overlap nvrx_straggler ft ' +
    'inprocess_restart straggler tensor_inspect mixed_precision _target_ *._target_ *._call_ *._args_ *._partial_ train.eval_* ' +
    'train.exit_* ddp.check_for_* model.pipeline_dtype model.persist_layer_norm model.hf_model_* model.should_pad_vocab dist.enable_* train.manual_gc* train.check_* train.empty_unused_memory_level dist.distributed_* dist.local_rank'
  )
    .split(' ')
    .map(key => [key, '']),
)

/** What keys are where nobody has set them, as far as nothing else is known of them. */
const neutral: Readonly<Record<string, unknown>> = {
  ...{ 'model.mtp_loss_scaling_factor': 0.1, 'model.softmax_type': 'vanilla', 'model.glu_linear_offset': 0 },
  ...{ 'model.parallel_output': true, 'model.perform_initialization': true, 'model.attention_softmax_in_fp32': true },
  ...{ 'model.batch_p2p_comm': true, 'model.batch_p2p_sync': true, 'model.deallocate_pipeline_outputs': true },
  ...{ 'model.scatter_embedding_sequence_parallel': true, 'model.clone_scatter_output_in_embedding': true },
  ...{ 'model.masked_softmax_fusion': true, 'model.cpu_offloading_activations': true, 'model.config_logger_dir': '' },
  ...{ 'model.bias_dropout_fusion': true, 'model.bias_activation_fusion': true, 'model.apply_rope_fusion': true },
  ...{ 'model.rope_scaling_factor': 1, 'model.barrier_with_L1_time': true, 'model.num_layers_at_start_in_bf16': 1 },
  ...{ 'model.num_layers_at_end_in_bf16': 1, 'model.use_mamba_mem_eff_path': true, 'model.mup_width_mult': 1 },
  ...{ 'optimizer.store_param_remainders': true, 'optimizer.decoupled_weight_decay': true },
  ...{ 'optimizer.pin_cpu_grads': true, 'optimizer.pin_cpu_params': true, 'optimizer.optimizer_offload_fraction': 0 },
  ...{ 'scheduler.weight_decay_incr_style': 'constant', 'scheduler.lr_warmup_init': 0 },
  ...{ 'scheduler.use_checkpoint_opt_param_scheduler': true, 'scheduler.override_opt_param_scheduler': true },
}

/** Settings of kinds of layers and optimizers that a model without them carries along. */
const ofOthers =
  /^model\.(mamba|linear|dsa|gdp|mhc|qk_clip|moe_paged|moe_hybridep|inference|kitchen|fp4|fp8|mup|batch_invariant)_|^optimizer\.(muon|soap|lion|adaptive|sgd)_/

/** Where a flag of Megatron stands: under the part that has a key of its name, unless it is written in other words. */
const pathsIn =
  (r: Reading) =>
  (term: string): string => {
    const key = term.replaceAll('-', '_')
    return bridgePaths[term] ?? `${bridgeParts.find(part => r.has(`${part}.${key}`)) ?? 'model'}.${key}`
  }

export const readBridge: Reader = (text, given, format) => {
  const source = { framework: 'bridge', format } as const
  if (format === 'python') return ofRecipe(text, given)
  if (format !== 'yaml' && format !== 'json') return unread(format, 'cfg', 'use run_config.yaml of a checkpoint')
  return ofTree(new Reading(source, readTree(text, 'yaml')), given)
}

function ofTree(reading: Reading, given: Given): Imported {
  if (!reading.refused) {
    const t = new Terms(reading, pathsIn(reading), { of: 'the recipe', value: () => undefined }, valuesOf(reading))
    readMeaning(t, given)
    readDecay(reading)
    readActivation(reading)
    passOver(reading)
  }
  return reading.finish({ ...known, ...told }, 'a key of Bridge without a job field')
}

const told: KeyTable = Object.fromEntries(
  bridgeParts.flatMap(part => Object.entries(restOf(name => `${part}.${name.replaceAll('-', '_')}`))),
)

function passOver(r: Reading): void {
  const idle = (path: string, key: string): boolean =>
    (Object.hasOwn(neutral, path) && r.raw(path) === neutral[path]) ||
    isWithout(key.replaceAll('_', '-')) ||
    (key.startsWith('moe_') && !r.has('model.num_moe_experts')) ||
    (ofOthers.test(path) && !r.has('model.fp4') && !r.has('model.experimental_attention_variant'))
  for (const part of bridgeParts)
    for (const key of r.keys(part)) {
      const path = `${part}.${key}`
      if (!r.isNoted(path) && idle(path, key)) r.cosmetic(path)
    }
  r.switchedOff()
}

/** The scheduler sets weight decay at each step, whatever the optimizer was told. */
function readDecay(r: Reading): void {
  const [first, last] = ['start', 'end'].map(which => r.number(`scheduler.${which}_weight_decay`))
  if (last === undefined) return
  const style = r.word('scheduler.weight_decay_incr_style') ?? 'constant'
  const own = r.raw('optimizer.weight_decay')
  r.carry(
    'scheduler.end_weight_decay',
    'training.optimizer.weightDecay',
    last,
    own === last ? '' : `the scheduler sets it at each step; optimizer.weight_decay ${own ?? ''} has no effect`,
  )
  if (style !== 'constant' && first !== last)
    r.drop(
      'scheduler.weight_decay_incr_style',
      `weight-decay schedule from ${first} to ${last} (${style}) is not supported`,
    )
  r.seen('scheduler.start_weight_decay', 'scheduler.weight_decay_incr_style')
}

/** A gate of another kind than SwiGLU's, and what is neither that nor GELU. */
function readActivation(r: Reading): void {
  const path = 'model.activation_func'
  const raw = r.raw(path)
  const name = String((isMapping(raw) ? raw._target_ : raw) ?? '').replace(/^.*\./, '')
  const wanted = booleanOf(r.raw('model.gated_linear_unit')) ? /^(silu|swish)$/i : /gelu$/i
  if (name !== '' && !wanted.test(name)) r.drop(path, `${name} is not supported by any model family`)
  else if (raw !== undefined) r.cosmetic(path)
}

/** A recipe is a program: its literals are read, and what it leaves to others is named. */
function ofRecipe(text: string, given: Given): Imported {
  const surely = 'or use run_config.yaml, which is in every checkpoint'
  if (text.length > mostText) return unread('python', 'cfg', `too long for a recipe; ${surely}`)
  const names = [...functionsOf(text).keys()]
  const name = given.function ?? (names.length === 1 ? names[0] : undefined)
  if (name === undefined || !names.includes(name))
    return unread('python', '--function', `one of ${names.slice(0, 20).join(', ') || 'none'}; ${surely}`)
  const { value, lineOf, remarks } = followFunction(text, name, {
    ...{ given: literals(given.set), named: isPrecision },
  })
  if (!isMapping(value)) return unread('python', name, `its return value cannot be read; ${surely}`)
  const tree: Tree = { value, lineOf, twice: [], refused: [] }
  const reading = new Reading({ framework: 'bridge', format: 'python' }, tree)
  for (const { line, message } of remarks) reading.remark(`line ${line}`, line, message)
  return ofTree(reading, given)
}

const unread = (format: ForeignFormat, path: string, message: string): Imported => ({
  ...{ framework: 'bridge', format },
  notes: [{ kind: 'refused', path, line: 1, message }],
})

function valuesOf(r: Reading): ReadonlyMap<string, unknown> {
  const pathOf = pathsIn(r)
  const values = new Map<string, unknown>(
    [...flagNames, ...Object.keys(bridgePaths)].map(term => [term, r.raw(pathOf(term)) ?? undefined]),
  )
  for (const [term, value] of precisionTerms(r, 'mixed_precision')) values.set(term, value)
  if (!r.has('mixed_precision')) for (const term of ['bf16', 'fp16']) values.set(term, r.raw(`model.${term}`))
  if (r.raw('dist.use_megatron_fsdp') === true) values.set('use-megatron-fsdp', true)
  const layout = values.get('pipeline-model-parallel-layout')
  if (layout !== undefined) values.delete('num-virtual-stages-per-pipeline-rank') // the layout has them, and both may stand
  if (Array.isArray(layout)) values.set('pipeline-model-parallel-layout', layoutOf(layout))
  if (r.raw('model.should_pad_vocab') === true) {
    values.set('vocab-size', r.raw('model.vocab_size') ?? undefined)
    values.delete('padded-vocab-size')
    values.set('make-vocab-size-divisible-by', r.raw('model.make_vocab_size_divisible_by') ?? 128)
  }
  const inverted = (term: string) =>
    values.set(term, values.get(term) === undefined ? undefined : booleanOf(values.get(term)) === false)
  inverted('disable-bias-linear')
  inverted('untie-embeddings-and-output-weights')
  inverted('grad-reduce-in-bf16')
  values.set('group-query-attention', values.get('num-query-groups') !== undefined ? true : undefined)
  values.set('seq-length', r.raw('dataset.seq_length') ?? r.raw('dataset.sequence_length') ?? r.raw('model.seq_length'))
  return values
}

const letters: Readonly<Record<string, string>> = { embedding: 'E', decoder: 't', mtp: 'm', loss: 'L' }

/** Lists of layers by stage as the letters of Megatron's flag. */
const layoutOf = (stages: readonly unknown[]): string =>
  stages.map(stage => (Array.isArray(stage) ? stage.map(one => letters[String(one)] ?? '?').join('') : '?')).join('|')
