/** Files of other programs, given where a job is expected: what they are by their content, and what to do with them. */
import type { Problem } from '../base/index.js'
import { isMapping } from './mapping.js'
import { refused } from './phrases.js'

export const foreignFrameworks = [
  'megatron',
  'deepspeed',
  'accelerate',
  'torchtitan',
  'nemo',
  'bridge',
  'nanotron',
  'picotron',
  'neox',
] as const
export type ForeignFramework = (typeof foreignFrameworks)[number]

/** Names as their makers write them. */
export const foreignNames: Readonly<Record<ForeignFramework, string>> = {
  megatron: 'Megatron-LM',
  deepspeed: 'DeepSpeed',
  accelerate: 'Hugging Face Accelerate',
  torchtitan: 'torchtitan',
  nemo: 'NeMo',
  bridge: 'Megatron-Bridge',
  nanotron: 'nanotron',
  picotron: 'picotron',
  neox: 'GPT-NeoX',
}

/** How a configuration is written: as a mapping, as a program that is read and not run, or as what a run has printed. */
export const foreignFormats = ['json', 'yaml', 'toml', 'script', 'python', 'log'] as const
export type ForeignFormat = (typeof foreignFormats)[number]

export interface Foreign {
  readonly framework: ForeignFramework
  readonly format: ForeignFormat
}

const flags = /--(?:micro[-_]batch[-_]size|num[-_]layers|tensor[-_]model[-_]parallel[-_]size|batch[-_]size)\b/
const python = /^\s*(?:from\s+[\w.]+\s+import\b|import\s+\w|def\s+\w+\s*\(|class\s+\w+\s*[(:])/m
const shell = /^#!.*sh\b|^\s*(?:export\s+)?\w+=|^\s*(?:torchrun|srun|python3?|deepspeed)\s|\\\s*$/m

/** What the text is, by what stands in it; undefined: nothing that is known. Texts that cannot be parsed are told too. */
export function detect(text: string): Foreign | undefined {
  const has = (pattern: RegExp) => pattern.test(text)
  const key = (...names: string[]) => has(new RegExp(`(?:^|[\\s{,])["']?(?:${names.join('|')})["']?\\s*:`, 'm'))
  const as = (framework: ForeignFramework, format: ForeignFormat): Foreign => ({ framework, format })
  const braces = /^\s*(?:(?:#|\/\/)[^\n]*\n\s*)*\{/.test(text)

  if (has(/-{4} arguments -{4}/)) return as('megatron', 'log')
  if (has(/\[config\.py:\d+:print/) || has(/DeepSpeedEngine configuration/)) return as('deepspeed', 'log')
  if (!braces && has(flags) && has(shell) && !has(/^\s*["']?--[\w-]+["']?\s*:/m)) return as('megatron', 'script')
  if (has(/^\s*\[[\w.]+\]\s*(?:#.*)?$/m) && has(/^\s*[\w.]+\s*=/m) && !has(shebang)) return as('torchtitan', 'toml')
  if (has(python) && !has(shebang)) {
    if (has(/megatron\.bridge/)) return as('bridge', 'python')
    if (has(/\bnemo(?:_run)?\b/)) return as('nemo', 'python')
    return has(/torchtitan|Trainer\.Config|model_registry/) ? as('torchtitan', 'python') : undefined
  }
  if (key('training') && key('plan') && key('model') && !key('tokens', 'distributed', 'parallelism')) return undefined
  if (key('MODEL_ARGS') || has(/^\s*["']?--[a-z][\w-]+["']?\s*:/m)) return as('megatron', 'yaml')
  if (key('distributed_type', 'compute_environment')) return as('accelerate', braces ? 'json' : 'yaml')
  if (key('trainer') && key('tensor_model_parallel_size', 'megatron_amp_O2')) return as('nemo', 'yaml')
  if (key('pipe[-_]parallel[-_]size') || (key('model[-_]parallel[-_]size') && key('num[-_]layers')))
    return as('neox', 'yaml')
  if (key('distributed') && key('tp_size', 'dp_size', 'pp_size')) return as('picotron', 'json')
  if (key('parallelism') && key('tokens')) return as('nanotron', 'yaml')
  if (key('parallelism') && key('job', 'lr_scheduler', 'activation_checkpoint')) return as('torchtitan', 'json')
  if (key('zero_optimization', 'train_batch_size', 'train_micro_batch_size_per_gpu')) return as('deepspeed', 'json')
  if (key('tensor_model_parallel_size', '_target_')) return as('bridge', braces ? 'json' : 'yaml')
  if (has(flags)) return as('megatron', 'script')
  if (has(/pretrain_gpt|Megatron|torchrun/) && has(shell)) return as('megatron', 'script')
  if (has(/^\s*export\s+(?:TENSOR_(?:MODEL_)?PARALLEL|MINIBS|DGXNNODES|TP\b)/m)) return as('nemo', 'script')
  if (key('micro_batch_size') && key('global_batch_size')) return as('bridge', 'yaml')
  if (key('bf16', 'fp16', 'optimizer', 'scheduler', 'gradient_clipping') && braces) return as('deepspeed', 'json')
  return undefined
}

const shebang = /^#!|^\s*#SBATCH/m

/** A text where a job should be; undefined: it may be one. */
export function foreignText(text: string, path?: string): Problem | undefined {
  const found = detect(text)
  if (!found) return undefined
  return refused('', 'file/foreign', {
    ...{ framework: foreignNames[found.framework], path: path === undefined || path === '-' ? 'FILE' : path },
  })
}

/** Mappings of other programs for which there is nothing to import. */
export function foreignProblem(value: Readonly<Record<string, unknown>>, path?: string): Problem | undefined {
  const has = (...keys: string[]) => keys.some(key => Object.hasOwn(value, key))
  if (has('training', 'plan') || !isMapping(value)) return undefined
  if (has('model_type', 'architectures'))
    return refused('', 'file/foreign/model', {
      type: typeof value.model_type === 'string' ? ` (${value.model_type})` : '',
      job: `{ model: ./${path === undefined ? 'config.json' : nameOf(path)}, training: { seq: 4096, globalBatch: 64 }, plan: { ... } }`,
    })
  if (has('device') && has('devices', 'topology', 'curves')) return refused('', 'file/foreign/cluster')
  return undefined
}

const nameOf = (path: string): string => path.replace(/^.*[\\/]/, '')
