/**
 * Differential fuzzing: `npm run fuzz -- --minutes 30 --seed 1` draws jobs over every feature and takes each through every stage;
 * `--job file.yaml` replays one, `--json` prints a line of JSON per failure and one for the summary. Exit code 1: something failed.
 */
import { readFileSync } from 'node:fs'
import process from 'node:process'
import { parseArgs } from 'node:util'
import { parse, stringify } from 'yaml'
import { Pool } from '../../src/engine/native/index.js'
import { findPython } from '../python.js'
import { type Drawn, draw } from './draw.js'
import { EmittedRuns } from './emitted-runs.js'
import { type Failure, Fuzzer, type Summary } from './fuzz.js'

const usage = 'npm run fuzz -- [--minutes 30] [--jobs n] [--seed 1] [--job file.yaml] [--json]'

interface Given {
  readonly minutes: number
  readonly jobs: number
  readonly seed: number
  readonly job: string | undefined
  readonly json: boolean
}

/** Undefined: the command line is not understood. */
function given(args: readonly string[]): Given | undefined {
  const text = { type: 'string' } as const
  try {
    const { values } = parseArgs({
      args: [...args],
      options: { minutes: text, jobs: text, seed: text, job: text, json: { type: 'boolean' } },
    })
    const { minutes = '30', jobs = 'Infinity', seed = '1', job, json = false } = values
    const numbers = { minutes: Number(minutes), jobs: Number(jobs), seed: Number(seed) }
    return Object.values(numbers).some(Number.isNaN) ? undefined : { ...numbers, job, json }
  } catch {
    return undefined
  }
}

/** Seeds of one run do not meet those of the next. */
const perSeed = 1e6

function* drawing({ seed, job }: Given): Generator<Pick<Drawn, 'seed' | 'input'>> {
  if (job !== undefined) yield { seed, input: parse(readFileSync(job, 'utf8')) }
  else for (let n = 0; ; n++) yield draw(seed * perSeed + n)
}

const indented = (text: string): string => text.trimEnd().replace(/^/gm, '  ')

/** Of a reason, half from its beginning and half from its end, where a traceback says what was wrong. */
const mostLines = 16

function failureText({ seed, stage, reason, smallest }: Failure): string {
  const lines = reason.split('\n')
  const told =
    lines.length > mostLines ? [...lines.slice(0, mostLines / 2), '...', ...lines.slice(-mostLines / 2)] : lines
  return [`FAILED ${stage} (job seed ${seed})`, indented(told.join('\n')), '', stringify(smallest)].join('\n')
}

function summaryText({ drawn, accepted, failed, stages }: Summary): string {
  const columns = ['run', 'passed', 'skipped', 'failed'] as const
  const row = (name: string, cells: readonly (string | number)[]) =>
    `  ${name.padEnd(10)}${cells.map(cell => String(cell).padStart(9)).join('')}`
  const rows = Object.entries(stages).map(([name, { passed, skipped, failed }]) =>
    row(name, [passed + skipped + failed, passed, skipped, failed]),
  )
  return `${[`${drawn} jobs drawn, ${accepted} accepted by check, ${failed} failed`, row('stage', columns), ...rows].join('\n')}\n`
}

async function main(args: Given): Promise<number> {
  const python = findPython()
  const tools = { pool: new Pool(), emitted: python === undefined ? undefined : new EmittedRuns(python) }
  const end = performance.now() + args.minutes * 60_000
  let isInterrupted = false
  process.once('SIGINT', () => {
    isInterrupted = true
  })
  const fuzzer = new Fuzzer({ tools, isStopped: () => isInterrupted })
  for (const drawn of drawing(args)) {
    const failure = await fuzzer.take(drawn)
    if (failure) process.stdout.write(args.json ? `${JSON.stringify({ failure })}\n` : `${failureText(failure)}\n`)
    if (isInterrupted || performance.now() >= end || fuzzer.summary.drawn >= args.jobs) break
  }
  process.stdout.write(args.json ? `${JSON.stringify({ summary: fuzzer.summary })}\n` : summaryText(fuzzer.summary))
  await tools.emitted?.close()
  await tools.pool.close()
  return fuzzer.summary.failed > 0 ? 1 : 0
}

const args = given(process.argv.slice(2))
if (args) process.exitCode = await main(args)
else {
  process.stderr.write(`usage: ${usage}\n`)
  process.exitCode = 2
}
