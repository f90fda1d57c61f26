/** Files of other frameworks, given where a job is expected: what they are, and the job to write instead. */
import { error, type Problem } from '../base/index.js'
import { isMapping, type Mapping } from './mapping.js'

/** undefined: nothing that is known from elsewhere. */
export function foreignProblem(value: Mapping, path?: string): Problem | undefined {
  const has = (...keys: string[]) => keys.some(key => Object.hasOwn(value, key))
  if (has('training', 'plan')) return undefined
  const refuse = (what: string, instead: string) => error('file/foreign', '', `this is ${what}, not a job`, instead)
  if (has('model_type', 'architectures'))
    return refuse(
      `the Hugging Face configuration of a model${typeof value.model_type === 'string' ? ` (${value.model_type})` : ''}`,
      `write a job beside it: { model: ./${path === undefined ? 'config.json' : nameOf(path)}, training: { seq: 4096, globalBatch: 64 }, plan: { ... } }`,
    )
  if (has('zero_optimization', 'train_batch_size', 'train_micro_batch_size_per_gpu'))
    return refuse('a DeepSpeed configuration', `write a job: ${fromDeepSpeed(value)}`)
  if (has('distributed_type', 'compute_environment'))
    return refuse('a configuration of Hugging Face Accelerate', 'write a job: model, training and plan')
  if (has('device') && has('devices', 'topology', 'curves'))
    return refuse('a cluster file', 'give it to --cluster, and a job in its place')
  return undefined
}

const nameOf = (path: string): string => path.replace(/^.*[\\/]/, '')

/** What a DeepSpeed configuration says that a job says too. Fields left to 'auto' say nothing. */
function fromDeepSpeed(value: Mapping): string {
  const inside = (key: string): Mapping => (isMapping(value[key]) ? value[key] : {})
  const optimizer = inside('optimizer')
  const params = isMapping(optimizer.params) ? optimizer.params : {}
  const kind = /^sgd$/i.test(String(optimizer.type)) ? 'sgd' : 'adamw'
  const lr = number(params.lr)
  const halves = inside('fp16').enabled === true
  const training = fieldsOf({
    seq: '...',
    globalBatch: number(value.train_batch_size) ?? '...',
    clip: number(value.gradient_clipping),
    lossScale: halves ? '{ kind: deepspeed }' : undefined,
    optimizer: lr === undefined ? undefined : `{ kind: ${kind}, lr: ${lr} }`,
  })
  const plan = fieldsOf({
    dp: '...',
    zero: number(inside('zero_optimization').stage),
    microbatches: number(value.gradient_accumulation_steps),
    precision: inside('bf16').enabled === true ? 'bf16' : halves ? 'f16' : undefined,
  })
  return `{ model: ..., training: ${training}, plan: ${plan} }`
}

const number = (value: unknown): number | undefined => (typeof value === 'number' ? value : undefined)

const fieldsOf = (fields: Mapping): string =>
  `{ ${Object.entries(fields)
    .flatMap(([key, field]) => (field === undefined ? [] : [`${key}: ${field}`]))
    .join(', ')} }`
