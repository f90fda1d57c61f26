/** Megatron-Bridge: the configuration a run saves, a part of one that stands above a recipe, or what a recipe sets in so many words. */
import { type ForeignFormat, isMapping } from '../../plan/index.js'
import { readMeaning } from '../megatron/meaning.js'
import { Terms } from '../megatron/terms.js'
import type { Given, Imported, Reader } from '../note.js'
import { followFunction, functionsOf, literals } from '../python/index.js'
import { booleanOf, type KeyTable, Reading } from '../reading.js'
import { mostText, readTree, type Tree } from '../tree.js'
import { bridgePaths } from './paths.js'
import { precisionTerms } from './precision.js'

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
  if (format === 'python') return ofRecipe(text, given)
  if (format !== 'yaml' && format !== 'json') return unread(format, 'cfg', 'give run_config.yaml of a checkpoint')
  return ofTree(new Reading(source, readTree(text, 'yaml')), given)
}

function ofTree(reading: Reading, { world }: Given): Imported {
  if (!reading.refused) {
    const t = new Terms(reading, pathOf, { of: 'the recipe', value: () => undefined }, valuesOf(reading))
    readMeaning(t, world)
  }
  return reading.finish(known, 'a key of Bridge that no field of a job stands for')
}

/** A recipe is a program: its literals are read, and what it leaves to others is named. */
function ofRecipe(text: string, given: Given): Imported {
  const surely = 'or give run_config.yaml, which is in every checkpoint of its runs'
  if (text.length > mostText) return unread('python', 'cfg', `too long for a recipe; ${surely}`)
  const names = [...functionsOf(text).keys()]
  const name = given.function ?? (names.length === 1 ? names[0] : undefined)
  if (name === undefined || !names.includes(name))
    return unread('python', '--function', `one of ${names.slice(0, 20).join(', ') || 'none'}; ${surely}`)
  const { value, lineOf, remarks } = followFunction(text, name, { given: literals(given.set) })
  if (!isMapping(value)) return unread('python', name, `it returns nothing that can be read; ${surely}`)
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
  const values = new Map<string, unknown>(Object.keys(bridgePaths).map(term => [term, r.raw(pathOf(term))]))
  for (const [term, value] of precisionTerms(r.raw('mixed_precision'))) values.set(term, value)
  const inverted = (term: string) =>
    values.set(term, values.get(term) === undefined ? undefined : booleanOf(values.get(term)) === false)
  inverted('disable-bias-linear')
  inverted('untie-embeddings-and-output-weights')
  inverted('grad-reduce-in-bf16')
  values.set('group-query-attention', values.get('num-query-groups') !== undefined ? true : undefined)
  values.set('seq-length', r.raw('dataset.seq_length') ?? r.raw('dataset.sequence_length') ?? r.raw('model.seq_length'))
  return values
}
