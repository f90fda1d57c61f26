/**
 * A training session: a job on the ranks of this machine, step by step, data in and numbers out. Showing the numbers and
 * keeping them is left to the caller.
 */
import {
  batchOfStep,
  type Fault,
  FaultBook,
  type Norms,
  type Problem,
  ProblemsError,
  type Scalars,
  unwatched,
  type Watcher,
} from '../base/index.js'
import { compileJob, memoryProblems } from '../compile/index.js'
import { batchAt, batchesInOrder, type Dataset, extentOfDocuments, withChoices } from '../data/index.js'
import {
  type KernelName,
  kernelsFor,
  type Pool,
  processorSeconds,
  type StepData,
  type StepResult,
  startTrainer,
  type Trainer,
} from '../engine/index.js'
import type { HealthEvent } from '../health/index.js'
import type { Program } from '../ir/index.js'
import { flopsPerToken, windowOf } from '../model/index.js'
import { adaptersOf, type Job, jobOfBatch, lrAt, nameOfPhase, phaseOfStep } from '../plan/index.js'
import type { Schedule } from '../schedule/index.js'
import { type BitChecks, type ReplicaState, replayEvents, replicaChecks } from './bit-checks.js'
import { type Beginning, beginningProblems, load, stepsBehind } from './checkpoints.js'
import { recordingProblems } from './choices.js'
import { datasetProblems, evaluationOf } from './dataset.js'
import { brokenBy, divergenceLimit, risingLoss, whySkipped } from './divergence.js'
import { engineFailures } from './engine-failure.js'
import { inject, injectionProblems, raisedBy } from './injection.js'
import { isNotFinite, whatBroke } from './not-finite.js'
import { type Observed, observing, timed, timesIn } from './observed.js'
import { earlierPrograms } from './ramp.js'
import { normLimitOf, spikeSkips } from './spikes.js'

/** The metrics of one training step, as a line of metrics.jsonl has them. */
export interface StepRecord extends Observed {
  /** Counts from 1. */
  readonly step: number
  readonly loss: number
  /** Sequences of the step, if the batch size changes. */
  readonly globalBatch?: number
  readonly gradientNorm: number
  readonly lr: number
  /** The gradient norm above which a step is skipped as a spike, if the run does so. */
  readonly normLimit?: number
  /** Applied steps so far. */
  readonly taken: number
  /** Why the step was skipped, if it was; its loss is then not meaningful. */
  readonly skipped?: string
  /** The loss scale, if losses are scaled. */
  readonly scale?: number
  /** Labels that are not ignored. */
  readonly counted: number
  readonly seconds: number
  /** CPU seconds that the machine gave to the step, if known. */
  readonly cpu?: number
  readonly tokensPerSecond: number
  /** FLOPs as `flopsDefinition` counts them. */
  readonly flopsPerSecond: number
  /** The validation loss after this step. */
  readonly evalLoss?: number
  /** Sample text generated after this step, if requested. */
  readonly sample?: string
  /** The latest checkpoint completed since the previous step; it may be of an earlier step. */
  readonly checkpoint?: string
  /** Findings that are new in this step. */
  readonly warning?: Problem
  /** Health events of the step; in metrics.jsonl each is a line. */
  readonly events?: readonly HealthEvent[]
}

/** A training run that is stepped by its caller. */
export interface Session {
  readonly job: Job
  /** The program of the next step; with growing batches there are several. */
  readonly program: Program
  readonly dataset: Dataset
  readonly kernels: KernelName
  readonly trainer: Trainer
  /** The checkpoint it started from, if any. */
  readonly beginning?: Beginning
  /** Completed steps, including skipped ones and those of the run it resumes. */
  readonly behind: number
  /** Of these, those that were taken. */
  readonly taken: number
  /** Result of comparing replicas (hashEvery). */
  readonly replicas?: ReplicaState | undefined
  /** Its history of gradient norms, if it skips spikes. */
  readonly norms?: Norms | undefined
  /** Takes the next step. Throws if the engine fails, if the loss is NaN or Inf, or if the run must not continue. */
  step(): Promise<StepRecord>
  /** Why the run must not continue. */
  readonly broken: readonly Problem[]
  /** Its record of completed steps. */
  readonly standing: Standing
  /** The mean validation loss; undefined if the job has no validation data. */
  evaluate(): Promise<number | undefined>
  /** Injects one more fault and informs the ranks. Throws if it cannot happen here. */
  inject(fault: Fault): Promise<void>
  stop(): Promise<void>
}

/** What a session that goes on where another ended must know of its steps. */
export interface Standing {
  /** The loss that a run which learns stays below. */
  readonly divergenceLimit: number
  /** Whether it was said that the loss is above that. */
  readonly warned: boolean
  /** Steps in a row that were skipped, the last one included. */
  readonly skips: number
}

/** Options of `startSession`. */
export interface SessionOptions extends BitChecks {
  /** The program of the job, if it is already compiled and checked. */
  readonly program?: Program
  /** The schedule, if the plan names a file. */
  readonly schedule?: Schedule | undefined
  /** auto: the fastest that there are. */
  readonly kernels?: KernelName | 'auto'
  /** The checkpoint to resume or to take weights from; by default weights are initialized from the seed. */
  readonly beginning?: Beginning | undefined
  /** Whether the spans of each step are kept; by default only where they are meaningful. */
  readonly measure?: boolean
  /** Whether routing decisions are kept after each step. */
  readonly choices?: boolean
  /** Where the flight record of a failed step goes. */
  readonly flightRecord?: string
  /** The folder in which the engine keeps what the plan offloads to disk. */
  readonly offloadFolder?: string | undefined
  /** Timeout in seconds for a rank that waits; by default from the times of earlier steps. */
  readonly timeout?: number | undefined
  /** Faults to inject; pass the same to a restarted run. */
  readonly faults?: FaultBook | undefined
  /** State of the session that it replaces. */
  readonly standing?: Standing | undefined
  /** Threads to use; by default the session starts and ends its own. */
  readonly pool?: Pool | undefined
  readonly watcher?: Watcher
}

/** Starts a training run. Throws all reasons why the job cannot run here, or cannot start from the checkpoint. */
export async function startSession(job: Job, dataset: Dataset, options: SessionOptions = {}): Promise<Session> {
  required(datasetProblems(dataset))
  const { beginning, schedule, watcher = unwatched } = options
  const kernels = kernelsFor(options.kernels ?? 'auto')
  const programs = programsOf(job, options)
  const behind = stepsBehind(beginning)
  const program = programs(behind)
  required(options.choices ? recordingProblems(job) : [])
  const faults = options.faults ?? new FaultBook([])
  required(injectionProblems(faults.faults, program, kernels))
  required(beginning ? beginningProblems(beginning, program, job, dataset) : [])
  watcher.say('starting the ranks')
  const evaluation = evaluationOf(job, dataset, schedule)
  const trainer = await engineFailures(['start'], () =>
    startTrainer(program, {
      ...{ kernels, seed: job.training.seed, watcher },
      // The interpreter's clock says nothing of the program, and asking it takes time.
      measure: options.measure ?? kernels !== 'reference',
      ...(options.flightRecord === undefined ? {} : { flightRecord: options.flightRecord }),
      // Loads of experts are worth watching.
      choices: options.choices ?? recordingProblems(job).length === 0,
      ...{ faults, pool: options.pool },
      timeoutMs: options.timeout === undefined ? undefined : 1000 * options.timeout,
      offloadFolder: options.offloadFolder,
      ...(evaluation ? { evaluation } : {}),
    }),
  )
  try {
    if (beginning) {
      watcher.say(`reading ${beginning.path}`)
      load(beginning, program, trainer)
    }
  } catch (e) {
    await trainer.stop()
    throw e
  }
  const { standing } = options
  const rest = { standing, faults, checks: options, ...(beginning && { beginning }) }
  return sessionOf({ job, programs, dataset, kernels, trainer, ...rest })
}

/** By how many steps are behind. */
type Programs = (behind: number) => Program

/** Of every phase of the run, compiled and found to fit before the first step. */
function programsOf(job: Job, { program, schedule }: SessionOptions): Programs {
  const { training } = job
  const last = program ?? runnable(jobOfBatch(job, training.globalBatch), schedule)
  const earlier = earlierPrograms(job)
  return behind => earlier.get(nameOfPhase(phaseOfStep(job, behind))) ?? last
}

/** Throws what does not fit. */
export function runnable(job: Job, schedule: Schedule | undefined): Program {
  const program = compileJob(job, schedule)
  required(memoryProblems(program, job))
  return program
}

/** The program of the next step, which may be another where batches grow, or gradients are compressed from then on. */
function growingFrom(programs: Programs, behind: number, trainer: Trainer) {
  let program = programs(behind)
  return {
    get program() {
      return program
    },
    async reach(behind: number): Promise<Program> {
      const next = programs(behind)
      if (next !== program) await engineFailures(['change', behind], () => trainer.change(next))
      program = next
      return program
    },
  }
}

type Parts = Pick<Session, 'job' | 'dataset' | 'kernels' | 'trainer' | 'beginning'> &
  Pick<SessionOptions, 'standing'> & {
    readonly programs: Programs
    readonly checks: BitChecks
    readonly faults: FaultBook
  }

function sessionOf({ programs, standing, checks, faults, ...parts }: Parts): Session {
  const { job, dataset, trainer } = parts
  const [{ training }, observed, perToken] = [job, observing(job, dataset, trainer), flopsIn(job, dataset)]
  const heldOut = batchesInOrder(dataset.heldOut, training.globalBatch, training.evalBatches)
  let behind = stepsBehind(parts.beginning)
  const growing = growingFrom(programs, behind, trainer)
  const taken = () => trainer.scalars().taken ?? behind
  const [spikes, losses] = [spikeSkips(training, parts.beginning), watchLosses(job, standing)]
  const replicas = replicaChecks(parts, behind, checks)
  let [skips, broken] = [standing?.skips ?? 0, [] as readonly Problem[]]
  return {
    ...parts,
    get program() {
      return growing.program
    },
    get behind() {
      return behind
    },
    get taken() {
      return taken()
    },
    get broken() {
      return broken
    },
    get replicas() {
      return replicas.state
    },
    get norms() {
      return spikes.norms
    },
    get standing() {
      return { ...losses.standing, skips }
    },
    async step() {
      required(broken)
      const program = await growing.reach(behind)
      const batch = timed(withChoices(batchAt(dataset.train, training, behind), dataset.replay, behind))
      const [before, lr] = [trainer.scalars(), lrAt(training, taken()) * raisedBy(faults, behind + 1)]
      const data = { inputs: batch.inputs, lr, step: behind, ...spikes.told() }
      const events = await replayEvents({ program, trainer }, data, checks)
      const take = () => engineFailures(['step', behind + 1], () => trainer.step(data))
      const { result, seconds, cpu } = await clocked(take)
      behind++
      events.push(...replicas.after(behind))
      const at = { step: behind, lr, seconds, ...normLimitOf(data) }
      const seen = observed(batch, at, program, result)
      const done = { ...recordOf({ job, program, trainer, perToken }, result, at), ...seen, ...cpu }
      const isSpike = spikes.passed(data, result)
      const judged = await judge({ ...parts, program }, data, { before, result, isSpike, skips, step: behind })
      ;({ skips, broken } = judged)
      const record = withEvents(done, [...events, ...judged.events])
      if (result.skipped) return record
      required(broken)
      return { ...record, ...losses.passed(result, behind) }
    },
    evaluate: () => heldOutLoss(trainer, heldOut, behind),
    inject: fault => inject(fault, faults, { ...parts, program: growing.program, behind }),
    stop: () => trainer.stop(),
  }
}

/** What a step means for the run: steps skipped in a row, why the run must not go on, and where a number that is not finite began. */
async function judge(
  parts: Pick<Session, 'job' | 'dataset' | 'trainer' | 'program' | 'kernels'>,
  data: StepData,
  of: { before: Scalars<number>; result: StepResult; isSpike: boolean; skips: number; step: number },
) {
  const { before, result, isSpike, step } = of
  const skips = result.skipped && !isSpike ? of.skips + 1 : 0
  const broken = isSpike ? [] : brokenBy(parts.job.training, before, result, { skips, step })
  const looks = isNotFinite(result) && (broken.length > 0 || (skips === 1 && before.scale === undefined))
  const cause = looks ? await looked(() => whatBroke(parts, data, before)) : undefined
  return { skips, broken: explained(broken, cause), events: cause ? [cause] : [] }
}

/** Says once that the loss is above that of a model that has learned nothing. */
function watchLosses(job: Job, standing: Standing | undefined) {
  let limit = standing?.divergenceLimit ?? divergenceLimit(job)
  let warned = standing?.warned ?? false
  return {
    get standing() {
      return { divergenceLimit: limit, warned }
    },
    passed({ taken, loss }: StepResult, step: number): Pick<StepRecord, 'warning'> {
      if (taken === 1) limit = divergenceLimit(job, loss)
      if (loss <= limit || warned) return {}
      warned = true
      return { warning: risingLoss(step, loss, limit) }
    },
  }
}

/** With how long it took, and the time of the processor that it was given. */
async function clocked<T>(work: () => Promise<T>) {
  const [started, processor] = [performance.now(), processorSeconds()]
  const result = await work()
  const cpu = Number((processorSeconds() - processor).toPrecision(3))
  return { result, seconds: (performance.now() - started) / 1000, cpu: cpu > 0 ? { cpu } : {} }
}

async function heldOutLoss(
  trainer: Trainer,
  heldOut: Parameters<Trainer['evaluate']>[0],
  behind: number,
): Promise<number | undefined> {
  if (heldOut.length === 0) return undefined
  return (await engineFailures(['evaluation', behind], () => trainer.evaluate(heldOut))).loss
}

const withEvents = (record: StepRecord, events: readonly HealthEvent[]): StepRecord =>
  events.length > 0 ? { ...record, events } : record

/** A run that ends says what broke its last step, where that can be found out. */
const explained = (problems: readonly Problem[], cause: HealthEvent | undefined): readonly Problem[] =>
  cause ? problems.map(problem => ({ ...problem, message: `${problem.message}; ${cause.message}` })) : problems

/** Whoever looks for a cause may find no room, or no end; the run goes on without. */
async function looked(look: () => Promise<HealthEvent | undefined>): Promise<HealthEvent | undefined> {
  try {
    return await look()
  } catch (e) {
    if (e instanceof TypeError) throw e
    return undefined
  }
}

/** FLOPs of a token; of packed documents those of the data. */
export const flopsIn = (job: Job, { train }: Pick<Dataset, 'train'>): number =>
  flopsPerToken(job.model, job.training.seq, adaptersOf(job), extentOfDocuments(train, windowOf(job.model)))

function recordOf(
  { job, program, trainer, perToken }: Pick<Session, 'job' | 'program' | 'trainer'> & { readonly perToken: number },
  { loss, count, normSquared, taken, skipped, scale }: StepResult,
  { step, lr, seconds, ...norms }: Pick<StepRecord, 'step' | 'lr' | 'seconds' | 'normLimit'>,
): StepRecord {
  const { seq, batchRamp } = job.training
  const { globalBatch } = batchOfStep(job.training, step - 1)
  const tokensPerSecond = (globalBatch * seq) / seconds
  return {
    ...{ step, loss, ...(batchRamp && { globalBatch }), gradientNorm: Math.sqrt(normSquared), ...norms, lr, taken },
    ...(skipped && { skipped: whySkipped(job.training, Math.sqrt(normSquared), { scale, ...norms }) }),
    ...(scale && { scale: scale.before }),
    ...{ counted: count, seconds, tokensPerSecond },
    flopsPerSecond: tokensPerSecond * perToken,
    ...timesIn(program, trainer),
  }
}

/** Takes the remaining steps of a job and evaluates when due. Stops early when the caller stops iterating. */
export async function* train(session: Session): AsyncGenerator<StepRecord> {
  const { steps, evalEvery } = session.job.training
  while (session.behind < steps) {
    const record = await session.step()
    const evalLoss = isDue(record.step, steps, evalEvery) ? await session.evaluate() : undefined
    yield evalLoss === undefined ? record : { ...record, evalLoss }
    required(session.broken)
  }
}

/** After the last step, and after every so many (0: none of these). */
export const isDue = (step: number, steps: number, every: number): boolean =>
  step === steps || (every > 0 && step % every === 0)

const required = (problems: readonly Problem[]): void => {
  if (problems.length > 0) throw new ProblemsError(problems)
}
