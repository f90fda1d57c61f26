/** Optimizers and schedules step by step, as torch, lion-pytorch, timm and Megatron-LM compute them. */
import { deepEqual, equal, ok } from 'node:assert/strict'
import { test } from 'node:test'
import { elementsOf, type Op } from '../src/base/index.js'
import { lrAt, Training } from '../src/plan/index.js'
import { close, readFixture } from './fixtures.js'
import { runOp, type Tensor } from './tiny.js'

type Config = Readonly<Record<string, number | boolean | string | null | readonly number[]>>

interface Steps {
  readonly name: string
  readonly config: Config
  readonly dtype: string
  readonly shapes: readonly (readonly number[])[]
  readonly initial: readonly (readonly number[])[]
  readonly gradients: readonly (readonly (readonly number[])[])[]
  readonly params: readonly (readonly (readonly number[])[])[]
  /** Of each parameter at the end, by their names. */
  readonly state: readonly Readonly<Record<string, number | readonly number[]>>[]
}

/** What takes the place of one line of `step` for one parameter: its state is `held`. */
type Update = (config: Config, given: Given) => void

interface Given {
  readonly param: Tensor & { values: Float64Array }
  readonly grad: Tensor
  readonly scalars: Readonly<Record<'normSquared' | 'lr' | 'taken', Tensor>>
  /** State by name, zeros at first. */
  state(name: string): Tensor & { values: Float64Array }
  /** One of other dims than the parameter. */
  sized(name: string, dims: Tensor['dims']): Tensor & { values: Float64Array }
}

const free = { clip: 0 } as const
const betas = (config: Config) => {
  const [beta1, beta2] = config.betas as readonly number[]
  return { beta1, beta2 }
}
const numberOf = (config: Config, key: string): number => Number(config[key] ?? 0)

function run(op: Op, ins: readonly Tensor[], outs: readonly (Tensor & { values: Float64Array })[]): void {
  const results = runOp(op, ins, outs, { seed: 1, step: 0, block: '' })
  for (const [i, values] of results.entries()) outs[i].values.set(values)
}

const adamw =
  (flags: { coupled?: boolean; amsgrad?: boolean }): Update =>
  (config, { param, grad, scalars: { normSquared, lr, taken }, state }) =>
    run(
      {
        ...{ kind: 'adamw', ...betas(config), eps: numberOf(config, 'eps'), ...flags },
        ...{ weightDecay: numberOf(config, 'weight_decay'), ...free },
      },
      [grad, normSquared, lr, taken],
      [param, state('m'), state('v'), ...(flags.amsgrad ? [state('top')] : [])],
    )

const sgd: Update = (config, { param, grad, scalars: { normSquared, lr, taken }, state }) =>
  run(
    {
      ...{ kind: 'sgd', momentum: numberOf(config, 'momentum'), weightDecay: numberOf(config, 'weight_decay') },
      ...{ nesterov: config.nesterov === true, dampening: numberOf(config, 'dampening'), ...free },
    },
    [grad, normSquared, lr, taken],
    [param, state('m')],
  )

const lion: Update = (config, { param, grad, scalars: { normSquared, lr }, state }) =>
  run(
    { kind: 'lion', ...betas(config), weightDecay: numberOf(config, 'weight_decay'), ...free },
    [grad, normSquared, lr],
    [param, state('m')],
  )

const scalarOf = () => ({ dims: [], values: new Float64Array(1) })

const lamb: Update = (config, { param, grad, scalars: { normSquared, lr, taken }, state }) => {
  const { max_grad_norm: most, always_adapt: always } = config
  // timm divides by max(1, norm / most) itself.
  const by = most === null ? 1 : Math.max(1, Math.sqrt(normSquared.values[0]) / Number(most))
  const given = { ...grad, values: Float64Array.from(grad.values, g => g / by) }
  const how = { ...betas(config), eps: numberOf(config, 'eps'), weightDecay: numberOf(config, 'weight_decay'), ...free }
  const [held, sums] = [
    [param, state('m'), state('v')],
    [scalarOf(), scalarOf()],
  ]
  run({ kind: 'lambSquares', ...how }, [given, normSquared, taken, ...held], sums)
  run({ kind: 'lamb', ...how, always: always === true }, [given, normSquared, lr, taken, ...sums], held)
}

/** torch has [outputs inputs], we have [inputs outputs]. */
const muon: Update = (config, { param, grad, scalars: { normSquared, lr }, state }) => {
  const [rows, columns] = param.dims.map(({ size }) => size)
  const momentum = numberOf(config, 'momentum')
  const nesterov = config.nesterov === true
  const like = () => ({ dims: param.dims, values: new Float64Array(rows * columns) })
  const room = { name: 'room', size: rows * columns + 2 * Math.min(rows, columns) ** 2 }
  const [mean, direction] = [like(), like()]
  run({ kind: 'muonMean', momentum, nesterov, ...free }, [grad, normSquared, state('m')], [mean])
  const outs = [direction, { dims: [room], values: new Float64Array(room.size) }]
  run({ kind: 'newtonSchulz', inputs: 1, products: 'f32', steps: numberOf(config, 'ns_steps') }, [mean], outs)
  const original = config.adjust_lr_fn === 'original'
  const stretch = original ? Math.sqrt(Math.max(1, rows / columns)) : 0.2 * Math.sqrt(Math.max(rows, columns))
  const op = { kind: 'muon', momentum, stretch, weightDecay: numberOf(config, 'weight_decay'), ...free } as const
  run(op, [grad, normSquared, lr, direction], [param, state('m')])
}

const adafactor: Update = (config, { param, grad, scalars: { normSquared, lr, taken }, state, sized }) => {
  const [eps1, eps2] = config.eps as readonly (number | null)[]
  const [rows, columns] = param.dims.slice(-2)
  const each = param.dims.slice(0, -2) // matrices of their own
  const isMatrix = param.dims.length > 1
  const inputs = 1
  const beta2Decay = numberOf(config, 'beta2_decay')
  const how = { beta2Decay, eps1: eps1 ?? 2 ** -52, ...(isMatrix && { inputs }), ...free }
  const like = (dims: Tensor['dims']) => ({ dims, values: new Float64Array(elementsOf(dims)) })
  const parts = { rows: [...each, rows], columns: [...each, columns], mean: each }
  const states = isMatrix ? Object.entries(parts).map(([name, dims]) => sized(name, dims)) : [state('v')]
  const means = isMatrix ? Object.values(parts).map(like) : []
  if (isMatrix)
    run({ kind: 'factorSquares', inputs, rows: rows.size, columns: columns.size, ...free }, [grad, normSquared], means)
  const sums = [scalarOf(), scalarOf()]
  run({ kind: 'adafactorSquares', ...how }, [grad, normSquared, taken, param, ...states, ...means], sums)
  const op = { eps2: eps2!, clipThreshold: numberOf(config, 'd'), weightDecay: numberOf(config, 'weight_decay') }
  const elements = elementsOf(param.dims)
  run(
    { kind: 'adafactor', ...how, ...op, elements },
    [grad, normSquared, lr, taken, ...sums, ...means],
    [param, ...states],
  )
}

/** By the first word of a case's name. */
const updates = { adam: adamw({ coupled: true }), sgd, lion, lamb, muon, adafactor } as const

function updateOf({ name, state }: Steps): Update {
  const [family] = name.split('-')
  if (family === 'adamw') return adamw({ amsgrad: 'max_exp_avg_sq' in state[0] })
  return updates[family as keyof typeof updates]
}

/** Theirs of a state that we name so. */
const stateNames: Readonly<Record<string, readonly string[]>> = {
  ...{ m: ['exp_avg', 'momentum_buffer'], v: ['exp_avg_sq', 'variance'], top: ['max_exp_avg_sq'] },
  ...{ rows: ['row_var'], columns: ['col_var'] },
}

const scalar = (value: number): Tensor => ({ dims: [], values: [value] })

/** Of each step the parameters, and the states in which they end. */
function steps({ config, shapes, initial, gradients }: Steps, update: Update) {
  const dims = shapes.map(shape =>
    shape.map((size, i) => ({ name: shape.length > 2 && i === 0 ? 'expert' : `d${i}`, size })),
  )
  const params = initial.map((values, i) => ({ dims: dims[i], values: Float64Array.from(values) }))
  const states = params.map(() => new Map<string, Tensor & { values: Float64Array }>())
  const moved = gradients.map((grads, taken) => {
    const normSquared = grads.flat().reduce((sum, g) => sum + g * g, 0)
    const scalars = { normSquared: scalar(normSquared), lr: scalar(numberOf(config, 'lr')), taken: scalar(taken) }
    for (const [i, param] of params.entries()) {
      const sized = (name: string, dims: Tensor['dims']) => {
        const known = states[i].get(name) ?? { dims, values: new Float64Array(elementsOf(dims)) }
        states[i].set(name, known)
        return known
      }
      const state = (name: string) => sized(name, param.dims)
      update(config, { param, grad: { dims: param.dims, values: grads[i] }, scalars, state, sized })
    }
    return params.map(({ values }) => values.slice())
  })
  return { moved, states }
}

const { cases } = JSON.parse(readFixture('optimizers/steps.json')) as { cases: Steps[] }
for (const given of cases)
  test(`${given.name} moves parameters as others do, step by step`, () => {
    const { moved, states } = steps(given, updateOf(given))
    equal(given.params.length, moved.length)
    // Newton and Schulz in bf16: 3e-2 of lr a step.
    const loose = given.dtype === 'float32'
    for (const [step, params] of given.params.entries())
      for (const [i, values] of params.entries())
        for (const [at, value] of values.entries()) {
          const gap = Math.abs(moved[step][i][at] - value)
          const bound = loose ? 3e-2 * numberOf(given.config, 'lr') * (step + 1) : 0
          ok(gap <= bound + 1e-12 * Math.max(1, Math.abs(value)), `step ${step}, tensor ${i}, element ${at}: ${gap}`)
        }
    for (const [i, { step = moved.length, ...theirs }] of given.state.entries()) {
      equal(step, moved.length)
      for (const [name, values] of Object.entries(theirs)) {
        const [ours] = Object.entries(stateNames).find(([, names]) => names.includes(name))!
        close(states[i].get(ours)!.values, values as readonly number[], name, loose ? 1e-6 : 1e-12)
      }
    }
  })

interface Orthogonal {
  readonly cases: readonly Readonly<Record<'shape' | 'x' | 'torch' | 'keller', readonly number[]>>[]
}

for (const { shape, x, torch, keller } of (JSON.parse(readFixture('optimizers/newton-schulz.json')) as Orthogonal)
  .cases)
  test(`Newton and Schulz of ${shape.join(' x ')}`, () => {
    const dims = shape.map((size, i) => ({ name: `d${i}`, size }))
    const out = { dims, values: new Float64Array(x.length) }
    const size = x.length + 2 * Math.min(...shape) ** 2
    const room = { dims: [{ name: 'room', size }], values: new Float64Array(size) }
    run({ kind: 'newtonSchulz', inputs: 1, products: 'f32', steps: 5 }, [{ dims, values: x }], [out, room])
    close(out.values, torch, 'torch')
    close(out.values, keller, 'keller', 1e-6) // divides by norm + 1e-7
  })

interface Schedules {
  readonly cases: readonly { readonly config: Config; readonly lr: readonly number[]; readonly wd: readonly number[] }[]
}

const kinds = {
  ...{ constant: 'constant', linear: 'linear', cosine: 'cosine', WSD: 'wsd' },
  'inverse-square-root': 'inverse-sqrt',
} as const

for (const { config, lr, wd } of (JSON.parse(readFixture('optimizers/schedules.json')) as Schedules).cases) {
  const style = config.lr_decay_style as keyof typeof kinds
  const shape = String(config.lr_wsd_decay_style ?? 'linear').replace('_', '-')
  test(`learning rates and weight decay of Megatron: ${style}${style === 'WSD' ? `, ${shape}` : ''}`, () => {
    const training = Training.parse({
      ...{
        seq: 1,
        globalBatch: 1,
        steps: lr.length,
        optimizer: { kind: 'sgd', lr: config.max_lr, weightDecay: config.start_wd },
      },
      lrSchedule: {
        ...{ kind: kinds[style], warmup: config.lr_warmup_steps, warmupFrom: config.init_lr, minLr: config.min_lr },
        decaySteps: config.lr_decay_steps,
        ...(style === 'WSD' && { cooldown: config.wsd_decay_steps, cooldownShape: shape }),
      },
    })
    for (const [taken, rate] of lr.entries())
      ok(
        Math.abs(lrAt(training, taken) - rate) <= 1e-12 * rate,
        `${taken} taken: ${lrAt(training, taken)}, not ${rate}`,
      )
    // Ours does not change in a run.
    deepEqual([config.wd_incr_style, config.end_wd], ['constant', training.optimizer.weightDecay])
    deepEqual(wd, new Array(lr.length).fill(training.optimizer.weightDecay))
  })
}

interface Clipped {
  readonly max: number
  readonly gradients: readonly (readonly number[])[]
  readonly norm: number
  readonly clipped: readonly (readonly number[])[]
}

for (const { max, gradients, norm, clipped } of (
  JSON.parse(readFixture('optimizers/clip-ema.json')) as { clip: readonly Clipped[] }
).clip)
  test(`gradients of norm ${norm.toPrecision(3)} are clipped to ${max} as torch does`, () => {
    const tensors = gradients.map(values => ({ dims: [{ name: 'd', size: values.length }], values }))
    const [normSquared, lr] = [scalarOf(), { dims: [], values: [1] }]
    for (const grad of tensors) run({ kind: 'sumSquares', once: [] }, [grad], [normSquared])
    ok(Math.abs(Math.sqrt(normSquared.values[0]) - norm) <= 1e-12)
    for (const [i, grad] of tensors.entries()) {
      // Of lr 1, from 0, the step is the gradient that was left.
      const param = { dims: grad.dims, values: new Float64Array(grad.values.length) }
      run({ kind: 'sgd', momentum: 0, weightDecay: 0, clip: max }, [grad, normSquared, lr], [param])
      for (const [k, value] of clipped[i].entries())
        ok(Math.abs(param.values[k] + value) <= 1e-12, `${i}: element ${k}`)
    }
  })
