/** Every op and its gradient against PyTorch autograd, and the optimizers against torch.optim, in f64. */
import { ok } from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { normal, type Op } from '../src/base/index.js'
import { type Case, casesOf } from './op-cases.js'
import { findPython, oneThread } from './python.js'
import { runOp, type Tensor } from './tiny.js'

const script = fileURLToPath(new URL('../../test/torch_ops.py', import.meta.url))
const python = findPython()
const skip = python ? false : 'no Python that imports torch'

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

// Masks are ours alone: finite differences look at those.
const cases = [1, 2, 3, 4, 5, 6, 7, 8].flatMap(casesOf).filter(({ op }) => !('dropout' in op))

const optimizers: Op[] = [
  { kind: 'adamw', beta1: 0.9, beta2: 0.95, eps: 1e-8, weightDecay: 0.1, clip: 0 },
  { kind: 'adamw', beta1: 0.8, beta2: 0.999, eps: 1e-3, weightDecay: 0, clip: 0.7 },
  { kind: 'sgd', momentum: 0, weightDecay: 0.01, clip: 0 },
  { kind: 'sgd', momentum: 0.9, weightDecay: 0.1, clip: 2 },
]
const noise = normal({ seed: 1, name: 'optimizers' })
const list = (from: number) => Array.from({ length: 5 }, (_, i) => noise(5 * from + i))
const runs = optimizers.map((op, i) => ({
  op,
  lr: 0.05,
  param: list(9 * i),
  grads: [1, 2, 3, 4].map(j => list(9 * i + j)),
}))

/** One process for everything: starting torch takes longer than all the rest. */
function ask(): { ops: Answer[]; params: { param: number[] }[] } {
  const input = JSON.stringify([...cases.map(question), ...runs])
  const answers = JSON.parse(
    execFileSync(python!, [script], { input, env: oneThread, encoding: 'utf8', maxBuffer: 2 ** 28 }),
  )
  return { ops: answers.slice(0, cases.length), params: answers.slice(cases.length) }
}
const answers = python ? ask() : { ops: [], params: [] }

test('every op and its gradient agree with PyTorch', { skip }, () => {
  for (const [i, { name, ins, forward, gradient }] of cases.entries()) {
    const outs = forward(ins)
    for (const [j, theirs] of answers.ops[i].outs.entries())
      close(`result ${j} of ${name}, case ${i}`, outs[j].values, theirs)
    for (const [operand, { values }] of Object.entries(gradient(outs)))
      close(`gradient ${operand} of ${name}, case ${i}`, values, answers.ops[i].grads[Number(operand)]!)
  }
})

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
  for (const [i, { op, param, grads, lr }] of runs.entries())
    close(`${op.kind}, case ${i}`, train(op, param, grads, lr), answers.params[i].param)
})
