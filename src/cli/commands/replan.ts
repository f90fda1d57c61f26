/** lockstep replan: whether another plan would be better on the machine that a run has measured. */
import { join } from 'node:path'
import { stringify } from 'yaml'
import {
  counted,
  error,
  ProblemsError,
  printable,
  save,
  scaled,
  showPercent,
  showTime,
  table,
} from '../../base/index.js'
import { type Change, machineOfRun, predictedStep, type Refit, type RunTimes, refit } from '../../calibrate/index.js'
import { type Cluster, findEntry } from '../../cluster/index.js'
import { compileJob } from '../../compile/index.js'
import { splitOf } from '../../estimate/index.js'
import { type RunRead, readRun } from '../../health/index.js'
import { thisHost } from '../../node/index.js'
import { type Job, worldOfPlan } from '../../plan/index.js'
import { findingPlans, jobOf, type RankedPlan, type Request, requestOfJob } from '../../search/index.js'
import { loadCluster } from '../files/load-cluster.js'
import { requireOutputs } from '../files/outputs.js'
import { type Loaded, tryProgram } from '../files/program.js'
import { readTimes } from '../files/run-report.js'
import type { Io } from '../io.js'
import { showPlan } from '../text/plan-words.js'
import { countProblems, showProblems } from '../text/problems.js'
import { withProgress } from '../text/progress.js'

export interface ReplanOptions {
  readonly cluster?: string
  readonly out?: string
  readonly json?: boolean
}

export async function replanCommand(path: string, options: ReplanOptions, io: Io): Promise<number> {
  requireOutputs(io, options.out)
  const run = readRun(path, io)
  const times = timesOf(run, io)
  const file = join(path, 'job.json')
  const { loaded, problems } = await tryProgram(file, io, { fits: false })
  if (!loaded) {
    if (options.json) io.out(`${JSON.stringify({ ok: false, problems }, null, 2)}\n`)
    else io.err(`${showProblems(problems, io, file)}${countProblems(problems)}\n`)
    return 1
  }
  const found = refit(loaded.program, givenCluster(run, loaded, times, options, io), times)
  const answer = await better(loaded, times, found, io)
  if (options.out !== undefined && answer.best) save(options.out, jobText(answer.best.job, path), io)
  io.out(options.json ? `${JSON.stringify(asJson(answer), null, 2)}\n` : asText(answer, options))
  return 0
}

function timesOf({ path }: RunRead, io: Io): RunTimes {
  const times = readTimes(path, io)
  if (times) return times
  throw new ProblemsError([
    error(
      'replan/unmeasured',
      '',
      `${path} has no measured.json: instruction times were not measured in this run`,
      'runs of lockstep train write it, but for those on --kernels reference; emitted programs with --profile-every',
    ),
  ])
}

/** The cluster that was asked for, or the machine that the engine ran on. */
function givenCluster(
  run: RunRead,
  { job, program }: Loaded,
  times: RunTimes,
  { cluster }: ReplanOptions,
  io: Io,
): Cluster {
  const ranks = worldOfPlan(job.plan)
  const said = cluster ?? catalogued(run.info?.prediction?.cluster)
  if (said !== undefined) return loadCluster(said, io, ranks)
  if (run.info?.software !== 'emitted') return machineOfRun(program, times, thisHost(), ranks)
  const suggestion = 'name what it ran on with --cluster: a device of the catalog, or a cluster file'
  throw new ProblemsError([error('replan/cluster', '--cluster', `${run.path} was not run by the engine`, suggestion)])
}

/** What a step was predicted on, where everybody knows what that is. */
const catalogued = (name = ''): string | undefined => (findEntry(name) ? name : undefined)

interface Planned {
  readonly job: Job
  /** In words. */
  readonly plan: string
  /** Seconds of a step. */
  readonly predicted: number
}

interface Answer extends Refit {
  /** Seconds of a step. */
  readonly measured: number
  readonly steps: number
  readonly present: Planned
  /** The best of the other plans; undefined: there is none that fits. */
  readonly best?: Planned
}

/** Plans of the search that are compiled and simulated as the run is. */
const tried = 4

async function better({ job, program }: Loaded, times: RunTimes, found: Refit, io: Io): Promise<Answer> {
  const { cluster } = found
  const request = requestOfJob(job, cluster)
  const { listed } = await withProgress(io, progress => {
    progress.expect({ searching: 1 })
    return progress.run('searching', findingPlans(request, { top: tried, front: false }))
  })
  const present = { job, plan: showPlan(splitOf(job, '1f1b')), predicted: predictedStep(program, cluster) }
  const others = listed.map(one => plannedAs(job, request, one)).filter(({ plan }) => plan !== present.plan)
  const best = others.toSorted((a, b) => a.predicted - b.predicted).at(0)
  return { ...found, measured: times.step, steps: times.steps, present, ...(best && { best }) }
}

function plannedAs(job: Job, request: Request, { plan: { split }, simulated }: RankedPlan): Planned {
  const { cluster } = request
  const planned: Job = { ...job, plan: jobOf(request, split).plan }
  const predicted = cluster.cores === undefined ? simulated?.step : predictedStep(compileJob(planned), cluster)
  return { job: planned, plan: showPlan(split), predicted: predicted ?? Number.POSITIVE_INFINITY }
}

/** A plan that saves less is not worth a restart. */
const worthIt = 0.02

/** What the other plan saves, of a step. The same error is expected of both predictions, so that it does not matter. */
const savedBy = ({ present, best }: Answer): number => (best ? 1 - best.predicted / present.predicted : 0)

/** What a step of the other plan will take, if its prediction is as far off as that of the plan that was measured. */
const expectedOf = ({ present, best, measured }: Answer): number | undefined =>
  best && (best.predicted * measured) / present.predicted

const asJson = (answer: Answer) => ({
  ok: true,
  ...{ measured: answer.measured, steps: answer.steps, changes: answer.changes },
  present: { plan: answer.present.job.plan, predicted: answer.present.predicted },
  ...(answer.best && {
    best: { plan: answer.best.job.plan, predicted: answer.best.predicted, expected: expectedOf(answer) },
  }),
  saved: savedBy(answer),
  better: savedBy(answer) > worthIt,
})

function asText(answer: Answer, { out }: ReplanOptions): string {
  const { measured, steps, present, best, changes } = answer
  const off = present.predicted / measured - 1
  const saved = savedBy(answer)
  return [
    `${present.plan}: ${showTime(measured)}/step measured (${counted(steps, 'step')}), ${showTime(present.predicted)} predicted with the rates below (${signed(off)})`,
    ...(changes.length === 0
      ? ['All measured rates agree with the cluster file.']
      : [table(['rate', 'specified', 'measured', 'difference'], changes.map(changeRow))]),
    '',
    ...(best && saved > worthIt
      ? [
          `better: ${best.plan}`,
          `  ${showTime(best.predicted)}/step predicted, ${showTime(expectedOf(answer) ?? 0)} expected: ${showPercent(saved)} less than now`,
        ]
      : ['The current plan is still the best: no other saves more than 2 %.']),
    ...(best && out !== undefined ? [`written: ${out}`] : []),
    '',
  ].join('\n')
}

const changeRow = ({ what, given, measured }: Change): string[] => {
  const unit = what === 'memory of a device' ? 'B' : what.startsWith('peak') ? 'FLOP/s' : 'B/s'
  return [what, `${scaled(given, ' ')}${unit}`, `${scaled(measured, ' ')}${unit}`, signed(measured / given - 1)]
}

const signed = (share: number): string => `${share >= 0 ? '+' : '-'}${showPercent(Math.abs(share))}`

const jobText = (job: Job, run: string): string =>
  `# ${printable(run)} with another plan, by the measured rates. Written by lockstep replan.\n${stringify(JSON.parse(JSON.stringify(job)))}`
