/** Optimizers and schedules step by step, as torch, lion-pytorch, timm and Megatron-LM compute them. */
import { ok } from 'node:assert/strict'
import { test } from 'node:test'
import { elementsOf, type Op } from '../src/base/index.js'
import { lrAt, Training } from '../src/plan/index.js'
import { readFixture } from './fixtures.js'
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
  const [eps, least] = config.eps as readonly (number | null)[]
  const [rows, columns] = param.dims
  const beta2Decay = numberOf(config, 'beta2_decay')
  const how = { beta2Decay, eps: eps ?? 2 ** -52, ...(columns && { inputs: 1 }), ...free }
  const like = (dims: Tensor['dims']) => ({ dims, values: new Float64Array(elementsOf(dims)) })
  const states = columns ? [sized('rows', [rows]), sized('columns', [columns]), sized('mean', [])] : [state('v')]
  const means = columns ? [like([rows]), like([columns]), like([])] : []
  if (columns)
    run(
      { kind: 'factorSquares', inputs: 1, rows: rows.size, columns: columns.size, ...free },
      [grad, normSquared],
      means,
    )
  const sums = [scalarOf(), scalarOf()]
  run({ kind: 'adafactorSquares', ...how }, [grad, normSquared, taken, param, ...states, ...means], sums)
  const op = { least: least!, most: numberOf(config, 'd'), weightDecay: numberOf(config, 'weight_decay') }
  const elements = elementsOf(param.dims)
  run(
    { kind: 'adafactor', ...how, ...op, elements },
    [grad, normSquared, lr, taken, ...sums, ...means],
    [param, ...states],
  )
}

const updates: Readonly<Record<string, Update>> = {
  adamw: adamw({}),
  adam: adamw({ coupled: true }),
  'adamw-amsgrad': adamw({ amsgrad: true }),
  sgd,
  'sgd-nesterov': sgd,
  'sgd-dampening': sgd,
  lion,
  lamb,
  'lamb-clip': lamb,
  'muon-original': muon,
  'muon-original-bf16': muon,
  'muon-match_rms_adamw': muon,
  'muon-match_rms_adamw-bf16': muon,
  adafactor,
  'adafactor-decay': adafactor,
}

const scalar = (value: number): Tensor => ({ dims: [], values: [value] })

function steps({ config, shapes, initial, gradients }: Steps, update: Update): Float64Array[][] {
  const dims = shapes.map(shape => shape.map((size, i) => ({ name: `d${i}`, size })))
  const params = initial.map((values, i) => ({ dims: dims[i], values: Float64Array.from(values) }))
  const states = params.map(() => new Map<string, Tensor & { values: Float64Array }>())
  return gradients.map((grads, taken) => {
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
}

const { cases } = JSON.parse(readFixture('optimizers/steps.json')) as { cases: Steps[] }
for (const given of cases) {
  const update = updates[given.name]
  test(`${given.name} moves parameters as others do, step by step`, () => {
    const moved = steps(given, update)
    for (const [step, params] of given.params.entries())
      for (const [i, values] of params.entries())
        for (const [at, value] of values.entries()) {
          const gap = Math.abs(moved[step][i][at] - value)
          // Newton and Schulz in bf16: 3e-2 of lr a step.
          const bound = given.dtype === 'float32' ? 3e-2 * numberOf(given.config, 'lr') * (step + 1) : 0
          ok(gap <= bound + 1e-12 * Math.max(1, Math.abs(value)), `step ${step}, tensor ${i}, element ${at}: ${gap}`)
        }
  })
}

interface Orthogonal {
  readonly cases: readonly { readonly shape: readonly number[]; readonly x: number[]; readonly torch: number[] }[]
}

for (const { shape, x, torch } of (JSON.parse(readFixture('optimizers/newton-schulz.json')) as Orthogonal).cases)
  test(`Newton and Schulz of ${shape.join(' x ')}`, () => {
    const dims = shape.map((size, i) => ({ name: `d${i}`, size }))
    const out = { dims, values: new Float64Array(x.length) }
    const size = x.length + 2 * Math.min(...shape) ** 2
    const room = { dims: [{ name: 'room', size }], values: new Float64Array(size) }
    run({ kind: 'newtonSchulz', inputs: 1, products: 'f32', steps: 5 }, [{ dims, values: x }], [out, room])
    for (const [i, value] of torch.entries()) ok(Math.abs(out.values[i] - value) <= 1e-12, `element ${i}`)
  })

interface Schedules {
  readonly cases: readonly { readonly config: Config; readonly lr: readonly number[] }[]
}

const kinds = {
  ...{ constant: 'constant', linear: 'linear', cosine: 'cosine', WSD: 'wsd' },
  'inverse-square-root': 'inverse-sqrt',
} as const

for (const { config, lr } of (JSON.parse(readFixture('optimizers/schedules.json')) as Schedules).cases) {
  const style = config.lr_decay_style as keyof typeof kinds
  const shape = String(config.lr_wsd_decay_style ?? 'linear').replace('_', '-')
  test(`learning rates of Megatron: ${style}${style === 'WSD' ? `, ${shape}` : ''}`, () => {
    const training = Training.parse({
      ...{ seq: 1, globalBatch: 1, steps: lr.length, optimizer: { kind: 'sgd', lr: config.max_lr } },
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
