/** Every op by hand, by finite differences, and cut over ranks. */
import { ok } from 'node:assert/strict'
import { test } from 'node:test'
import { type Op, uniform } from '../src/base/index.js'
import { erf, erfc } from '../src/engine/index.js'
import { apply, type Case, casesOf } from './op-cases.js'
import { runOp, type Tensor, tensor } from './tiny.js'

const near = (actual: ArrayLike<number>, expected: ArrayLike<number>, tolerance = 1e-12) => {
  const scale = Math.max(1, ...Array.from(expected, Math.abs))
  const worst = Math.max(0, ...Array.from(expected, (value, i) => Math.abs(value - actual[i]) / scale))
  ok(
    actual.length === expected.length && worst <= tolerance,
    `off by ${worst}:\n${Array.from(actual)}\n${Array.from(expected)}`,
  )
}

/** 'seq 2, embed 1 = 3 4' */
function read(text: string): Tensor {
  const [dims, values] = text.split('=')
  return tensor(dims, values.trim().split(/\s+/).filter(Boolean).map(Number))
}

/** An op, its operands, and its results with their values. */
function gives(op: Op, ins: readonly string[], ...expected: string[]) {
  test(`${op.kind} by hand: ${ins.join('; ')}`, () => {
    const outs = expected.map(read)
    const results = apply(op, ins.map(read), ...outs.map(out => out.dims))
    for (const [i, { values }] of outs.entries()) near(results[i].values, values)
  })
}

gives({ kind: 'contract' }, ['m 2, k 2 = 1 2 3 4', 'k 2, n 2 = 5 6 7 8'], 'm 2, n 2 = 19 22 43 50')
gives({ kind: 'contract' }, ['k 2, m 2 = 1 2 3 4', 'n 2, k 2 = 5 6 7 8'], 'n 2, m 2 = 23 34 31 46')
gives({ kind: 'contract' }, ['m 2 = 1 2', 'n 2 = 3 4'], 'm 2, n 2 = 3 4 6 8')
gives({ kind: 'contract' }, ['k 3 = 1 2 3', 'j 2 = 4 5'], '= 54')
gives({ kind: 'contract' }, ['i 2, k 2 = 1 2 3 4', 'k 2, i 2 = 5 6 7 8'], 'i 2 = 19 50')
gives({ kind: 'add' }, ['m 2, n 2 = 1 2 3 4', 'n 2 = 10 20'], 'n 2, m 2 = 11 13 22 24')
gives({ kind: 'add' }, ['m 2 = 1 2', 'm 2 = 3 4', '= 100'], 'm 2 = 104 106')
gives({ kind: 'mul' }, ['m 2 = 2 3', 'n 2 = 5 7'], 'm 2, n 2 = 10 14 15 21')
gives({ kind: 'scale', by: 3 }, ['m 2 = 2 -3'], 'm 2 = 6 -9')
gives({ kind: 'sumTo' }, ['m 2, n 3 = 1 2 3 4 5 6'], 'n 3 = 5 7 9')
gives({ kind: 'maxOver' }, ['m 2, n 3 = 1 9 -3 -4 -5 -6'], 'm 2 = 9 -4')
gives({ kind: 'gelu', approximate: false }, ['m 3 = 0 1 -1'], 'm 3 = 0 0.8413447460685429 -0.15865525393145705')
gives({ kind: 'gelu', approximate: true }, ['m 2 = 0 1'], 'm 2 = 0 0.8411919906082768')
gives({ kind: 'swiglu' }, ['m 2 = 0 1', 'm 2 = 5 2'], `m 2 = 0 ${2 / (1 + Math.exp(-1))}`)
gives({ kind: 'layerNorm', eps: 0 }, ['m 1, n 2 = 1 3', 'n 2 = 10 1', 'n 2 = 0.5 0'], 'm 1, n 2 = -9.5 1')
gives({ kind: 'layerNorm', eps: 3 }, ['n 2 = 1 3', 'n 2 = 1 1', 'n 2 = 0 0'], 'n 2 = -0.5 0.5')
gives({ kind: 'rmsNorm', eps: 0 }, ['n 2, m 1 = 1 7', 'n 2 = 1 2'], 'm 1, n 2 = 0.2 2.8')
gives(
  { kind: 'rope', theta: 1, inverse: false },
  ['seq 2, headDim 2 = 5 6 1 0'],
  `headDim 2, seq 2 = 5 ${Math.cos(1)} 6 ${Math.sin(1)}`,
)
gives({ kind: 'embed' }, ['seq 3 = 1 7 0', 'vocab 2, embed 2 = 1 2 3 4'], 'seq 3, embed 2 = 3 4 0 0 1 2')
gives({ kind: 'embedGrad' }, ['seq 3 = 1 7 1', 'seq 3, embed 1 = 10 20 30'], 'vocab 2, embed 1 = 0 40')
gives({ kind: 'sumExp' }, ['seq 1, vocab 2 = 1 0', 'seq 1 = 1'], `seq 1 = ${1 + Math.exp(-1)}`)
gives({ kind: 'pick' }, ['vocab 2, seq 3 = 1 2 3 4 5 6', 'seq 3 = 1 -1 0'], 'seq 3 = 4 0 3')
gives({ kind: 'tokenLoss' }, ['seq 2 = 1 9', `seq 2 = ${Math.E} 9`, 'seq 2 = 0.5 9', 'seq 2 = 0 -100'], '= 1.5')
gives(
  { kind: 'tokenLossGrad' },
  ['seq 2, vocab 2 = 0 0 1 1', 'seq 2 = 0 1', 'seq 2 = 2 2', 'seq 2 = 1 -1', '= 4'],
  'seq 2, vocab 2 = 0.125 -0.125 0 0',
)
gives({ kind: 'countLabels' }, ['seq 4 = 0 -1 3 -100'], '= 2')
gives({ kind: 'countElements' }, ['m 2, n 3 = 0 0 0 0 0 0'], '= 6')
gives({ kind: 'squaredError' }, ['m 2 = 1 2', 'm 2 = 3 5'], '= 13')
gives({ kind: 'squaredErrorGrad' }, ['m 2 = 1 2', 'm 2 = 3 5', '= 2'], 'm 2 = -2 -3')
gives({ kind: 'zero' }, [], 'm 2 = 0 0')

// The second query sees keys with scores 0 and ln 3: probabilities 1/4 and 3/4.
gives(
  { kind: 'attention' },
  ['seq 2, headDim 1 = 5 1', `seq 2, headDim 1 = 0 ${Math.log(3)}`, 'seq 2, headDim 1 = 8 4'],
  'seq 2, headDim 1 = 8 5',
  `seq 2 = 0 ${Math.log(4)}`,
)
gives(
  { kind: 'attention', window: 1 },
  ['seq 2, headDim 1 = 5 1', 'seq 2, headDim 1 = 0 2', 'seq 2, headDim 1 = 8 4'],
  'seq 2, headDim 1 = 8 4',
  'seq 2 = 0 2',
)

test('dropout keeps what its counter says, and scales it', () => {
  const kept = uniform({ seed: 1, name: 'layer.3.hidden', step: 7 })
  const op: Op = { kind: 'dropout', dropout: { rate: 0.5, key: 'hidden' } }
  const x = read('batch 2, embed 3 = 1 2 3 4 5 6')
  const part = { ...x, origin: { batch: 4 }, whole: { batch: 8 } }
  const [y] = runOp(op, [part], [{ ...part, values: [] }], { step: 7, block: 'layer.3' })
  near(
    y,
    Array.from(x.values, (value, i) => (kept(4 * 3 + i) >= 0.5 ? 2 * value : 0)),
  )
})

/** Ops that read what they write: a result is given as it is before and after. */
function updates(op: Op, ins: readonly string[], outs: readonly (readonly [before: string, after: string])[], at = {}) {
  test(`${op.kind} by hand: ${ins.join('; ')}`, () => {
    const results = runOp(
      op,
      ins.map(read),
      outs.map(([before]) => read(before)),
      { at },
    )
    for (const [i, [, after]] of outs.entries()) near(results[i], read(after).values)
  })
}

updates({ kind: 'accumulate' }, ['m 2, n 2 = 1 2 3 4'], [['n 2, m 2 = 10 20 30 40', '= 11 23 32 44']])
updates({ kind: 'sumSquares', once: ['tp'] }, ['m 2 = 3 4'], [['= 1', '= 26']], { tp: 0, dp: 1 })
updates({ kind: 'sumSquares', once: ['dp', 'tp'] }, ['m 2 = 3 4'], [['= 1', '= 1']], { tp: 0, dp: 1 })
for (const x of ['m 2 = 3 NaN', 'm 2 = 3 Infinity'])
  test(`squares that another rank counts are NaN where one is not finite: ${x}`, () => {
    const [[sum]] = runOp({ kind: 'sumSquares', once: ['tp'] }, [read(x)], [read('= 1')], { at: { tp: 1 } })
    ok(Number.isNaN(sum))
  })

// g 2: m 0.5 * 4 + 0.5 * 2 = 3, v 0.75 * 4 + 0.25 * 4 = 4; at step 1 mhat = 3 / 0.75 = 4, vhat = 4 / 0.4375.
const adamw: Op = { kind: 'adamw', beta1: 0.5, beta2: 0.75, eps: 1, weightDecay: 0.1, clip: 0 }
const moved = 10 - 0.1 * (4 / (Math.sqrt(4 / 0.4375) + 1) + 0.1 * 10)
const state = [
  ['m 1 = 10', `= ${moved}`],
  ['m 1 = 4', '= 3'],
  ['m 1 = 4', '= 4'],
] as const
updates(adamw, ['m 1 = 2', '= 99', '= 0.1', '= 1'], state)
// The norm is 4, so clipping at 2 halves a gradient of 4.
updates({ ...adamw, clip: 2 * (1 + 0.25e-6) }, ['m 1 = 4', '= 16', '= 0.1', '= 1'], state)

updates(
  { kind: 'sgd', momentum: 0.5, weightDecay: 0.1, clip: 0 },
  ['m 1 = 2', '= 0', '= 0.1'],
  [
    ['m 1 = 10', '= 9.5'],
    ['m 1 = 4', '= 5'],
  ],
)
updates({ kind: 'sgd', momentum: 0, weightDecay: 0, clip: 1 }, ['m 1 = 2', '= 0.25', '= 0.5'], [['m 1 = 10', '= 9']])

test('erf and its complement have all their digits', () => {
  const erfs = [
    [1e-10, 1.1283791670955126e-10],
    [0.1, 0.1124629160182849],
    [0.5, 0.5204998778130465],
    [1, 0.8427007929497149],
    [1.5, 0.9661051464753108],
    [1.999, 0.9953015566513705],
    [2, 0.9953222650189527],
    [2.5, 0.999593047982555],
    [3, 0.9999779095030014],
    [6, 1.0],
  ]
  const complements = [
    [1.5, 0.033894853524689274],
    [1.999, 0.004698443348629487],
    [2, 0.004677734981047266],
    [2.5, 0.0004069520174449589],
    [3, 2.209049699858544e-5],
    [5, 1.537459794428035e-12],
    [10, 2.088487583762545e-45],
    [20, 5.395865611607901e-176],
  ]
  for (const [x, value] of erfs) near([erf(x) / value, erf(-x) / value], [1, -1], 1e-15)
  for (const [x, value] of complements) near([erfc(x) / value], [1], 2e-13)
})

/** d(sum of dout * out) / d(operand), by central differences. */
function differences({ ins, douts, forward }: Case, operand: number): number[] {
  const step = 1e-5
  const lossAt = (element: number, by: number) => {
    const moved = Float64Array.from(ins[operand].values)
    moved[element] += by
    const outs = forward(ins.map((x, i) => (i === operand ? { ...x, values: moved } : x)))
    return douts.reduce(
      (sum, dout, i) => sum + Array.from(dout.values).reduce((s, d, j) => s + d * outs[i].values[j], 0),
      0,
    )
  }
  return Array.from(ins[operand].values, (_, i) => (lossAt(i, step) - lossAt(i, -step)) / (2 * step))
}

for (const seed of [1, 2, 3, 4, 5, 6])
  for (const [index, one] of casesOf(seed).entries())
    test(`the gradient of ${one.name} agrees with differences (seed ${seed}, case ${index})`, () => {
      const gradients = one.gradient(one.forward(one.ins))
      for (const [operand, gradient] of Object.entries(gradients))
        near(gradient.values, differences(one, Number(operand)), 1e-7)
    })
