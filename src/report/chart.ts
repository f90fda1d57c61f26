/** Curves over steps as SVG: axes, a legend, marks for what happened at a step. Colours are classes, so that a page decides light or dark. */
import { escapeXml, round } from './svg.js'

export interface Series {
  readonly label: string
  /** In rising order of x. What is not finite leaves a gap. */
  readonly points: readonly (readonly [x: number, y: number])[]
  /** Points of their own, not joined by a line. */
  readonly dots?: boolean
}

export interface Chart {
  readonly title: string
  readonly series: readonly Series[]
  /** Steps at which something happened, with what. */
  readonly marks?: readonly { readonly x: number; readonly title: string; readonly kind: string }[]
  readonly show?: (y: number) => string
}

const [width, height, left, right, top, bottom] = [640, 200, 64, 12, 30, 24]
/** More points than this are nowhere to be seen: of each run of points the least and the greatest are drawn. */
const mostPoints = 1200

export function chartSvg({ title, series, marks = [], show = shortNumber }: Chart): string {
  const all = series.flatMap(({ points }) => points.filter(([, y]) => Number.isFinite(y)))
  const frame = frameOf(
    all.map(([x]) => x).concat(marks.map(({ x }) => x)),
    all.map(([, y]) => y),
  )
  const body = [
    `<text class="title" x="0" y="14">${escapeXml(title)}</text>`,
    ...legend(series),
    ...(all.length === 0 ? [`<text x="${left}" y="${height / 2}">no data</text>`] : axes(frame, show)),
    ...marks.map(({ x, title, kind }) => {
      const at = round(frame.x(x))
      return `<line class="mark ${escapeXml(kind)}" x1="${at}" x2="${at}" y1="${top}" y2="${height - bottom}"><title>${escapeXml(title)}</title></line>`
    }),
    ...series.map((one, i) => seriesSvg(one, i, frame)),
  ]
  return `<svg viewBox="0 0 ${width} ${height}" role="img" aria-label="${escapeXml(title)}">${body.join('')}</svg>`
}

interface ChartFrame {
  readonly x: (value: number) => number
  readonly y: (value: number) => number
  readonly xs: readonly [number, number]
  readonly ys: readonly [number, number]
}

function frameOf(xs: readonly number[], ys: readonly number[]): ChartFrame {
  const [x0, x1] = rangeOf(xs)
  const [y0, y1] = rangeOf(ys)
  const [wide, high] = [x1 - x0 || 1, y1 - y0 || 1]
  return {
    x: value => left + ((value - x0) / wide) * (width - left - right),
    y: value => top + ((y1 - value) / high) * (height - top - bottom),
    ...{ xs: [x0, x1], ys: [y0, y1] },
  }
}

// A spread would overflow the stack at 100k points.
const rangeOf = (values: readonly number[]): [number, number] =>
  values.length === 0
    ? [0, 1]
    : values.reduce(([a, b], value) => [Math.min(a, value), Math.max(b, value)], [values[0], values[0]])

function axes({ x, y, xs, ys }: ChartFrame, show: (y: number) => string): string[] {
  const levels = ys[0] === ys[1] ? [ys[0]] : [ys[0], (ys[0] + ys[1]) / 2, ys[1]]
  const steps = xs[0] === xs[1] ? [xs[0]] : [xs[0], xs[1]]
  return [
    ...levels.map(
      level =>
        `<line class="grid" x1="${left}" x2="${width - right}" y1="${round(y(level))}" y2="${round(y(level))}"/><text class="end" x="${left - 6}" y="${round(y(level) + 4)}">${escapeXml(show(level))}</text>`,
    ),
    ...steps.map(
      (step, i) =>
        `<text${i > 0 ? ' class="end"' : ''} x="${round(x(step))}" y="${height - 6}">${i === 0 ? 'step ' : ''}${step}</text>`,
    ),
  ]
}

const legend = (series: readonly Series[]): string[] =>
  series.length < 2
    ? []
    : series.map(
        ({ label }, i) =>
          `<text class="end s${i}" x="${width - right - 110 * (series.length - 1 - i)}" y="14">${escapeXml(label)}</text>`,
      )

function seriesSvg({ points, dots }: Series, index: number, { x, y }: ChartFrame): string {
  const at = ([a, b]: readonly [number, number]) => `${round(x(a))} ${round(y(b))}`
  if (dots)
    return points
      .filter(([, value]) => Number.isFinite(value))
      .map(([a, b]) => `<circle class="s${index}" cx="${round(x(a))}" cy="${round(y(b))}" r="3"/>`)
      .join('')
  let path = ''
  let down = false
  for (const point of thinned(points)) {
    const finite = Number.isFinite(point[1])
    if (finite) path += `${down ? 'L' : 'M'}${at(point)}`
    down = finite
  }
  return `<path class="s${index}" d="${path}"/>`
}

function thinned(points: Series['points']): Series['points'] {
  if (points.length <= mostPoints) return points
  const run = Math.ceil((2 * points.length) / mostPoints)
  return Array.from({ length: Math.ceil(points.length / run) }, (_, i) => {
    const part = points.slice(i * run, (i + 1) * run)
    const least = part.reduce((a, b) => (b[1] < a[1] ? b : a))
    const most = part.reduce((a, b) => (b[1] > a[1] ? b : a))
    return least === most ? [least] : least[0] < most[0] ? [least, most] : [most, least]
  }).flat()
}

const shortNumber = (value: number): string => String(Number(value.toPrecision(3)))
