/** Plans by seconds and bytes: shape is ZeRO, colour the pipeline, a ring the reader's own plan, a dashed line what a device has. */
import { narrow } from '../../base/narrow.js'
import { bytes, seconds } from '../../base/numbers.js'
import type { SearchAnswer } from '../../work/plan/search.js'
import { views } from './text-views.js'

const wide = { width: 900, height: 360, left: 76, bottom: 40 }
const small = { width: 360, height: 300, left: 64, bottom: 40 }

/** Outlines around a point, by ZeRO stage. */
const shapes = [
  (x: number, y: number) => `M${x - 3} ${y}a3 3 0 1 0 6 0a3 3 0 1 0 -6 0`,
  (x: number, y: number) => `M${x - 3} ${y - 3}h6v6h-6z`,
  (x: number, y: number) => `M${x} ${y - 4}l4 7h-8z`,
  (x: number, y: number) => `M${x} ${y - 4}l4 4l-4 4l-4 -4z`,
] as const

/** pp 1, 2, 4, 8, and more. */
const hueOf = (pp: number): number => Math.min(4, Math.max(0, Math.floor(Math.log2(pp))))
const hues = ['pp 1', 'pp 2', 'pp 4', 'pp 8', 'pp 16+']
const shapeNames = ['○ ZeRO-0', '□ ZeRO-1', '△ ZeRO-2', '◇ ZeRO-3']

export function Scatter({ answer, label }: { readonly answer: SearchAnswer; readonly label: string }) {
  const words = views().search
  const { points, capacity, own, plans } = answer
  const frame = narrow.value ? small : wide
  const { width, height, left, bottom } = frame
  const scales = scalesOf(answer, frame)
  const { x, y, least, most, tallest } = scales
  const front = plans.filter(({ onFront }) => onFront).sort((a, b) => a.step - b.step)
  return (
    <>
      <svg class="scatter" viewBox={`0 0 ${width} ${height}`} role="img" aria-label={label}>
        <rect class="lane" x={left} y={0} width={width - left} height={height - bottom} />
        {groupsOf(points, scales).map(({ hue, d }) => (
          <path key={hue} class={`dots hue${hue}`} d={d} />
        ))}
        <line class="limit-line" x1={left} x2={width} y1={y(capacity)} y2={y(capacity)} />
        <text x={left + 6} y={Math.max(12, y(capacity) - 5)}>{`${words.capacity} ${bytes(capacity)}`}</text>
        {front.length > 1 && (
          <polyline class="front" points={front.map(plan => `${x(plan.step)},${y(plan.bytes)}`).join(' ')} />
        )}
        {plans.map(plan => (
          <path key={plan.word} class="listed" d={shapes[0](x(plan.step), y(plan.bytes))} />
        ))}
        <circle class="own" cx={x(own.step)} cy={y(own.bytes)} r={8} />
        <text x={Math.min(width - 60, x(own.step) + 12)} y={y(own.bytes) + 4}>
          {words.own}
        </text>
        <text x={left} y={height - 22}>
          {seconds(least)}
        </text>
        <text x={width} y={height - 22} text-anchor="end">
          {seconds(most)}
        </text>
        <text x={(left + width) / 2} y={height - 6} text-anchor="middle">
          {words.seconds}
        </text>
        <text x={0} y={12}>
          {bytes(tallest)}
        </text>
        <text x={0} y={height - bottom}>
          0
        </text>
      </svg>
      <ul class="legend">
        {hues.map((name, hue) => (
          <li key={name}>
            <span class={`swatch hue${hue}`} aria-hidden="true" /> {name}
          </li>
        ))}
        {shapeNames.map(name => (
          <li key={name}>{name}</li>
        ))}
      </ul>
    </>
  )
}

/** Seconds on a logarithmic scale; what is far slower than the best, or far heavier than a device, lies on the rim. */
function scalesOf({ points, own, capacity, plans }: SearchAnswer, { width, height, left, bottom }: typeof wide) {
  const steps = [own.step, ...plans.map(({ step }) => step)]
  for (let n = 0; n < points.length; n += 4) steps.push(points[n]!)
  const least = Math.min(...steps) * 0.97
  const most = Math.max(Math.min(Math.max(...steps), least * 8), own.step * 1.05)
  const tallest = Math.max(1.6 * capacity, own.bytes * 1.1)
  const within = (share: number) => Math.min(1, Math.max(0, share))
  const x = (step: number) => left + (width - left - 8) * within(Math.log(step / least) / Math.log(most / least))
  const y = (value: number) => (height - bottom - 6) * (1 - within(value / tallest)) + 4
  return { x, y, least, most, tallest }
}

/** One path for all plans of a colour: a picture of a thousand plans has a handful of elements. */
function groupsOf(points: Float64Array, { x, y }: ReturnType<typeof scalesOf>) {
  const paths = hues.map(() => [] as string[])
  for (let n = 0; n < points.length; n += 4) {
    const shape = shapes[points[n + 2] as 0 | 1 | 2 | 3] ?? shapes[0]
    paths[hueOf(points[n + 3]!)]!.push(shape(round(x(points[n]!)), round(y(points[n + 1]!))))
  }
  return paths.flatMap((parts, hue) => (parts.length > 0 ? [{ hue, d: parts.join('') }] : []))
}

const round = (value: number): number => Math.round(value * 10) / 10
