/** What lockstep validate prints for people. */
import { meshAxes, counted as plural, table, wrapped } from '../../base/index.js'
import type { Split } from '../../estimate/index.js'
import {
  type AttentionRows,
  type Classified,
  type Compared,
  type ComparedPart,
  counted,
  type ExchangeRows,
  fitsOfRuns,
  meanAbsolute,
  meanError,
  meanRegret,
  medianRegret,
  type PartRows,
  type Ranking,
  reasonsOf,
  recallAndPrecision,
  summarise,
  type Timed,
  type Times,
} from '../../validate/index.js'

export interface Validation {
  readonly times: Times
  readonly choices: readonly Ranking[]
  /** The same among rows that no constant was fitted on. */
  readonly countedChoices: readonly Ranking[]
  /** Peaks that were measured, and layouts that ran or ran out of memory. */
  readonly peaks: readonly Compared[]
  readonly layouts: readonly Classified[]
  /** Attention of split sequences, by itself. */
  readonly attention?: AttentionRows | undefined
  /** Rows to experts and back, by themselves. */
  readonly exchanges?: ExchangeRows | undefined
}

export function validationText(validation: Validation, worst: number): string {
  const { times, peaks, layouts, attention, exchanges } = validation
  const parts = [
    timesText(times),
    choicesText(validation),
    peaksText(peaks),
    layoutsText(layouts),
    fitsText(times),
    attention ? attentionText(attention) : '',
    exchanges ? exchangesText(exchanges) : '',
    worstText(times, worst),
    asideText(times),
  ]
  return `${parts.filter(part => part !== '').join('\n\n')}\n`
}

const percent = (x: number): string => `${(100 * x).toFixed(1)} %`

/** The two devices most has been published of. */
const usual = ({ setup }: Timed): boolean => /^(a100|h100)/.test(setup.cluster.device.name)

function timesText(times: Times): string {
  const judged = summarise(times).filter(({ rows }) => rows > 0)
  if (judged.length === 0) return ''
  const lines = judged.map(({ study, title, rows, mean = 0, bias = 0, fitted, aside }) => [
    ...[study, title, rows, percent(mean), percent(bias), fitted, aside],
  ])
  const rows = counted(times.timed).filter(usual)
  const spread = counted(times.timed).filter(({ setup }) => setup.shape.experts || setup.split.cp > 1)
  return [
    'Step times, predicted against measured. Rows used to fit a constant do not count.\n',
    table(['study', '', 'rows', 'mean error', 'bias', 'fitted on', 'left out'], lines),
    ...(rows.length > 0 ? [`\nA100 and H100: ${rows.length} rows, mean error ${percent(meanAbsolute(rows))}`] : []),
    ...(spread.length > 0
      ? [`MoE or context parallel: ${spread.length} rows, mean error ${percent(meanAbsolute(spread))}`]
      : []),
  ].join('\n')
}

function choicesText({ choices, countedChoices }: Validation): string {
  if (choices.length === 0) return ''
  const lines = namesOf(choices, ({ study }) => study).map(name => {
    const own = choices.filter(({ study }) => study === name)
    const plans = own.reduce((sum, r) => sum + r.plans, 0)
    const regrets = [meanRegret(own), medianRegret(own), Math.max(...own.map(r => r.regret))]
    return [name, own.length, plans, ...regrets.map(percent)]
  })
  return [
    'Regret: how much slower the plan we choose is than the best of the measured plans of a model.\n',
    table(['study', 'choices', 'plans', 'mean', 'median', 'worst'], lines),
    `\nAll: ${choices.length} choices, mean ${percent(meanRegret(choices))}, median ${percent(medianRegret(choices))}`,
    ...(countedChoices.length === 0
      ? []
      : [
          `Without rows used to fit constants: ${countedChoices.length} choices, mean ${percent(meanRegret(countedChoices))}`,
        ]),
  ].join('\n')
}

function peaksText(peaks: readonly Compared[]): string {
  if (peaks.length === 0) return ''
  const lines = namesOf(peaks, ({ origin }) => origin).map(name => {
    const own = peaks.filter(({ origin }) => origin === name)
    const fitted = own.filter(peak => peak.fitted).length
    return [name, own.length - fitted, percent(meanError(own)), fitted]
  })
  return [
    'Peak memory, predicted against measured.\n',
    table(['study', 'rows', 'mean error', 'fitted on'], lines),
    `\nAll: mean error ${percent(meanError(peaks))}`,
  ].join('\n')
}

function layoutsText(layouts: readonly Classified[]): string {
  if (layouts.length === 0) return ''
  const { recall, precision } = recallAndPrecision(layouts)
  const near = layouts.filter(({ chance }) => chance > 0.05 && chance < 0.95)
  const ran = near.filter(({ ranOut }) => !ranOut).length
  const expected = near.reduce((sum, { chance }) => sum + chance, 0)
  return [
    `Out of memory or not, ${layouts.length} layouts: recall ${percent(recall)}, precision ${percent(precision)}`,
    `${near.length} layouts with a probability between 5 and 95 % to fit: ${ran} ran, ${expected.toFixed(1)} expected`,
  ].join('\n')
}

function fitsText({ timed }: Times): string {
  const { runs, unfit, unknown } = fitsOfRuns(timed)
  if (runs === 0) return ''
  const more = unknown > 0 ? `\n${unknown} more do not publish what they recompute` : ''
  return `Runs that happened: ${unfit} of ${runs} are predicted not to fit (${percent(unfit / runs)})${more}`
}

function attentionText(rows: AttentionRows): string {
  const lines = rows.compared.map(({ variant, pass, measured, predicted, error }) => [
    ...[variant, pass, milliseconds(measured), milliseconds(predicted), percent(error)],
  ])
  return [
    'Context-parallel attention over 8 ranks, in isolation.\n',
    table(['split', 'pass', 'measured', 'predicted', 'error'], lines),
    ...meanAndAside(rows),
  ].join('\n')
}

const milliseconds = (seconds: number): string => `${(1e3 * seconds).toFixed(1)} ms`

function meanAndAside({ compared, aside }: PartRows<ComparedPart>): string[] {
  return [
    `\nAll: mean error ${percent(meanAbsolute(compared))}`,
    ...aside.flatMap(({ reason, rows }) => wrapped(`Left out: ${plural(rows, 'row')}, ${reason}`)),
  ]
}

function exchangesText(rows: ExchangeRows): string {
  const microseconds = (seconds: number) => `${(1e6 * seconds).toFixed(0)} us`
  const lines = rows.compared.map(({ device, kind, phase, ep, measured, predicted, error }) => [
    ...[device, kind, phase, ep, microseconds(measured), microseconds(predicted), percent(error)],
  ])
  return [
    'MoE dispatch and combine of 4,096 tokens per rank, in isolation.\n',
    table(['device', 'by', 'phase', 'ep', 'measured', 'predicted', 'error'], lines),
    ...meanAndAside(rows),
  ].join('\n')
}

function worstText({ timed }: Times, worst: number): string {
  const rows = [...counted(timed)].sort((a, b) => Math.abs(b.error) - Math.abs(a.error)).slice(0, worst)
  if (rows.length === 0) return ''
  const lines = rows.map(({ study, row, setup, error, measured, predicted }) => [
    `${error > 0 ? '+' : ''}${percent(error)}`,
    `${measured.toPrecision(4)} s`,
    `${predicted.toPrecision(4)} s`,
    `${study}:${row.line}`,
    `${row.model}, ${splitText(setup.split)} on ${setup.cluster.devices} ${setup.cluster.device.name}`,
  ])
  return `Worst step times\n\n${table(['error', 'measured', 'predicted', 'row', ''], lines)}`
}

function splitText(split: Split): string {
  const { pp, microbatch, microbatches, recompute, schedule } = split
  const axes = meshAxes.flatMap(axis => (split[axis] > 1 ? [`${axis} ${split[axis]}`] : []))
  const batch = `${microbatches} x ${microbatch} sequences`
  return [...axes, batch, `recompute ${recompute}`, ...(pp > 1 ? [schedule] : [])].join(', ')
}

function asideText({ aside }: Times): string {
  if (aside.length === 0) return ''
  const lines = reasonsOf(aside).map(({ study, reason, rows }) => [study, rows, reason])
  return `Left out: ${plural(aside.length, 'row')}\n\n${table(['study', 'rows', 'reason'], lines)}`
}

const namesOf = <T>(items: readonly T[], name: (item: T) => string): readonly string[] => [...new Set(items.map(name))]
