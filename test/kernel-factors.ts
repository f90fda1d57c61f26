/** Cases of Adafactor: of matrices, one or several, and of what is none; and of averages. */
import { elementsOf, squaredLimit } from '../src/base/index.js'
import { type Make, reference } from './kernel-draw.js'
import { guards, norms, scalar } from './kernel-scaler.js'
import type { Tensor } from './tiny.js'

type Drawing = Parameters<Make>[0]
type Named = Readonly<Record<string, Tensor>>

const valuesOf = (tensors: Named) =>
  Object.fromEntries(Object.entries(tensors).map(([name, { values }]) => [name, values]))

/** Matrices of some experts, or of none. */
function drawn({ size, tensor, pick }: Drawing) {
  const [expert, n, m] = [pick([1, 2]), Math.max(1, size()), Math.max(1, size(600))]
  const each = expert > 1 ? { expert } : {}
  const words = { n: expert * n * m, first: 0, each: expert, height: n, width: m }
  return { each, n, m, words, grad: tensor({ ...each, n, m }), param: tensor({ ...each, n, m }) }
}

export const factorSquares: Make = d => {
  const { each, n, m, words, grad } = drawn(d)
  const [clip, normSquared] = [d.pick([0, 1]), scalar(4)]
  const op = { kind: 'factorSquares', inputs: 1, rows: 2 * n, columns: m, clip } as const
  const [rows, columns, mean] = reference(op, [grad, normSquared], { ...each, n }, { ...each, m }, each)
  return {
    command: 'factorSquares',
    ins: { grad: grad.values, normSquared: normSquared.values },
    words: { ...words, rowCount: 2 * n, columnCount: m, clip },
    expected: { rows, columns, mean },
    bound: 4e-6,
  }
}

const squared = (tensor: Tensor): Tensor => ({ ...tensor, values: Array.from(tensor.values, x => Math.fround(x * x)) })

/** What is kept, and the means of a step; `words`: those that say that the others are not there. */
function kept(d: Drawing, { each, n, m }: ReturnType<typeof drawn>) {
  const isMatrix = d.chance(0.7)
  const factors = () => [{ ...each, n }, { ...each, m }, each].map(dims => squared(d.tensor(dims)))
  const named = (names: readonly string[], tensors: readonly Tensor[]): Named =>
    Object.fromEntries(names.map((name, i) => [name, tensors[i]]))
  const none = { rows: 0, columns: 0, mean: 0, rowMeans: 0, columnMeans: 0, meanSquare: 0 }
  if (!isMatrix) return { states: { v: squared(d.tensor({ ...each, n, m })) }, means: {}, inputs: {}, absent: none }
  const [states, means] = [
    named(['rows', 'columns', 'mean'], factors()),
    named(['rowMeans', 'columnMeans', 'meanSquare'], factors()),
  ]
  return { states, means, inputs: { inputs: 1 }, absent: { v: 0 } }
}

const settings = ({ pick }: Drawing) => ({
  beta2Decay: pick([-0.8, -0.5]),
  eps1: pick([1e-7, 0.5]),
  clip: pick([0, 1]),
})

/** The settings under the names that their commands have for them. */
const commandWords = (settings: Readonly<Record<string, number>>): Record<string, number> => {
  const names: Readonly<Record<string, string>> = { eps1: 'eps', eps2: 'least', clipThreshold: 'most' }
  return Object.fromEntries(Object.entries(settings).map(([name, value]) => [names[name] ?? name, value]))
}

export const adafactorSquares: Make = d => {
  const matrix = drawn(d)
  const { states, means, inputs, absent } = kept(d, matrix)
  const [normSquared, taken, how] = [scalar(4), scalar(d.pick([0, 100])), settings(d)]
  const ins = { grad: matrix.grad, normSquared, taken, param: matrix.param, ...states, ...means }
  const results = reference({ kind: 'adafactorSquares', ...how, ...inputs }, Object.values(ins), {}, {})
  return {
    command: 'adafactorSquares',
    ins: valuesOf(ins),
    words: { ...matrix.words, ...absent, ...commandWords(how) },
    expected: { paramSquared: results[0], stepSquared: results[1] },
    bound: 1e-5,
  }
}

export const adafactor: Make = d => {
  const matrix = drawn(d)
  const { states, means, inputs, absent } = kept(d, matrix)
  const { grad, param } = matrix
  const numbers = {
    normSquared: d.pick(norms),
    lr: 0.01,
    taken: d.pick([0, 100]),
    paramSquared: d.pick([0, 9]),
    stepSquared: 4,
  }
  const scalars: Named = Object.fromEntries(Object.entries(numbers).map(([name, value]) => [name, scalar(value)]))
  const elements = elementsOf(param.dims)
  const told = {
    eps2: 1e-3,
    clipThreshold: d.pick([0.01, 1]),
    weightDecay: d.pick([0, 0.1]),
    ...d.pick(guards),
    rate: d.pick([1, 2]),
  }
  const op = { kind: 'adafactor', ...settings(d), ...told, elements, ...inputs } as const
  const results = reference(op, [grad, ...Object.values({ ...scalars, ...means })], param, ...Object.values(states))
  const { kind: _, limit: __, inputs: ___, ...words } = { limit: 0, inputs: 0, ...op }
  return {
    command: 'adafactor',
    ins: { grad: grad.values, ...valuesOf({ ...scalars, ...means }) },
    initial: { param: param.values, ...valuesOf(states) },
    words: { ...matrix.words, ...absent, ...commandWords(words), limit: squaredLimit(told) },
    expected: Object.fromEntries(['param', ...Object.keys(states)].map((name, i) => [name, results[i]])),
    magnitude: 1,
    bound: 1e-6,
  }
}

export const average: Make = ({ size, tensor, pick }) => {
  const n = size(500)
  const [value, ema, guard] = [tensor({ n }), tensor({ n }), pick(guards)]
  const [normSquared, taken] = [scalar(pick(norms)), scalar(pick([0, 1, 100]))]
  const [expected] = reference({ kind: 'average', decay: 0.99, ...guard }, [value, normSquared, taken], ema)
  return {
    ...{ command: 'average', initial: { ema: ema.values } },
    ins: { value: value.values, normSquared: normSquared.values, taken: taken.values },
    words: { n, decay: 0.99, limit: squaredLimit(guard) },
    ...{ expected: { ema: expected }, magnitude: 1, bound: 2e-7 },
  }
}
