/** What Megatron takes where nothing is said, by release. */
import type { Release } from './flag-table.js'
import { isBefore } from './flags.js'
import type { Defaults } from './terms.js'

const always: Readonly<Record<string, string | number | boolean>> = {
  ...{ 'tensor-model-parallel-size': 1, 'pipeline-model-parallel-size': 1, 'context-parallel-size': 1, zero: 0 },
  ...{ 'overlap-grad-reduce': false, precision: 'f32', recompute: 'none', 'fp8-recipe': 'delayed' },
  ...{ normalization: 'LayerNorm', 'position-embedding-type': 'learned_absolute', 'norm-epsilon': 1e-5 },
  ...{ 'untie-embeddings-and-output-weights': false, 'hidden-dropout': 0.1, 'attention-dropout': 0.1 },
  ...{ 'rotary-base': 10000, 'make-vocab-size-divisible-by': 128 },
  ...{ optimizer: 'adam', 'adam-beta1': 0.9, 'adam-beta2': 0.999, 'adam-eps': 1e-8, 'weight-decay': 0.01 },
  ...{ 'sgd-momentum': 0.9, 'muon-momentum': 0.9, 'clip-grad': 1, seed: 1234 },
  ...{ 'lr-decay-style': 'linear', 'min-lr': 0, 'lr-warmup-iters': 0 },
}

/** ms-swift has defaults of its own. */
const ofSwift: Readonly<Record<string, string | number | boolean>> = {
  ...{ precision: 'bf16', zero: 1, 'lr-decay-style': 'cosine', 'adam-beta2': 0.95, 'weight-decay': 0.1 },
  ...{ 'hidden-dropout': 0, 'attention-dropout': 0, 'overlap-grad-reduce': false, seed: 42 },
}

const nameOfRelease = (release: Release): string =>
  release.startsWith('0.') ? `core ${release}` : release === '2026-08' ? 'August 2026' : release

export function megatronDefaults(release: Release, fork?: 'swift'): Defaults {
  const dated: Readonly<Record<string, string>> = {
    release,
    'data-parallel-sharding-strategy': isBefore(release, '0.19') ? 'no_shard' : 'optim_grads_params',
  }
  const own = fork === 'swift' ? ofSwift : {}
  return {
    of: fork === 'swift' ? 'ms-swift' : `Megatron-LM (${nameOfRelease(release)})`,
    value: term => own[term] ?? dated[term] ?? always[term],
  }
}
