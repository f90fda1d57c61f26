/** *lower*: Adafactor, which must know which row and column each element is of, wherever a part of a line begins. */
import { elementsOf, flatAxes, shapeOfMatrix } from '../../../base/index.js'
import type { InstrOf, Ref } from '../../../ir/index.js'
import { alike, type Site, size } from './site.js'

/** Matrices as the rank's block has them, and which of their elements it holds; a tensor that is none is one row. */
function matrixAt(s: Site, ref: Ref, inputs: number) {
  const { dims, layout } = s.buffer(ref)
  const { each, rows: height, columns: width } = shapeOfMatrix(dims, inputs)
  const axes = flatAxes(layout)
  const first = axes.length > 0 ? s.index(axes) * size(s, ref) : 0
  return { n: Math.max(0, Math.min(size(s, ref), elementsOf(dims) - first)), first, each, height, width }
}

export function factorSquares(instr: InstrOf<'factorSquares'>, s: Site): void {
  const [grad, normSquared] = instr.ins.map(ref => s.at(ref))
  const [rows, columns, mean] = instr.outs.map(ref => s.at(ref))
  s.list.write('factorSquares', {
    ...{ rows, columns, mean, grad, normSquared, ...matrixAt(s, instr.ins[0], instr.inputs) },
    ...{ rowCount: instr.rows, columnCount: instr.columns, clip: instr.clip },
  })
}

/** Of a matrix, what is kept of it and the means of the step; else its v. */
const heldAt = (places: readonly number[], means: readonly number[]) => {
  const [rows, columns, mean, rowMeans, columnMeans, meanSquare] = [...places, ...means]
  const none = { rows: 0, columns: 0, mean: 0, rowMeans: 0, columnMeans: 0, meanSquare: 0 }
  return places.length === 1
    ? { v: places[0], ...none }
    : { v: 0, rows, columns, mean, rowMeans, columnMeans, meanSquare }
}

export function adafactorSquares(instr: InstrOf<'adafactorSquares'>, s: Site): void {
  const { ins, outs, inputs = 0, beta2Decay, eps1, clip } = instr
  const [grad, normSquared, taken, param, ...held] = ins.map(ref => s.at(ref))
  const [paramSquared, stepSquared] = outs.map(ref => s.at(ref))
  const isMatrix = instr.inputs !== undefined
  alike(s, isMatrix ? [ins[0], ins[3]] : [ins[0], ins[3], ins[4]])
  s.list.write('adafactorSquares', {
    ...{ paramSquared, stepSquared, grad, normSquared, taken, param },
    ...(isMatrix ? heldAt(held.slice(0, 3), held.slice(3)) : heldAt(held, [])),
    ...{ ...matrixAt(s, ins[0], inputs), beta2Decay, eps: eps1, clip },
  })
}

/** What all optimizers are told. */
type Told = Readonly<Record<'weightDecay' | 'clip' | 'rate' | 'limit', number>>

export function adafactor(instr: InstrOf<'adafactor'>, told: Told, s: Site): void {
  const { ins, outs, inputs = 0, beta2Decay, eps1, eps2, clipThreshold, elements = 0 } = instr
  const [grad, normSquared, lr, taken, paramSquared, stepSquared, ...means] = ins.map(ref => s.at(ref))
  const [param, ...held] = outs.map(ref => s.at(ref))
  alike(s, instr.inputs !== undefined ? [ins[0], outs[0]] : [ins[0], ...outs])
  s.list.write('adafactor', {
    ...{ paramSquared, stepSquared, grad, normSquared, taken, param, ...heldAt(held, means) },
    ...{
      ...matrixAt(s, ins[0], inputs),
      beta2Decay,
      eps: eps1,
      lr,
      elements,
      least: eps2,
      most: clipThreshold,
      ...told,
    },
  })
}
