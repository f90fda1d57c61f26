/** What torchtitan's file says of a step's numbers: optimizer, learning rate, clipping, precision, recompute. */
import { type Reading, wordOf } from '../reading.js'
import type { Keys } from './keys.js'

export function readNumbers(r: Reading, keys: Keys): void {
  const seq = r.whole('training.seq_len', 1)
  if (seq === undefined) r.assume('training.seq_len', 'training.seq', 2048, `2048 is the default of ${keys.release}`)
  else r.carry('training.seq_len', 'training.seq', seq)
  const steps = r.whole('training.steps', 1) ?? 10000
  if (r.has('training.steps')) r.carry('training.steps', 'training.steps', steps)
  else r.assume('training.steps', 'training.steps', steps, `10000 is the default of ${keys.release}`)
  const seed = r.whole('training.seed') ?? r.whole('debug.seed')
  if (seed !== undefined) r.carry(r.has('training.seed') ? 'training.seed' : 'debug.seed', 'training.seed', seed)
  const clip = r.number('training.max_norm')
  if (clip === undefined) r.assume('training.max_norm', 'training.clip', 1, `1.0 is the default of ${keys.release}`)
  else if (clip === Number.POSITIVE_INFINITY)
    r.carry('training.max_norm', 'training.clip', undefined, 'inf: no clipping')
  else r.carry('training.max_norm', 'training.clip', clip)
  const lr = readOptimizer(r, keys)
  readSchedule(r, keys, { lr, steps })
  readPrecision(r, keys)
  readRecompute(r)
}

function readOptimizer(r: Reading, keys: Keys): number {
  const name = r.word('optimizer.name') ?? 'AdamW'
  if (!/^adamw?$/i.test(name)) {
    r.drop('optimizer.name', `optimizer ${name} is not supported`)
    r.missing('training.optimizer', `${name} has no counterpart`)
  } else
    r.carry(
      'optimizer.name',
      'training.optimizer.kind',
      'adamw',
      /^adam$/i.test(name) ? 'Adam: weight decay is added to the gradient' : '',
    )
  if (/^adam$/i.test(name)) r.set('training.optimizer.coupled', true)
  const set = (key: string, field: string, usual: number): number => {
    const path = `optimizer.${key}`
    const value = r.number(path)
    if (value === undefined)
      r.assume(path, `training.optimizer.${field}`, usual, `${usual} is the default of ${keys.release}`)
    else r.carry(path, `training.optimizer.${field}`, value)
    return value ?? usual
  }
  const lr = set('lr', 'lr', 8e-4)
  set('beta1', 'beta1', 0.9)
  set('beta2', 'beta2', 0.95)
  set('eps', 'eps', 1e-8)
  set('weight_decay', 'weightDecay', 0.1)
  r.assume(
    'optimizer',
    'training.paramGroups',
    { norm: { weightDecay: 1 }, bias: { weightDecay: 1 } },
    'torchtitan applies weight decay to norms and biases too',
  )
  return lr
}

/** Up to lr, a plateau, and down: over everything that is left where decay_ratio is not said. */
function readSchedule(r: Reading, keys: Keys, { lr, steps }: { lr: number; steps: number }): void {
  const early = keys.generation === 'A' || keys.generation === 'B'
  const warmupKey = early ? 'training.warmup_steps' : 'lr_scheduler.warmup_steps'
  const warmup = r.whole(warmupKey) ?? 200
  if (r.has(warmupKey)) r.carry(warmupKey, 'training.lrSchedule.warmup', Math.min(warmup, steps))
  else
    r.assume(warmupKey, 'training.lrSchedule.warmup', Math.min(warmup, steps), `200 is the default of ${keys.release}`)
  const type = r.word('lr_scheduler.decay_type') ?? 'linear'
  const shapes: Readonly<Record<string, string>> = { linear: 'linear', cosine: 'cosine', sqrt: 'minus-sqrt' }
  if (!Object.hasOwn(shapes, type)) r.refuse('lr_scheduler.decay_type', `expected linear, sqrt or cosine, got ${type}`)
  const ratio = r.number('lr_scheduler.decay_ratio')
  const decay = ratio === undefined ? steps - warmup : Math.min(Math.round(steps * ratio), steps - warmup)
  const plain = steps - warmup - decay <= 0 && type !== 'sqrt'
  r.carry('lr_scheduler.decay_type', 'training.lrSchedule.kind', plain ? shapes[type] : 'wsd')
  if (ratio !== undefined)
    r.carry(
      'lr_scheduler.decay_ratio',
      'training.lrSchedule.cooldown',
      plain ? undefined : decay,
      plain ? '' : `the last ${decay} of ${steps} steps decay`,
    )
  if (!plain) r.set('training.lrSchedule.cooldown', Math.max(0, decay))
  if (!plain) r.set('training.lrSchedule.cooldownShape', shapes[type])
  const least = r.has('lr_scheduler.lr_min') ? 'lr_scheduler.lr_min' : 'lr_scheduler.min_lr_factor'
  const factor = r.number(least) ?? 0
  r.carry(least, 'training.lrSchedule.minLr', lr * factor, factor > 0 ? `${factor} of lr ${lr}` : '')
}

const floats: Readonly<Record<string, string>> = { bfloat16: 'bf16', float32: 'f32', float16: 'f16' }

function readPrecision(r: Reading, keys: Keys): void {
  const param = r.word('training.mixed_precision_param') ?? 'bfloat16'
  const pure = r.choice('training.dtype', { float32: false, bfloat16: true }, 'parameters are f32') === true
  if (!Object.hasOwn(floats, param) || param === 'float16')
    r.refuse('training.mixed_precision_param', `expected bfloat16 or float32, got ${param}`)
  const precision = pure ? 'pure-bf16' : floats[param]
  if (r.has('training.dtype') && !r.isNoted('training.dtype'))
    r.carry('training.dtype', 'plan.precision', precision, pure ? 'parameters, gradients and states in bf16' : '')
  if (r.has('training.mixed_precision_param')) r.carry('training.mixed_precision_param', 'plan.precision', precision)
  else
    r.assume(
      'training.mixed_precision_param',
      'plan.precision',
      precision,
      `bfloat16 is the default of ${keys.release}`,
    )
  const reductions = { float32: 'f32', bfloat16: 'bf16' }
  const reduce = r.choice('training.mixed_precision_reduce', reductions, 'gradients are reduced in f32')
  if (reduce !== undefined)
    r.carry(
      'training.mixed_precision_reduce',
      'plan.compress.reduce',
      reduce === 'bf16' && precision === 'bf16' ? 'bf16' : undefined,
    )
  readFloat8(r)
}

/** Products of linear layers in 8 bits: asked for in a different place by each generation. */
function readFloat8(r: Reading): void {
  const converters = r.raw('model.converters')
  const list = Array.isArray(converters)
    ? converters.map(wordOf)
    : typeof converters === 'string'
      ? converters.split(',').filter(word => word !== '')
      : []
  const asked = [
    list.length > 0 ? 'model.converters' : '',
    r.bool('float8.enable_float8_linear') ? 'float8.enable_float8_linear' : '',
    r.word('training.fp8_linear') ? 'training.fp8_linear' : '',
  ].find(path => path !== '')
  const sections = ['float8', 'mx', 'quantize', 'model.converters', 'training.fp8_linear', 'training.enable_fp8_linear']
  if (asked === undefined) {
    r.cosmetic(...sections)
    return
  }
  const block = list.some(name => name.includes('mx'))
  const strange = list.filter(name => !/^(quantize\.linear\.)?(float8|mx)/.test(name))
  if (strange.length > 0) r.drop('model.converters', `${strange.join(', ')} change the model`)
  if (strange.length < list.length || list.length === 0)
    r.carry(
      asked,
      'plan.fp8',
      { recipe: block ? 'mx' : 'current' },
      'FP8 matmuls of linear layers; the list of excluded layers is dropped',
    )
  for (const path of ['float8.enable_fsdp_float8_all_gather', 'quantize.linear.float8.enable_fsdp_float8_all_gather'])
    if (r.bool(path)) r.drop(path, 'FP8 all-gather is not supported: parameters are gathered in bf16')
  for (const path of ['float8.recipe_name', 'quantize.linear.float8.recipe_name'])
    if (r.has(path)) r.drop(path, `recipe ${r.word(path)}: Lockstep scales per tensor or per block`)
  for (const path of ['float8.filter_fqns', 'quantize.linear.float8.filter_fqns'])
    if ((r.list(path) ?? []).length > 0) r.drop(path, 'layers that stay in bf16: in Lockstep only the head does')
  r.cosmetic(...sections.slice(0, 3))
}

function readRecompute(r: Reading): void {
  const path = 'activation_checkpoint.mode'
  const mode = r.word(path) ?? 'selective'
  const option = r.word('activation_checkpoint.selective_ac_option') ?? '2'
  if (mode === 'none' || mode === 'full') {
    r.carry(path, 'plan.recompute', mode)
    return
  }
  const what =
    option === 'op'
      ? 'attention, every second matmul and received tensors are saved'
      : `every layer whose index ${option} divides is recomputed`
  if (mode === 'selective') r.drop(path, `${what}: Lockstep recomputes the same in every layer`)
  else if (mode === 'memory_budget') r.drop(path, 'the compiler chooses what to recompute')
  else r.refuse(path, `expected none, selective, full or memory_budget, got ${mode}`)
}
