/**
 * Adafactor: of a matrix the means of squares of rows and of columns are kept, V = rows x columns / mean. A rank may hold any part of a
 * line: each of its elements has its row and its column.
 */
import { type OpOf, shapeOfMatrix, squaredLimit } from '../../base/index.js'
import type { Cells, Place, Shape } from '../../geometry/index.js'
import { aligned } from './elementwise.js'
import type { Prepare } from './kernel.js'
import { clipScale } from './optimizer.js'

interface Spot {
  /** Rows and columns are counted through all experts. */
  readonly row: number
  readonly column: number
  readonly expert: number
}

/** Where each element of a tensor, or of a part of its line, lies; nothing where the line is at its end. */
function spotsIn({ dims, block }: Shape, inputs: number): (index: number, place: Place) => Spot | undefined {
  const { each, rows, columns } = shapeOfMatrix(block ?? dims, inputs)
  return (index, { parts }) => {
    const at = index + (block ? parts[0].origin : 0)
    if (at >= each * rows * columns) return undefined
    const row = Math.floor(at / columns)
    const expert = Math.floor(row / rows)
    return { row, expert, column: expert * columns + (at % columns) }
  }
}

export const factorSquares: Prepare<'factorSquares'> = ({ inputs, rows, columns, clip }, [grad], outs) => {
  const spotOf = spotsIn(grad, inputs)
  const elements = grad.dims.reduce((n, { size }) => n * size, 1)
  const sizes = outs.map(({ dims }) => dims.reduce((n, { size }) => n * size, 1))
  return (cells, [atGrad, atNorm], [toRows, toColumns, toMean]) => {
    const scale = clipScale(clip, cells[atNorm.at])
    const sums = sizes.map(size => new Float64Array(size))
    for (let i = 0; i < elements; i++) {
      const spot = spotOf(i, atGrad)
      if (!spot) break
      const square = (cells[atGrad.at + i] * scale) ** 2
      sums[0][spot.row] += square
      sums[1][spot.column] += square
      sums[2][spot.expert] += square
    }
    const means = [columns, rows, rows * columns].map((count, which) => sums[which].map(sum => sum / count))
    for (const [which, to] of [toRows, toColumns, toMean].entries()) cells.set(means[which], to.at)
  }
}

/** What a mean is when a step more has gone into it. */
const moved = (weight: number, mean: number, by: number): number => (1 - weight) * mean + weight * by

/** Where means are kept, and those of the step. */
interface Means {
  readonly kept: readonly Place[]
  readonly fresh: readonly Place[]
}

/** The mean of squares for an element of a matrix, with this step in it; nothing is kept of it. */
function factoredSquare(
  cells: Cells,
  { row, column, expert }: Spot,
  { kept, fresh }: Means,
  weight: number,
  eps1: number,
) {
  const at = [row, column, expert]
  const [ofRow, ofColumn, ofAll] = at.map((i, which) =>
    moved(weight, cells[kept[which].at + i], cells[fresh[which].at + i]),
  )
  return (ofRow * ofColumn) / Math.max(ofAll, eps1)
}

const unsquared = (g: number, square: number, eps1: number): number => g / Math.sqrt(Math.max(square, eps1 * eps1))

export const adafactorSquares: Prepare<'adafactorSquares'> = (op, [grad, , , param, v]) => {
  const { inputs, beta2Decay, eps1, clip } = op
  const isMatrix = inputs !== undefined
  const [grads, vs] = aligned(isMatrix ? [grad] : [grad, v], param)
  const spotOf = spotsIn(param, inputs ?? 0)
  return (cells, [atGrad, atNorm, atTaken, atParam, ...held], [toParam, toStep]) => {
    const [scale, weight] = [clipScale(clip, cells[atNorm.at]), (cells[atTaken.at] + 1) ** beta2Decay]
    const means: Means = { kept: held.slice(0, 3), fresh: held.slice(3) }
    let [ofParam, ofStep] = [0, 0]
    for (let i = 0; i < grads.length; i++) {
      const spot = spotOf(i, atParam)
      if (!spot) break
      const g = cells[atGrad.at + grads[i]] * scale
      const square = isMatrix
        ? factoredSquare(cells, spot, means, weight, eps1)
        : moved(weight, cells[held[0].at + vs[i]], g * g)
      ofParam += cells[atParam.at + i] ** 2
      ofStep += unsquared(g, square, eps1) ** 2
    }
    cells[toParam.at] = ofParam
    cells[toStep.at] = ofStep
  }
}

/** How far a step goes, in units of g / sqrt(V). */
function stepOf(
  { eps2, clipThreshold, elements = 1 }: OpOf<'adafactor'>,
  lr: number,
  time: number,
  squares: readonly number[],
) {
  const [ofParam, ofStep] = squares.map(square => Math.sqrt(square / elements))
  return (Math.max(eps2, ofParam) * Math.min(lr, 1 / Math.sqrt(time))) / Math.max(1, ofStep / clipThreshold)
}

export const adafactor: Prepare<'adafactor'> = (op, [grad], [param, ...states]) => {
  const { inputs, beta2Decay, eps1, weightDecay, clip, rate = 1 } = op
  const isMatrix = inputs !== undefined
  const [grads, vs] = aligned(isMatrix ? [grad] : [grad, states[0]], param)
  const sizes = states.map(({ dims }) => dims.reduce((n, { size }) => n * size, 1))
  const spotOf = spotsIn(param, inputs ?? 0)
  return (cells, [atGrad, atNorm, atLr, atTaken, atParam, atStep, ...fresh], [toParam, ...kept]) => {
    if (!(cells[atNorm.at] < squaredLimit(op))) return
    const [scale, time, lr] = [clipScale(clip, cells[atNorm.at]), cells[atTaken.at] + 1, cells[atLr.at] * rate]
    const weight = time ** beta2Decay
    const by = stepOf(op, lr, time, [cells[atParam.at], cells[atStep.at]])
    for (let i = 0; i < grads.length; i++) {
      const spot = spotOf(i, toParam)
      if (!spot) break
      const g = cells[atGrad.at + grads[i]] * scale
      const square = isMatrix
        ? factoredSquare(cells, spot, { kept, fresh }, weight, eps1)
        : moved(weight, cells[kept[0].at + vs[i]], g * g)
      if (!isMatrix) cells[kept[0].at + vs[i]] = square
      cells[toParam.at + i] -= by * unsquared(g, square, eps1) + lr * weightDecay * cells[toParam.at + i]
    }
    if (isMatrix)
      for (const [which, { at }] of kept.entries())
        for (let i = 0; i < sizes[which]; i++) cells[at + i] = moved(weight, cells[at + i], cells[fresh[which].at + i])
  }
}
