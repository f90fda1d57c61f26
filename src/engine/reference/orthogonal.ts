/** Newton and Schulz: a matrix whose singular values all come near 1, by products alone (Jordan et al. 2024, "Muon"). */
import { newtonSchulzFactors, shapeOfMatrix } from '../../base/index.js'
import type { Prepare } from './kernel.js'

export const newtonSchulz: Prepare<'newtonSchulz'> = ({ inputs, steps }, [x]) => {
  const { each, rows, columns } = shapeOfMatrix(x.dims, inputs)
  const room = rows * columns + 2 * Math.min(rows, columns) ** 2
  return (cells, [from], [out, spare]) => {
    for (let i = 0; i < each; i++) {
      const start = from.at + i * rows * columns
      const made = orthogonal(cells.subarray(start, start + rows * columns), rows, columns, steps)
      for (let j = 0; j < made.length; j++) cells[out.at + i * rows * columns + j] = made[j]
    }
    for (let j = 0; j < room; j++) cells[spare.at + j] = 0
  }
}

type Matrix = ArrayLike<number>

/** a [m k] times b [k n]; a or b may be given transposed. */
function product(a: Matrix, b: Matrix, [m, n, k]: readonly number[], form: 'NN' | 'NT' | 'TN'): Float64Array {
  const out = new Float64Array(m * n)
  for (let i = 0; i < m; i++)
    for (let j = 0; j < n; j++) {
      let sum = 0
      for (let l = 0; l < k; l++)
        sum += (form === 'TN' ? a[l * m + i] : a[i * k + l]) * (form === 'NT' ? b[j * k + l] : b[l * n + j])
      out[i * n + j] = sum
    }
  return out
}

function orthogonal(x: Matrix, rows: number, columns: number, steps: number): Float64Array {
  const [a, b, c] = newtonSchulzFactors
  const norm = Math.max(Math.sqrt(Array.from(x).reduce((sum, value) => sum + value * value, 0)), 1e-7)
  let made = Float64Array.from(x, value => value / norm)
  const [short, wide] = rows <= columns ? [rows, true] : [columns, false]
  for (let step = 0; step < steps; step++) {
    const gram = product(made, made, [short, short, wide ? columns : rows], wide ? 'NT' : 'TN')
    const square = product(gram, gram, [short, short, short], 'NN')
    const mixed = square.map((value, i) => b * gram[i] + c * value)
    const turned = wide
      ? product(mixed, made, [rows, columns, rows], 'NN')
      : product(made, mixed, [rows, columns, columns], 'NN')
    made = turned.map((value, i) => a * made[i] + value)
  }
  return made
}
