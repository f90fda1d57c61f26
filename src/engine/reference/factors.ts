/** What of a gradient is sent as two factors: columns made orthonormal, and what is left over for the next step. */
import { draws, leastLeft, shapeOfMatrix, squaredLimit } from '../../base/index.js'
import { aligned } from './elementwise.js'
import type { Prepare } from './kernel.js'

export const deduct: Prepare<'deduct'> = (_, [value], [out]) => {
  const [values] = aligned([value], out)
  return (cells, [from], [to]) => {
    for (let i = 0; i < values.length; i++) cells[to.at + i] -= cells[from.at + values[i]]
  }
}

export const become: Prepare<'become'> = (op, [next], [state]) => {
  const [values] = aligned([next], state)
  return (cells, [from, atNorm], [to]) => {
    if (!(cells[atNorm.at] < squaredLimit(op))) return
    for (let i = 0; i < values.length; i++) cells[to.at + i] = cells[from.at + values[i]]
  }
}

export const gramSchmidt: Prepare<'gramSchmidt'> = ({ inputs, draws: isDrawn }, [x]) => {
  const { each, rows, columns } = shapeOfMatrix(x.dims, inputs)
  return (cells, [from], [out], { seed, param = '' }) => {
    const draw = draws({ seed, name: `basis.${param}` })
    // Of the dims only that of experts may be cut.
    const origin = from.parts[0].origin * rows * columns
    for (let i = 0; i < each; i++) {
      const first = i * rows * columns
      const before: Float64Array[] = []
      for (let k = 0; k < columns; k++) {
        const at = (row: number) => first + row * columns + k
        const given = Float64Array.from({ length: rows }, (_, row) => cells[from.at + at(row)])
        const drawn = () => Float64Array.from({ length: rows }, (_, row) => (draw(origin + at(row)) - 32767.5) / 32768)
        const column = beside(before, given) ?? (isDrawn ? beside(before, drawn()) : undefined)
        if (column) before.push(column)
        for (let row = 0; row < rows; row++) cells[out.at + at(row)] = column ? column[row] : 0
      }
    }
  }
}

/** What is left of a column beside others, of length 1; nothing, if that is what rounding leaves. A second time takes away what the first one left by rounding. */
function beside(others: readonly Float64Array[], column: Float64Array): Float64Array | undefined {
  const length = Math.sqrt(dot(column, column))
  for (let time = 0; time < 2; time++)
    for (const other of others) {
      const by = dot(other, column)
      for (let i = 0; i < column.length; i++) column[i] -= by * other[i]
    }
  const left = Math.sqrt(dot(column, column))
  return left <= leastLeft * length && Number.isFinite(length) ? undefined : column.map(value => value / left)
}

const dot = (a: Float64Array, b: Float64Array): number => a.reduce((sum, value, i) => sum + value * b[i], 0)
