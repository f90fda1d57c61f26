/** PyTorch's FSDP, version 1 and 2, as Accelerate configures it. */
import type { Reading } from '../reading.js'
import { booleanOf, wordOf } from '../reading.js'

const at = (key: string): string => `fsdp_config.fsdp_${key}`

const strategies: Readonly<Record<string, readonly [zero: number, gather?: 'step']>> = {
  FULL_SHARD: [3],
  SHARD_GRAD_OP: [3, 'step'],
  NO_SHARD: [0],
  HYBRID_SHARD: [3],
  HYBRID_SHARD_ZERO2: [3, 'step'],
}
const order = ['FULL_SHARD', 'SHARD_GRAD_OP', 'NO_SHARD', 'HYBRID_SHARD', 'HYBRID_SHARD_ZERO2']

export function readFsdp(r: Reading): void {
  const version = r.whole(at('version'), 1) ?? 1
  if (r.has(at('version'))) r.cosmetic(at('version'))
  else r.assume(at('version'), 'plan.zero', undefined, 'version 1 is the default of Accelerate')
  readStrategy(r, version)
  if (r.bool(at('offload_params'))) {
    r.carry(
      at('offload_params'),
      'plan.offload',
      { optimizer: 'host', parameters: 'host' },
      'parameters, gradients and optimizer state are offloaded to the host',
    )
  } else if (r.has(at('offload_params'))) r.carry(at('offload_params'), 'plan.offload', undefined)
  const again = r.bool(at('activation_checkpointing')) ?? false
  if (r.has(at('activation_checkpointing')))
    r.carry(at('activation_checkpointing'), 'plan.recompute', again ? 'full' : 'none')
  else r.assume(at('activation_checkpointing'), 'plan.recompute', 'none', 'false is the default of Accelerate')
  readWrapping(r)
  if (r.field('plan.precision') === 'bf16' && r.field('plan.zero') === 3)
    r.assume(
      'mixed_precision',
      'plan.compress.reduce',
      'bf16',
      'Accelerate reduces gradients in the dtype of parameters',
    )
  r.cosmetic(
    ...[
      'use_orig_params',
      'sync_module_states',
      'cpu_ram_efficient_loading',
      'state_dict_type',
      'backward_prefetch',
      'backward_prefetch_policy',
      'forward_prefetch',
      'transformer_layer_cls_to_wrap',
    ].map(at),
  )
}

/** Later files of version 1 have the words of the strategy under the key of version 2. */
function readStrategy(r: Reading, version: number): void {
  const key = r.has(at('sharding_strategy')) ? at('sharding_strategy') : at('reshard_after_forward')
  const raw = r.raw(key)
  const boolean = key === at('reshard_after_forward') && raw !== 1 && raw !== '1' ? booleanOf(raw) : undefined
  if (raw === undefined || raw === null) {
    r.assume(
      key,
      'plan.zero',
      3,
      version === 1 ? 'FULL_SHARD is the default of Accelerate' : 'true is the default of Accelerate',
    )
    return
  }
  if (boolean !== undefined) {
    r.carry(key, 'plan.gather', boolean ? 'use' : 'step', boolean ? '' : 'parameters are gathered once per step')
    r.set('plan.zero', 3)
    return
  }
  const word = wordOf(raw).toUpperCase()
  const name = /^[1-5]$/.test(word) ? order[Number(word) - 1] : word
  const found = strategies[name]
  if (!found) {
    r.refuse(key, `expected one of ${order.join(', ')}, got ${word}`)
    return
  }
  const [zero, gather] = found
  r.carry(key, 'plan.zero', zero, zero === 0 ? 'DDP: every rank has the full model' : '')
  if (gather) r.carry(key, 'plan.gather', gather, `${name} parameters are gathered once per step (often called ZeRO-2)`)
  if (name.startsWith('HYBRID')) readGroups(r, key, name)
}

/** FSDP 1 shards within a node and replicates across nodes. */
function readGroups(r: Reading, key: string, name: string): void {
  const [machines, ranks] = [r.whole('num_machines') ?? 1, r.world ?? r.whole('num_processes') ?? 1]
  if (machines > 1 && ranks % machines === 0 && ranks > machines)
    r.carry(key, 'plan.shard', ranks / machines, `${name} shards within a node of ${ranks / machines} ranks`)
}

function readWrapping(r: Reading): void {
  const policy = r.word(at('auto_wrap_policy')) ?? 'NO_WRAP'
  if (/^TRANSFORMER_BASED_WRAP$/i.test(policy)) r.cosmetic(at('auto_wrap_policy'))
  else if (/^SIZE_BASED_WRAP$/i.test(policy))
    r.drop(at('auto_wrap_policy'), 'size-based wrapping is not supported: Lockstep gathers layer by layer')
  else
    r.drop(
      at('auto_wrap_policy'),
      `${policy}: without wrapping the full model is gathered at once, which needs more memory; Lockstep gathers layer by layer`,
    )
  if (r.has(at('min_num_params')))
    r.drop(at('min_num_params'), 'size-based wrapping is not supported: Lockstep gathers layer by layer')
}
