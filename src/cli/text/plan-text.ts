/** The answer of `lockstep plan`, to be read from top to bottom: the plans, how they were found, and why. */
import {
  counted,
  scaled,
  shorten,
  showCount,
  showGiB,
  showPercent,
  showSeconds,
  showWhole,
  table,
  wrapped,
} from '../../base/index.js'
import { memoryProfileOf } from '../../estimate/index.js'
import { parametersOf } from '../../model/index.js'
import {
  type Answer,
  canSimulate,
  capacityOf,
  differenceSentence,
  extraFacts,
  type Impossible,
  longMargin,
  type Neighbour,
  partWords,
  type RankedPlan,
  type Request,
  reasonSentence,
  type Sensitivity,
  showChance,
  showSentence,
  simulatedCounts,
  speedSentence,
  verdictSentence,
  type Why,
} from '../../search/index.js'
import type { Io } from '../io.js'
import { colorsOf, type Paint } from './colors.js'
import { legendOf, numberCells, numberHeader, planColumns, showPlan } from './plan-words.js'
import type { Planning } from './planning.js'
import { readingLines } from './sentences.js'

/** What is shown: the answer, and the reasons where they were asked for. */
export type Told = Answer & { readonly why?: Why }

export function planText(planning: Planning, answer: Told, io: Io): string {
  const { request, listed, possible, front, why } = answer
  const { bold, dim } = colorsOf(io)
  return [
    headline(planning, bold),
    '',
    listed.length > 0 ? bestTable(request, listed) : 'No plan fits with certainty.',
    ...orderLines(answer),
    ...section(bold(listed.length > 0 ? 'Faster, may fit' : 'May fit'), possibleText(request, possible)),
    '',
    ...countsLines(answer).map(dim),
    ...section(bold('Pareto frontier: memory against step time'), frontTable(request, front)),
    ...(why ? whySections(answer, why, bold) : []),
    '',
  ].join('\n')
}

const orderLines = ({ order }: Answer): string[] =>
  order ? wrapped(`1 ${showSentence({ code: 'order/faster', values: order })}`) : []

const section = (title: string, body: string): string[] => (body === '' ? [] : ['', title, body])

export function headline({ request, constraints, notes }: Planning, bold: Paint): string {
  const { model, shape, cluster, globalBatch, precision, software } = request
  const tokens = globalBatch * shape.seq
  return [
    `${bold(`${showCount(parametersOf(model, shape.seq))} parameters`)} on ${bold(`${cluster.devices} x ${cluster.device.title}`)}, ${precision}, modeled for ${software.name}`,
    `${globalBatch} sequences x ${shape.seq} = ${scaled(tokens)} tokens/step`,
    ...(constraints.length > 0 ? [`with ${constraints.join(', ')}`] : []),
    ...notes.map(note => `note: ${note}`),
  ].join('\n')
}

const columnsOf = (ranked: readonly RankedPlan[]) => planColumns(ranked.map(({ plan }) => plan.split))

function bestTable(request: Request, ranked: readonly RankedPlan[]): string {
  const { header, cells } = columnsOf(ranked)
  return table(
    ['#', ...numberHeader, ...header],
    ranked.map(({ plan, simulated }, i) => [
      String(i + 1),
      ...numberCells(request, plan, simulated),
      ...cells(plan.split),
    ]),
  )
}

/** Each with its chance; below, what it depends on. */
function possibleText(request: Request, possible: readonly RankedPlan[]): string {
  if (possible.length === 0) return ''
  const { header, cells } = columnsOf(possible)
  const rows = possible.map(({ plan, fit }, i) => {
    const [time, mfu, , memory] = numberCells(request, plan)
    return [String(i + 1), time, mfu, memory, showChance(fit.chance), ...cells(plan.split)]
  })
  const conditions = possible.map(
    ({ fit }, i) => `${i + 1} fits if ${fit.condition ? showSentence(fit.condition) : ''}`,
  )
  return [table(['#', 'step', 'MFU', 'GiB', 'chance', ...header], rows), ...conditions].join('\n')
}

function frontTable(request: Request, front: readonly RankedPlan[]): string {
  if (front.length < 2) return ''
  const { header, cells } = columnsOf(front)
  const rows = front.map(({ plan, simulated }) => {
    const [time, mfu, , memory] = numberCells(request, plan, simulated)
    return [memory, time, mfu, ...cells(plan.split)]
  })
  return table(['GiB', 'step', 'MFU', ...header], rows)
}

const unoutlined = ({ software }: Request): string =>
  software.own ? ', plans with experts are not simulated here' : ''

function countsLines(answer: Answer): string[] {
  const { listed, found } = answer
  const { considered, pruned, priced, unfit } = found.counts
  const fits = unfit > 0 ? ` (${showWhole(unfit)} do not fit)` : ''
  const counts = [
    ...(pruned.memory > 0 ? [`${showWhole(pruned.memory)} pruned (do not fit)`] : []),
    ...(pruned.time > 0 ? [`${showWhole(pruned.time)} pruned (lower bound above the best)`] : []),
    `${showWhole(priced)} estimated${fits}`,
  ]
  return [
    ...wrapped(`${showWhole(considered)} candidates: ${counts.join(', ')}`),
    ...simulatedLines(answer),
    ...leftOutLines(answer),
    ...(answer.request.allowed ?? []).map(name => `${name}: ${extraFacts[name].words}`),
    ...legendOf(listed.map(({ plan }) => plan.split)),
  ]
}

function simulatedLines({ request, found, outlined, compiled }: Answer): string[] {
  if (compiled.length === 0) {
    const { spread } = memoryProfileOf(request.software)
    return [
      `cost-model estimates only, nothing compiled${canSimulate(request) ? '' : unoutlined(request)}`,
      ...wrapped(
        `memory estimates are within ${showPercent(spread)}: the plans listed need at most ${showGiB(found.capacity)} of ${showGiB(capacityOf(request))}`,
      ),
    ]
  }
  const count = outlined.length
  const off = outlined.reduce((sum, { step, plan }) => sum + Math.abs(step / plan.estimate.step - 1), 0) / count
  const unfit = compiled.filter(({ fits }) => !fits).length
  const tooLarge = unfit > 0 ? `; ${unfit} more do not fit once compiled` : ''
  const isLong = ({ plan }: (typeof compiled)[number]) => simulatedCounts(plan.split).length > 1
  const memory = compiled.some(isLong) ? `within ${showPercent(longMargin)}` : 'exact'
  return [
    ...(count > 0 ? [`top ${count} simulated (estimates within ${showPercent(off)} on average)`] : []),
    `the plans listed are compiled: their memory is ${memory}${tooLarge}`,
    ...(compiled.some(isLong)
      ? ['steps of many microbatches are compiled and simulated with fewer, and extended']
      : []),
  ]
}

const mostNamed = 3

function leftOutLines({ failed, tooLong }: Answer): string[] {
  const named = failed
    .slice(0, mostNamed)
    .flatMap(({ plan, why }) => wrapped(`left out: ${showPlan(plan.split)}: ${firstLine(why)}`))
  return [
    ...named,
    ...(failed.length > mostNamed ? [`left out: ${failed.length - mostNamed} more that could not be simulated`] : []),
    ...(tooLong > 0 ? [`left out: ${counted(tooLong, 'plan')} with too many microbatches x layers to compile`] : []),
  ]
}

const firstLine = (text: string): string => shorten(text.split('\n')[0], 120)

function whySections({ listed, found }: Answer, { reading, neighbours, sensitivity }: Why, bold: Paint): string[] {
  const [{ plan: best, simulated }] = listed
  const [cheapest] = found.best
  const indent = (lines: readonly string[]) => lines.map(line => `  ${line}`).join('\n')
  const prices = best === cheapest ? [] : [`the cost model alone would choose ${showPlan(cheapest.split)}`]
  const { step, parts } = simulated ?? best.estimate
  return [
    ...section(bold('Why this plan'), indent(readingLines(reading))),
    ...section(
      `${bold('Time breakdown')} (${simulated ? 'simulated, mean over ranks' : 'estimated, busiest rank'})`,
      indent([...partsLines(step, parts), ...bubbleLines(listed[0])]),
    ),
    ...section(`${bold('With one decision changed')} (estimated)`, indent(neighbourLines(neighbours))),
    ...section(`${bold('What would change it')} (estimated)`, indent([...prices, ...sensitivityLines(sensitivity)])),
  ]
}

/** The other bubble, of a pipeline. */
const bubbleLines = ({ plan: { split }, simulated }: RankedPlan): string[] =>
  simulated && split.pp > 1
    ? [
        `the bubble is ${showPercent(simulated.bubble.mean)}, ${showPercent(simulated.bubble.criticalPath)} on the critical path`,
      ]
    : []

const barWidth = 40

export function partsLines(step: number, parts: Partial<Record<keyof typeof partWords, number>>): string[] {
  const shown = (Object.keys(partWords) as (keyof typeof partWords)[]) // the keys of a table are its names
    .map(part => ({ name: partWords[part], seconds: parts[part] ?? 0 }))
    .filter(({ seconds }) => seconds > 0.0005 * step)
    .sort((a, b) => b.seconds - a.seconds)
  const rows = shown.map(({ name, seconds }) => [
    name,
    showSeconds(seconds),
    showPercent(seconds / step),
    '#'.repeat(Math.max(1, Math.round((barWidth * seconds) / step))),
  ])
  return bodyOf(rows)
}

const mostOfATopic = 3

/** Only the best few of the many schedules are listed: the others say the same. */
export function neighbourLines(neighbours: readonly Neighbour[], most = mostOfATopic): string[] {
  const seen = new Map<string, number>()
  const shown = neighbours.filter(({ move: { topic } }) => {
    if (topic !== 'schedule' && topic !== 'layers') return true
    seen.set(topic, (seen.get(topic) ?? 0) + 1)
    return (seen.get(topic) ?? 0) <= most
  })
  const rows = shown.map(one => [one.move.change, verdictSentence(one.verdict), reasonSentence(one)].map(showSentence))
  return bodyOf(rows)
}

function sensitivityLines(all: readonly Sensitivity[]): string[] {
  const rows = all.map(one => [
    showSentence(one.change),
    showSentence(speedSentence(one)),
    one.best ? showSentence(differenceSentence(one.differences)) : '',
  ])
  return bodyOf(rows)
}

/** What would make a plan possible, and the best plan then. */
export const worksLines = ({ instead }: Pick<Impossible, 'instead'>): string[] =>
  bodyOf(
    instead.map(({ kind, change, best }) => [
      showSentence(change),
      kind === 'memory' ? '' : showSeconds(best.estimate.step),
      showPlan(best.split),
    ]),
  )

export function impossibleText(planning: Planning, impossible: Impossible, io: Io): string {
  const { red, bold } = colorsOf(io)
  const { cause, why, lightest } = impossible
  const works = worksLines(impossible)
  return [
    headline(planning, bold),
    '',
    `${red('error')}: ${cause === 'mesh' ? 'no plan is possible' : 'nothing fits'}: ${showSentence(why)}`,
    ...(lightest ? [`  ${showPlan(lightest.split)}`] : []),
    '',
    ...(works.length > 0
      ? [bold('What would work'), ...works.map(line => `  ${line}`)]
      : ['Nothing near it works either: try more devices, a smaller model, or fewer constraints.']),
    '',
  ].join('\n')
}

/** A table without a header. */
function bodyOf(rows: readonly (readonly string[])[]): string[] {
  return rows.length === 0
    ? []
    : table(
        rows[0].map(() => ''),
        rows,
        2,
      )
        .split('\n')
        .slice(1)
}
