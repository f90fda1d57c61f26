/**
 * A timeline as SVG: one lane per rank, one box per span, colored by kind. It knows nothing of where spans come
 * from, so schedules on paper, simulated and measured runs are all drawn here. Colours follow the reader's light or
 * dark preference.
 */
import type { SpanKind } from '../trace/index.js'
import { inkOn, laneFill, mostShades, palette, shadeOf, type Theme } from './palette.js'
import { escapeXml, round } from './svg.js'

/** Every kind that has a color: to load them from the trace would load the whole program's types with them. */
const kinds = Object.keys(palette) as SpanKind[] // its keys are the kinds

export interface TimelineSpan {
  readonly start: number
  readonly end: number
  readonly kind: string
  /** What stands in the box, where there is room. */
  readonly text: string
  /** What a pointer resting on it shows. */
  readonly title: string
  /** Spans that run at once share the lane's height: this is part `index` of `of`. */
  readonly band?: { readonly index: number; readonly of: number }
  /** Further chunks of one rank have another shade. */
  readonly chunk?: number
}

export interface Lane {
  readonly label: string
  readonly spans: readonly TimelineSpan[]
  /** Thin lanes below it, for what runs beside: links. */
  readonly strips?: readonly { readonly label: string; readonly spans: readonly TimelineSpan[] }[]
  /** Something that rises and falls, as an area below the strips: memory. */
  readonly profile?: {
    readonly title: string
    /** Each value holds until the next. */
    readonly points: readonly { readonly time: number; readonly value: number }[]
    readonly most: number
  }
  /** Stands at the end of the lane. */
  readonly note?: string
}

export interface Timeline {
  readonly title: string
  readonly subtitle: string
  readonly lanes: readonly Lane[]
  /** In the order of the legend; spans of other kinds are grey. */
  readonly kinds: readonly { readonly kind: string; readonly label: string }[]
  /** Points from the first moment to the last; left out, boxes are as wide as their text. */
  readonly width?: number
  /** How a time stands on the axis; left out, as a number. */
  readonly showTime?: (time: number) => string
}

const laneHeight = 28
const laneGap = 6
const stripHeight = 6
const stripGap = 1
/** Points of a box that can be told from its neighbors. */
const narrowest = 0.6
const profileHeight = 16
const top = 70
const axisHeight = 26
const widestPlot = 12_000
const charWidth = 6.2
const boldWidth = 7

const isKind = (kind: string): kind is SpanKind => kinds.some(known => known === kind)

/** Where tasks are drawn, chunks have shades. */
const shadesOf = (kind: SpanKind): number[] =>
  Array.from({ length: 'FBIW'.includes(kind) ? mostShades + 1 : 1 }, (_, i) => i)

/** The class of a fill, and behind `t` of the letters on it. */
function classOf(kind: string, chunk = 0): string {
  if (!isKind(kind)) return 'other'
  const shade = Math.min(chunk, shadesOf(kind).length - 1)
  return shade === 0 ? kind : `${kind}${shade}`
}

export function timelineSvg(timeline: Timeline): string {
  const end = timeline.lanes.reduce((last, { spans }) => spans.reduce((at, span) => Math.max(at, span.end), last), 0)
  const left = 24 + boldWidth * longest(timeline.lanes.map(lane => lane.label))
  const right = 24 + charWidth * longest(timeline.lanes.map(lane => lane.note ?? ''))
  const scale = timeline.width === undefined ? scaleOf(timeline.lanes, end) : timeline.width / (end || 1)
  const legendWidth = timeline.kinds.reduce((x, { label }) => x + 34 + charWidth * label.length, 0)
  const width = Math.ceil(Math.max(left + end * scale + right, 32 + legendWidth, 32 + 7.5 * timeline.title.length))
  const tops = timeline.lanes.map((_, i) => timeline.lanes.slice(0, i).reduce((y, lane) => y + heightOf(lane), top))
  const height = timeline.lanes.reduce((y, lane) => y + heightOf(lane), top) + axisHeight
  const body = [
    `<text class="title" x="16" y="24">${escapeXml(timeline.title)}</text>`,
    `<text class="small" x="16" y="42">${escapeXml(timeline.subtitle)}</text>`,
    legend(timeline.kinds),
    ...timeline.lanes.map((lane, index) => laneSvg(lane, { y: tops[index], left, scale, end })),
    axis(
      end,
      { left, scale, y: height - axisHeight + 4 },
      timeline.showTime ?? (time => String(Number(time.toPrecision(6)))),
    ),
  ]
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" role="img" aria-label="${escapeXml(timeline.title)}">
<style>${styles()}</style>
<rect class="page" width="${width}" height="${height}"/>
${body.join('\n')}
</svg>
`
}

const heightOf = ({ strips = [], profile }: Lane): number =>
  laneHeight + strips.length * (stripHeight + stripGap) + (profile ? profileHeight + stripGap : 0) + laneGap

const longest = (texts: readonly string[]): number => texts.reduce((most, text) => Math.max(most, text.length), 0)

/** Boxes wide enough for their text, unless the page would become too wide. */
function scaleOf(lanes: readonly Lane[], end: number): number {
  let widest = 0
  for (const { spans } of lanes)
    for (const { start, end, text } of spans)
      if (end > start) widest = Math.max(widest, (charWidth * text.length + 6) / (end - start))
  const wanted = Math.max(widest, end === 0 ? 1 : 480 / end)
  return end * wanted > widestPlot ? widestPlot / end : wanted
}

interface Frame {
  readonly y: number
  readonly left: number
  readonly scale: number
}

function laneSvg(lane: Lane, { y, left, scale, end }: Frame & { readonly end: number }): string {
  const middle = y + laneHeight / 2 + 4
  const note =
    lane.note === undefined
      ? ''
      : `<text class="small" x="${round(left + end * scale + 8)}" y="${middle}">${escapeXml(lane.note)}</text>`
  return [
    `<text class="label" x="16" y="${middle}">${escapeXml(lane.label)}</text>`,
    `<rect class="lane" x="${round(left)}" y="${y}" width="${round(end * scale)}" height="${laneHeight}"/>`,
    ...lane.spans.map(span => spanSvg(span, { y, left, scale, height: laneHeight })),
    ...(lane.strips ?? []).map(({ label, spans }, i) => {
      const at = y + laneHeight + stripGap + i * (stripHeight + stripGap)
      const ground = `<rect class="lane" x="${round(left)}" y="${at}" width="${round(end * scale)}" height="${stripHeight}"/>`
      const boxes = merged(spans, scale).map(span => spanSvg(span, { y: at, left, scale, height: stripHeight }))
      return `<g class="strip"><title>${escapeXml(label)}</title>${ground}${boxes.join('')}</g>`
    }),
    lane.profile ? profileSvg(lane.profile, { y: y + heightOf(lane) - laneGap - profileHeight, left, scale, end }) : '',
    note,
  ].join('')
}

/** Runs of spans of one kind that would be drawn as slivers, each run as one span: a strip of thousands of collectives stays small. */
function merged(spans: readonly TimelineSpan[], scale: number): readonly TimelineSpan[] {
  const runs: TimelineSpan[][] = []
  for (const span of spans) {
    const run = runs.at(-1)
    const last = run?.at(-1)
    const joins =
      last?.kind === span.kind &&
      last.band?.index === span.band?.index &&
      Math.max(span.end - span.start, span.start - last.end) * scale < narrowest
    if (run && joins) run.push(span)
    else runs.push([span])
  }
  return runs.map(([first, ...more]) =>
    more.length === 0 ? first : { ...first, end: more.at(-1)!.end, title: `${first.title}; ${more.length} more` },
  )
}

function profileSvg(
  { title, points, most }: NonNullable<Lane['profile']>,
  { y, left, scale, end }: Frame & { readonly end: number },
): string {
  const x = (time: number) => round(left + time * scale)
  const height = (value: number) => round(y + profileHeight * (1 - value / (most || 1)))
  const steps = points.map(({ time, value }) => `H${x(time)}V${height(value)}`).join('')
  const bottom = round(y + profileHeight)
  return `<g><title>${escapeXml(title)}</title><path class="profile" d="M${x(points[0]?.time ?? 0)} ${bottom}${steps}H${x(end)}V${bottom}Z"/></g>`
}

function spanSvg(span: TimelineSpan, { y, left, scale, height: room }: Frame & { readonly height: number }): string {
  const { start, end, kind, text, title, band, chunk = 0 } = span
  const { index, of } = band ?? { index: 0, of: 1 }
  const [x, width, height] = [left + start * scale, (end - start) * scale, room / of]
  const at = y + index * height
  const fits = text !== '' && width >= charWidth * text.length + 2
  const look = classOf(kind, chunk)
  const words = fits
    ? `<text class="box t${look}" x="${round(x + width / 2)}" y="${round(at + height / 2 + 4)}">${escapeXml(text)}</text>`
    : ''
  return `<g><title>${escapeXml(title)}</title><rect class="k${look}" x="${round(x)}" y="${round(at)}" width="${round(width)}" height="${round(height)}"/>${words}</g>`
}

function legend(kinds: Timeline['kinds']): string {
  let x = 16
  return kinds
    .map(({ kind, label }) => {
      const at = x
      x += 34 + charWidth * label.length
      return `<rect class="k${classOf(kind)}" x="${round(at)}" y="50" width="12" height="12"/><text class="small" x="${round(at + 17)}" y="60">${escapeXml(label)}</text>`
    })
    .join('')
}

/** A tick every 1, 2 or 5 times a power of ten, about sixty points apart. */
function axis(end: number, { left, scale, y }: Frame, show: (time: number) => string): string {
  if (end === 0) return ''
  const rough = 60 / scale
  const power = 10 ** Math.floor(Math.log10(rough))
  const step = [1, 2, 5, 10].map(n => n * power).find(n => n >= rough) ?? rough
  const ticks = Array.from({ length: Math.floor(end / step + 1e-9) + 1 }, (_, i) => i * step)
  return ticks
    .map(time => {
      const x = round(left + time * scale)
      return `<line class="tick" x1="${x}" y1="${y - 6}" x2="${x}" y2="${y}"/><text class="axis" x="${x}" y="${y + 12}">${escapeXml(show(time))}</text>`
    })
    .join('')
}

const rulesOf = (theme: Theme): string =>
  kinds
    .flatMap(kind =>
      shadesOf(kind).map(chunk => {
        const [color, name] = [shadeOf(kind, theme, chunk), classOf(kind, chunk)]
        return `.k${name}{fill:${color}}.t${name}{fill:${inkOn(color)}}`
      }),
    )
    .join('')

function styles(): string {
  const light = `.page{fill:#fff}.profile{fill:#c5ccd3}.lane{fill:${laneFill.light}}text{fill:#1b1f24}.small,.axis{fill:#57606a}.tick{stroke:#8c959f}rect[class^=k]{stroke:#fff}${rulesOf('light')}`
  const dark = `.page{fill:#0d1117}.profile{fill:#3b434c}.lane{fill:${laneFill.dark}}text{fill:#e6edf3}.small,.axis{fill:#9da7b3}.tick{stroke:#6e7681}rect[class^=k]{stroke:#0d1117}${rulesOf('dark')}`
  return `text{font:11px system-ui,-apple-system,"Segoe UI",sans-serif}.title{font-size:15px;font-weight:600}.label{font-weight:600}.box,.axis{text-anchor:middle}.box{font-size:10px}rect[class^=k]{stroke-width:.7}.strip rect{stroke-width:0}${light}@media (prefers-color-scheme:dark){${dark}}`
}
