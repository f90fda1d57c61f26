/**
 * The dress rehearsal of a job of thousands of GPUs: the job is made small enough to run here without becoming another
 * program, proved, and run on the fastest kernels beside one rank.
 */
import { bytesPer, error, ProblemsError, planPrecisionFacts, unwatched, type Watcher } from '../base/index.js'
import { compileJob, type Difference, differencesOf, type Tally, tallyOf } from '../compile/index.js'
import { fastKernels, type KernelName } from '../engine/index.js'
import type { Program } from '../ir/index.js'
import { type Job, rehearsalOf, rehearsalSizes, type Shrunk, worldOfPlan } from '../plan/index.js'
import type { Schedule } from '../schedule/index.js'
import { lossesOf, oneRankLosses, startSession, syntheticOf } from '../train/index.js'
import { type CompiledJob, prove, type Verdict } from './verdict.js'

/** The result of a dry run: the reduced job, how its structure differs, and the verdict. */
export interface Rehearsal extends Shrunk {
  readonly full: Tally
  readonly here: Tally
  readonly differences: readonly Difference[]
  readonly verdict: Verdict
  /** On the fastest kernels here: the largest difference of losses from one rank. */
  readonly engine?: { readonly kernels: string; readonly error: number }
}

/** What another order of sums may make of a loss, in f32 and where tokens are kept in 16 bits. */
const tolerance = ({ plan: { precision } }: Job): number =>
  bytesPer[planPrecisionFacts[precision].token] < bytesPer.f32 ? 2e-2 : 1e-4

/** Whether a dry run passed: same program structure, no violations, and equal to a single rank. */
export const isFine = ({ job, differences, verdict, engine }: Rehearsal): boolean =>
  differences.length === 0 && verdict.ok && (engine === undefined || engine.error <= tolerance(job))

/** Checks a plan of many ranks at a size that fits this machine: same program structure, smaller dims. */
export async function rehearse(
  { job, schedule, program }: CompiledJob,
  steps: number,
  watcher: Watcher = unwatched,
): Promise<Rehearsal> {
  watcher.say('shrinking')
  const full = tallyOf(program)
  const small = smallest(job, schedule, full)
  if (worldOfPlan(small.job.plan) > 256)
    throw new ProblemsError([
      error(
        'plan/rehearsal',
        'plan.schedule',
        `a schedule from a file keeps its pp ${job.plan.pp}: too many ranks for this machine`,
      ),
    ])
  const verdict = await prove({ job: small.job, schedule, program: small.program }, { steps, full: true, watcher })
  const [kernels] = fastKernels()
  // Of codes there is the definition alone.
  if (!kernels || job.plan.fp8) return { ...small, full, verdict }
  watcher.say(`${kernels} kernels`)
  const engine = { kernels, error: await engineError(small, schedule, kernels, steps) }
  return { ...small, full, verdict, engine }
}

type Candidate = Shrunk & Pick<Rehearsal, 'here' | 'differences'> & { readonly program: Program }

/** The first size at which it is the same program; if there is none, the one that comes nearest. */
function smallest(job: Job, schedule: Schedule | undefined, full: Tally): Candidate {
  let best: Candidate | undefined
  for (const sizes of rehearsalSizes) {
    const shrunk = rehearsalOf(job, sizes)
    const program = compileJob(shrunk.job, schedule)
    const here = tallyOf(program)
    const differences = differencesOf(full, here)
    if (!best || differences.length < best.differences.length) best = { ...shrunk, program, here, differences }
    if (differences.length === 0) break
  }
  return best!
}

async function engineError(
  { job, program }: Candidate,
  schedule: Schedule | undefined,
  kernels: KernelName,
  steps: number,
): Promise<number> {
  const session = await startSession(job, syntheticOf(job), { program, schedule, kernels, measure: false })
  try {
    const [split, one] = [await lossesOf(session, steps), await oneRankLosses(session, steps)]
    return split.reduce((worst, loss, i) => Math.max(worst, Math.abs(loss - one[i]) / Math.abs(one[i])), 0)
  } finally {
    await session.stop()
  }
}
