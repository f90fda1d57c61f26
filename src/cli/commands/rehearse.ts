/**
 * lockstep rehearse: a plan too large for this machine, made small enough to run here without becoming another program,
 * and run beside one rank: the dress rehearsal of a job of thousands of GPUs on a laptop.
 */
import type { Command } from 'commander'
import { error, ProblemsError, table } from '../../base/index.js'
import {
  collectivesOf,
  compileJob,
  type Difference,
  differencesOf,
  type Schedule,
  type SegmentTally,
  type Tally,
  tallyOf,
} from '../../compile/index.js'
import { syntheticDataset } from '../../data/index.js'
import { fastKernels, type KernelName } from '../../engine/index.js'
import type { Program } from '../../ir/index.js'
import { type Change, type Job, rehearsalOf, rehearsalSizes, type Shrunk, worldOfPlan } from '../../plan/index.js'
import { lossesOf, oneRankLosses, startSession } from '../../train/index.js'
import { type Loaded, tryProgram } from '../files/program.js'
import type { Io } from '../io.js'
import { integer } from '../text/integer.js'
import { countProblems, showProblems } from '../text/problems.js'
import { type Progress, withProgress } from '../text/progress.js'
import { describe, judge, type Verdict } from './verify.js'

interface Options {
  readonly steps: number
  readonly json?: boolean
}

export function registerRehearse(program: Command, io: Io, done: (code: number) => void): void {
  program
    .command('rehearse')
    .summary('run a plan of thousands of ranks here, at a small size')
    .description(
      'Shrinks a job until this machine can run it, shows that it is still the same program (the same segments with the same instructions and collectives), holds it to the laws and runs it beside one rank.',
    )
    .argument('<job>', 'job file (YAML or JSON; - for standard input)')
    .option('--steps <n>', 'training steps to compare', integer, 2)
    .option('--json', 'what was shrunk, the tally and the verdict as JSON')
    .addHelpText(
      'after',
      '\nExample:\n  lockstep rehearse examples/jobs/llama3-405b.yaml\n\nExit code 0: the same program, lawful and equal to one rank; 1: problems, or not so; 2: usage error.',
    )
    .action(async (path: string, options: Options) => {
      const { loaded, problems } = tryProgram(path, io, { fits: false })
      if (!options.json || !loaded) io.err(showProblems(problems, io, path))
      if (!loaded) {
        io.err(`${countProblems(problems)}\n`)
        return done(1)
      }
      const rehearsal = await withProgress(io, progress => rehearse(loaded, options, progress))
      io.out(options.json ? `${JSON.stringify(asJson(rehearsal), null, 2)}\n` : `${asText(loaded.job, rehearsal)}\n`)
      done(isFine(rehearsal) ? 0 : 1)
    })
}

interface Rehearsal extends Shrunk {
  readonly full: Tally
  readonly here: Tally
  readonly differences: readonly Difference[]
  readonly verdict: Verdict
  /** On the fastest kernels there are, in f32: how far losses are from those of one rank. */
  readonly engine?: { readonly kernels: string; readonly error: number }
}

/** What f32 and another order of sums may make of a loss. */
const toleranceF32 = 1e-4

const isFine = ({ differences, verdict, engine }: Rehearsal): boolean =>
  differences.length === 0 && verdict.ok && (engine === undefined || engine.error <= toleranceF32)

async function rehearse(
  { job, schedule, program }: Loaded,
  { steps }: Options,
  progress: Progress,
): Promise<Rehearsal> {
  progress.say('shrinking')
  const full = tallyOf(program)
  const small = smallest(job, schedule, full)
  if (worldOfPlan(small.job.plan) > 256)
    throw new ProblemsError([
      error(
        'plan/rehearsal',
        'plan.schedule',
        `a schedule from a file keeps its pp ${job.plan.pp}: too many ranks here`,
      ),
    ])
  const verdict = await judge({ job: small.job, schedule, program: small.program }, { steps, full: true }, progress)
  const [kernels] = fastKernels()
  if (!kernels) return { ...small, full, verdict }
  progress.say(`${kernels} kernels`)
  const run = runnable(small, schedule)
  const engine = { kernels, error: await engineError(run, schedule, kernels, steps) }
  return { ...small, changes: [...small.changes, ...run.changes], full, verdict, engine }
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

type Run = Shrunk & { readonly program: Program }

/** The kernels here compute in f32: they run the f32 program of the same plan. */
function runnable({ job, program }: Candidate, schedule: Schedule | undefined): Run {
  const { precision } = job.plan
  if (precision === 'f32') return { job, program, changes: [] }
  const wide: Job = { ...job, plan: { ...job.plan, precision: 'f32' } }
  const changes = [{ path: 'plan.precision', from: precision, to: 'f32' }]
  return { job: wide, program: compileJob(wide, schedule), changes }
}

async function engineError(
  { job, program }: Run,
  schedule: Schedule | undefined,
  kernels: KernelName,
  steps: number,
): Promise<number> {
  const { model, training } = job
  const shape = model.family === 'mlp' ? { embed: model.embed } : { vocab: model.vocab }
  const dataset = syntheticDataset({ seq: training.seq, ...shape }, training.seed)
  const session = await startSession(job, dataset, { program, schedule, kernels, measure: false })
  try {
    const [split, one] = [await lossesOf(session, steps), await oneRankLosses(session, steps)]
    return split.reduce((worst, loss, i) => Math.max(worst, Math.abs(loss - one[i]) / Math.abs(one[i])), 0)
  } finally {
    await session.stop()
  }
}

const reasons: Readonly<Record<string, string>> = {
  'model.layers': 'layers of a kind share their segments; every stage that has any keeps one',
  'training.seq': 'numbers inside instructions',
  'training.globalBatch': 'one sequence for each microbatch and copy',
  'plan.dp': 'copies do the same; two of them reduce, split and gather as many do',
  'plan.tp': 'each factor of tp splits the same dims, in two',
  'plan.pp': 'as deep as there is room for; the rows follow the same rule',
  'plan.microbatches': 'warm-up, steady state and drain stay; only rounds are left out',
  'plan.layers': 'every stage that has layers keeps one',
  'plan.precision': 'for the kernels of this machine alone; laws and interpreter take the program as it is',
  'plan.deviceMemory': 'what is rehearsed is the program, not its bytes',
}
const reasonOf = ({ path }: Change): string =>
  reasons[path] ?? (path.startsWith('model.') ? 'numbers inside instructions' : '')

function asText(job: Job, rehearsal: Rehearsal): string {
  const { job: small, changes, verdict, engine, full, here } = rehearsal
  const show = (value: unknown) => (value === undefined ? 'not given' : JSON.stringify(value))
  return [
    `${job.name ?? job.model.family}: ${worldOfPlan(job.plan)} ranks rehearsed on ${worldOfPlan(small.plan)}`,
    '',
    table(
      ['shrunk', 'from', 'to', 'why it is still the same program'],
      changes.map(change => [change.path, show(change.from), show(change.to), reasonOf(change)]),
    ),
    '',
    table(['segment', 'collectives of one call', 'calls, full plan', 'calls, here'], rowsOf(full, here)),
    `${quiet(full)} others meet nobody; messages between stages: ${full.messages} in the full plan, ${here.messages} here`,
    '',
    ...samenessOf(rehearsal),
    describe(verdict),
    ...(engine
      ? [`${engine.kernels} kernels in f32: losses differ from one rank's by ${engine.error.toExponential(1)}`]
      : []),
  ].join('\n')
}

function samenessOf({ full, differences }: Rehearsal): string[] {
  if (differences.length === 0)
    return [`the same program: all ${full.segments.size} kinds of segments agree, instruction for instruction`]
  const show = (instrs: readonly string[] | undefined) =>
    instrs ? collectivesOf({ instrs }) || `${instrs.length} instructions, no collective` : 'not there'
  return [
    ...differences.map(({ name, full, here }) => `${name}: full plan ${show(full)}; here ${show(here)}`),
    `NOT the same program: ${differences.length} of ${full.segments.size} kinds of segments differ`,
  ]
}

interface Row {
  readonly names: string[]
  readonly collectives: string
  full: number
  here: number
}

/** Segments that meet somebody, those of parameters that do the same in one row. */
function rowsOf(full: Tally, here: Tally): (readonly (string | number)[])[] {
  const rows = new Map<string, Row>()
  for (const segment of full.segments.values()) {
    const collectives = collectivesOf(segment)
    if (collectives !== '') add(rows, segment, collectives, here.segments.get(segment.name)?.calls ?? 0)
  }
  return [...rows.values()].map(({ names, collectives, full, here }) => [title(names), collectives, full, here])
}

const quiet = ({ segments }: Tally): number => [...segments.values()].filter(s => collectivesOf(s) === '').length

function add(rows: Map<string, Row>, { name, calls }: SegmentTally, collectives: string, here: number): void {
  const [phase, param] = name.split(' ')
  const key = param === undefined || phase === 'sum' ? name : `${phase} ${collectives}`
  const row = rows.get(key) ?? { names: [], collectives, full: 0, here: 0 }
  row.names.push(name)
  row.full += calls
  row.here += here
  rows.set(key, row)
}

/** 'update of 12 parameters' */
const title = (names: readonly string[]): string =>
  names.length === 1 ? names[0] : `${names[0].split(' ')[0]} of ${names.length} kinds of parameters`

const asJson = (rehearsal: Rehearsal) => {
  const { job, changes, full, here, differences, verdict, engine } = rehearsal
  const segments = [...full.segments.values()].map(({ name, instrs, calls }) => ({
    ...{ name, collectives: collectivesOf({ instrs }), instructions: instrs.length },
    ...{ calls: { full: calls, here: here.segments.get(name)?.calls ?? 0 } },
  }))
  return { ok: isFine(rehearsal), ranks: worldOfPlan(job.plan), job, changes, segments, differences, verdict, engine }
}
