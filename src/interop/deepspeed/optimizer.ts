/** Optimizer, schedule of the learning rate, and clipping. */
import { counted } from '../../base/index.js'
import type { Reading } from '../reading.js'
import { numberOf } from '../reading.js'
import { type Trainer, trainerOptimizer, trainerSchedule } from '../trainer.js'

const params = (key: string): string => `optimizer.params.${key}`

/** What a number of the file is, with `auto` as the Trainer has it. */
function numberAt(r: Reading, path: string, trainer: Trainer, name?: string): number | undefined {
  const raw = r.raw(path)
  if (raw === 'auto') return name !== undefined && trainer.present ? trainer.number(name) : undefined
  const number = r.number(path)
  if (number === undefined || name === undefined || !trainer.present || trainer.number(name) === number) return number
  if (trainer.says(name))
    r.refuse(path, `${number} is not ${name} ${trainer.number(name)} of the Trainer, which refuses that`)
  else r.drop('--trainer', `the Trainer requires ${name}=${number}, as in the file`)
  return number
}

export function readOptimizer(r: Reading, trainer: Trainer): void {
  const type = r.word('optimizer.type')
  if (type === undefined) {
    if (r.has('optimizer')) r.refuse('optimizer.type', 'an optimizer has a type')
    else if (trainer.present) trainerOptimizer(r, trainer)
    else r.missing('training.optimizer', 'the optimizer is created in code')
    return
  }
  if (r.has(params('max_grad_norm')))
    r.refuse(params('max_grad_norm'), 'DeepSpeed rejects it in the optimizer: use gradient_clipping')
  const [kind, message] = kinds[type.toLowerCase()] ?? []
  if (kind === undefined) {
    r.drop('optimizer', `optimizer ${type} is not supported`)
    r.missing('training.optimizer', `${type} has no counterpart`)
    return
  }
  r.carry('optimizer.type', 'training.optimizer.kind', kind, message ?? '')
  if (type.toLowerCase().startsWith('onebit')) readOneBit(r)
  readRates(r, trainer, kind)
  readFlags(r, kind)
  for (const key of r.keys('optimizer.params'))
    if (isLeft(r, key)) r.drop(params(key), 'no job field corresponds to this setting')
}

/** Names of DeepSpeed and of torch.optim, as jobs call them. */
const kinds: Readonly<Record<string, readonly [string, string?]>> = {
  adam: ['adamw', "DeepSpeed's Adam decouples the decay unless adam_w_mode is false"],
  adamw: ['adamw'],
  fusedadam: ['adamw'],
  onebitadam: ['adamw', '1-bit Adam: gradients are compressed to signs from freeze_step on'],
  lamb: ['lamb', "DeepSpeed's LAMB clamps the trust ratio to [min_coeff 0.01, max_coeff 10]; Lockstep does not"],
  lion: ['lion'],
  muon: ['muon', 'parameters that are not matrices use AdamW, as in DeepSpeed'],
  sgd: ['sgd'],
  adafactor: ['adafactor'],
}

const settings = [
  'lr',
  'betas',
  'eps',
  'weight_decay',
  'momentum',
  'nesterov',
  'dampening',
  'adam_w_mode',
  'bias_correction',
  'amsgrad',
  'torch_adam',
  'freeze_step',
  'fused',
  'foreach',
  'muon_lr',
  'adam_lr',
  'ns_method',
]
const isLeft = (r: Reading, key: string): boolean => !settings.includes(key) && r.raw(params(key)) !== undefined

function readRates(r: Reading, trainer: Trainer, kind: string): void {
  const set = (key: string, field: string, value: number | undefined, usual: number) => {
    const path = `training.optimizer.${field}`
    const known = numberOf(value)
    if (r.raw(params(key)) === 'auto' && known !== undefined)
      r.derive(params(key), path, known, `auto: the Trainer's ${known}`)
    else if (known !== undefined) r.carry(params(key), path, known)
    else r.assume(params(key), path, usual, `${usual} is the default of DeepSpeed`)
  }
  set('lr', 'lr', numberAt(r, params('lr'), trainer, 'learning_rate'), 1e-3)
  set('weight_decay', 'weightDecay', numberAt(r, params('weight_decay'), trainer, 'weight_decay'), 0)
  if (kind === 'sgd' || kind === 'muon') {
    set('momentum', 'momentum', numberAt(r, params('momentum'), trainer), kind === 'sgd' ? 0 : 0.95)
    return
  }
  if (kind === 'adafactor') return
  const betas = betasOf(r, trainer)
  set('betas', 'beta1', betas?.[0], 0.9)
  set('betas', 'beta2', betas?.[1], kind === 'lion' ? 0.99 : 0.999)
  if (kind !== 'lion') set('eps', 'eps', numberAt(r, params('eps'), trainer, 'adam_epsilon'), 1e-8)
}

function betasOf(r: Reading, trainer: Trainer): readonly number[] | undefined {
  const path = params('betas')
  if (r.raw(path) === 'auto')
    return trainer.present ? [trainer.number('adam_beta1') ?? 0.9, trainer.number('adam_beta2') ?? 0.999] : undefined
  const list = r.list(path)?.map(numberOf)
  if (list === undefined) return undefined
  if (list.length === 2 && list.every(n => n !== undefined)) return list as number[] // each looked at
  r.refuse(path, 'expected two numbers')
  return undefined
}

function readFlags(r: Reading, kind: string): void {
  const flag = (key: string) => r.bool(params(key))
  if (flag('adam_w_mode') === false)
    r.carry(params('adam_w_mode'), 'training.optimizer.coupled', true, 'the decay is added to the gradient')
  else r.cosmetic(params('adam_w_mode'))
  const uncorrected = flag('bias_correction') === false
  if (uncorrected && kind === 'adamw')
    r.carry(params('bias_correction'), 'training.optimizer.uncorrected', true, 'no bias correction')
  else if (uncorrected) r.drop(params('bias_correction'), 'Lockstep always applies bias correction')
  else r.cosmetic(params('bias_correction'))
  for (const [key, field] of [
    ['amsgrad', 'amsgrad'],
    ['nesterov', 'nesterov'],
  ] as const)
    if (flag(key) !== undefined) r.carry(params(key), `training.optimizer.${field}`, flag(key))
  const dampening = r.number(params('dampening'))
  if (dampening !== undefined) r.carry(params('dampening'), 'training.optimizer.dampening', dampening)
  for (const key of ['muon_lr', 'adam_lr']) {
    const lr = r.number(params(key))
    if (lr !== undefined)
      r.carry(params(key), key === 'muon_lr' ? 'training.optimizer.lr' : 'training.optimizer.adamw.lr', lr)
  }
  r.cosmetic(...['torch_adam', 'fused', 'foreach', 'ns_method'].map(params))
}

function readOneBit(r: Reading): void {
  const from = r.whole(params('freeze_step')) ?? 100000
  r.carry(
    params('freeze_step'),
    'plan.compress',
    { reduce: 'onebit', from },
    `gradients are compressed to signs from step ${from} on`,
  )
  r.set('training.optimizer.uncorrected', true)
}

const schedulers: Readonly<Record<string, 'constant' | 'linear' | 'cosine'>> = {
  warmuplr: 'constant',
  warmupdecaylr: 'linear',
  warmupcosinelr: 'cosine',
}

export function readSchedule(r: Reading, trainer: Trainer): void {
  const type = r.word('scheduler.type')
  if (type === undefined) {
    if (r.field('training.lrSchedule') !== undefined) return
    if (trainer.present) trainerSchedule(r, trainer)
    else
      r.assume(
        'scheduler',
        'training.lrSchedule',
        { kind: 'constant' },
        'without a scheduler the learning rate is constant',
      )
    return
  }
  const kind = schedulers[type.toLowerCase()]
  if (kind === undefined) {
    r.drop('scheduler', `schedule ${type} is not supported`)
    return
  }
  r.carry('scheduler.type', 'training.lrSchedule.kind', kind)
  readWarmup(r, trainer, kind)
}

function readWarmup(r: Reading, trainer: Trainer, kind: 'constant' | 'linear' | 'cosine'): void {
  const at = (key: string) => `scheduler.params.${key}`
  const steps = stepsAt(r, at('warmup_num_steps'), trainer.present ? trainer.warmup : undefined) ?? 1000
  const warmup = Math.max(2, steps)
  r.carry(
    at('warmup_num_steps'),
    'training.lrSchedule.warmup',
    warmup,
    steps < 2 ? `${counted(steps, 'step')}: DeepSpeed warms up for at least 2 steps` : '',
  )
  const lr = Number(r.field('training.optimizer.lr') ?? numberAt(r, at('warmup_max_lr'), trainer, 'learning_rate') ?? 0)
  const top = kind === 'cosine' ? lr : (numberAt(r, at('warmup_max_lr'), trainer, 'learning_rate') ?? 0.001)
  if (kind !== 'cosine' && top > 0)
    r.carry(
      at('warmup_max_lr'),
      'training.optimizer.lr',
      r.field('training.optimizer') ? top : undefined,
      'the scheduler overrides the learning rate of the optimizer',
    )
  const from =
    kind === 'cosine' ? lr * (r.number(at('warmup_min_ratio')) ?? 0) : (numberAt(r, at('warmup_min_lr'), trainer) ?? 0)
  r.carry(at(kind === 'cosine' ? 'warmup_min_ratio' : 'warmup_min_lr'), 'training.lrSchedule.warmupFrom', from)
  const instead = 'DeepSpeed falls back to logarithmic warmup; in Lockstep it is linear'
  const isLinear = r.choice(at('warmup_type'), { linear: true, log: false }, instead)
  if (isLinear) r.carry(at('warmup_type'), 'training.lrSchedule.warmup', undefined)
  else if (isLinear === false || !r.has(at('warmup_type')))
    r.drop(
      at('warmup_type'),
      `DeepSpeed warms up by log(step) / log(${warmup})${r.has(at('warmup_type')) ? '' : ' unless warmup_type is linear'}; Lockstep's warmup is linear`,
    )
  if (kind === 'constant') return
  const total = stepsAt(r, at('total_num_steps'), trainer.present ? trainer.steps : undefined)
  if (total === undefined) r.missing('training.steps', 'total_num_steps is not in the file: --trainer max_steps=1000')
  else r.carry(at('total_num_steps'), 'training.lrSchedule.decaySteps', total)
  if (total !== undefined && r.field('training.steps') === undefined) r.set('training.steps', total)
  const least = kind === 'cosine' ? lr * (r.number(at('cos_min_ratio')) ?? 0.0001) : 0
  if (kind === 'cosine') r.carry(at('cos_min_ratio'), 'training.lrSchedule.minLr', least, `${least} of lr ${lr}`)
  else r.set('training.lrSchedule.minLr', 0)
}

const stepsAt = (r: Reading, path: string, auto: number | undefined): number | undefined =>
  r.raw(path) === 'auto' ? auto : r.whole(path)

export function readClip(r: Reading, trainer: Trainer): void {
  const path = 'gradient_clipping'
  if (!r.has(path)) {
    r.assume(path, 'training.clip', 1, '1.0 is the default of DeepSpeed from 0.19.3 on; up to 0.19.2 no clipping')
    return
  }
  const clip = numberAt(r, path, trainer, 'max_grad_norm')
  if (clip === undefined && !r.refused) r.refuse(path, 'auto: the Trainer sets it: --trainer max_grad_norm=1')
  else if (r.raw(path) === 'auto')
    r.derive(path, 'training.clip', clip || undefined, `auto is ${trainer.show('max_grad_norm')}`)
  else r.carry(path, 'training.clip', clip || undefined, clip ? '' : '0: no clipping')
}
