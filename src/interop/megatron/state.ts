/** Where parameters, gradients and optimizer state lie, and when they travel. */
import type { Mesh } from './mesh.js'
import type { Terms } from './terms.js'

const strategies: Readonly<Record<string, number>> = { no_shard: 0, optim: 1, optim_grads: 2, optim_grads_params: 3 }

export function readState(t: Terms, mesh: Mesh): void {
  readZero(t)
  readSequences(t, mesh)
  readOverlap(t)
  readOffload(t)
}

function readZero(t: Terms): void {
  const fsdp = ['use-megatron-fsdp', 'use-custom-fsdp'].find(term => t.is(term))
  if (fsdp) {
    readStrategy(t, fsdp)
    t.read('use-distributed-optimizer')
  } else if (t.is('use-torch-fsdp2')) {
    t.carry('use-torch-fsdp2', 'plan.zero', 3)
    const stays = t.is('torch-fsdp2-no-reshard-after-forward')
    if (stays) t.carry('torch-fsdp2-no-reshard-after-forward', 'plan.gather', 'step')
  } else if (t.has('use-distributed-optimizer'))
    t.carry('use-distributed-optimizer', 'plan.zero', t.is('use-distributed-optimizer') ? 1 : 0)
  else
    t.reading.assume(
      t.path('use-distributed-optimizer'),
      'plan.zero',
      t.defaults.value('zero'),
      `the default of ${t.defaults.of}`,
    )
  t.read('use-megatron-fsdp', 'use-custom-fsdp', 'use-torch-fsdp2', 'data-parallel-sharding-strategy')
}

function readStrategy(t: Terms, fsdp: string) {
  const term = 'data-parallel-sharding-strategy'
  const word = t.word(term)
  const usual = String(t.defaults.value(term) ?? 'optim_grads_params')
  const zero = strategies[word ?? usual]
  if (zero === undefined) return t.refuse(term, `expected ${Object.keys(strategies).join(', ')}, got ${word}`)
  if (word !== undefined) t.carry(term, 'plan.zero', zero)
  else
    t.reading.assume(
      t.path(term),
      'plan.zero',
      zero,
      `not set: ${usual} is the default of ${t.defaults.of}; up to core 0.17 it is no_shard, from 0.19 on optim_grads_params`,
    )
  t.read(fsdp)
}

function readSequences(t: Terms, { tp }: Mesh): void {
  const asked = t.is('sequence-parallel')
  if (asked && tp === 1) t.carry('sequence-parallel', 'plan.sequenceParallel', false, 'tp 1: Megatron turns it off')
  else if (t.has('sequence-parallel')) t.carry('sequence-parallel', 'plan.sequenceParallel', asked)
  else t.reading.set('plan.sequenceParallel', false)
}

/** Gradients that travel under the backward pass; what else is hidden belongs to the software that runs it. */
function readOverlap(t: Terms): void {
  if (t.has('overlap-grad-reduce')) t.carry('overlap-grad-reduce', 'plan.overlap', t.is('overlap-grad-reduce'))
  else if (t.defaults.value('overlap-grad-reduce') === false)
    t.reading.assume(
      t.path('overlap-grad-reduce'),
      'plan.overlap',
      false,
      'not set: gradients are reduced after the backward pass',
    )
  t.read('overlap-param-gather', 'tp-comm-overlap', 'overlap-p2p-communication')
  if (t.is('no-overlap-p2p-communication'))
    t.drop('no-overlap-p2p-communication', 'plan.overlap is one setting for all overlap')
}

function readOffload(t: Terms): void {
  if (t.is('optimizer-cpu-offload') || t.is('cpu-optimizer')) {
    const term = t.is('optimizer-cpu-offload') ? 'optimizer-cpu-offload' : 'cpu-optimizer'
    const share = t.number('optimizer-offload-fraction') ?? 1
    t.carry(term, 'plan.offload', { optimizer: 'host' })
    if (share < 1) t.drop('optimizer-offload-fraction', `all of the optimizer state is offloaded, not ${share} of it`)
  }
  t.read('optimizer-cpu-offload', 'cpu-optimizer', 'optimizer-offload-fraction')
  const layers = t.whole('cpu-offloading-num-layers') ?? 0
  if (layers > 0 || t.is('cpu-offloading'))
    t.drop(
      layers > 0 ? 'cpu-offloading-num-layers' : 'cpu-offloading',
      `offload of ${layers} layers’ activations is not supported: offload.activations covers all or none`,
    )
  t.read('cpu-offloading', 'cpu-offloading-num-layers')
}
