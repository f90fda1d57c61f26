/** What a rank holds from moment to moment, by kind. */

import { bytes, seconds } from '../../base/numbers.js'
import { place } from '../../base/router.js'
import { Legend } from '../../parts/bars.js'
import { Steps } from '../../parts/controls.js'
import { Figure } from '../../parts/figure.js'
import { useAnswer } from '../../work/answer.js'
import type { Link } from '../../work/plan/link.js'
import type { MemoryAnswer } from '../../work/plan/views.js'
import { move, settle } from './state.js'
import { named, text } from './text.js'
import { views } from './text-views.js'

export default function MemoryView({ link }: { readonly link: Link }) {
  const words = views().memory
  const asked = Number(place.value.query.pp ?? 0)
  const pp = Number.isInteger(asked) && asked >= 0 && asked < 1e5 ? asked : 0
  const { value, pending } = useAnswer('program', ['plan-program', 'memoryOver'], { link, pp })
  const caption = value
    ? words.caption(`pp ${value.pp}`, bytes(value.peak.bytes), seconds(value.peak.at), bytes(value.capacity))
    : '…'
  const stages = Array.from({ length: value?.stages ?? 1 }, (_, n) => n)
  return (
    <>
      {stages.length > 1 && (
        <Steps
          label={words.stage}
          steps={stages}
          value={value?.pp ?? 0}
          change={stage => move({ pp: String(stage) })}
          settle={stage => settle({ pp: String(stage) })}
        />
      )}
      <Figure title={words.title} caption={caption} rows={rowsOf(value)} pending={pending}>
        {value && <Areas {...value} label={caption} />}
      </Figure>
    </>
  )
}

function rowsOf(value: MemoryAnswer | undefined) {
  const words = text()
  if (!value) return { head: [], body: [] }
  const every = Math.max(1, Math.floor(value.times.length / 40))
  const body = Array.from(value.times)
    .map((time, n) => [seconds(time), ...value.kinds.map(([, live]) => bytes(live[n]!))])
    .filter((_, n) => n % every === 0)
  return { head: [words.seconds, ...value.kinds.map(([kind]) => named(words.kinds, kind))], body }
}

const [width, height, left, bottom] = [1000, 300, 70, 22]

/** Areas on top of each other, those that last at the bottom. */
function Areas({ kinds, times, capacity, step, label }: MemoryAnswer & { readonly label: string }) {
  const words = text()
  const order = ['parameters', 'optimizer', 'gradients', 'activations', 'workspace', 'data']
  const sorted = [...kinds].sort((a, b) => order.indexOf(a[0]) - order.indexOf(b[0]))
  const totals = Array.from(times, (_, n) => sorted.reduce((sum, [, live]) => sum + live[n]!, 0))
  const most = Math.max(capacity, ...totals) * 1.02
  const x = (n: number) => left + (n / times.length) * (width - left)
  const y = (value: number) => (height - bottom) * (1 - value / most)
  const floor = new Float64Array(times.length)
  const areas = sorted.map(([kind, live]) => {
    const before = floor.slice()
    for (let n = 0; n < floor.length; n++) floor[n] = floor[n]! + live[n]!
    return { kind, d: areaOf(before, floor.slice(), x, y) }
  })
  const bars = [{ label: '', parts: sorted.map(([kind]) => ({ kind, name: named(words.kinds, kind), value: 1 })) }]
  return (
    <>
      <svg class="areas" viewBox={`0 0 ${width} ${height}`} role="img" aria-label={label}>
        {areas.map(({ kind, d }) => (
          <path key={kind} class={`area ${kind}`} d={d} />
        ))}
        <line class="limit-line" x1={left} x2={width} y1={y(capacity)} y2={y(capacity)} />
        <text x={0} y={y(capacity) + 4}>
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
      <Legend bars={bars} />
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
