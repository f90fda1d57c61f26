/** Sums of products, and sums: what is missing from the result is summed. */
import type { Dim } from '../../base/index.js'
import { has, offsets, type Shape, within, without } from '../../geometry/index.js'
import type { Kernel, Prepare } from './kernel.js'

/** out[batch, row, col] = sum over k of a[batch, row, k] b[batch, col, k], each of the four a list of dims. */
export const contract: Prepare<'contract'> = (_, [a, b], [out]) => {
  const inBoth = ({ name }: Dim) => has(a.dims, name) === has(b.dims, name)
  const batch = out.dims.filter(inBoth)
  const rows = without(out.dims, batch).filter(({ name }) => has(a.dims, name))
  const cols = without(out.dims, batch).filter(({ name }) => has(b.dims, name))
  const summed = without([...a.dims, ...without(b.dims, a.dims)], out.dims)
  const [aBatch, aRow, aSum] = [batch, rows, summed].map(dims => offsets(dims, a.dims))
  const [bBatch, bCol, bSum] = [batch, cols, summed].map(dims => offsets(dims, b.dims))
  const [outBatch, outRow, outCol] = [batch, rows, cols].map(dims => offsets(dims, out.dims))
  return (cells, [atA, atB], [to]) => {
    for (let i = 0; i < outBatch.length; i++)
      for (let r = 0; r < outRow.length; r++) {
        const fromA = atA.at + aBatch[i] + aRow[r]
        const toRow = to.at + outBatch[i] + outRow[r]
        let c = 0
        // Four sums at a time, each in its own order: one alone would wait for every addend.
        for (; c + 3 < outCol.length; c += 4) {
          const b0 = atB.at + bBatch[i] + bCol[c]
          const b1 = atB.at + bBatch[i] + bCol[c + 1]
          const b2 = atB.at + bBatch[i] + bCol[c + 2]
          const b3 = atB.at + bBatch[i] + bCol[c + 3]
          let sum0 = 0
          let sum1 = 0
          let sum2 = 0
          let sum3 = 0
          for (let k = 0; k < aSum.length; k++) {
            const x = cells[fromA + aSum[k]]
            sum0 += x * cells[b0 + bSum[k]]
            sum1 += x * cells[b1 + bSum[k]]
            sum2 += x * cells[b2 + bSum[k]]
            sum3 += x * cells[b3 + bSum[k]]
          }
          cells[toRow + outCol[c]] = sum0
          cells[toRow + outCol[c + 1]] = sum1
          cells[toRow + outCol[c + 2]] = sum2
          cells[toRow + outCol[c + 3]] = sum3
        }
        for (; c < outCol.length; c++) {
          const fromB = atB.at + bBatch[i] + bCol[c]
          let sum = 0
          for (let k = 0; k < aSum.length; k++) sum += cells[fromA + aSum[k]] * cells[fromB + bSum[k]]
          cells[toRow + outCol[c]] = sum
        }
      }
  }
}

/** Folds the dims of x that out lacks, in ascending order, into one number per element of out. */
function fold(x: Shape, out: Shape, start: number, step: (total: number, value: number) => number): Kernel {
  const summed = without(x.dims, out.dims)
  const kept = offsets(out.dims, x.dims)
  const inner = offsets(summed, x.dims)
  within(out, x)
  return (cells, [from], [to]) => {
    for (let i = 0; i < kept.length; i++) {
      let total = start
      for (let j = 0; j < inner.length; j++) total = step(total, cells[from.at + kept[i] + inner[j]])
      cells[to.at + i] = total
    }
  }
}

export const sumTo: Prepare<'sumTo'> = (_, [x], [out]) => fold(x, out, 0, (sum, value) => sum + value)

// Math.max keeps a NaN, so a poisoned operand poisons the greatest.
export const maxOver: Prepare<'maxOver'> = (_, [x], [out]) => fold(x, out, -Infinity, Math.max)

export const countLabels: Prepare<'countLabels'> = (_, [labels], [count]) =>
  fold(labels, count, 0, (total, label) => (Number.isNaN(label) ? label : label < 0 ? total : total + 1))

export const countElements: Prepare<'countElements'> = (_, [target], [count]) =>
  fold(target, count, 0, total => total + 1)

/** Adds to what is there. */
export const sumSquares: Prepare<'sumSquares'> = ({ once }, [x]) => {
  const elements = offsets(x.dims, x.dims).length
  return (cells, [from], [to], { at }) => {
    const counts = once.every(axis => (at[axis] ?? 0) === 0)
    let sum = cells[to.at]
    for (let i = 0; i < elements; i++) sum += (counts ? 1 : 0) * cells[from.at + i] ** 2
    cells[to.at] = sum
  }
}
