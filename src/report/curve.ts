/** A curve in characters: braille, two points wide and four high in each, the scale on the left, the steps below. */
import { mean } from '../base/index.js'

export interface CurveSize {
  readonly columns: number
  /** Without the axis. */
  readonly rows: number
  /** What the first and the last value belong to; left out, there is no axis below. */
  readonly steps?: readonly [first: number, last: number]
}

/** Which bit of a braille letter is the point at [column][row]. */
const points = [
  [0x01, 0x02, 0x04, 0x40],
  [0x08, 0x10, 0x20, 0x80],
]

/** The first value stands at the left edge, the last at the right; of several that share a column the mean is drawn. */
export function curveText(values: readonly number[], { columns, rows, steps }: CurveSize): string[] {
  const finite = values.filter(Number.isFinite)
  const [least, most] = finite.reduce(
    ([a, b], value) => [Math.min(a, value), Math.max(b, value)],
    [Infinity, -Infinity],
  )
  if (finite.length === 0) return Array.from({ length: rows }, () => '')
  const labels = [most, least].map(value => value.toPrecision(4))
  const margin = Math.max(...labels.map(label => label.length)) + 1
  const width = Math.max(2, 2 * (columns - margin - 1))
  const cells = Array.from({ length: rows }, () => new Uint8Array(width / 2))
  const range = most - least || 1
  const heights = resample(finite, Math.min(width, finite.length))
  let before: number | undefined
  for (let x = 0; x < width; x++) {
    const y = Math.round(((most - between(heights, x / (width - 1))) / range) * (4 * rows - 1))
    // A steep piece is drawn as a line, not as two points far apart.
    for (let at = Math.min(y, before ?? y); at <= Math.max(y, before ?? y); at++)
      cells[at >> 2][x >> 1] |= points[x & 1][at & 3]
    before = y
  }
  const lines = cells.map((row, i) => {
    const label = i === 0 ? labels[0] : i === rows - 1 ? labels[1] : ''
    return `${label.padStart(margin - 1)} │${String.fromCharCode(...Array.from(row, dots => 0x2800 + dots))}`
  })
  return steps ? [...lines, `${'step'.padStart(margin - 1)} ${axisText(steps, 1 + width / 2)}`] : lines
}

/** '└1─────────50' */
function axisText([first, last]: readonly [number, number], width: number): string {
  const [left, right] = [`└${first}`, String(last)]
  const line = width - left.length - right.length
  return line < 1 || first === last
    ? `${left}${'─'.repeat(Math.max(0, width - left.length))}`
    : `${left}${'─'.repeat(line)}${right}`
}

/** The value a share of the way along, on the line between its neighbours. */
function between(values: readonly number[], share: number): number {
  const place = share * (values.length - 1)
  const [left, right] = [values[Math.floor(place)], values[Math.ceil(place)]]
  return left + (right - left) * (place - Math.floor(place))
}

function resample(values: readonly number[], count: number): number[] {
  return Array.from({ length: count }, (_, i) => {
    const from = Math.floor((i * values.length) / count)
    const to = Math.max(from + 1, Math.floor(((i + 1) * values.length) / count))
    return mean(values.slice(from, to))
  })
}
