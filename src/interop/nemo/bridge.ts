/** Megatron-Bridge: the configuration a run saves, or a part of one that stands above a recipe. */
import { isMapping } from '../../plan/index.js'
import { readMeaning } from '../megatron/meaning.js'
import { Terms } from '../megatron/terms.js'
import type { Imported, Reader } from '../note.js'
import { booleanOf, type KeyTable, Reading } from '../reading.js'
import { readTree } from '../tree.js'
import { bridgePaths } from './paths.js'

const known: KeyTable = Object.fromEntries(
  [
    'logger',
    'checkpoint',
    'dataset',
    'tokenizer',
    'dist',
    'rng',
    'profiling',
    'validation',
    'rerun_state_machine',
    'env_vars',
    'comm_overlap',
    'train',
    'ddp',
    'optimizer',
    'scheduler',
    'model',
    'nvrx_straggler',
    'ft',
    'inprocess_restart',
    'straggler',
    'mixed_precision',
    '_target_',
  ].map(key => [key, '']),
)

const pathOf = (term: string): string => bridgePaths[term] ?? `model.${term.replaceAll('-', '_')}`

export const readBridge: Reader = (text, given, format) => {
  const source = { framework: 'bridge', format } as const
  if (format !== 'yaml' && format !== 'json') return unread(format)
  const reading = new Reading(source, readTree(text, 'yaml'))
  if (!reading.refused) {
    const t = new Terms(reading, pathOf, { of: 'the recipe', value: () => undefined }, valuesOf(reading))
    readMeaning(t, given.world)
  }
  return reading.finish(known, 'a key of Bridge that no field of a job stands for')
}

const unread = (format: 'script' | 'python' | 'toml' | 'log'): Imported => ({
  ...{ framework: 'bridge', format },
  notes: [
    {
      kind: 'refused',
      path: 'cfg',
      line: 1,
      message: 'a recipe is a program: give run_config.yaml, which is in every checkpoint of its runs',
    },
  ],
})

function valuesOf(r: Reading): ReadonlyMap<string, unknown> {
  const values = new Map<string, unknown>(Object.keys(bridgePaths).map(term => [term, r.raw(pathOf(term))]))
  const mixed = r.raw('mixed_precision')
  const words = isMapping(mixed)
    ? Object.entries(mixed)
        .filter(([, on]) => on === true || typeof on === 'string')
        .map(([key, on]) => (on === true ? key : `${key} ${on}`))
        .join(' ')
    : String(mixed ?? '')
  values.set('bf16', /bf16/.test(words) || undefined)
  values.set('fp16', /fp16/.test(words) || undefined)
  values.set('fp8-format', /fp8 (hybrid|e4m3)|fp8_|_fp8/.test(words) ? 'hybrid' : undefined)
  values.set(
    'fp8-recipe',
    /current|tensorwise|fp8_cs/.test(words)
      ? 'tensorwise'
      : /mxfp8/.test(words)
        ? 'mxfp8'
        : /blockwise/.test(words)
          ? 'blockwise'
          : undefined,
  )
  const inverted = (term: string) =>
    values.set(term, values.get(term) === undefined ? undefined : booleanOf(values.get(term)) === false)
  inverted('disable-bias-linear')
  inverted('untie-embeddings-and-output-weights')
  inverted('grad-reduce-in-bf16')
  values.set('group-query-attention', values.get('num-query-groups') !== undefined ? true : undefined)
  values.set('seq-length', r.raw('dataset.seq_length') ?? r.raw('dataset.sequence_length') ?? r.raw('model.seq_length'))
  return values
}
