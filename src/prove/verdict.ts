/**
 * The proof of a program: the laws, then the reference interpreter beside one rank. A model too large to be interpreted is
 * checked by the laws as it is, and run narrower under the same plan.
 */
import { error, ProblemsError, SpokenError, saidBy, sayFailure, unwatched, type Watcher } from '../base/index.js'
import { compileJob, serialJob } from '../compile/index.js'
import { type Comparison, comparing, RunError, runningSerial, worstOf } from '../engine/index.js'
import { type Program, type Violation, verifying } from '../ir/index.js'
import { parametersOf } from '../model/index.js'
import { type Change, type Job, shrink, worldOfPlan } from '../plan/index.js'
import type { Schedule } from '../schedule/index.js'

/** How far a number may be from that of one rank, in f64. */
export const tolerance = 1e-12

/** A job and its program, with the schedule where the plan names a file. */
export interface CompiledJob {
  readonly job: Job
  readonly program: Program
  readonly schedule?: Schedule | undefined
}

export interface ProveOptions {
  /** Training steps to compare; 0: the laws alone. */
  readonly steps: number
  /** Run the model at its full size, however long that takes. */
  readonly full?: boolean | undefined
  readonly watcher?: Watcher
}

export interface Verdict {
  readonly ok: boolean
  readonly tolerance: number
  readonly violations: readonly Violation[]
  readonly numbers?: Comparison & { readonly worst: number; readonly ranks: number; readonly shrunk: readonly Change[] }
}

export async function prove({ job, schedule, program }: CompiledJob, options: ProveOptions): Promise<Verdict> {
  const { steps, full, watcher = unwatched } = options
  const runs = steps > 0
  const small = full || affordable(job, steps) ? { job, changes: [] } : shrink(job)
  const ranks = worldOfPlan(small.job.plan)
  watcher.expect(runs ? secondsOf(program, small.job, steps) : { laws: 1 })
  watcher.say('laws')
  const serial = compileJob(serialJob(job, job.plan.microbatches))
  const violations = await watcher.run('laws', verifying(program, serial))
  if (!runs || violations.length > 0) return { ok: violations.length === 0, tolerance, violations }
  const target = small.job === job ? program : compileJob(small.job, schedule)
  const numbers = { ...(await beside(small.job, target, steps, watcher)), ranks, shrunk: small.changes }
  const worst = worstOf(numbers)
  const ok = worst <= tolerance && numbers.memory.length === 0 && numbers.spread.error === 0
  return { ok, tolerance, violations, numbers: { ...numbers, worst } }
}

async function beside(job: Job, program: Program, steps: number, watcher: Watcher): Promise<Comparison> {
  const { optimizer, seed } = job.training
  const options = { steps, seed, lr: optimizer.lr, vocab: 'vocab' in job.model ? job.model.vocab : 1 }
  const serial = await watcher.run('one rank', runningSerial(compileJob(serialJob(job)), options))
  try {
    return await watcher.run(allRanks(job), comparing(program, serial, options))
  } catch (e) {
    throw isFull(e) ? new ProblemsError([error('engine/failed', 'plan.rows', sayFailure(saidBy(e)))]) : e
  }
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
