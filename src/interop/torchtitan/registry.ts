/**
 * torchtitan since 2026: a function that returns a `Trainer.Config`. What it says in so many words is laid out as the tables of v0.2, whose
 * meaning it has; nothing is executed.
 */
import { isMapping, type Mapping, mappingOf } from '../../plan/index.js'
import type { Given } from '../note.js'
import { type Followed, followFunction, literals } from '../python/index.js'
import type { Reading } from '../reading.js'
import type { Tree } from '../tree.js'
import { flavorsOf, modelNames } from './models.js'

export interface Registry {
  readonly tree: Tree
  /** Says of keys that were laid out otherwise what became of them. */
  readonly explain: (r: Reading) => void
}

/** undefined: the function returns nothing that can be read. */
export function registryOf(text: string, name: string, given: Given): Registry | undefined {
  const followed = followFunction(text, name, { others: 'targets', given: literals(given.set) })
  if (!isMapping(followed.value)) return undefined
  const { model_spec, optimizer, activation_checkpoint, training, parallelism, ...others } = mappingOf(followed.value)
  const batch = batchOf(mappingOf(training))
  const value = {
    model: modelOf(name, mappingOf(model_spec)),
    optimizer: { name: 'AdamW', ...without(mappingOf(optimizer)) },
    training: { ...without(mappingOf(training)), ...batch.training },
    parallelism: { ...without(mappingOf(parallelism)), ...batch.parallelism },
    activation_checkpoint: recomputeOf(activation_checkpoint),
    ...(isMapping(others.lr_scheduler) && { lr_scheduler: without(others.lr_scheduler) }),
    compile: without(mappingOf(others.compile)),
  }
  const tree: Tree = { value, lineOf: followed.lineOf, twice: [], refused: [] }
  return { tree, explain: r => explain(r, followed, { batch, spec: mappingOf(model_spec), others }) }
}

const tokens = {
  micro: 'num_tokens_per_microbatch_per_dp_rank',
  step: 'num_tokens_per_train_step',
  context: 'max_context_length',
  pieces: 'num_pp_microbatches',
}

/** Sequences, where tokens are counted. */
function batchOf(training: Mapping) {
  const number = (key: string, usual: number) => (typeof training[key] === 'number' ? training[key] : usual)
  const [seq, micro, step] = [number(tokens.context, 2048), number(tokens.micro, 16384), number(tokens.step, -1)]
  const local = micro / seq
  const pieces = number(tokens.pieces, 1)
  return {
    training: {
      ...{ seq_len: seq, local_batch_size: local, ...(step > 0 && { global_batch_size: step / seq }) },
      ...Object.fromEntries(Object.values(tokens).map(key => [key, undefined])),
    },
    parallelism: pieces > 1 ? { pipeline_parallel_microbatch_size: local / pieces } : {},
    equation: `${local} sequences = ${micro} tokens / ${seq}`,
  }
}

function modelOf(name: string, spec: Mapping): Mapping {
  const [flavor] = Array.isArray(spec._args_) ? spec._args_ : []
  const family = modelNames.find(one => name.startsWith(one) && flavorsOf(one).includes(String(flavor).toLowerCase()))
  const converters = Array.isArray(spec.converters) ? spec.converters.map(one => converterOf(mappingOf(one))) : []
  return { ...(family !== undefined && { name: family, flavor }), ...(converters.length > 0 && { converters }) }
}

const converterOf = ({ _target_: target }: Mapping): string =>
  /^Float8/.test(String(target))
    ? 'quantize.linear.float8'
    : /^MXFP8/.test(String(target))
      ? 'quantize.linear.mx'
      : String(target)

function recomputeOf(value: unknown): Mapping {
  const { _target_: target, ...rest } = mappingOf(value)
  if (value === undefined || value === null) return { mode: 'none' }
  return { mode: /^Full/.test(String(target)) ? 'full' : 'selective', selective_ac_option: 'op', ...rest }
}

const without = ({ _target_: _, _args_: __, ...rest }: Mapping): Mapping => rest

interface Parts {
  readonly batch: { readonly equation: string }
  readonly spec: Mapping
  readonly others: Mapping
}

function explain(r: Reading, { remarks, lineOf }: Followed, { batch, spec, others }: Parts): void {
  for (const { line, message } of remarks) r.remark(`line ${line}`, line, message)
  r.remark(`training.${tokens.micro}`, lineOf('training'), batch.equation, 'derived')
  for (const converter of Array.isArray(spec.converters) ? spec.converters : [])
    if (isMapping(converter) && Object.keys(without(converter)).length > 0)
      r.remark(
        'model_spec.converters',
        lineOf('model_spec'),
        `${Object.keys(without(converter)).join(', ')}: the list of excluded layers is dropped`,
      )
  for (const key of Object.keys(without(others)))
    if (key !== 'lr_scheduler' && key !== 'compile') r.remark(key, lineOf(key), '', 'cosmetic')
}
