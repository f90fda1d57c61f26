/**
 * A session that survives its engine. The step is the transaction: what lives from step to step is copied between steps
 * into the memory of the ranks, and when an engine fails, the newest good state (of the ranks' memory, then of the disk)
 * is given to another one, under the same plan or one for the ranks that are left. A step that is repeated on the way is
 * told once. Three failures without a step of progress end the run.
 */
import { type Fault, FaultBook, ProblemsError, saidAgain } from '../base/index.js'
import { type Copies, openCopies } from '../checkpoint/index.js'
import { cursorAt, type Dataset } from '../data/index.js'
import { Pool } from '../engine/index.js'
import { clause, eventPhrases, found, type HealthEvent } from '../health/index.js'
import type { Program } from '../ir/index.js'
import { type Job, jobOfBatch, jobsFor, planTitle, worldOfPlan } from '../plan/index.js'
import type { Schedule } from '../schedule/index.js'
import { type Beginning, stepsBehind } from './checkpoints.js'
import { EngineFailure, engineFailures, ReplicaFailure } from './engine-failure.js'
import { runRefused } from './phrases.js'
import { runnable, type Session, type SessionOptions, type Standing, type StepRecord, startSession } from './session.js'

/** Failures in a row without a step of progress that end a run. */
export const mostFailures = 3

/** Options of `keepGoing`. */
export interface KeepOptions extends Omit<SessionOptions, 'flightRecord' | 'standing'> {
  /** Steps between two snapshots in the memory of ranks; 1 by default, 0: none. */
  readonly snapshotEvery?: number
  /** Ranks that share a node and fail together; half of the ranks by default. */
  readonly ranksPerNode?: number
  /** A rank that died is not replaced: the others continue with another plan. */
  readonly shrink?: boolean
  /** The latest good checkpoint on disk; with a step, the latest up to it, since later ones are suspect. */
  readonly onDisk?: (upTo?: number) => Beginning | undefined
  /** Where the flight record of the first, the second, ... failure goes. */
  readonly flightRecords?: (failure: number) => string
  /** Receives the events of the run. */
  readonly heard?: (event: HealthEvent) => void
}

/** What keeping copies took. */
export interface Copying {
  readonly copies: number
  readonly seconds: number
  /** Of one: what was written, and what of it would cross a network. */
  readonly bytes: number
  readonly sentBytes: number
}

/** A session that recovers from failures of its ranks. */
export interface KeptSession extends Session {
  /** Failures it recovered from. */
  readonly failures: number
  readonly copying: Copying
  /** Continues from the current step with a plan for this many ranks. */
  resize(ranks: number): Promise<void>
}

/**
 * Starts a session that recovers from failures: it keeps copies of the state in the memory of other ranks. Throws what
 * `startSession` throws.
 */
export async function keepGoing(job: Job, dataset: Dataset, options: KeepOptions = {}): Promise<KeptSession> {
  const program = options.program ?? programOf(job, options.schedule)
  const kept = new Kept({ job, program }, dataset, options)
  await kept.start()
  return kept
}

/** Of the last phase of the run. */
const programOf = (job: Job, schedule?: Schedule): Program =>
  runnable(jobOfBatch(job, job.training.globalBatch), schedule)

/** What is run. */
interface Planned {
  readonly job: Job
  readonly program: Program
}

/** A state to go on from, and where it lies. */
interface Source {
  readonly beginning: Beginning | undefined
  readonly standing?: Standing | undefined
  readonly where: string
}

const [inMemory, ofSeed] = [eventPhrases['.memory'][0], eventPhrases['.seed'][0]]

/** A file as it is called; the ranks' memory and the weights of a seed have words of their own. */
const placeOf = (where: string) => (where === inMemory ? clause('.memory') : where === ofSeed ? clause('.seed') : where)

/** A state in the memory of ranks. */
interface Copied {
  readonly of: Program
  readonly kept: Copies
  readonly standing: Standing
  /** After which it was copied. */
  readonly step: number
}

class Kept implements KeptSession {
  readonly dataset: Dataset
  declare readonly beginning?: Beginning
  readonly #options: KeepOptions & { readonly faults: FaultBook }
  readonly #asked: Planned
  /** Threads that survive go on as they are. */
  readonly #pool: Pool
  #planned: Planned
  /** Ranks that there are; a plan may leave some idle. */
  #ranks: number
  #session!: Session // there before anybody has this
  /** Of the newest state. */
  #copies: Copied | undefined
  /** Of the newest state that a comparison of replicas has verified, where they are compared. */
  #verified: Copied | undefined
  #took = { copies: 0, seconds: 0 }
  /** The last step that was told; those whose state turned out to be corrupt are told again. */
  #told = 0
  /** The last step there was, which is progress. */
  #furthest = 0
  #failuresSince = 0
  /** When the work began that is under way. */
  #since = 0
  failures = 0

  constructor(asked: Planned, dataset: Dataset, options: KeepOptions) {
    this.dataset = dataset
    if (options.beginning) this.beginning = options.beginning
    this.#options = { ...options, faults: options.faults ?? new FaultBook([]) }
    this.#pool = options.pool ?? new Pool()
    this.#asked = asked
    this.#planned = asked
    this.#ranks = worldOfPlan(asked.job.plan)
  }

  get job() {
    return this.#planned.job
  }
  get program() {
    return this.#session.program
  }
  get trainer() {
    return this.#session.trainer
  }
  get kernels() {
    return this.#session.kernels
  }
  get behind() {
    return this.#session.behind
  }
  get taken() {
    return this.#session.taken
  }
  get broken() {
    return this.#session.broken
  }
  get standing() {
    return this.#session.standing
  }
  get replicas() {
    return this.#session.replicas
  }
  get copying(): Copying {
    const { bytes = 0, sentBytes = 0 } = this.#copies?.kept ?? {}
    return { ...this.#took, bytes, sentBytes }
  }

  async start(): Promise<void> {
    this.#session = await this.#startedFrom(this.#origin())
    this.#told = this.behind
    this.#furthest = this.behind
  }

  async step(): Promise<StepRecord> {
    for (;;) {
      const record = await this.#surely(() => this.#stepped())
      if (record.step <= this.#told) continue
      this.#told = record.step
      if (record.step > this.#furthest) this.#failuresSince = 0
      this.#furthest = Math.max(this.#furthest, record.step)
      return record
    }
  }

  evaluate = (): Promise<number | undefined> => this.#surely(() => this.#session.evaluate())

  async inject(fault: Fault): Promise<void> {
    await this.#session.inject(fault)
    const { faults } = this.#options
    if (!faults.faults.includes(fault)) faults.add(fault) // the session has a book of its own where the plan is another
  }

  async stop(): Promise<void> {
    await this.#session.stop()
    if (!this.#options.pool) await this.#pool.close()
  }

  async resize(ranks: number): Promise<void> {
    await this.#surely(() => this.#copy())
    await this.#session.stop()
    this.#ranks = ranks
    this.#replan()
    await this.#surely(() => this.#resume())
  }

  async #stepped(): Promise<StepRecord> {
    const record = await this.#session.step()
    const { differ, equal = 0 } = this.replicas ?? {}
    if (differ !== undefined) {
      for (const event of record.events ?? []) this.#say(event)
      throw new ReplicaFailure(differ, equal)
    }
    const { snapshotEvery = 1 } = this.#options
    if (snapshotEvery > 0 && record.step % snapshotEvery === 0) await this.#copy()
    return record
  }

  /** Room for a copy: that of the one before, unless it is the newest that is verified. */
  #room(): Copies {
    const { program } = this.#session
    const [newest, good] = [this.#copies, this.#verified]
    const isVerified = newest !== undefined && this.replicas !== undefined && newest.step <= this.replicas.equal
    if (isVerified) this.#verified = newest
    this.#copies = undefined
    const free = isVerified ? good : newest
    return free && free !== this.#verified && free.of === program
      ? free.kept
      : openCopies(program, this.#options.ranksPerNode)
  }

  /** What was copied before is gone, also where this fails. */
  async #copy(): Promise<void> {
    const { program, trainer, behind: step, standing, norms } = this.#session
    const { training } = this.job
    const data = cursorAt(this.dataset.train, training, { step, fingerprint: this.dataset.fingerprint })
    const kept = this.#room()
    const started = performance.now()
    await engineFailures(['copy', step], async () =>
      kept.take({ step, seed: training.seed, data, scalars: trainer.scalars(), ...(norms && { norms }) }, at =>
        trainer.held(at),
      ),
    )
    this.#copies = { of: program, kept, standing, step }
    this.#took = { copies: this.#took.copies + 1, seconds: this.#took.seconds + secondsSince(started) }
  }

  /** Does it again, from an earlier state, where the engine fails. */
  async #surely<T>(work: () => Promise<T>): Promise<T> {
    for (;;) {
      this.#since = performance.now()
      try {
        return await work()
      } catch (e) {
        await this.#recover(e)
      }
    }
  }

  /** A restart may fail as well. */
  async #recover(e: unknown): Promise<void> {
    const failure = this.#survivable(e)
    try {
      await this.#restart(failure)
    } catch (again) {
      await this.#recover(again)
    }
  }

  /** Throws what no other state would cure, and the last of too many failures. */
  #survivable(e: unknown): EngineFailure {
    if (!(e instanceof EngineFailure)) throw e
    this.failures++
    this.#failuresSince++
    if (this.#failuresSince < mostFailures) return e
    const failure = saidAgain(e.problems[0]).what
    throw new ProblemsError([runRefused('', 'run/given-up', { failures: mostFailures, failure })])
  }

  async #restart(e: EngineFailure): Promise<void> {
    const { lost, timeOut, brief: failure } = e
    const [after, started] = [secondsSince(this.#since), performance.now()]
    for (const copied of [this.#copies, this.#verified]) copied?.kept.lose(lost)
    const upTo = e instanceof ReplicaFailure ? e.equal : undefined
    if (upTo !== undefined) this.#copies = [this.#copies, this.#verified].find(copied => copied && copied.step <= upTo)
    await this.#session.stop()
    if (this.#options.shrink) {
      this.#ranks -= lost.length
      if (worldOfPlan(this.job.plan) > this.#ranks) this.#replan()
    }
    if (timeOut) this.#say({ ...timeOut, step: this.#told + 1 })
    const where = await this.#resume(upTo)
    const [from, repeated] = [this.behind, this.#told - this.behind]
    const again = repeated > 0 ? clause(repeated > 1 ? '.again-many' : '.again', { steps: repeated }) : ''
    const facts = {
      ...{ step: this.#told + 1, severity: 'warning' as const, ...(lost.length > 0 && { rank: lost[0] }) },
      numbers: { failure: this.failures, from, repeated, lost: lost.length, after, seconds: secondsSince(started) },
    }
    this.#say(found('restart/from', facts, { failure, from, where: placeOf(where), again }))
    if (upTo !== undefined) this.#told = from
  }

  /** From the newest state that is good. Returns where that was. */
  async #resume(upTo?: number): Promise<string> {
    const [newest] = this.#sources(upTo).sort((a, b) => stepsBehind(b.beginning) - stepsBehind(a.beginning))
    this.#session = await this.#startedFrom(newest)
    if (this.#verified && this.#verified.step > this.behind) this.#verified = undefined
    // What a lost rank kept is gone: until it is copied again, a second loss would leave parts without a copy.
    if (this.#options.snapshotEvery !== 0 && this.behind > 0) await this.#copy()
    return newest.where
  }

  /** Good ones; of the same step the ranks' memory comes before a disk. */
  #sources(upTo?: number): Source[] {
    const checkpoint = this.#copies?.kept.checkpoint()
    const [damage] = checkpoint?.damages() ?? []
    const facts = { step: this.#told, severity: 'warning' as const, numbers: {} }
    if (checkpoint && damage)
      this.#say(
        found('checkpointDamaged/copy', facts, {
          ...{ step: checkpoint.step, where: placeOf(inMemory), why: damage.message },
        }),
      )
    const disk = this.#options.onDisk?.(upTo)
    for (const { path, damages } of disk?.damaged ?? [])
      this.#say(found('checkpointDamaged/passed', facts, { path, why: damages[0].message }))
    const copy: Source[] =
      checkpoint && !damage
        ? [
            {
              beginning: { path: inMemory, checkpoint, share: 'everything' },
              ...{ standing: this.#copies?.standing, where: inMemory },
            },
          ]
        : []
    return [...copy, ...(disk ? [{ beginning: disk, where: disk.path }] : []), this.#origin()]
  }

  #origin(): Source {
    const { beginning } = this.#options
    return { beginning, where: beginning?.path ?? ofSeed }
  }

  #startedFrom({ beginning, standing }: Source): Promise<Session> {
    const { flightRecords, schedule, faults, ...options } = this.#options
    const { job, program } = this.#planned
    const asAsked = job === this.#asked.job
    return startSession(job, this.dataset, {
      ...{ ...options, program, beginning, standing, pool: this.#pool },
      ...(asAsked ? { schedule, faults } : { faults: faults.elsewhere(worldOfPlan(job.plan)) }),
      ...(flightRecords && { flightRecord: flightRecords(this.failures + 1) }),
    })
  }

  /** For the ranks that there are: the plan that was asked for, or the first of the best that fits. */
  #replan(): void {
    const { job: before } = this.#planned
    const enough = worldOfPlan(this.#asked.job.plan) <= this.#ranks
    this.#planned = enough ? this.#asked : fitting(this.#asked.job, this.#ranks)
    const [now, then] = [this.job, before].map(({ plan }) => planTitle(plan))
    const numbers = { ranks: worldOfPlan(this.job.plan), before: worldOfPlan(before.plan), there: this.#ranks }
    const words = { ranks: this.#ranks, plan: now, before: then }
    this.#say(found('replanned', { step: this.#told, severity: 'warning', numbers }, words))
  }

  #say(event: HealthEvent): void {
    this.#options.heard?.(event)
  }
}

const secondsSince = (started: number): number => (performance.now() - started) / 1000

/** The best plan for so many ranks whose program fits. */
function fitting(asked: Job, ranks: number): Planned {
  let refused: ProblemsError | undefined
  for (const job of jobsFor(asked, ranks))
    try {
      return { job, program: programOf(job) }
    } catch (e) {
      if (!(e instanceof ProblemsError)) throw e
      refused ??= e
    }
  const { globalBatch } = asked.training
  if (!refused) throw new ProblemsError([runRefused('plan', 'run/ranks', { ranks, globalBatch })])
  const [first] = refused.problems
  const said = runRefused('plan', 'run/ranks/because', { ranks, globalBatch, why: first.message })
  throw new ProblemsError([{ ...said, values: { ranks, globalBatch, why: saidAgain(first).what } }]) // of another table
}
