/** The answer of `lockstep plan`, to be read from top to bottom: the plans, how they were found, and why. */
import pc from 'picocolors'
import { showBytes, showCount, table } from '../base/index.js'
import { parametersOf } from '../model/index.js'
import type { Counts, Impossible, Neighbour, Priced, Request, Sensitivity } from '../search/index.js'
import { scaled } from './display.js'
import type { Io } from './io.js'
import type { Answer, Why } from './plan.js'
import {
  numberCells,
  numberHeader,
  partNames,
  planCells,
  planHeader,
  showDifferences,
  showPercent,
  showPlan,
  showReason,
  showSeconds,
  showVerdict,
} from './plan-words.js'
import type { Planning } from './planning.js'

type Paint = (text: string) => string

export function planText(answer: Answer, top: number, io: Io): string {
  const { planning, found, why } = answer
  const { bold, dim } = pc.createColors(io.colors)
  const { request } = planning
  const [best] = found.best
  return [
    headline(planning, bold),
    '',
    bestTable(request, found.best.slice(0, top)),
    '',
    dim(countsText(found.counts, answer.seconds)),
    ...section(bold('Time against memory'), frontTable(request, found.front)),
    ...(why ? whySections(best, why, bold) : []),
    '',
  ].join('\n')
}

const section = (title: string, body: string): string[] => (body === '' ? [] : ['', title, body])

export function headline({ request, notes }: Planning, bold: Paint): string {
  const { model, shape, cluster, globalBatch, precision, software } = request
  const tokens = globalBatch * shape.seq
  return [
    `${bold(`${showCount(parametersOf(model, shape.seq))} parameters`)} on ${bold(`${cluster.devices} x ${cluster.device.title}`)}, ${precision}, as ${software.name} runs it`,
    `${globalBatch} sequences x ${shape.seq} = ${scaled(tokens)} tokens a step`,
    ...(request.constraints.length > 0 ? [`with ${request.constraints.map(c => c.text).join(', ')}`] : []),
    ...notes.map(note => `note: ${note}`),
  ].join('\n')
}

const bestTable = (request: Request, plans: readonly Priced[]): string =>
  table(
    ['', ...numberHeader, ...planHeader],
    plans.map((plan, i) => [i + 1, ...numberCells(request, plan), ...planCells(plan.split)]),
  )

const mostOnFront = 8

/** The fastest, the lightest, and as many as there is room for between them. */
function frontTable(request: Request, front: readonly Priced[]): string {
  if (front.length < 2) return ''
  const step = Math.max(1, (front.length - 1) / (mostOnFront - 1))
  const picked = Array.from({ length: Math.min(mostOnFront, front.length) }, (_, i) => front[Math.round(i * step)])
  return table(
    ['memory', 'step', 'MFU', ...planHeader],
    picked.map(plan => {
      const [time, mfu, , memory] = numberCells(request, plan)
      return [memory, time, mfu, ...planCells(plan.split)]
    }),
  )
}

const grouped = (n: number): string => n.toLocaleString('en-US')

function countsText({ considered, pruned, priced, unfit }: Counts, seconds: number): string {
  const left = [
    ...(pruned.memory > 0 ? [`${grouped(pruned.memory)} cannot fit`] : []),
    ...(pruned.time > 0 ? [`${grouped(pruned.time)} cannot be faster`] : []),
  ]
  const bounds = left.length > 0 ? `: ${left.join(' and ')} (by bounds)` : ''
  const fits = unfit > 0 ? `, of which ${grouped(unfit)} do not fit` : ''
  return `${grouped(considered)} plans${bounds}, ${grouped(priced)} priced${fits}, in ${showSeconds(seconds)}`
}

function whySections(best: Priced, { reading, neighbours, sensitivity }: Why, bold: Paint): string[] {
  const indent = (lines: readonly string[]) => lines.map(line => `  ${line}`).join('\n')
  return [
    ...section(bold('Why the first'), indent(reading.map(({ topic, text }) => `${topic.padEnd(7)} ${text}`))),
    ...section(bold('Where its step goes'), indent(partsLines(best))),
    ...section(bold('One decision taken differently'), indent(neighbourLines(neighbours))),
    ...section(bold('What would change it'), indent(sensitivityLines(sensitivity))),
  ]
}

const barWidth = 40

export function partsLines({ estimate: { step, parts } }: Priced): string[] {
  const shown = (Object.keys(parts) as (keyof typeof parts)[]) // the keys of the parts are their names
    .filter(part => parts[part] > 0.0005 * step)
    .sort((a, b) => parts[b] - parts[a])
  const rows = shown.map(part => [
    partNames[part],
    showSeconds(parts[part]),
    showPercent(parts[part] / step),
    '#'.repeat(Math.max(1, Math.round((barWidth * parts[part]) / step))),
  ])
  return table(['part', 'time', 'share', ''], rows).split('\n').slice(1)
}

const mostOfATopic = 3

/** Of the many schedules only the best few: the others say the same. */
export function neighbourLines(neighbours: readonly Neighbour[], most = mostOfATopic): string[] {
  const seen = new Map<string, number>()
  const shown = neighbours.filter(({ move: { topic } }) => {
    if (topic !== 'schedule' && topic !== 'layers') return true
    seen.set(topic, (seen.get(topic) ?? 0) + 1)
    return (seen.get(topic) ?? 0) <= most
  })
  const rows = shown.map(one => [one.move.name, showVerdict(one.verdict), showReason(one)])
  return table(['', '', ''], rows).split('\n').slice(1)
}

function sensitivityLines(all: readonly Sensitivity[]): string[] {
  const rows = all.map(({ change, speedup, differences }) => {
    if (speedup === undefined) return [change, 'nothing fits', '']
    const gain = speedup - 1
    const sign = gain < 0 ? '' : '+'
    return [change, `${sign}${showPercent(gain)} tokens/s`, showDifferences(differences)]
  })
  return table(['', '', ''], rows).split('\n').slice(1)
}

export function impossibleText(planning: Planning, { cause, lightest, capacity, instead }: Impossible, io: Io): string {
  const { red, bold } = pc.createColors(io.colors)
  const { request } = planning
  const { cluster, globalBatch, constraints } = request
  const asked = constraints.length > 0 ? ` with ${constraints.map(c => c.text).join(', ')}` : ''
  const why =
    cause === 'mesh'
      ? `no plan uses exactly ${cluster.devices} devices for a batch of ${globalBatch}${asked}`
      : `nothing fits: the lightest plan needs ${showBytes(lightest?.bytes ?? 0)} a device, and ${showBytes(capacity)} may be used`
  const plan = lightest ? [`  ${showPlan(lightest.split)}`] : []
  const works = instead.map(({ kind, change, best }) =>
    kind === 'memory'
      ? [`devices with ${showBytes(best.bytes - capacity)} more memory`, '', showPlan(best.split)]
      : [change, showSeconds(best.estimate.step), showPlan(best.split)],
  )
  return [
    headline(planning, bold),
    '',
    `${red('error')}: ${why}`,
    ...plan,
    ...(works.length > 0
      ? ['', bold('What would work'), ...table(['', '', ''], works).split('\n').slice(1)].map((l, i) =>
          i > 1 ? `  ${l}` : l,
        )
      : ['', 'Nothing near it works either: more devices, a smaller model, or fewer constraints.']),
    '',
  ].join('\n')
}
