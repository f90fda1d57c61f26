/** torchtitan's TOML of four generations, with options of its command line above it, and the JSON it saves. */
import { counted } from '../../base/index.js'
import { isMapping } from '../../plan/index.js'
import { modelGiven } from '../given-model.js'
import type { Given, Imported, Reader } from '../note.js'
import { functionsOf } from '../python/index.js'
import { booleanOf, type KeyTable, numberOf, Reading } from '../reading.js'
import { mostText, readTree, type Tree } from '../tree.js'
import { type Keys, keysOf } from './keys.js'
import { flavorsOf, modelOf } from './models.js'
import { readNumbers } from './numbers.js'
import { registryOf } from './registry.js'
import { readStages } from './stages.js'

export const known: KeyTable = {
  ...Object.fromEntries(
    'job profiling metrics checkpoint comm memory_estimation fault_tolerance validation experimental debug compile'
      .split(' ')
      .map(key => [key, '']),
  ),
  'training.compile': '',
  'training.dataset': 'set data.source',
  'training.dataset_path': 'set data.source',
  'training.gc_freq': '',
  'training.gc_debug': '',
  'training.enable_fused_rmsnorm': '',
  'training.deterministic': '',
  'training.enable_cpu_offload': 'parameters, gradients and optimizer state are offloaded to the host',
  'training.enable_loss_parallel': '',
  'training.disable_loss_parallel': '',
  'parallelism.disable_loss_parallel': '',
  'parallelism.enable_compiled_autograd': '',
  'parallelism.enable_async_tensor_parallel':
    'async TP (matmuls and collectives in chunks): Lockstep overlaps without chunking',
  'experimental.enable_async_tensor_parallel':
    'async TP (matmuls and collectives in chunks): Lockstep overlaps without chunking',
  'parallelism.module_fqns_per_model_part': 'modules of each stage by name: set plan.layers',
  'parallelism.pipeline_parallel_expert_parallel_overlap': '',
  'parallelism.expert_parallel_comm_backend': '',
  'optimizer.implementation': '',
  'optimizer.early_step_in_backward': 'optimizer in backward is not supported: affects memory',
  'optimizer.fused': '',
  'model.*': '',
  'activation_checkpoint.*': '',
}

export const readTorchtitan: Reader = (text, given, format) => {
  if (format === 'python') return ofRegistry(text, given)
  const r = new Reading(
    { framework: 'torchtitan', format },
    overridden(readTree(text, format === 'json' ? 'json' : 'toml'), given.args ?? []),
  )
  if (!r.refused) readConfig(r, given)
  return r.finish(known, 'torchtitan rejects unknown keys')
}

/** A Python registry: the function that is asked for, as far as it says things itself. */
function ofRegistry(text: string, given: Given): Imported {
  const source = { framework: 'torchtitan', format: 'python' } as const
  const names = text.length > mostText ? [] : [...functionsOf(text).keys()]
  const name = given.function ?? (names.length === 1 ? names[0] : undefined)
  const found = name !== undefined && names.includes(name) ? registryOf(text, name, given) : undefined
  if (!found) {
    const r = new Reading(source, { value: {}, lineOf: () => 1, twice: [], refused: [] })
    const which = `--function names one (${names.slice(0, 4).join(', ')})`
    r.refuse(
      'model_spec',
      `a Python program, which is not executed: ${which}; or use the file that --debug.save_config_file writes`,
    )
    return r.finish()
  }
  const r = new Reading(source, overridden(found.tree, given.args ?? []))
  readConfig(r, given)
  found.explain(r)
  return r.finish(known, 'torchtitan rejects unknown keys')
}

/** `--section.key value`, `--section.key=value`, and booleans as `--section.key` or `--section.no_key`. */
function overridden(tree: Tree, args: readonly string[]): Tree {
  if (!isMapping(tree.value) || args.length === 0) return tree
  const value = JSON.parse(JSON.stringify(tree.value)) as Record<string, unknown> // a mapping of its own
  for (let at = 0; at < args.length; at++) {
    const [, path, joined] = /^--([\w.-]+)(?:=(.*))?$/s.exec(args[at]) ?? []
    if (path === undefined)
      return { ...tree, refused: [{ path: args[at], line: 1, message: 'expected an option such as --training.steps' }] }
    const follows = joined ?? (args[at + 1]?.startsWith('--') === false ? args[++at] : undefined)
    const off = follows === undefined && /(^|\.)no_(?=[^.]+$)/.test(path)
    put(
      value,
      path.replace(/(^|\.)no_(?=[^.]+$)/, off ? '$1' : '$&').replaceAll('-', '_'),
      follows === undefined ? !off : literal(follows),
    )
  }
  return { ...tree, value }
}

function put(value: Record<string, unknown>, path: string, given: unknown): void {
  const keys = path.split('.')
  let at = value
  for (const key of keys.slice(0, -1)) at = (isMapping(at[key]) ? at[key] : (at[key] = {})) as Record<string, unknown> // made here
  at[keys[keys.length - 1]] = given
}

const literal = (word: string): unknown => numberOf(word) ?? (/^(true|false)$/i.test(word) ? booleanOf(word) : word)

function readConfig(r: Reading, given: Given): void {
  const keys = keysOf(r)
  const layers = readModel(r, given)
  const mesh = readMesh(r, keys, given)
  if (!mesh) return
  readStages(r, keys, mesh.pp, layers)
  readBatch(r, keys, mesh)
  readSharding(r, keys, mesh)
  readNumbers(r, keys)
}

interface Mesh {
  readonly tp: number
  readonly pp: number
  readonly cp: number
  readonly dp: number
  readonly shard: number
}

/** replicate x shard x cp x tp x pp = world, exactly. */
function readMesh(r: Reading, keys: Keys, { world }: Given): Mesh | undefined {
  const size = (name: string) => r.whole(keys.of(name), 1) ?? 1
  const names = [
    'tensor_parallel_degree',
    'pipeline_parallel_degree',
    'context_parallel_degree',
    'data_parallel_replicate_degree',
  ] as const
  const [tp, pp, cp, replicate] = names.map(size)
  const shardKey =
    keys.generation === 'A' && !r.has(keys.of('data_parallel_shard_degree'))
      ? keys.of('data_parallel_degree')
      : keys.of('data_parallel_shard_degree')
  const said = r.number(shardKey) ?? -1
  const others = replicate * cp * tp * pp
  const words = `dp_replicate ${replicate} x cp ${cp} x tp ${tp} x pp ${pp}`
  if (world === undefined && said === -1) {
    r.refuse(shardKey, `-1 means all remaining ranks, and the world size is not in the file: set --devices`)
    return undefined
  }
  const shard = said === -1 ? (world ?? 0) / others : said
  if (!Number.isInteger(shard) || shard < 1 || (world !== undefined && shard * others !== world)) {
    r.refuse(
      shardKey,
      said === -1
        ? `world ${world} / (${words}) is not an integer`
        : `dp_shard ${said} x ${words} = ${said * others}, not world ${world}`,
    )
    return undefined
  }
  r.world = world ?? shard * others
  const dp = replicate * shard
  r.derive(
    shardKey,
    'plan.dp',
    dp,
    `dp ${dp} = dp_replicate ${replicate} x dp_shard ${shard}${said === -1 ? `, and dp_shard = world ${world} / (${words})` : ''}`,
  )
  const fields = ['plan.tp', 'plan.pp', 'plan.cp']
  for (const [i, field] of fields.entries())
    if (r.has(keys.of(names[i]))) r.carry(keys.of(names[i]), field, [tp, pp, cp][i])
  const replicateKey = keys.of('data_parallel_replicate_degree')
  if (replicate > 1 && shard * cp > 1)
    r.carry(replicateKey, 'plan.shard', shard, `HSDP: groups of dp_shard ${shard} ranks, ${replicate} replicas`)
  else if (r.has(replicateKey)) r.carry(replicateKey, 'plan.dp', undefined)
  readSequence(r, keys, tp, cp)
  return { tp, pp, cp, dp, shard }
}

function readSequence(r: Reading, keys: Keys, tp: number, cp: number): void {
  const path = 'parallelism.enable_sequence_parallel'
  const said = r.bool(path) ?? true
  r.assume(
    r.has(path) ? path : keys.of('tensor_parallel_degree'),
    'plan.sequenceParallel',
    said && tp > 1,
    'torchtitan always uses sequence parallelism with tensor parallelism',
  )
  const rotate = keys.of('context_parallel_rotate_method')
  const attention = r.choice(rotate, { allgather: 'gather', alltoall: 'ring' }, 'keys are gathered')
  if (cp === 1) r.cosmetic(rotate)
  else if (attention !== undefined) r.carry(rotate, 'plan.attention', attention)
  else if (r.has(rotate)) r.set('plan.attention', 'gather')
  else r.carry(rotate, 'plan.attention', 'gather', 'allgather is the default of torchtitan')
  for (const [name, field] of [
    ['expert_parallel_degree', 'plan.ep'],
    ['expert_tensor_parallel_degree', 'plan.etp'],
  ] as const) {
    const size = r.whole(keys.of(name), 1)
    if (size !== undefined) r.carry(keys.of(name), field, size)
  }
}

function readBatch(r: Reading, keys: Keys, { pp, dp }: Mesh): void {
  const localKey =
    r.has('training.local_batch_size') || keys.generation === 'D' ? 'training.local_batch_size' : 'training.batch_size'
  const local = r.whole(localKey, 1) ?? 8
  const said = r.number('training.global_batch_size') ?? -1
  const batch = said === -1 ? local * dp : said
  const steps = batch / (local * dp)
  if (!Number.isInteger(steps) || steps < 1) {
    r.refuse(
      'training.global_batch_size',
      `global_batch_size ${batch} is not a multiple of ${localKey.split('.')[1]} ${local} x dp ${dp}`,
    )
    return
  }
  if (said === -1) r.cosmetic('training.global_batch_size')
  if (said === -1)
    r.derive(
      localKey,
      'training.globalBatch',
      batch,
      `local batch ${local}${r.has(localKey) ? '' : ' (the default of torchtitan)'} x dp ${dp} = ${batch}`,
    )
  else r.carry('training.global_batch_size', 'training.globalBatch', batch)
  const pieces = piecesOf(r, keys, { pp, local })
  if (pieces === undefined) return
  r.derive(
    localKey,
    'plan.microbatches',
    steps * pieces,
    `${counted(steps, 'accumulation step')} x ${counted(pieces, 'microbatch')} of a pipeline = ${steps * pieces}`,
  )
  if (pp > 1 && steps > 1)
    r.drop(
      'training.global_batch_size',
      `the pipeline drains after each of ${steps} accumulation steps; Lockstep runs one pipeline per step`,
    )
}

/** Microbatches that a local batch is cut into, for a pipeline. */
function piecesOf(r: Reading, keys: Keys, { pp, local }: { pp: number; local: number }): number | undefined {
  const old = 'experimental.pipeline_parallel_microbatches'
  const path = keys.of('pipeline_parallel_microbatch_size')
  if (pp === 1) {
    r.cosmetic(old, path)
    return 1
  }
  const early = keys.generation === 'A' || keys.generation === 'B'
  const pieces = early ? (r.whole(old, 1) ?? pp) : local / (r.whole(path, 1) ?? 1)
  const key = early ? old : path
  if (!Number.isInteger(pieces) || local % pieces !== 0) {
    r.refuse(key, `a local batch of ${local} cannot be split that way`)
    return undefined
  }
  r.carry(
    key,
    'plan.microbatches',
    undefined,
    early ? `${pieces} microbatches` : `local batch ${local} in microbatches of ${local / pieces}`,
  )
  return pieces
}

/** FSDP2: parameters, gradients and states split, gathered for every use unless there is a pipeline. */
function readSharding(r: Reading, keys: Keys, { pp, cp, shard }: Mesh): void {
  const split = shard > 1 || cp > 1
  r.assume(
    keys.of('data_parallel_shard_degree'),
    'plan.zero',
    split ? 3 : 0,
    split ? 'FSDP2 shards parameters, gradients and optimizer state' : 'nothing to shard with one rank',
  )
  const path = keys.of('fsdp_reshard_after_forward')
  const word = r.word(path) ?? 'default'
  const gather = word === 'always' || (word === 'default' && pp === 1) ? 'use' : 'step'
  if (!['default', 'always', 'never'].includes(word)) r.refuse(path, `expected default, always or never, got ${word}`)
  else if (!split) r.cosmetic(path)
  else
    r.derive(
      path,
      'plan.gather',
      gather,
      word === 'default'
        ? `default: ${pp > 1 ? 'gathered once per step, because of the pipeline' : 'gathered at every use'}`
        : word,
    )
  if (r.bool('training.enable_cpu_offload'))
    r.carry(
      'training.enable_cpu_offload',
      'plan.offload',
      { optimizer: 'host', parameters: 'host' },
      'parameters, gradients and optimizer state are offloaded to the host',
    )
}

/** Sizes come from name and flavor. Returns the number of layers. */
function readModel(r: Reading, { model: given }: Given): number | undefined {
  const name = r.word('model.name')
  const flavor = r.word('model.flavor') ?? 'debugmodel'
  if (given !== undefined || name === undefined) {
    if (name !== undefined) r.drop('model', '--model overrides it')
    return modelGiven({ model: given })?.layers
  }
  const model = modelOf(name, flavor)
  if (!model) {
    const flavors = flavorsOf(name)
    r.drop(
      'model.name',
      flavors.length > 0
        ? `flavor ${flavor} is none of ${flavors.join(', ')}`
        : `the sizes of ${name} ${flavor} are unknown to Lockstep`,
    )
    return undefined
  }
  r.carry('model.name', 'model', model, `sizes of ${name} ${flavor}`)
  r.carry('model.flavor', 'model', undefined)
  const norm = r.word('model.norm_type')
  if (norm !== undefined && norm !== 'rmsnorm') r.drop('model.norm_type', `a llama has RMSNorm, not ${norm}`)
  return model.layers
}
