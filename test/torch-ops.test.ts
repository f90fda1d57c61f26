/** Every op and its gradient against PyTorch autograd, and the optimizers against torch.optim, in f64. */
import { ok } from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { choices, normal, type Op } from '../src/base/index.js'
import { type Case, casesOf } from './op-cases.js'
import { findPython } from './python.js'
import { runOp, type Tensor } from './tiny.js'

const script = fileURLToPath(new URL('../../test/torch_ops.py', import.meta.url))
const python = findPython()
const skip = python ? false : 'no Python that imports torch'

function ask<T>(cases: readonly object[]): T[] {
  const input = JSON.stringify(cases)
  return JSON.parse(execFileSync(python!, [script], { input, encoding: 'utf8', maxBuffer: 2 ** 28 }))
}

const close = (what: string, ours: ArrayLike<number>, theirs: readonly number[]) => {
  const scale = Math.max(1, ...theirs.map(Math.abs))
  const worst = Math.max(0, ...theirs.map((value, i) => Math.abs(value - ours[i]) / scale))
  ok(ours.length === theirs.length && worst < 1e-12, `${what} is off by ${worst}`)
}

const named = ({ dims, values }: Tensor) => ({
  names: dims.map(dim => dim.name),
  sizes: dims.map(dim => dim.size),
  values: Array.from(values),
})

interface Answer {
  readonly outs: number[][]
  readonly grads: (number[] | null)[]
}

function question({ op, ins, douts, forward }: Case) {
  const outs = forward(ins).map(({ dims }) => dims.map(dim => dim.name))
  return { op, ins: ins.map(named), outs, douts: douts.map(({ values }) => Array.from(values)) }
}

test('every op and its gradient agree with PyTorch', { skip }, () => {
  // Masks are ours alone: finite differences look at those.
  const cases = [1, 2, 3, 4, 5, 6, 7, 8].flatMap(casesOf).filter(({ op }) => !('dropout' in op))
  const answers = ask<Answer>(cases.map(question))
  for (const [i, { name, ins, forward, gradient }] of cases.entries()) {
    const outs = forward(ins)
    for (const [j, theirs] of answers[i].outs.entries())
      close(`result ${j} of ${name}, case ${i}`, outs[j].values, theirs)
    for (const [operand, { values }] of Object.entries(gradient(outs)))
      close(`gradient ${operand} of ${name}, case ${i}`, values, answers[i].grads[Number(operand)]!)
  }
})

const optimizers: Op[] = [
  { kind: 'adamw', beta1: 0.9, beta2: 0.95, eps: 1e-8, weightDecay: 0.1, clip: 0 },
  { kind: 'adamw', beta1: 0.8, beta2: 0.999, eps: 1e-3, weightDecay: 0, clip: 0.7 },
  { kind: 'sgd', momentum: 0, weightDecay: 0.01, clip: 0 },
  { kind: 'sgd', momentum: 0.9, weightDecay: 0.1, clip: 2 },
]

/** Several steps on the same gradients. */
function train(op: Op, param: readonly number[], grads: readonly number[][], lr: number): number[] {
  const dims = [{ name: 'n', size: param.length }]
  const scalar = (value: number): Tensor => ({ dims: [], values: [value] })
  const state = [param, param.map(() => 0), param.map(() => 0)].slice(0, op.kind === 'sgd' ? 2 : 3)
  const last = grads.reduce<ArrayLike<number>[]>((state, grad, step) => {
    const norm = grad.reduce((sum, g) => sum + g * g, 0)
    const ins = [{ dims, values: grad }, scalar(norm), scalar(lr), ...(op.kind === 'adamw' ? [scalar(step)] : [])]
    return runOp(
      op,
      ins,
      state.map(values => ({ dims, values })),
    )
  }, state)
  return Array.from(last[0])
}

test('the optimizers agree with torch.optim over several steps', { skip }, () => {
  const { int } = choices(1)
  const noise = normal({ seed: 1, name: 'optimizers' })
  const list = (n: number) => Array.from({ length: n }, () => noise(int(1e6)))
  const cases = optimizers.map(op => ({ op, lr: 0.05, param: list(5), grads: [list(5), list(5), list(5), list(5)] }))
  const answers = ask<{ param: number[] }>(cases)
  for (const [i, { op, param, grads, lr }] of cases.entries())
    close(`${op.kind}, case ${i}`, train(op, param, grads, lr), answers[i].param)
})
