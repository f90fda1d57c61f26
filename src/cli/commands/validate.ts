/** lockstep validate: published step times and peaks beside what the closed forms say, and the plans we would have chosen. */
import { fileURLToPath } from 'node:url'
import { didYouMean, error, ProblemsError } from '../../base/index.js'
import {
  classifyLayouts,
  compareAttention,
  compareExchanges,
  compareMemory,
  compareTimes,
  counted,
  type Row,
  rankings,
  reasonsOf,
  rowsOf,
  studies,
  studyOf,
  summarise,
} from '../../validate/index.js'
import type { Io } from '../io.js'
import { type Validation, validationText } from '../text/validate-text.js'

export interface ValidateOptions {
  readonly source?: readonly string[]
  readonly rows?: readonly string[]
  readonly worst: number
  readonly json?: boolean
}

const folder = fileURLToPath(new URL('../../../../validation', import.meta.url))

export function validateCommand(options: ValidateOptions, io: Io): number {
  const found = {
    ...validationOf(rowsFor(options, io), options.rows !== undefined),
    ...partsFor(options, io),
  }
  io.out(options.json ? `${JSON.stringify(asJson(found), null, 2)}\n` : validationText(found, options.worst))
  return found.times.timed.length + found.peaks.length > 0 ? 0 : 1
}

function validationOf(rows: readonly Row[], unseen: boolean): Validation {
  const times = compareTimes(rows, unseen)
  return {
    times,
    choices: rankings(times.timed),
    countedChoices: rankings(counted(times.timed)),
    peaks: compareMemory(rows, unseen).compared,
    layouts: classifyLayouts(rows.filter(row => studyOf(row)?.[0] === 'layouts')).classified,
  }
}

/** Parts belong to no study. */
function partsFor({ source, rows }: ValidateOptions, io: Io): Pick<Validation, 'attention' | 'exchanges'> {
  if (source || rows) return {}
  const textOf = (name: string) => io.read(`${folder}/parts/${name}.csv`)
  return { attention: compareAttention(textOf('attention')), exchanges: compareExchanges(textOf('exchanges')) }
}

function rowsFor({ source = [], rows }: ValidateOptions, io: Io): Row[] {
  const names = Object.keys(studies)
  const problems = source
    .filter(name => !names.includes(name))
    .map(name => error('validate/study', '--source', `unknown study \`${name}\``, didYouMean(name, names)))
  if (problems.length > 0) throw new ProblemsError(problems)
  const paths = rows ?? (io.list(folder) ?? []).filter(path => path.endsWith('.csv') && !isPart(path))
  return paths
    .flatMap(path => readRows(path, io))
    .filter(row => source.length === 0 || source.includes(studyOf(row)?.[0] ?? ''))
}

/** In a folder of its own, below that of the studies. */
const isPart = (path: string): boolean => /[/\\]parts[/\\][^/\\]+$/.test(path)

function readRows(path: string, io: Io): Row[] {
  try {
    return rowsOf(io.read(path))
  } catch (e) {
    throw new ProblemsError([error('validate/rows', path, e instanceof Error ? e.message : String(e))])
  }
}

const asJson = ({ times, choices, countedChoices, peaks, layouts, attention, exchanges }: Validation) => ({
  studies: summarise(times),
  times: times.timed.map(({ row, setup, ...numbers }) => ({
    ...numbers,
    line: row.line,
    source: row.source,
    model: row.model,
    device: setup.cluster.device.name,
    devices: setup.cluster.devices,
    split: setup.split,
  })),
  choices,
  countedChoices,
  memory: peaks.map(({ row, ...numbers }) => ({ ...numbers, line: row.line, source: row.source, model: row.model })),
  layouts: layouts.map(({ row, ...verdict }) => ({ ...verdict, line: row.line, source: row.source })),
  aside: reasonsOf(times.aside),
  ...(attention && { attention }),
  ...(exchanges && { exchanges }),
})
