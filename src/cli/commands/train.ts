/** lockstep train: a job, trained on the ranks of this machine. */
import { randomUUID } from 'node:crypto'
import { setImmediate } from 'node:timers/promises'
import { ProblemsError, save, showProblem, worldOf } from '../../base/index.js'
import { predictionOf, simulateOn } from '../../calibrate/index.js'
import { findEntry } from '../../cluster/index.js'
import { cursorAt } from '../../data/index.js'
import { type KernelName, kernelsFor } from '../../engine/index.js'
import { type Sampler, samplerOf } from '../../generate/index.js'
import { type Prediction, type RunFacts, type RunInfo, runFormat, type Watch, watchRun } from '../../health/index.js'
import type { Program } from '../../ir/index.js'
import { thisHost } from '../../node/index.js'
import { type Job, worldOfPlan } from '../../plan/index.js'
import { printChrome, type Span, waitsApart } from '../../trace/index.js'
import {
  type ChoiceFile,
  damageEvents,
  divergenceOf,
  EngineFailure,
  failedEvent,
  isDue,
  openCheckpoints,
  openChoices,
  replicaProblems,
  type Session,
  type StepRecord,
  train,
} from '../../train/index.js'
import { freeFolder } from '../files/latest-run.js'
import { portable } from '../files/load.js'
import { loadCluster } from '../files/load-cluster.js'
import { type MonitorOptions, type Monitors, openMonitors } from '../files/monitors.js'
import { requireOutputs } from '../files/outputs.js'
import { type Loaded, tryProgram } from '../files/program.js'
import { FolderTaken, openRunFolder, type RunFolder, requireUnused } from '../files/run-folder.js'
import { type RunSaving, runSaving } from '../files/run-saving.js'
import { keptCalibration } from '../files/this-machine.js'
import type { Io } from '../io.js'
import { type CheckpointOptions, savePlanOf } from '../text/checkpoint-options.js'
import { type Display, displayOf } from '../text/display.js'
import { faultsOf } from '../text/fault-option.js'
import { countProblems, problemsJson, showProblems } from '../text/problems.js'
import { RunTotals, summaryOf } from '../text/summary.js'
import { besideOneRank, introduction, kernelsText, memoryLine, peakOf } from '../text/train-text.js'
import { stepsTraced } from '../words/train.js'
import { type Guest, keptLines, type Rehearsed, type Started, startedSession } from './train-session.js'

export interface TrainOptions extends CheckpointOptions, MonitorOptions {
  readonly steps?: number
  readonly kernels: KernelName | 'auto'
  readonly out?: string
  readonly offloadDir?: string
  readonly json?: boolean
  readonly trace?: string
  readonly recordRouting?: string
  readonly fault?: readonly string[]
  readonly timeout?: number
  readonly hashEvery?: number
  readonly replayEvery?: number
  readonly keepGoing?: boolean
  readonly snapshotEvery?: number
  readonly shrink?: boolean
  readonly seed?: number
  readonly singleRank?: number
  readonly health?: boolean
  readonly cluster?: string
  readonly sample?: string
  readonly guest?: Guest
}

export async function trainCommand(path: string, options: TrainOptions, io: Io): Promise<number> {
  requireOutputs(io, options.trace)
  const faults = faultsOf(options.fault ?? [])
  const { loaded, problems } = await tryProgram(path, io)
  if (loaded) {
    io.err(showProblems(problems, io, path))
    return run(path, { ...loaded, job: changed(loaded.job, options), faults }, options, io)
  }
  if (options.json) io.out(problemsJson(problems))
  else io.err(`${showProblems(problems, io, path)}${countProblems(problems)}\n`)
  return 1
}

const changed = (job: Job, { steps, seed }: TrainOptions): Job => ({
  ...job,
  training: { ...job.training, ...(steps === undefined ? {} : { steps }), ...(seed === undefined ? {} : { seed }) },
})

async function run(path: string, loaded: Loaded & Rehearsed, options: TrainOptions, io: Io): Promise<number> {
  const place = options.out ?? freeFolder(loaded.job, path, io)
  try {
    return await runIn(place, path, loaded, options, io)
  } catch (e) {
    // Another run that began at the same moment found the same name free.
    if (options.out === undefined && isTaken(e, options)) return run(path, loaded, options, io)
    throw e
  }
}

/** Whether another run has the run folder; a folder that --save names is its own matter. */
const isTaken = (e: unknown, { save }: TrainOptions): boolean =>
  e instanceof FolderTaken ||
  (save === undefined && e instanceof ProblemsError && e.problems.some(({ code }) => code === 'checkpoint/locked'))

async function runIn(
  place: string,
  path: string,
  loaded: Loaded & Rehearsed,
  options: TrainOptions,
  io: Io,
): Promise<number> {
  const { session, ...started } = await startedSession({ path, place }, loaded, options, io)
  try {
    return await recorded(session, { ...started, path, place, options, faults: loaded.faults, io })
  } finally {
    await session.stop()
  }
}

interface Setting extends Rehearsed, Omit<Started, 'session'> {
  /** The path of the job. */
  readonly path: string
  /** The run folder. */
  readonly place: string
  readonly options: TrainOptions
  readonly io: Io
}

/** Opens the folders of a run, and closes them behind it. */
async function recorded(session: Session, setting: Setting): Promise<number> {
  const { path, place, tokenizer, options, faults, io } = setting
  const [job, plan] = [portable(session.job, path), savePlanOf(options, place)]
  requireUnused(place, io)
  const prompt = options.sample
  const sampler = prompt === undefined ? undefined : await samplerOf(session.job, tokenizer, { prompt })
  const run = randomUUID()
  const writer = plan && !options.saveSync ? io.startWriter?.() : undefined
  const keep = plan?.keep
  const checkpoints =
    plan && openCheckpoints(plan.folder, session, { files: io, run, job, tokenizer, keep, writer, faults })
  try {
    if (checkpoints?.note) io.err(`${checkpoints.note}\n`)
    // Opened when all that may refuse the run has had its say: the file is there from then on.
    const choices = options.recordRouting === undefined ? undefined : openChoices(options.recordRouting, session, io)
    const prediction = predictionFor(session, options, io)
    const folder = openRunFolder(place, job, infoOf(session, { run, prediction }, io), io)
    if (tokenizer !== undefined) folder.save('tokenizer.json', tokenizer)
    for (const event of session.beginning ? damageEvents(session.beginning) : []) folder.log(event)
    const { steps } = session.job.training
    const saving = plan && checkpoints && runSaving(checkpoints, { every: plan.every, steps }, io)
    const monitors = await openMonitors(session, { ...options, run, folder: place }, io).catch(e => {
      folder.abandon()
      throw e
    })
    const watch = options.health === false ? () => [] : watchRun({ ...factsOf(session, place, job), prediction })
    try {
      return await shown(session, { folder, saving, choices, monitors, watch, sampler, prediction }, setting)
    } finally {
      monitors.close()
    }
  } finally {
    await checkpoints?.finish().catch(() => {}) // a run that fails has said why
    checkpoints?.close()
  }
}

const factsOf = ({ program: { mesh } }: Session, path: string, job: Job): RunFacts => ({
  ...{ path, job, mesh, crowded: worldOf(mesh) > thisHost().cores },
})

/** On the cluster that was named, or on this machine, if somebody has measured what the run asks of it: its own kernels, in f32. */
function predictionFor({ job, program, kernels }: Session, options: TrainOptions, io: Io): Prediction | undefined {
  const ranks = worldOfPlan(job.plan)
  const given = (name: string) => ({ path: findEntry(name) ? undefined : name, cluster: loadCluster(name, io, ranks) })
  const isMeasured = kernels === kernelsFor('auto') && job.plan.precision === 'f32'
  const found =
    options.cluster === undefined ? (isMeasured ? keptCalibration(ranks, io) : undefined) : given(options.cluster)
  if (!found) return undefined
  const { path, cluster } = found
  return { ...predictionOf(cluster, simulateOn(program, cluster)), ...(path !== undefined && { file: path }) }
}

const infoOf = (
  { job, kernels }: Session,
  { run, prediction }: Pick<RunInfo, 'run'> & { readonly prediction: Prediction | undefined },
  io: Io,
): RunInfo => ({
  ...{ format: runFormat, run, started: new Date().toISOString(), software: 'engine' },
  ...(prediction && { prediction }),
  ...{ world: worldOfPlan(job.plan), kernels, host: io.process.host, cores: thisHost().cores },
})

async function shown(session: Session, places: Places, { path, options, hearing, io }: Setting): Promise<number> {
  const { job, behind } = session
  const peak = options.json ? undefined : peakOf(session)
  const display = options.guest?.display(session) ?? displayOf(job, io, options.json === true, peak?.flops)
  if (options.json) io.err(`Kernels: ${kernelsText(session)}\n`)
  else io.out(`${[...introduction(session, places), ...(peak ? [peak.words] : [])].join('\n')}\n`)
  const totals = new RunTotals(options.singleRank)
  const watched = { ...places, hearing, totals, guest: options.guest }
  const { traced, stopped } = await follow(session, display, watched, io).catch(async e => {
    tellEnd(e, session.behind, hearing)
    // A disk without room for the metrics may not be that of the checkpoints: what was computed is not lost with it.
    const rescued = isUnwritten(e) ? await places.saving?.rescue(session.behind) : undefined
    if (rescued !== undefined) io.err(`checkpoint: ${rescued}\n`)
    throw e
  })
  if (options.trace !== undefined) saveSpans(options.trace, session.program, traced, io)
  if (!options.json || totals.steps === 0)
    for (const line of summaryOf(job, totals, behind, peak?.flops)) display.note(line)
  if (!options.json && totals.steps > 0)
    for (const line of [memoryLine(session), ...keptLines(session, totals.seconds)]) display.note(line)
  if (options.singleRank && stopped === undefined && totals.steps > 0)
    display.note(await besideOneRank(session, totals.firstLosses))
  const problems = [...replicaProblems(session), ...divergenceOf(totals.lastLosses, session.standing.divergenceLimit)]
  if (problems.length > 0 && options.json) io.out(problemsJson(problems))
  else if (problems.length > 0) io.err(showProblems(problems, io, path))
  return stopped ?? (problems.length > 0 ? 1 : 0)
}

/** Why the run ends, for those who read its folder later. */
function tellEnd(e: unknown, behind: number, hearing: Started['hearing']): void {
  if (e instanceof EngineFailure && e.timeOut) hearing.hear({ ...e.timeOut, step: behind + 1 })
  try {
    hearing.hear(failedEvent(e, behind))
  } catch (again) {
    if (!isUnwritten(again)) throw again // a folder that cannot be written is what the run fails for
  }
}

interface Followed {
  readonly traced: readonly Span[]
  /** The exit code of a run that was stopped before its last step. */
  readonly stopped: number | undefined
}

interface Places {
  readonly folder: RunFolder
  readonly saving: RunSaving | undefined
  readonly choices: ChoiceFile | undefined
  /** What looks for what is unusual. */
  readonly watch: Watch
  readonly monitors: Monitors
  /** What asks the model for a text where it is evaluated. */
  readonly sampler: Sampler | undefined
  readonly prediction: Prediction | undefined
}

interface Following extends Places, Pick<Started, 'hearing'> {
  readonly totals: RunTotals
  readonly guest: Guest | undefined
}

async function follow(session: Session, display: Display, following: Following, io: Io): Promise<Followed> {
  const { folder, saving, monitors, hearing, totals, guest } = following
  const { steps } = session.job.training
  const spans = stepSpans(session, display)
  let stopped: number | undefined
  let last: StepRecord | undefined
  const forget = io.onInterrupt(code => {
    stopped = code
    if (!guest) display.note('stopping after this step; Ctrl-C again stops at once')
  })
  const saved = async (record: StepRecord) => saving?.after(record, stopped !== undefined) ?? record
  hearing.hear = event => {
    folder.log(event)
    monitors.event(event)
    display.event(event)
  }
  try {
    for await (const done of train(session)) {
      if (last && done.step <= last.step) await saving?.takeBack(done.step)
      following.choices?.write() // before the checkpoint: who resumes from it has them
      last = await sampled(session, following.sampler, await saved(done))
      totals.add(last)
      spans.add(last)
      told(session, display, last, following)
      if (stopped !== undefined) break
      await guest?.between(session)
      await setImmediate() // an interrupt is heard here, also where a step never lets go of the thread
    }
    // Whoever interrupts while a step is being shown wants it saved too.
    if (last && stopped !== undefined) totals.saved(await saved(last))
    for (const event of (await saving?.finish()) ?? []) hearing.hear(event)
  } finally {
    forget()
    display.finish()
  }
  return { traced: spans.kept(), stopped: last?.step === steps ? undefined : stopped }
}

/** Writes a step down, shows it, and looks for what is unusual in it. */
function told(session: Session, display: Display, record: StepRecord, following: Following): void {
  const { job, dataset, trainer } = session
  const { folder, monitors, watch, hearing } = following
  const cursor = cursorAt(dataset.train, job.training, { step: record.step, fingerprint: dataset.fingerprint })
  const { events: before = [], ...line } = record
  const found = watch({ ...line, cursor }).filter(({ event }) => !before.some(other => other.event === event))
  folder.log({ ...line, cursor })
  monitors.step(line)
  display.step(record, () => (trainer.concurrent ? waitsApart(session.program, trainer.spans) : []))
  for (const event of [...before, ...found]) hearing.hear(event)
  for (const note of notesOf(record)) display.note(note)
}

/** The spans of the last steps. */
function stepSpans(session: Session, display: Display) {
  let { program } = session
  const traced: (readonly Span[])[] = []
  return {
    add({ step, globalBatch }: StepRecord) {
      if (program !== session.program) {
        // Spans of another program say nothing of this one.
        program = session.program
        traced.length = 0
        if (globalBatch !== undefined) display.note(`global batch ${globalBatch} from step ${step} on`)
      }
      traced.push(session.trainer.spans)
      if (traced.length > stepsTraced) traced.shift()
    },
    kept: () => traced.flat(),
  }
}

const isUnwritten = (e: unknown): boolean =>
  e instanceof ProblemsError && e.problems.some(({ code }) => code === 'run/write')

const notesOf = ({ warning, sample }: StepRecord): string[] => [
  ...(warning ? [showProblem(warning)] : []),
  ...(sample === undefined ? [] : [`sample: ${sample}`]),
]

async function sampled(session: Session, sampler: Sampler | undefined, record: StepRecord): Promise<StepRecord> {
  const { steps, evalEvery } = session.job.training
  return sampler && isDue(record.step, steps, evalEvery) ? { ...record, sample: await sampler.sample(session) } : record
}

const saveSpans = (file: string, program: Program, spans: readonly Span[], io: Io): void =>
  save(file, printChrome(program, spans), io)
