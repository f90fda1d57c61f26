/** Newton and Schulz: a matrix whose singular values all come near 1, by products alone (Jordan et al. 2024, "Muon"). */
import { elementsOf, matricesIn, newtonSchulzFactors, orthogonalRoom, placesInLine } from '../../base/index.js'
import type { Prepare } from './kernel.js'

export const newtonSchulz: Prepare<'newtonSchulz'> = ({ inputs, steps, lines }, [x]) => {
  const { each, rows, columns } = matricesIn(x.dims, inputs, lines)
  const [size, room] = [rows * columns, orthogonalRoom({ rows, columns }, lines)]
  const line = lines ? x.dims[1].size : each * size
  const places = lines ? placesInLine(lines, line) : Int32Array.from({ length: line }, (_, i) => i)
  return (cells, [from], [out, spare]) => {
    const read = (i: number) => cells[from.at + Math.floor(i / places.length) * line + places[i % places.length]]
    const given = Float64Array.from({ length: each * size }, (_, i) => read(i))
    cells.fill(0, out.at, out.at + elementsOf(x.dims))
    for (let i = 0; i < each; i++) {
      const made = orthogonal(given.subarray(i * size, (i + 1) * size), rows, columns, steps)
      for (const [j, value] of made.entries()) {
        const at = i * size + j
        cells[out.at + Math.floor(at / places.length) * line + places[at % places.length]] = value
      }
    }
    for (let j = 0; j < room; j++) cells[spare.at + j] = 0
  }
}

export const stack: Prepare<'stack'> = (_, ins, [out]) => {
  const [sizes, line] = [ins.map(({ dims }) => elementsOf(dims)), out.dims[1].size]
  return (cells, from, [{ at }]) => {
    cells.fill(0, at, at + elementsOf(out.dims))
    for (const [i, { at: x }] of from.entries()) cells.copyWithin(at + i * line, x, x + sizes[i])
  }
}

export const unstack: Prepare<'unstack'> = (_, [x], outs) => {
  const line = x.dims[1].size
  return (cells, [{ at }], into) => {
    for (const [i, { at: out }] of into.entries())
      cells.copyWithin(out, at + i * line, at + i * line + elementsOf(outs[i].dims))
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
