/** Where a setting stands, by generation: torchtitan has moved its keys four times. */
import type { Reading } from '../reading.js'

export type Generation = 'A' | 'B' | 'C' | 'D'

export interface Keys {
  readonly generation: Generation
  readonly release: string
  /** The path of a setting of the ranks. */
  of(name: string): string
  /** Whether embedding and head count as layers where layers are dealt out. */
  readonly counted: boolean
  dealt(r: Reading, layers: number, stages: number): number[]
  rule(split: readonly number[]): string
}

const releases: Readonly<Record<Generation, string>> = { A: 'of 2024-06', B: 'of 2024-10', C: 'v0.1.0', D: 'v0.2' }

export function generationOf(r: Reading): Generation {
  const has = (...paths: readonly string[]) => paths.some(path => r.raw(path) !== undefined)
  if (
    has(
      'compile',
      'quantize',
      'lr_scheduler.min_lr_factor',
      'model.hf_assets_path',
      'job.print_config',
      'parallelism.pipeline_parallel_first_stage_less_layers',
      'debug',
    )
  )
    return 'D'
  if (has('parallelism', 'lr_scheduler')) return 'C'
  return has(
    'training.data_parallel_shard_degree',
    'training.data_parallel_replicate_degree',
    'float8',
    'experimental.context_parallel_degree',
  )
    ? 'B'
    : 'A'
}

const inTraining = [
  'tensor_parallel_degree',
  'data_parallel_shard_degree',
  'data_parallel_replicate_degree',
  'data_parallel_degree',
]

export function keysOf(r: Reading): Keys {
  const generation = generationOf(r)
  const old = generation === 'A' || generation === 'B'
  const counted = generation === 'D'
  return {
    generation,
    release: `torchtitan ${releases[generation]}`,
    counted,
    of: name => (old ? `${inTraining.includes(name) ? 'training' : 'experimental'}.${name}` : `parallelism.${name}`),
    dealt: (reading, layers, stages) => (counted ? dealtAsOne(reading, layers, stages) : dealtInside(layers, stages)),
    rule: split =>
      counted
        ? `embedding and head are counted as layers: ${split.join(' ')}`
        : `middle stages get the remaining layers: ${split.join(' ')}`,
  }
}

/** The remainder goes to the first stages; the first and the last have so many fewer. */
function dealtAsOne(r: Reading, layers: number, stages: number): number[] {
  const less = (end: string) => r.whole(`parallelism.pipeline_parallel_${end}_stage_less_layers`) ?? 1
  const [first, last] = [less('first'), less('last')]
  for (const end of ['first', 'last']) {
    const path = `parallelism.pipeline_parallel_${end}_stage_less_layers`
    if (r.has(path)) r.carry(path, 'plan.layers', undefined)
  }
  const all = layers + first + last
  return Array.from({ length: stages }, (_, stage) => {
    const share = Math.floor(all / stages) + (stage < all % stages ? 1 : 0)
    return Math.max(0, share - (stage === 0 ? first : 0) - (stage === stages - 1 ? last : 0))
  })
}

function dealtInside(layers: number, stages: number): number[] {
  const base = Math.floor(layers / stages)
  let extra = layers % stages
  const split = Array.from({ length: stages }, (_, stage) => {
    if (stage === 0 || stage === stages - 1 || extra === 0) return base
    extra--
    return base + 1
  })
  split[stages - 1] += extra
  return split
}
