/** lockstep validate: published step times beside what the closed form says, and the plans we would have chosen. */
import { fileURLToPath } from 'node:url'
import type { Command } from 'commander'
import { didYouMean, error, ProblemsError, table } from '../base/index.js'
import type { Split } from '../estimate/index.js'
import {
  compareTimes,
  counted,
  meanAbsolute,
  medianRegret,
  type Ranking,
  type Row,
  rankings,
  reasonsOf,
  rowsOf,
  studies,
  summarise,
  type Timed,
  type Times,
} from '../validate/index.js'
import { integer } from './integer.js'
import type { Io } from './io.js'

interface Options {
  readonly source?: readonly string[]
  readonly rows?: readonly string[]
  readonly worst: number
  readonly json?: boolean
}

const folder = fileURLToPath(new URL('../../../validation', import.meta.url))

export function registerValidate(program: Command, io: Io, done: (code: number) => void): void {
  program
    .command('validate')
    .summary('compare predicted step times with published ones')
    .description(
      'Prices every published training run that says enough of itself: the error of each study, the worst rows, what was set aside and why, and how much slower the plan we would choose was than the best one measured.',
    )
    .option('--source <study...>', 'these studies only')
    .option('--rows <file...>', 'rows of your own instead, with the columns of validation/README.md')
    .option('--worst <n>', 'how many of the worst rows to list', integer, 5)
    .option('--json', 'everything as JSON')
    .addHelpText(
      'after',
      `\nStudies: ${Object.keys(studies).join(', ')}\n\nExample:\n  lockstep validate --source layouts bloom --worst 10\n\nExit code 0: compared, 1: nothing to compare, 2: wrong use.`,
    )
    .action((options: Options) => {
      const times = timesOf(options, io)
      const ranked = rankings(times.timed)
      io.out(
        options.json ? `${JSON.stringify(asJson(times, ranked), null, 2)}\n` : asText(times, ranked, options.worst),
      )
      done(times.timed.length > 0 ? 0 : 1)
    })
}

function timesOf({ source = [], rows }: Options, io: Io): Times {
  const problems = source
    .filter(name => !Object.hasOwn(studies, name))
    .map(name =>
      error('validate/study', '--source', `unknown study \`${name}\``, didYouMean(name, Object.keys(studies))),
    )
  if (problems.length > 0) throw new ProblemsError(problems)
  const { timed, aside } = compareTimes(
    rows ? rows.flatMap(path => readRows(path, io)) : shippedRows(io),
    rows !== undefined,
  )
  const asked = ({ study }: { readonly study: string }) => source.length === 0 || source.includes(study)
  return { timed: timed.filter(asked), aside: aside.filter(asked) }
}

const shippedRows = (io: Io): Row[] =>
  (io.list(folder) ?? []).filter(path => path.endsWith('.csv')).flatMap(path => readRows(path, io))

function readRows(path: string, io: Io): Row[] {
  try {
    return rowsOf(io.read(path))
  } catch (e) {
    throw new ProblemsError([error('validate/rows', path, e instanceof Error ? e.message : String(e))])
  }
}

const percent = (x: number, digits = 1): string => `${(100 * x).toFixed(digits)} %`

function asText(times: Times, ranked: readonly Ranking[], worst: number): string {
  const summaries = summarise(times)
  const judged = summaries.filter(({ rows }) => rows > 0)
  const lines = judged.map(s => [s.study, s.title, s.rows, percent(s.mean), percent(s.bias), s.fitted, s.aside])
  const parts = [
    'Step times, predicted against measured. Rows a constant was fitted on are not counted.\n',
    table(['study', '', 'rows', 'mean error', 'bias', 'fitted on', 'set aside'], lines),
    totalText(times),
    rankingText(ranked),
    worstText(times, worst),
    asideText(times),
  ]
  return `${parts.filter(part => part !== '').join('\n')}\n`
}

/** The two devices most has been published of. */
const usual = ({ setup }: Timed): boolean => /^(a100|h100)/.test(setup.cluster.device.name)

function totalText({ timed }: Times): string {
  const rows = counted(timed).filter(usual)
  return rows.length === 0 ? '' : `\nA100 and H100: ${rows.length} rows, mean error ${percent(meanAbsolute(rows))}`
}

function rankingText(ranked: readonly Ranking[]): string {
  if (ranked.length === 0) return ''
  const names = [...new Set(ranked.map(({ study }) => study))]
  const lines = names.map(name => {
    const own = ranked.filter(({ study }) => study === name)
    const plans = own.reduce((sum, r) => sum + r.plans, 0)
    return [name, own.length, plans, percent(medianRegret(own)), percent(Math.max(...own.map(r => r.regret)))]
  })
  return [
    '\nWhere many plans of one model were measured: how much slower the one we choose was than the best.\n',
    table(['study', 'choices', 'plans', 'median', 'worst'], lines),
    `\nAll: ${ranked.length} choices, median ${percent(medianRegret(ranked))}`,
  ].join('\n')
}

function worstText({ timed }: Times, worst: number): string {
  const rows = [...counted(timed)].sort((a, b) => Math.abs(b.error) - Math.abs(a.error)).slice(0, worst)
  if (rows.length === 0) return ''
  const lines = rows.map(({ study, row, setup, error: e, measured, predicted }) => [
    `${e > 0 ? '+' : ''}${percent(e)}`,
    `${measured.toPrecision(4)} s`,
    `${predicted.toPrecision(4)} s`,
    `${study}:${row.line}`,
    `${row.model}, ${splitText(setup.split)} on ${setup.cluster.devices} ${setup.cluster.device.name}`,
  ])
  return `\nWorst rows\n\n${table(['error', 'measured', 'predicted', 'row', ''], lines)}`
}

function splitText({ tp, pp, dp, cp, microbatch, microbatches, recompute, schedule }: Split): string {
  const axes = Object.entries({ tp, pp, dp, cp }).flatMap(([name, size]) => (size > 1 ? [`${name} ${size}`] : []))
  return [
    ...axes,
    `${microbatches} x ${microbatch} sequences`,
    `recompute ${recompute}`,
    ...(pp > 1 ? [schedule] : []),
  ].join(', ')
}

function asideText({ aside }: Times): string {
  if (aside.length === 0) return ''
  const lines = reasonsOf(aside).map(({ study, reason, rows }) => [study, rows, reason])
  return `\nSet aside: ${aside.length} rows\n\n${table(['study', 'rows', 'reason'], lines)}`
}

const asJson = (times: Times, ranked: readonly Ranking[]) => ({
  studies: summarise(times),
  rows: times.timed.map(({ study, row, setup, measured, predicted, error: e, fitted }) => ({
    study,
    line: row.line,
    source: row.source,
    model: row.model,
    device: setup.cluster.device.name,
    devices: setup.cluster.devices,
    split: setup.split,
    measured,
    predicted,
    error: e,
    fitted,
  })),
  rankings: ranked,
  aside: reasonsOf(times.aside),
})
