/**
 * A run as one page that needs nothing else: no script, no font, no picture from elsewhere. Light or dark as the reader likes it.
 */
import { median, showBytes } from '../base/index.js'
import { eventKinds, type HealthEvent, type RunRead, type Severity, type StepLine } from '../health/index.js'
import { chartSvg, escapeXml, type Fill, laneFill, palette, type Theme } from '../report/index.js'
import type { Shares } from '../trace/index.js'

export interface RunReport {
  readonly run: RunRead
  /** The job in words. */
  readonly about: string
  /** Bytes that the fullest rank holds at its peak, by kind. */
  readonly memory?: Readonly<Record<string, number>>
  /** Collectives as they were measured: `all-reduce tp`, bytes, and seconds. */
  readonly collectives?: readonly MeasuredCollective[]
}

export interface MeasuredCollective {
  readonly name: string
  readonly ranks: number
  readonly bytes: number
  readonly seconds: number
}

export function reportHtml({ run, about, memory, collectives = [] }: RunReport): string {
  const title = `Run ${run.path}`
  const body = [
    `<h1>${escapeXml(title)}</h1>`,
    `<p>${escapeXml(about)}</p>`,
    factsOf(run),
    ...charts(run),
    timeTable(run),
    memory ? section('Memory of the rank with the highest peak', rows(['kind', 'bytes'], memoryRows(memory))) : '',
    collectives.length > 0
      ? section('Collectives, as measured', rows(collectiveHead, collectives.map(collectiveRow)))
      : '',
    section('Events', eventRows(run.events)),
    section('Checkpoints', checkpointRows(run.steps)),
    `<details><summary>The job</summary><pre>${escapeXml2(JSON.stringify(run.job ?? null, null, 2))}</pre></details>`,
    run.flight === undefined
      ? ''
      : `<details><summary>Flight record</summary><pre>${escapeXml2(run.flight)}</pre></details>`,
  ]
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>${escapeXml(title)}</title><style>${styles}</style></head>
<body><main>
${body.filter(part => part !== '').join('\n')}
</main></body></html>
`
}

/** Lines stay lines. */
const escapeXml2 = (text: string): string => text.split('\n').map(escapeXml).join('\n')

const section = (title: string, content: string): string =>
  content === '' ? '' : `<section><h2>${escapeXml(title)}</h2>${content}</section>`

function rows(head: readonly string[], body: readonly (readonly string[])[]): string {
  if (body.length === 0) return ''
  const row = (cells: readonly string[], tag: string) =>
    `<tr>${cells.map(cell => `<${tag}>${escapeXml(cell)}</${tag}>`).join('')}</tr>`
  return `<table><thead>${row(head, 'th')}</thead><tbody>${body.map(cells => row(cells, 'td')).join('')}</tbody></table>`
}

function factsOf({ steps, info, events, job }: RunRead): string {
  const taken = steps.filter(({ skipped }) => skipped === undefined)
  const [first, last] = [taken.at(0), taken.at(-1)]
  const held = steps.findLast(({ evalLoss }) => evalLoss !== undefined)
  const planned = (job as { training?: { steps?: unknown } } | undefined)?.training?.steps // anybody's JSON
  const count = (severity: Severity) => events.filter(event => event.severity === severity).length
  const facts: (readonly [string, string | undefined])[] = [
    ['steps', `${steps.at(-1)?.step ?? 0}${typeof planned === 'number' ? ` of ${planned}` : ''}`],
    ['loss', first && last && `${first.loss.toFixed(4)} → ${last.loss.toFixed(4)}`],
    ['validation loss', held?.evalLoss?.toFixed(4)],
    [
      'seconds per step',
      steps.length > 0 ? String(Number(median(steps.map(({ seconds }) => seconds)).toPrecision(4))) : undefined,
    ],
    [
      'predicted',
      info?.prediction && `${Number(info.prediction.seconds.toPrecision(4))} s on ${info.prediction.cluster}`,
    ],
    ['skipped', steps.length > taken.length ? String(steps.length - taken.length) : undefined],
    ['events', `${count('error')} errors, ${count('warning')} warnings, ${count('note')} notes`],
    [
      'started',
      info && `${info.started} on ${info.host}, ${info.world} ranks, ${info.kernels ?? info.device ?? info.software}`,
    ],
  ]
  const told = facts.flatMap(([name, value]) =>
    value ? [`<dt>${escapeXml(name)}</dt><dd>${escapeXml(value)}</dd>`] : [],
  )
  return `<dl>${told.join('')}</dl>`
}

type Field = 'evalLoss' | 'gradientNorm' | 'lr' | 'tokensPerSecond' | 'seconds' | 'scale' | 'peakBytes'

function charts({ steps, events }: RunRead): string[] {
  const curve = (field: Field) =>
    steps.flatMap((line): [number, number][] => (line[field] === undefined ? [] : [[line.step, Number(line[field])]]))
  const losses = steps.map((line): [number, number] => [line.step, line.skipped === undefined ? line.loss : Number.NaN])
  const marks = events.map(({ step, event, severity, message }) => ({
    x: step,
    title: `${event}: ${message}`,
    kind: severity,
  }))
  const held = curve('evalLoss')
  const drawn = [
    chartSvg({
      title: 'Loss',
      series: [
        { label: 'training', points: losses },
        ...(held.length > 0 ? [{ label: 'validation', points: held, dots: true }] : []),
      ],
      marks: steps.length > 0 ? marks : [],
    }),
    ...(
      [
        ['Grad norm', 'gradientNorm'],
        ['Learning rate', 'lr'],
        ['Loss scale', 'scale'],
        ['Tokens/s', 'tokensPerSecond'],
        ['Seconds per step', 'seconds'],
      ] as const
    ).flatMap(([title, field]) => {
      const points = curve(field)
      return points.length > 0 ? [chartSvg({ title, series: [{ label: title, points }] })] : []
    }),
    ...(curve('peakBytes').length > 0
      ? [chartSvg({ title: 'Peak memory', series: [{ label: 'peak', points: curve('peakBytes') }], show: showBytes })]
      : []),
  ]
  return [`<div class="charts">${drawn.join('')}</div>`]
}

const parts = ['compute', 'communication', 'waiting', 'bubble'] as const

/** Shares of the ranks' time: a bar of what was measured, one of what was predicted. */
function timeTable({ steps, info }: RunRead): string {
  const measured = steps.flatMap(({ shares }) => (shares ? [shares] : []))
  const bars: (readonly [string, Shares])[] = [
    ...(measured.length > 0 ? [['measured', meanOf(measured)] as const] : []),
    ...(info?.prediction?.shares ? [['predicted', info.prediction.shares] as const] : []),
  ]
  if (bars.length === 0) return ''
  // Without a pipeline there is no bubble.
  const shown = parts.filter(part => part !== 'bubble' || bars.some(([, shares]) => shares.bubble > 0))
  const cells = (shares: Shares) => shown.map(part => `${(100 * shares[part]).toFixed(1)} %`)
  return section(
    'Time by part',
    `${bars.map(([name, shares]) => bar(name, shares)).join('')}${rows(
      ['', ...shown],
      bars.map(([name, shares]) => [name, ...cells(shares)]),
    )}`,
  )
}

/** Of the median step of each part: a few steps that stood still say little. */
const meanOf = (all: readonly Shares[]): Shares => ({
  compute: median(all.map(({ compute }) => compute)),
  communication: median(all.map(({ communication }) => communication)),
  waiting: median(all.map(({ waiting }) => waiting)),
  bubble: median(all.map(({ bubble }) => bubble)),
})

function bar(name: string, shares: Shares): string {
  const pieces = parts.map(
    part => `<span class="${part}" style="flex:${Math.max(0, shares[part]).toFixed(4)}" title="${part}"></span>`,
  )
  return `<div class="bar" role="img" aria-label="${escapeXml(name)}">${pieces.join('')}</div>`
}

const memoryRows = (memory: Readonly<Record<string, number>>): string[][] =>
  Object.entries(memory).flatMap(([kind, bytes]) => (bytes > 0 ? [[kind, showBytes(bytes)]] : []))

const collectiveHead = ['what', 'ranks', 'bytes', 'time', 'bytes/s']
const collectiveRow = ({ name, ranks, bytes, seconds }: MeasuredCollective): string[] => [
  ...[name, String(ranks), showBytes(bytes), `${Number((1e3 * seconds).toPrecision(3))} ms`],
  seconds > 0 ? `${showBytes(bytes / seconds)}/s` : '',
]

function eventRows(events: readonly HealthEvent[]): string {
  const head = ['step', 'severity', 'what', 'rank', 'where', 'message', 'advice', 'command']
  const body = events.map(({ step, severity, event, rank, where, message, advice, command }) => [
    ...[String(step), severity, event, rank === undefined ? '' : String(rank), where ?? '', message],
    ...[advice ?? '', command ?? ''],
  ])
  const kinds = [...new Set(events.map(({ event }) => event))].map(
    kind => `<li><b>${kind}</b>: ${escapeXml(eventKinds[kind])}</li>`,
  )
  return body.length === 0 ? '<p>none</p>' : `${rows(head, body)}<ul>${kinds.join('')}</ul>`
}

const checkpointRows = (steps: readonly StepLine[]): string =>
  rows(
    ['step', 'where'],
    steps.flatMap(({ step, checkpoint }) => (checkpoint === undefined ? [] : [[String(step), checkpoint]])),
  )

/** Curves, events, and what ranks do, in the colours that timelines have. */
const fills: Readonly<Record<string, Fill>> = {
  ...{ a: palette.F, b: palette.dp, w: palette.I, e: palette.B },
  ...{ c: palette.F, n: palette.dp, q: palette.I, u: laneFill },
}

const paint = (theme: Theme): string =>
  Object.entries(fills)
    .map(([name, fill]) => `--${name}:${fill[theme]}`)
    .join(';')

const styles = `
:root{color-scheme:light dark;--ground:#fff;--text:#1f2430;--dim:#667085;--line:#e4e7ec;${paint('light')}}
@media (prefers-color-scheme:dark){:root{--ground:#14171f;--text:#e6e9f0;--dim:#98a2b3;--line:#2b3140;${paint('dark')}}}
body{margin:0;background:var(--ground);color:var(--text);font:14px/1.45 system-ui,sans-serif}
main{max-width:1340px;margin:0 auto;padding:24px}
h1{font-size:22px;overflow-wrap:anywhere}h2{font-size:16px;margin-top:28px}
dl{display:grid;grid-template-columns:max-content 1fr;gap:4px 16px}dt{color:var(--dim)}dd{margin:0}
.charts{display:grid;grid-template-columns:repeat(auto-fill,minmax(420px,1fr));gap:20px}
svg{width:100%;height:auto;font:11px system-ui,sans-serif}svg text{fill:var(--dim)}svg .title{fill:var(--text);font-weight:600;font-size:13px}
svg .end{text-anchor:end}svg .grid{stroke:var(--line)}svg path{fill:none;stroke-width:1.5}
path.s0{stroke:var(--a)}path.s1{stroke:var(--b)}circle.s0{fill:var(--a)}circle.s1{fill:var(--b)}text.s0{fill:var(--a)}text.s1{fill:var(--b)}
svg .mark{stroke:var(--dim);stroke-dasharray:3 3}svg .mark.warning{stroke:var(--w)}svg .mark.error{stroke:var(--e)}
.bar{display:flex;height:18px;margin:6px 0;border-radius:3px;overflow:hidden}.bar .compute{background:var(--c)}.bar .communication{background:var(--n)}.bar .waiting{background:var(--q)}.bar .bubble{background:var(--u)}
table{border-collapse:collapse;margin:8px 0;display:block;overflow-x:auto}th,td{text-align:left;padding:4px 12px 4px 0;border-bottom:1px solid var(--line);vertical-align:top}th{color:var(--dim);font-weight:500}
pre{overflow-x:auto;font-size:12px}summary{cursor:pointer;margin-top:20px}`
