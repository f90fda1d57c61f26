/**
 * lockstep verify: the laws hold the program, then the reference interpreter runs it beside one rank. A model too large
 * to be interpreted is held to the laws as it is, and run narrower under the same plan.
 */
import type { Command } from 'commander'
import { compileJob, serialJob } from '../../compile/index.js'
import { type Comparison, comparing, runningSerial, worstOf } from '../../engine/index.js'
import { type Program, showViolation, type Violation, verifying } from '../../ir/index.js'
import { parametersOf } from '../../model/index.js'
import { type Change, type Job, shrink, worldOfPlan } from '../../plan/index.js'
import { type Loaded, withProgram } from '../files/program.js'
import type { Io } from '../io.js'
import { integer } from '../text/integer.js'
import { type Progress, withProgress } from '../text/progress.js'

export const tolerance = 1e-12

interface Options {
  readonly steps: number
  readonly lawsOnly?: boolean
  readonly full?: boolean
  readonly json?: boolean
}

export function registerVerify(program: Command, io: Io, done: (code: number) => void): void {
  program
    .command('verify')
    .summary('prove a program, and run it beside one rank')
    .description(
      'Holds the compiled program to the laws of SPEC.md, then runs it on the reference interpreter in f64 beside the one-rank program: losses, gradients, parameters and peak memory must agree.',
    )
    .argument('<job>', 'job file (YAML or JSON; - for standard input)')
    .option('--steps <n>', 'training steps to compare', integer, 3)
    .option('--laws-only', 'do not run it')
    .option('--full', 'run the model at its full size, however long that takes')
    .option('--json', 'the verdict as JSON')
    .addHelpText(
      'after',
      '\nExample:\n  lockstep verify job.yaml\n\nExit code 0: lawful and equal, 1: the job has problems, a law is broken or a number differs, 2: usage error.',
    )
    .action(async (path: string, options: Options) => {
      const use = async (loaded: Loaded): Promise<number> => {
        const verdict = await withProgress(io, progress => judge(loaded, options, progress))
        io.out(`${options.json ? JSON.stringify(verdict, null, 2) : describe(verdict)}\n`)
        return verdict.ok ? 0 : 1
      }
      done(await withProgram(path, io, { ...options, fits: false }, use))
    })
}

export interface Verdict {
  readonly ok: boolean
  readonly tolerance: number
  readonly violations: readonly Violation[]
  readonly numbers?: Comparison & { readonly worst: number; readonly ranks: number; readonly shrunk: readonly Change[] }
}

export async function judge(
  { job, schedule, program }: Loaded,
  { steps, lawsOnly, full }: Options,
  progress: Progress,
): Promise<Verdict> {
  const runs = !lawsOnly && steps > 0
  const small = full || affordable(job, steps) ? { job, changes: [] } : shrink(job)
  const ranks = worldOfPlan(small.job.plan)
  progress.expect(runs ? secondsOf(program, small.job, steps) : { laws: 1 })
  progress.say('laws')
  const serial = compileJob(serialJob(job, job.plan.microbatches))
  const violations = await progress.run('laws', verifying(program, serial))
  if (!runs || violations.length > 0) return { ok: violations.length === 0, tolerance, violations }
  const target = small.job === job ? program : compileJob(small.job, schedule)
  const numbers = { ...(await beside(small.job, target, steps, progress)), ranks, shrunk: small.changes }
  const worst = worstOf(numbers)
  const ok = worst <= tolerance && numbers.memory.length === 0 && numbers.spread.error === 0
  return { ok, tolerance, violations, numbers: { ...numbers, worst } }
}

async function beside(job: Job, program: Program, steps: number, progress: Progress): Promise<Comparison> {
  const { optimizer, seed } = job.training
  const options = {
    ...{ steps, seed, lr: optimizer.lr, vocab: 'vocab' in job.model ? job.model.vocab : 1 },
  }
  const serial = await progress.run('one rank', runningSerial(compileJob(serialJob(job)), options))
  return progress.run(allRanks(job), comparing(program, serial, options))
}

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

export function describe({ ok, violations, numbers }: Verdict): string {
  if (violations.length > 0)
    return [
      ...violations.slice(0, 20).map(showViolation),
      `${violations.length} violation${violations.length > 1 ? 's' : ''} of the laws`,
    ].join('\n')
  if (!numbers) return 'lawful: no law of SPEC.md is broken'
  const { steps, parameter, memory, shrunk, worst, ranks, spread } = numbers
  const show = (error: number) => error.toExponential(1)
  return [
    'lawful: no law of SPEC.md is broken',
    ...(shrunk.length > 0
      ? [
          `run narrower, under the same plan: ${shrunk.map(c => `${c.path} ${JSON.stringify(c.from)} -> ${JSON.stringify(c.to)}`).join(', ')}`,
        ]
      : []),
    ...steps.map(
      (s, i) =>
        `step ${i + 1}: loss ${s.loss.toFixed(6)}, one rank ${s.serial.toFixed(6)}; loss differs by ${show(s.error)}, gradients by ${show(s.gradient.error)}${s.gradient.name && ` (${s.gradient.name})`}`,
    ),
    `parameters after ${steps.length} steps differ by ${show(parameter.error)}${parameter.name && ` (${parameter.name})`}`,
    ...(spread.error > 0 ? [`ranks that should hold the same ${spread.name} differ by ${show(spread.error)}`] : []),
    memory.length === 0
      ? 'peak memory measured equals the plan, on every rank and kind'
      : `peak memory differs from the plan: ${memory
          .slice(0, 5)
          .map(m => `rank ${m.rank} ${m.kind} ${m.measured} instead of ${m.planned}`)
          .join(', ')}`,
    ok
      ? `equal: ${ranks} ranks compute what one rank computes (worst ${show(worst)}, allowed ${show(tolerance)})`
      : `NOT equal: worst ${show(worst)}, allowed ${show(tolerance)}`,
  ].join('\n')
}
