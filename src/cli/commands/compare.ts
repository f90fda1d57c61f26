/** lockstep compare: a step as it was simulated and as it ran on this machine, on one timeline. */

import { error, mean, ProblemsError, printable, type Rank, save, table, worldOf } from '../../base/index.js'
import {
  type Calibration,
  calibration,
  compareSteps,
  inTurns,
  type StepComparison,
  stepsOfTurn,
  type TimedRun,
  timedRun,
} from '../../calibrate/index.js'
import type { Program } from '../../ir/index.js'
import { thisHost } from '../../node/index.js'
import { boxesOf, stepRow, stepTimeline, type Timeline, timelineSvg } from '../../report/index.js'
import { chromeEvents, printEvents, type Span } from '../../trace/index.js'
import { openData } from '../../train/index.js'
import { besides } from '../files/beside.js'
import { loadCluster } from '../files/load-cluster.js'
import { requireOutputs } from '../files/outputs.js'
import { type Loaded, type Tried, tryProgram } from '../files/program.js'
import type { Io } from '../io.js'
import { countProblems, showProblems } from '../text/problems.js'
import { withProgress } from '../text/progress.js'

export interface CompareOptions {
  readonly cluster?: string
  readonly quick?: boolean
  readonly steps: number
  readonly svg?: string
  readonly trace?: string
  readonly json?: boolean
}

interface Compared extends StepComparison {
  readonly name: string
  readonly program: Program
}

type NamedJob = { readonly path: string; readonly loaded: Loaded }

export async function compareCommand(paths: readonly string[], options: CompareOptions, io: Io): Promise<number> {
  requireOutputs(io, options.svg, options.trace)
  const jobs = await loadAll(paths, options, io)
  if (!jobs) return 1
  const { cluster: given, quick = false, steps } = options
  const ranks = Math.max(...jobs.map(({ loaded }) => worldOf(loaded.program.mesh)))
  const machine = given === undefined ? calibration(thisHost(), quick) : givenMachine(given, ranks, io)
  const compared = await withProgress(io, async progress => {
    const runs = await Promise.all(jobs.map(job => runOf(job, io)))
    const turns = inTurns([...runs.map(({ start }) => start), ...machine.starts], Math.ceil(steps / stepsOfTurn))
    const phase = given === undefined ? 'measuring the jobs and this machine' : 'measuring the jobs'
    progress.expect({ [phase]: 1 })
    await progress.run(phase, turns)
    progress.say('simulating')
    const cluster = machine.cluster(ranks)
    return runs.map(run => ({ name: run.name, program: run.program, ...compareSteps(run, cluster) }))
  })
  show(compared, options, io)
  return 0
}

/** What is wrong with it is said before anything runs. */
function givenMachine(given: string, ranks: number, io: Io): Calibration {
  const cluster = loadCluster(given, io, ranks)
  if (cluster.cores === undefined)
    throw new ProblemsError([
      error(
        'compare/cluster',
        '--cluster',
        `${cluster.name} is not a machine the engine runs on`,
        'leave --cluster out to measure this one, interleaved with the jobs, or write it once with lockstep calibrate --out this-machine.yaml',
      ),
    ])
  return { starts: [], settled: () => true, cluster: () => cluster }
}

/** Every program, or everything that is wrong with the jobs. */
async function loadAll(
  paths: readonly string[],
  { json = false }: CompareOptions,
  io: Io,
): Promise<NamedJob[] | undefined> {
  const tried: ({ readonly path: string } & Tried)[] = []
  for (const path of paths) tried.push({ path, ...(await tryProgram(path, io)) })
  const found = tried.flatMap(({ problems }) => problems)
  const jobs = tried.flatMap(({ path, loaded }) => (loaded ? [{ path, loaded }] : []))
  if (jobs.length === tried.length || !json)
    for (const { path, problems } of tried) io.err(showProblems(problems, io, path))
  if (jobs.length === tried.length) return jobs
  if (json) io.out(`${JSON.stringify({ ok: false, problems: found }, null, 2)}\n`)
  else io.err(`${countProblems(found)}\n`)
  return undefined
}

async function runOf({ path, loaded: { job, program } }: NamedJob, io: Io): Promise<TimedRun & Pick<Compared, 'name'>> {
  const { dataset } = await openData(job, io, { locate: name => besides(path, name) })
  const name = printable(job.name ?? path.replace(/^.*\//, '').replace(/\.\w+$/, ''))
  return { name, ...timedRun(job, program, dataset) }
}

function show(compared: readonly Compared[], options: CompareOptions, io: Io): void {
  const [first] = compared
  const { svg, trace } = options
  if (svg !== undefined) save(svg, timelineSvg(bothTimelines(first)), io)
  if (trace !== undefined) save(trace, bothTraces(first), io)
  if (options.json) {
    const numbers = compared.map(({ program: _, simulation: __, spans: ___, ...rest }) => rest)
    io.out(`${JSON.stringify(numbers.length === 1 ? numbers[0] : numbers, null, 2)}\n`)
  } else io.out(compared.length === 1 ? oneText(first, io) : `${manyText(compared)}\n`)
}

const ms = (seconds: number): string => `${(seconds * 1e3).toPrecision(4)} ms`
const percent = (share: number): string => `${share >= 0 ? '+' : '-'}${(100 * Math.abs(share)).toFixed(1)} %`

function manyText(compared: readonly Compared[]): string {
  const rows = compared.map(({ name, ranks, predicted, measured, quickest, error }) => [
    ...[name, ranks, ms(predicted), ms(measured), ms(quickest), percent(error)],
  ])
  const errors = compared.map(({ error }) => Math.abs(error))
  return [
    table(['job', 'ranks', 'predicted', 'measured', 'quickest', 'error'], rows),
    `mean error ${(100 * mean(errors)).toFixed(1)} %, largest ${(100 * Math.max(...errors)).toFixed(1)} %; measured is the median step`,
  ].join('\n')
}

/** Rows of the table by instruction. */
const mostOps = 12
const mostRanks = 8

function oneText(one: Compared, io: Io): string {
  const { name, kernels, predicted, measured, quickest, error, ops, ranks } = one
  const per = (seconds: number) => (seconds / ranks) * 1e3
  const rows = ops
    .slice(0, mostOps)
    .map(op => [
      op.op,
      op.count,
      per(op.predicted).toFixed(3),
      per(op.measured).toFixed(3),
      percent(op.predicted / op.measured - 1),
    ])
  return [
    `${name}: predicted ${ms(predicted)}, measured ${ms(measured)} (quickest ${ms(quickest)}): ${percent(error)}`,
    kernels,
    '',
    table(['ms per rank', 'count', 'predicted', 'measured', 'error'], rows),
    '',
    ...letters(one, io),
    '',
  ].join('\n')
}

/** p: predicted, m: measured. */
function letters({ program, simulation, spans, predicted, measured, ranks }: Compared, io: Io): string[] {
  const columns = Math.max(20, Math.min(160, io.terminal()?.columns ?? 100) - 14)
  const end = Math.max(predicted, measured)
  const row = (of: readonly Span[]) => stepRow(boxesOf(program, of, end).work, end, columns)
  return Array.from({ length: Math.min(ranks, mostRanks) }, (_, rank) => [
    `rank ${String(rank).padStart(2)} p ${row(simulation.spansOf(rank))}`,
    `        m ${row(spans.filter(span => span.rank === rank))}`,
  ]).flat()
}

/** The lanes of both, rank by rank. */
function bothTimelines({
  name,
  program,
  simulation,
  spans,
  predicted,
  measured,
  error,
  ranks,
  kernels,
}: Compared): Timeline {
  const shown = Array.from({ length: Math.min(ranks, 2 * mostRanks) }, (_, rank) => rank)
  const end = Math.max(predicted, measured)
  const of = (spansOf: (rank: Rank) => readonly Span[]) =>
    stepTimeline({ title: '', subtitle: '', program, spansOf, ranks: shown, end })
  const simulated = of(simulation.spansOf)
  const ran = of(rank => spans.filter(span => span.rank === rank))
  const kinds = [...simulated.kinds, ...ran.kinds]
  return {
    ...simulated,
    title: `${name}: predicted ${ms(predicted)}, measured ${ms(measured)}, ${percent(error)}`,
    subtitle: `${kernels}; each rank as it was simulated and as it ran; thin lanes are collectives and messages, grey is memory`,
    kinds: kinds.filter(({ kind }, i) => kinds.findIndex(other => other.kind === kind) === i),
    lanes: shown.flatMap((rank, i) => [
      { ...simulated.lanes[i], label: `rank ${rank} predicted` },
      { ...ran.lanes[i], label: 'measured' },
    ]),
  }
}

/** Measured ranks are processes of their own, numbered after the simulated ones. */
function bothTraces({ program, simulation, spans, ranks }: Compared): string {
  const simulated = Array.from({ length: ranks }, (_, rank) => simulation.spansOf(rank)).flat()
  return printEvents([
    ...chromeEvents(program, simulated, { word: 'predicted' }),
    ...chromeEvents(program, spans, { first: ranks + 1, word: 'measured' }),
  ])
}
