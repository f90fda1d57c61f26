/** lockstep verify: static checks of the program, then a numeric comparison with a single rank. */
import { counted, table, wrapped } from '../../base/index.js'
import { compileJob } from '../../compile/index.js'
import { showViolation } from '../../ir/index.js'
import { earlierJobs, type Job } from '../../plan/index.js'
import { type CompiledJob, type Numbers, prove, tolerance, type Verdict } from '../../prove/index.js'
import { withProgram } from '../files/program.js'
import type { Io } from '../io.js'
import { withProgress } from '../text/progress.js'

export interface VerifyOptions {
  readonly steps: number
  readonly static?: boolean
  readonly full?: boolean
  readonly json?: boolean
}

export async function verifyCommand(path: string, options: VerifyOptions, io: Io): Promise<number> {
  const { full } = options
  const steps = options.static ? 0 : options.steps
  return withProgram(path, io, { ...options, fits: false }, async loaded => {
    const proved = (compiled: CompiledJob) => withProgress(io, watcher => prove(compiled, { steps, full, watcher }))
    const verdict = await proved(loaded)
    // Where batches grow, or gradients are compressed from a step on, earlier steps are other programs.
    const smaller: Smaller[] = []
    for (const job of earlierJobs(loaded.job))
      smaller.push({ ...phaseOf(job), ...(await proved({ job, program: compileJob(job) })) })
    const all = smaller.length > 0 ? { ...verdict, smaller } : verdict
    io.out(`${options.json ? JSON.stringify(all, null, 2) : describeAll(verdict, smaller)}\n`)
    return [verdict, ...smaller].every(({ ok }) => ok) ? 0 : 1
  })
}

type Smaller = Verdict & { readonly globalBatch: number; readonly waiting?: true }

const phaseOf = ({ training, plan }: Job) => ({
  globalBatch: training.globalBatch,
  ...(plan.compress && plan.compress.from > 0 && isBefore(plan.compress) && { waiting: true as const }),
})

/** It waits, or what it would compress is left out. */
const isBefore = ({ waiting = false, reduce }: NonNullable<Job['plan']['compress']>): boolean =>
  waiting || reduce === undefined

const describeAll = (verdict: Verdict, smaller: readonly Smaller[]): string =>
  [
    describe(verdict),
    ...smaller.map(
      each =>
        `\nsteps with ${each.globalBatch} sequences (${each.waiting ? 'before compression starts' : 'batchRamp'}):\n${describe(each)}`,
    ),
  ].join('\n')

export function describe({ ok, ranks: proved, violations, numbers }: Verdict): string {
  if (violations.length > 0)
    return [
      ...violations.slice(0, 20).map(showViolation),
      `static checks FAILED: ${counted(violations.length, 'violation')} of the rules of SPEC.md`,
    ].join('\n')
  if (!numbers) return `static checks passed (${counted(proved, 'rank')}, full size)`
  const { steps, parameter, memory, shrunk, worst, ranks, spread } = numbers
  const show = (error: number) => error.toExponential(1)
  return [
    `static checks passed (${counted(proved, 'rank')}, full size)`,
    ...(shrunk.length > 0 ? describeSmaller(numbers) : []),
    table(
      ['step', 'loss', 'single rank', 'difference', 'gradients', 'largest in'],
      steps.map(({ loss, serial, error, gradient }, i) => [
        ...[i + 1, loss.toFixed(6), serial.toFixed(6), show(error), show(gradient.error), gradient.name],
      ]),
    ),
    `parameters after ${counted(steps.length, 'step')}: difference ${show(parameter.error)}${parameter.name && ` (${parameter.name})`}`,
    ...(spread.error > 0 ? [`replicas of ${spread.name} differ by ${show(spread.error)}`] : []),
    memory.length === 0
      ? 'measured peak memory equals the prediction on every rank, in every category'
      : wrapped(
          `measured peak memory differs from the prediction: ${memory
            .slice(0, 5)
            .map(m => `rank ${m.rank} ${m.kind} ${m.measured} B instead of ${m.planned} B`)
            .join(', ')}`,
        ).join('\n'),
    ok
      ? `numeric check passed: ${counted(ranks, 'rank')} ${ranks === 1 ? 'matches' : 'match'} the single-rank reference (worst ${show(worst)}, tolerance ${show(tolerance)})`
      : `numeric check FAILED: worst difference ${show(worst)}, tolerance ${show(tolerance)}`,
  ].join('\n')
}

function describeSmaller({ ranks, shrunk, kinds, differing }: Numbers): string[] {
  const changes = shrunk.map(({ path, from, to }) => `${path} ${JSON.stringify(from)} -> ${JSON.stringify(to)}`)
  const same =
    differing.length === 0
      ? `identical program structure (${kinds}/${kinds} functions match)`
      : `ANOTHER program structure (${differing.length} of ${counted(kinds, 'function')} differ: ${differing.join(', ')})`
  return [
    `numeric check on a reduced model, ${counted(ranks, 'rank')}, ${same}:`,
    ...wrapped(`  ${changes.join(', ')}`),
  ]
}
