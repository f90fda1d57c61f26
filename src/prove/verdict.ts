/**
 * The proof of a program: the laws, then the reference interpreter beside one rank. A job too large to be interpreted is
 * checked by the laws as it is, and run smaller, as the same program: how far it is the same is said.
 */
import {
  asPart,
  error,
  ProblemsError,
  SpokenError,
  saidBy,
  sayFailure,
  unwatched,
  type Watcher,
  type Work,
} from '../base/index.js'
import { compilingJob, differencesOf, serialJob, tallyOf } from '../compile/index.js'
import {
  type CompareOptions,
  type Comparison,
  comparing,
  RunError,
  runningSerial,
  type SerialRun,
  worstOf,
} from '../engine/index.js'
import { type Program, type Violation, verifying } from '../ir/index.js'
import { parametersOf } from '../model/index.js'
import { type Change, type Job, shrink, worldOfPlan } from '../plan/index.js'
import type { Schedule } from '../schedule/index.js'

/** How far a number may be from that of one rank, in f64. */
export const tolerance = 1e-12

/** A job and its program, with the schedule if the plan names a file. */
export interface CompiledJob {
  readonly job: Job
  readonly program: Program
  readonly schedule?: Schedule | undefined
}

/** Options of `prove`. */
export interface ProveOptions {
  /** Training steps to compare; 0: static checks only. */
  readonly steps: number
  /** Run the model at full size, even if that takes long. */
  readonly full?: boolean | undefined
  readonly watcher?: Watcher
}

/** The result of `prove`: violated invariants, and the largest differences from a single rank. */
export interface Verdict {
  readonly ok: boolean
  readonly tolerance: number
  /** Ranks of the program that was statically checked. */
  readonly ranks: number
  readonly violations: readonly Violation[]
  readonly numbers?: Numbers
}

/** What a run showed. */
export interface Numbers extends Comparison {
  readonly worst: number
  readonly ranks: number
  /** What was made smaller to run it. */
  readonly shrunk: readonly Change[]
  /** Kinds of segments of the whole program, and those that the smaller one lacks, has besides, or has with other instructions. */
  readonly kinds: number
  readonly differing: readonly string[]
}

/**
 * Checks a program: first the static invariants, then a run compared with a single rank in f64. Reduces the model
 * first unless `full` is set.
 */
export async function prove({ job, schedule, program }: CompiledJob, options: ProveOptions): Promise<Verdict> {
  const { steps, full, watcher = unwatched } = options
  const runs = steps > 0
  const small = full || affordable(job, steps) ? { job, changes: [] } : shrink(job)
  watcher.expect(runs ? secondsOf(program, small.job, steps) : { laws: 1 })
  watcher.say('laws')
  const violations = await watcher.run('laws', lawsBroken(job, program))
  const verdict = { ok: violations.length === 0, tolerance, ranks: worldOfPlan(job.plan), violations }
  if (!runs || violations.length > 0) return verdict
  const target =
    small.job === job ? program : await watcher.run('one rank', asPart(0, 0, compilingJob(small.job, schedule)))
  const compared = await beside(small.job, target, steps, watcher)
  const numbers = {
    ...compared,
    ranks: worldOfPlan(small.job.plan),
    shrunk: small.changes,
    ...sameness(program, target),
  }
  const worst = worstOf(numbers)
  const ok = worst <= tolerance && numbers.memory.length === 0 && numbers.spread.error === 0
  return { ...verdict, ok, numbers: { ...numbers, worst } }
}

function* lawsBroken(job: Job, program: Program): Work<Violation[]> {
  const alone = serialJob(job, job.plan.microbatches)
  const serial = yield* asPart(0, 0.1, compilingJob(alone, undefined, { placing: 'none' }))
  return yield* asPart(0.1, 1, verifying(program, serial))
}

function sameness(program: Program, target: Program): Pick<Numbers, 'kinds' | 'differing'> {
  const full = tallyOf(program)
  const differing = target === program ? [] : differencesOf(full, tallyOf(target)).map(({ name }) => name)
  return { kinds: full.segments.size, differing }
}

async function beside(job: Job, program: Program, steps: number, watcher: Watcher): Promise<Comparison> {
  const { optimizer, seed } = job.training
  const options = { steps, seed, lr: optimizer.lr, vocab: 'vocab' in job.model ? job.model.vocab : 1 }
  const serial = await watcher.run('one rank', runningOneRank(job, options))
  try {
    return await watcher.run(allRanks(job), comparing(program, serial, options))
  } catch (e) {
    throw isFull(e) ? new ProblemsError([error('engine/failed', 'plan.expertCapacity', sayFailure(saidBy(e)))]) : e
  }
}

function* runningOneRank(job: Job, options: CompareOptions): Work<SerialRun> {
  return yield* runningSerial(yield* asPart(0, 0, compilingJob(serialJob(job))), options)
}

/** A rank had less room for rows of experts than its tokens chose: the plan says how much it has. */
const isFull = (e: unknown): boolean =>
  e instanceof RunError && e.cause instanceof SpokenError && e.cause.said.phrase === '.rows/interpreter'

const allRanks = ({ plan }: Job): string => `${worldOfPlan(plan)} ranks`

/** About what the checker and the interpreter do in a second. */
const rates = { streamSteps: 10_000, multiplications: 6e7, rankSteps: 20_000 }

/** About how long each phase takes. */
function secondsOf({ streams }: Program, small: Job, steps: number): Record<string, number> {
  const arithmetic = multiplicationsOf(small, steps) / rates.multiplications
  const streamSteps = streams.reduce((sum, stream) => sum + stream.steps.length, 0)
  const rankSteps = (worldOfPlan(small.plan) / streams.length) * streamSteps * steps
  return {
    laws: streamSteps / rates.streamSteps,
    'one rank': arithmetic,
    [allRanks(small)]: arithmetic + rankSteps / rates.rankSteps,
  }
}

const multiplicationsOf = ({ model, training }: Job, steps: number): number =>
  3 * parametersOf(model, training.seq) * training.globalBatch * training.seq * steps

/** About a minute of interpreting. */
const affordable = (job: Job, steps: number): boolean =>
  multiplicationsOf(job, steps) < 2e9 && worldOfPlan(job.plan) <= 128
