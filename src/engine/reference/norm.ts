/**
 * Layer norm and RMS norm are one family: xhat = (x - mean) / deviation over the dims of gain, where RMS norm takes
 * the mean to be 0. Everything but those dims is a row.
 */

import { type Cells, offsets, type Shape, within, without } from '../../geometry/index.js'
import type { Kernel, Prepare } from './kernel.js'

interface Norm {
  readonly eps: number
  readonly centred: boolean
}

interface Rows {
  readonly rows: Int32Array
  readonly cols: Int32Array
}

const rowsOf = (x: Shape, gain: Shape, tensor: Shape): Rows => {
  within(gain, x)
  return { rows: offsets(without(x.dims, gain.dims), tensor.dims), cols: offsets(gain.dims, tensor.dims) }
}

/** The mean of the row that starts at `from`, and 1 / deviation. */
function statistics(cells: Cells, from: number, cols: Int32Array, { eps, centred }: Norm): [number, number] {
  let [sum, squares] = [0, 0]
  if (centred) for (let c = 0; c < cols.length; c++) sum += cells[from + cols[c]]
  const mean = sum / cols.length
  for (let c = 0; c < cols.length; c++) squares += (cells[from + cols[c]] - mean) ** 2
  return [mean, 1 / Math.sqrt(squares / cols.length + eps)]
}

function normalise(norm: Norm, [x, gain, bias]: readonly Shape[], [y]: readonly Shape[]): Kernel {
  const [xs, ys] = [rowsOf(x, gain, x), rowsOf(x, gain, y)]
  const gains = offsets(gain.dims, gain.dims)
  const biases = bias && offsets(gain.dims, bias.dims)
  return (cells, [atX, atGain, atBias], [to]) => {
    for (let r = 0; r < xs.rows.length; r++) {
      const from = atX.at + xs.rows[r]
      const [mean, scale] = statistics(cells, from, xs.cols, norm)
      for (let c = 0; c < gains.length; c++) {
        const y = (cells[from + xs.cols[c]] - mean) * scale * cells[atGain.at + gains[c]]
        cells[to.at + ys.rows[r] + ys.cols[c]] = biases ? y + cells[atBias.at + biases[c]] : y
      }
    }
  }
}

/** dx = (g - mean g - xhat mean(g xhat)) / deviation with g = dy gain; without centring the middle term is absent. */
function inputGrad(norm: Norm, [dy, x, gain]: readonly Shape[], [dx]: readonly Shape[]): Kernel {
  const [xs, dys, dxs] = [x, dy, dx].map(tensor => rowsOf(x, gain, tensor))
  const width = xs.cols.length
  return (cells, [atDy, atX, atGain], [to]) => {
    for (let r = 0; r < xs.rows.length; r++) {
      const [fromDy, fromX] = [atDy.at + dys.rows[r], atX.at + xs.rows[r]]
      const [mean, scale] = statistics(cells, fromX, xs.cols, norm)
      let [sum, product] = [0, 0]
      for (let c = 0; c < width; c++) {
        const g = cells[fromDy + dys.cols[c]] * cells[atGain.at + c]
        if (norm.centred) sum += g
        product += g * (cells[fromX + xs.cols[c]] - mean) * scale
      }
      for (let c = 0; c < width; c++) {
        const g = cells[fromDy + dys.cols[c]] * cells[atGain.at + c]
        const xhat = (cells[fromX + xs.cols[c]] - mean) * scale
        cells[to.at + dxs.rows[r] + dxs.cols[c]] = scale * (g - (sum + xhat * product) / width)
      }
    }
  }
}

/** dgain sums dy xhat over the rows, dbias sums dy. */
function weightGrad(norm: Norm, [dy, x]: readonly Shape[], [dgain, dbias]: readonly Shape[]): Kernel {
  const [xs, dys] = [x, dy].map(tensor => rowsOf(x, dgain, tensor))
  const biases = dbias && offsets(dgain.dims, dbias.dims)
  const width = xs.cols.length
  return (cells, [atDy, atX], [toGain, toBias]) => {
    const [gains, sums] = [new Float64Array(width), new Float64Array(width)]
    for (let r = 0; r < xs.rows.length; r++) {
      const [fromDy, fromX] = [atDy.at + dys.rows[r], atX.at + xs.rows[r]]
      const [mean, scale] = statistics(cells, fromX, xs.cols, norm)
      for (let c = 0; c < width; c++) {
        const g = cells[fromDy + dys.cols[c]]
        gains[c] += g * (cells[fromX + xs.cols[c]] - mean) * scale
        sums[c] += g
      }
    }
    cells.set(gains, toGain.at)
    if (biases) for (let c = 0; c < width; c++) cells[toBias.at + biases[c]] = sums[c]
  }
}

export const layerNorm: Prepare<'layerNorm'> = ({ eps }, ins, outs) => normalise({ eps, centred: true }, ins, outs)
export const layerNormInputGrad: Prepare<'layerNormInputGrad'> = ({ eps }, ins, outs) =>
  inputGrad({ eps, centred: true }, ins, outs)
export const layerNormWeightGrad: Prepare<'layerNormWeightGrad'> = ({ eps }, ins, outs) =>
  weightGrad({ eps, centred: true }, ins, outs)

export const rmsNorm: Prepare<'rmsNorm'> = ({ eps }, ins, outs) => normalise({ eps, centred: false }, ins, outs)
export const rmsNormInputGrad: Prepare<'rmsNormInputGrad'> = ({ eps }, ins, outs) =>
  inputGrad({ eps, centred: false }, ins, outs)
export const rmsNormWeightGrad: Prepare<'rmsNormWeightGrad'> = ({ eps }, ins, outs) =>
  weightGrad({ eps, centred: false }, ins, outs)
