/** NeMo 1: a YAML file of trainer and model, with the interpolation of OmegaConf. */
import { isMapping } from '../../plan/index.js'
import { readMeaning } from '../megatron/meaning.js'
import { type Defaults, Terms } from '../megatron/terms.js'
import type { Imported, Reader } from '../note.js'
import { booleanOf, type KeyTable, numberOf, Reading } from '../reading.js'
import { readTree } from '../tree.js'
import { readEnvironment } from './environment.js'
import { nemoPaths } from './paths.js'
import { readParts, readRecipe } from './recipe.js'
import { resolved } from './resolve.js'

const known: KeyTable = {
  'model.optim.sched.constant_steps': 'the last steps have the least rate there; here it falls until the end',
  'model.init_method_std': 'weights start from a normal distribution of this width there, of 0.02 here',
  'model.apply_query_key_layer_scaling': 'scores are divided by the number of the layer there, and multiplied again',
  'model.encoder_seq_length': '',
  'model.fsdp': 'torch FSDP splits parameters',
  ...Object.fromEntries(
    ['run', 'exp_manager', 'defaults', 'hydra', 'trainer', 'model.tokenizer', 'model.data', 'model.nsys_profile'].map(
      key => [key, ''],
    ),
  ),
  ...Object.fromEntries(['name', 'restore_from_path', 'model', 'model.optim'].map(key => [key, ''])),
}

const usual: Readonly<Record<string, string | number | boolean>> = {
  ...{ 'tensor-model-parallel-size': 1, 'pipeline-model-parallel-size': 1, 'context-parallel-size': 1, zero: 0 },
  ...{ precision: 'f32', recompute: 'none', 'hidden-dropout': 0.1, 'attention-dropout': 0.1, grouped: true },
  ...{ 'untie-embeddings-and-output-weights': false, 'norm-epsilon': 1e-5, 'rotary-base': 10000 },
  ...{ 'adam-beta1': 0.9, 'adam-beta2': 0.999, 'adam-eps': 1e-8, 'weight-decay': 0.01, 'lr-warmup-iters': 0 },
  ...{ 'make-vocab-size-divisible-by': 128, 'lr-decay-style': 'constant', 'min-lr': 0 },
}
const defaults: Defaults = { of: 'NeMo 1', value: term => usual[term] }

const pathOf = (term: string): string => nemoPaths[term] ?? `model.${term.replaceAll('-', '_')}`

export const readNemo: Reader = (text, given, format) => {
  if (format === 'script') return readEnvironment(text, given)
  const source = { framework: 'nemo', format } as const
  if (format === 'python') return readRecipe(text, given)
  if (format !== 'yaml' && format !== 'json') return unread(format)
  const tree = readTree(text, 'yaml')
  const value = isMapping(tree.value) ? resolved(tree.value) : tree.value
  const reading = new Reading(source, { ...tree, value })
  if (reading.has('trainer.strategy')) return readParts(reading, given) // of NeMo 2
  if (!reading.refused) {
    const t = new Terms(reading, pathOf, defaults, valuesOf(reading))
    readMeaning(t, given.world ?? worldOf(reading))
  }
  return reading.finish(known, 'a key of NeMo that no field of a job stands for')
}

const unread = (format: 'toml' | 'log'): Imported => ({
  ...{ framework: 'nemo', format },
  notes: [{ kind: 'refused', path: 'trainer', line: 1, message: `NeMo writes no ${format}: give its YAML file` }],
})

function worldOf(r: Reading): number | undefined {
  const [nodes, devices] = [r.whole('trainer.num_nodes', 1), r.whole('trainer.devices', 1)]
  return nodes === undefined || devices === undefined ? undefined : nodes * devices
}

/** What is written in other words. */
function valuesOf(r: Reading): ReadonlyMap<string, unknown> {
  const values = new Map<string, unknown>(Object.keys(nemoPaths).map(term => [term, r.raw(pathOf(term))]))
  const precision = String(r.raw('trainer.precision') ?? '')
  values.set('bf16', /bf16/.test(precision) || undefined)
  values.set('fp16', /^(16|fp16)/.test(precision) || undefined)
  const activation = String(r.raw('model.activation') ?? 'gelu')
  values.set('swiglu', /swiglu/.test(activation) || undefined)
  values.set('squared-relu', activation === 'squared-relu' || undefined)
  values.set('activation', undefined)
  values.set('disable-bias-linear', booleanOf(r.raw('model.bias')) === false || undefined)
  const shares = r.raw('model.share_embeddings_and_output_weights')
  values.set('untie-embeddings-and-output-weights', shares === undefined ? undefined : booleanOf(shares) === false)
  const name = String(r.raw('model.optim.name') ?? '')
  values.set('use-distributed-optimizer', /distributed/.test(name))
  values.set('optimizer', /adam|distributed/.test(name) || name === '' ? 'adam' : name)
  const betas = r.raw('model.optim.betas')
  if (Array.isArray(betas)) for (const i of [0, 1]) values.set(`adam-beta${i + 1}`, numberOf(betas[i]))
  const style = String(r.raw('model.optim.sched.name') ?? '')
  values.set(
    'lr-decay-style',
    /cosine/i.test(style) ? 'cosine' : style === '' ? undefined : /wsd/i.test(style) ? 'WSD' : 'constant',
  )
  values.set(
    'fp8-format',
    booleanOf(r.raw('model.fp8')) === true ? (booleanOf(r.raw('model.fp8_e4m3')) ? 'e4m3' : 'hybrid') : undefined,
  )
  values.set('seq-length', r.raw('model.data.seq_length') ?? r.raw('model.encoder_seq_length'))
  const norm = r.raw('model.normalization')
  if (/1p$/.test(String(norm))) r.drop('model.normalization', 'gains are kept less one there: LayerNorm here')
  if (activation === 'squared-relu') r.drop('model.activation', 'squared ReLU: no family here has it')
  return values
}
