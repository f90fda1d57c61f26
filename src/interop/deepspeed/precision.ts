/** bf16, fp16 and what gradients are summed in. */
import type { Reading } from '../reading.js'
import { booleanOf } from '../reading.js'
import type { Trainer } from '../trainer.js'

export function readPrecision(r: Reading, trainer: Trainer): void {
  const bf16 = enabled(r, r.has('bfloat16') && !r.has('bf16') ? 'bfloat16' : 'bf16', trainer, 'bf16')
  const fp16 = enabled(r, 'fp16', trainer, 'fp16')
  if (bf16 && fp16) r.refuse('fp16.enabled', 'bf16 and fp16 are both enabled: DeepSpeed refuses that')
  const pure = r.bool('bf16.bf16_master_weights_and_grads') === true
  const precision = bf16 ? (pure ? pureOf(r) : 'bf16') : fp16 ? 'f16' : 'f32'
  r.set('plan.precision', precision)
  if (!bf16 && !fp16 && !r.has('bf16') && !r.has('fp16'))
    r.assume('bf16', 'plan.precision', 'f32', 'without bf16 and fp16 DeepSpeed keeps f32')
  if (fp16) readLossScale(r)
  else for (const key of r.keys('fp16')) if (key !== 'enabled' && scaling.includes(key)) r.cosmetic(`fp16.${key}`)
  readGradients(r, precision)
}

const scaling = [
  'auto_cast',
  'loss_scale',
  'initial_scale_power',
  'loss_scale_window',
  'hysteresis',
  'consecutive_hysteresis',
  'min_loss_scale',
  'fp16_master_weights_and_grads',
]

/** DeepSpeed keeps moments in bf16 too where it is told so. */
function pureOf(r: Reading): string {
  const states = r.bool('bf16.bf16_optimizer_states') === true
  const precision = states ? 'pure-bf16' : 'bf16-no-masters'
  r.carry(
    'bf16.bf16_master_weights_and_grads',
    'plan.precision',
    precision,
    'no master weights: the bf16 parameters are updated',
  )
  if (r.has('bf16.bf16_optimizer_states')) r.carry('bf16.bf16_optimizer_states', 'plan.precision', precision)
  return precision
}

function enabled(r: Reading, section: string, trainer: Trainer, name: string): boolean {
  const path = `${section}.enabled`
  const raw = r.raw(path)
  const wanted = trainer.bool(name)
  if (raw === 'auto') {
    if (trainer.present) r.derive(path, 'plan.precision', undefined, `auto is ${name} ${wanted} of the Trainer`)
    else r.assume(path, 'plan.precision', undefined, 'auto without the Trainer is the default: off')
    return trainer.present && wanted
  }
  if (trainer.present && typeof raw === 'string' && booleanOf(raw) !== undefined) {
    r.refuse(
      path,
      `the Trainer compares "${raw}", a string, with ${name} ${wanted}, and refuses: write it without quotes`,
    )
    return false
  }
  const said = r.bool(path)
  if (said === undefined) {
    if (r.has(section)) r.assume(path, 'plan.precision', undefined, 'false is the default of DeepSpeed')
    return false
  }
  if (trainer.present && said !== wanted) {
    if (trainer.says(name)) r.refuse(path, `${said} is not ${name} ${wanted} of the Trainer, which refuses that`)
    else r.drop('--trainer', `the Trainer requires ${name}=${said}, as in the file`)
  }
  r.carry(path, 'plan.precision', undefined)
  return said
}

/** The scale moves as DeepSpeed moves it, or stays. */
function readLossScale(r: Reading): void {
  const auto = (key: string) => (r.raw(`fp16.${key}`) === 'auto' ? undefined : r.number(`fp16.${key}`))
  const fixed = auto('loss_scale') ?? 0
  if (fixed > 0) {
    r.carry('fp16.loss_scale', 'training.lossScale', fixed)
    r.cosmetic(...scaling.slice(2).map(key => `fp16.${key}`))
    return
  }
  const scale = {
    kind: 'deepspeed',
    initial: 2 ** (auto('initial_scale_power') ?? 16),
    min: auto('min_loss_scale') ?? 1,
    interval: auto('loss_scale_window') ?? 1000,
    hysteresis: auto('hysteresis') ?? 2,
    consecutive: r.bool('fp16.consecutive_hysteresis') ?? false,
  }
  const words = `the scale starts at 2^${Math.log2(scale.initial)}, and changes as in DeepSpeed`
  r.carry('fp16.enabled', 'training.lossScale', scale, words)
  const fields = {
    loss_scale: '',
    initial_scale_power: '.initial',
    min_loss_scale: '.min',
    loss_scale_window: '.interval',
    hysteresis: '.hysteresis',
    consecutive_hysteresis: '.consecutive',
  }
  for (const [key, field] of Object.entries(fields))
    if (r.has(`fp16.${key}`)) r.carry(`fp16.${key}`, `training.lossScale${field}`, undefined)
  if (scale.min <= 0) r.drop('fp16.min_loss_scale', 'Lockstep requires a positive minimum')
  if (scale.min <= 0) r.set('training.lossScale.min', 1)
}

const dtypes: Readonly<Record<string, string>> = {
  fp32: 'f32',
  float32: 'f32',
  bf16: 'bf16',
  bfloat16: 'bf16',
  fp16: 'f16',
  float16: 'f16',
}

/** Gradients are summed in what the model computes in, unless it is said. */
function readGradients(r: Reading, precision: string): void {
  const path = 'data_types.grad_accum_dtype'
  const word = r.raw(path) === 'auto' ? undefined : r.word(path)
  const said = word === undefined ? undefined : dtypes[word.toLowerCase()]
  if (word !== undefined && said === undefined) r.refuse(path, `expected fp32, bf16 or fp16, got ${word}`)
  if (said === 'f16' || (said === undefined && precision === 'f16'))
    r.drop(said ? path : 'fp16', 'f16 gradient accumulation is not supported: f32 is used')
  else if (said !== undefined) r.carry(path, 'plan.gradients', said)
  else if (precision === 'bf16')
    r.assume(path, 'plan.gradients', 'bf16', 'DeepSpeed sums gradients in the dtype of the model')
  readWire(r, said ?? (precision === 'bf16' ? 'bf16' : 'f32'))
}

function readWire(r: Reading, gradients: string): void {
  const path = 'communication_data_type'
  const word = r.word(path)
  if (word === undefined) return
  const wire = dtypes[word.toLowerCase()]
  if (wire === undefined) r.refuse(path, `expected fp32, bf16 or fp16, got ${word}`)
  else if (wire === gradients) r.cosmetic(path)
  else if (gradients === 'f32')
    r.carry(path, 'plan.compress.reduce', wire, `gradients are summed in f32 and sent in ${wire}`)
  else
    r.drop(
      path,
      `gradients are kept in ${gradients} and sent in ${wire}: Lockstep reduces gradients in the dtype in which it stores them`,
    )
}
