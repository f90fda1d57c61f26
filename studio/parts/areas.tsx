/** Bytes over time as areas on top of each other, those that last at the bottom; a line marks the room there is. */
import { narrow } from '../base/narrow.js'
import { bytes, seconds } from '../base/numbers.js'
import type { Live } from '../work/live.js'
import { Legend } from './bars.js'
import type { Rows } from './figure.js'
import './areas.css'

interface AreasProps {
  readonly live: Live
  readonly capacity: number
  readonly label: string
  readonly nameOf: (kind: string) => string
}

const wide = { width: 1000, height: 300, left: 84, bottom: 26 }
const small = { width: 360, height: 220, left: 62, bottom: 22 }
const order = ['parameters', 'optimizer', 'gradients', 'activations', 'workspace', 'data']

export function Areas({ live: { kinds, times, step }, capacity, label, nameOf }: AreasProps) {
  const { width, height, left, bottom } = narrow.value ? small : wide
  const sorted = [...kinds].sort((a, b) => order.indexOf(a[0]) - order.indexOf(b[0]))
  const totals = Array.from(times, (_, n) => sorted.reduce((sum, [, held]) => sum + held[n]!, 0))
  const most = Math.max(capacity, ...totals) * 1.02
  const x = (n: number) => left + (n / times.length) * (width - left)
  const y = (value: number) => (height - bottom) * (1 - value / most)
  const floor = new Float64Array(times.length)
  const areas = sorted.map(([kind, held]) => {
    const before = floor.slice()
    for (let n = 0; n < floor.length; n++) floor[n] = floor[n]! + held[n]!
    return { kind, d: areaOf(before, floor.slice(), x, y) }
  })
  const parts = sorted.map(([kind]) => ({
    kind: kind === 'parameters' ? 'params' : kind,
    name: nameOf(kind),
    value: 1,
  }))
  return (
    <>
      <svg class="areas" viewBox={`0 0 ${width} ${height}`} role="img" aria-label={label}>
        {areas.map(({ kind, d }) => (
          <path key={kind} class={`area ${kind}`} d={d} />
        ))}
        <line class="limit-line" x1={left} x2={width} y1={y(capacity)} y2={y(capacity)} />
        <text x={0} y={Math.max(18, y(capacity) + 4)}>
          {bytes(capacity)}
        </text>
        <text x={0} y={height - bottom}>
          0
        </text>
        <text x={left} y={height - 4}>
          0 s
        </text>
        <text x={width} y={height - 4} text-anchor="end">
          {seconds(step)}
        </text>
      </svg>
      <Legend bars={[{ label: '', parts }]} />
    </>
  )
}

type Scale = (value: number) => number

function areaOf(lower: Float64Array, upper: Float64Array, x: Scale, y: Scale): string {
  const point = (n: number, value: number) => `${x(n).toFixed(1)},${y(value).toFixed(1)}`
  const above = Array.from(upper, (value, n) => `${point(n, value)} ${point(n + 1, value)}`)
  const below = Array.from(lower, (value, n) => `${point(n + 1, value)} ${point(n, value)}`).reverse()
  return `M${above.join(' ')} ${below.join(' ')}Z`
}

/** Some forty moments as a table. */
export function areaRows({ times, kinds }: Live, time: string, nameOf: (kind: string) => string): Rows {
  const every = Math.max(1, Math.floor(times.length / 40))
  const body = Array.from(times)
    .map((at, n) => [seconds(at), ...kinds.map(([, held]) => bytes(held[n]!))])
    .filter((_, n) => n % every === 0)
  return { head: [time, ...kinds.map(([kind]) => nameOf(kind))], body }
}
