/** NeMo 2: what a recipe sets in so many words, or the same as a run has saved it. Nothing is executed. */
import { isMapping } from '../../plan/index.js'
import { readMeaning } from '../megatron/meaning.js'
import { type Defaults, Terms } from '../megatron/terms.js'
import type { Given, Imported } from '../note.js'
import { followFunction, functionsOf, literals } from '../python/index.js'
import { booleanOf, type KeyTable, numberOf, Reading } from '../reading.js'
import { mostText, type Tree } from '../tree.js'
import { termsOfClass } from './models.js'
import { optimizerPaths, recipePaths } from './paths.js'
import { precisionTerms } from './precision.js'

const known: KeyTable = {
  peft: 'a job sets adapters in training.lora',
  'optim.constant_steps':
    'constant last steps at the minimum learning rate are not supported: the decay lasts until the end',
  'optim.lr_scheduler.constant_steps':
    'constant last steps at the minimum learning rate are not supported: the decay lasts until the end',
  ...Object.fromEntries(
    ['log', 'resume', 'trainer', 'data', 'optim', 'tokenizer', 'model', '_target_', '_partial_', '*._target_'].map(
      key => [key, ''],
    ),
  ),
}

export function readRecipe(text: string, given: Given): Imported {
  const advice = 'or use the configuration that a run has saved'
  if (text.length > mostText) return unread('recipe', `too long for a recipe; ${advice}`)
  const names = [...functionsOf(text).keys()]
  const name =
    given.function ?? (names.includes('pretrain_recipe') ? 'pretrain_recipe' : names.length === 1 ? names[0] : '')
  if (!names.includes(name)) return unread('--function', `one of ${names.slice(0, 20).join(', ') || 'none'}; ${advice}`)
  const { value, remarks, lineOf } = followFunction(text, name, { others: 'configs', given: literals(given.set) })
  if (!isMapping(value)) return unread(name, `its return value cannot be read; ${advice}`)
  const lines = text.split('\n')
  const written = (path: string) => {
    const key = path.slice(path.lastIndexOf('.') + 1)
    return lines.findIndex(line => new RegExp(`\\b${key}\\s*[=:]`).test(line)) + 1 || undefined
  }
  const tree: Tree = { value, lineOf: path => lineOf(path) ?? written(path), twice: [], refused: [] }
  const reading = new Reading({ framework: 'nemo', format: 'python' }, tree)
  for (const { line, message } of remarks) reading.remark(`line ${line}`, line, message)
  return readParts(reading, given)
}

const unread = (path: string, message: string): Imported => ({
  ...{ framework: 'nemo', format: 'python' },
  notes: [{ kind: 'refused', path, line: 1, message }],
})

/** The parts of a recipe: model, trainer with its strategy, data and optimizer. */
export function readParts(r: Reading, given: Given): Imported {
  if (!r.refused) {
    const pathOf = (term: string): string => {
      const paths = recipePaths[term] ?? optimizerPaths[term] ?? [`model.config.${term.replaceAll('-', '_')}`]
      return paths.find(path => r.has(path)) ?? paths[0]
    }
    readMeaning(new Terms(r, pathOf, defaultsOf(r), valuesOf(r, pathOf)), given, given.world ?? worldOf(r))
  }
  return r.finish(known, 'a key of NeMo without a job field')
}

const usual: Readonly<Record<string, string | number | boolean>> = {
  ...{ 'tensor-model-parallel-size': 1, 'pipeline-model-parallel-size': 1, 'context-parallel-size': 1 },
  ...{ precision: 'f32', recompute: 'none', grouped: true, 'norm-epsilon': 1e-5, 'rotary-base': 10000 },
}
const ofFusedAdam: Readonly<Record<string, string | number>> = {
  ...{ 'adam-beta1': 0.9, 'adam-beta2': 0.95, 'adam-eps': 1e-5, 'weight-decay': 0.1, 'clip-grad': 1, zero: 1 },
  ...{ 'lr-warmup-iters': 2000, 'lr-decay-style': 'cosine' },
}

const isFusedAdam = (r: Reading): boolean =>
  /(^|\.)distributed_fused_adam_with_cosine_annealing$/.test(String(r.raw('optim._target_')))

function defaultsOf(r: Reading): Defaults {
  const all = isFusedAdam(r) ? { ...usual, ...ofFusedAdam } : usual
  return { of: 'NeMo 2', value: term => all[term] }
}

function worldOf(r: Reading): number | undefined {
  const [nodes, devices] = [r.whole('trainer.num_nodes', 1), r.whole('trainer.devices', 1)]
  if (nodes === undefined || devices === undefined) return undefined
  r.remark(
    'num_nodes',
    r.lineOf('trainer.num_nodes'),
    `world ${nodes * devices} = ${nodes} nodes x ${devices}`,
    'derived',
  )
  return nodes * devices
}

function valuesOf(r: Reading, pathOf: (term: string) => string): ReadonlyMap<string, unknown> {
  const values = new Map<string, unknown>(
    [...Object.keys(recipePaths), ...Object.keys(optimizerPaths)].map(term => [term, r.raw(pathOf(term))]),
  )
  for (const [term, value] of precisionTerms(r, 'trainer.plugins')) values.set(term, value)
  for (const term of ['disable-bias-linear', 'untie-embeddings-and-output-weights'])
    values.set(term, values.get(term) === undefined ? undefined : booleanOf(values.get(term)) === false)
  ofClass(r, values)
  const [lr, least] = [numberOf(values.get('lr')), values.get('min-lr')]
  if (isFusedAdam(r) && lr !== undefined && least === undefined) values.set('min-lr', lr / 10) // as that recipe has it
  return values
}

/** Sizes that a class of NeMo stands for, where the recipe does not set others. */
function ofClass(r: Reading, values: Map<string, unknown>): void {
  const path = 'model.config'
  const name = String(r.raw(`${path}._target_`) ?? '')
  const found = termsOfClass(name)
  if (!found) {
    if (name !== '')
      r.drop(`${path}._target_`, `the sizes of ${name} are not in the file: set --model to a preset or a config.json`)
    return
  }
  for (const [term, value] of found) if (values.get(term) === undefined) values.set(term, value)
  r.remark(
    `${path}._target_`,
    r.lineOf(path),
    `${name}: ${found.get('num-layers')} layers of ${found.get('hidden-size')}`,
    'derived',
  )
}
