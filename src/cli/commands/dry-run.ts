/**
 * lockstep dry-run: scales a plan that is too large for this machine down without changing the program's structure, runs it
 * and compares it with one rank.
 */
import { counted, printable, table } from '../../base/index.js'
import { collectivesOf, type SegmentTally, type Tally } from '../../compile/index.js'
import { type Change, type Job, worldOfPlan } from '../../plan/index.js'
import { isFine, type Rehearsal, rehearse } from '../../prove/index.js'
import { withProgram } from '../files/program.js'
import type { Io } from '../io.js'
import { withProgress } from '../text/progress.js'
import { describe } from './verify.js'

export interface DryRunOptions {
  readonly steps: number
  readonly json?: boolean
}

export async function dryRunCommand(path: string, options: DryRunOptions, io: Io): Promise<number> {
  return withProgram(path, io, { ...options, fits: false }, async loaded => {
    const rehearsal = await withProgress(io, progress => rehearse(loaded, options.steps, progress))
    io.out(options.json ? `${JSON.stringify(asJson(rehearsal), null, 2)}\n` : `${asText(loaded.job, rehearsal)}\n`)
    return isFine(rehearsal) ? 0 : 1
  })
}

const reasons: Readonly<Record<string, string>> = {
  'model.layers': 'equal layers share their functions; every stage keeps at least one layer',
  'model.moe.dense': 'one layer of each type',
  'model.moe.every': 'one layer of each type',
  'training.seq': 'only sizes inside instructions',
  'training.globalBatch': 'one sequence per microbatch and replica',
  'plan.dp': 'replicas are identical; two reduce, shard and gather as many do',
  'plan.tp': 'each factor of tp shards the same dims, in two',
  'plan.cp': 'two ranks shard, gather and exchange a sequence as many do; a ring keeps its size',
  'plan.attention': 'as many ranks as cp has here',
  'plan.ep': 'each axis that distributes experts is kept, in two',
  'plan.etp': 'each axis that shards experts is kept, in two',
  'plan.expertCapacity': 'few tokens route unevenly: capacity for all of them, so that no step stops',
  'plan.zigzag': 'explicit, so that a shorter sequence is sharded the same way',
  'data.documents.pad': 'two chunks of one token per rank',
  'plan.pp': 'as deep as fits here; the schedule follows the same rule',
  'plan.microbatches': 'warmup, steady state and drain stay; only repetitions are left out',
  'plan.layers': 'every stage with layers keeps one',
  'plan.deviceMemory': 'the dry run checks the program, not its memory',
}
const reasonOf = ({ path }: Change): string =>
  reasons[path] ?? (path.startsWith('model.') ? 'only sizes inside instructions' : '')

function asText(job: Job, rehearsal: Rehearsal): string {
  const { job: small, changes, verdict, engine, full, here } = rehearsal
  const show = (value: unknown) => (value === undefined ? 'default' : JSON.stringify(value))
  return [
    `${printable(job.name ?? job.model.family)}: ${worldOfPlan(job.plan)} ranks scaled down to ${worldOfPlan(small.plan)}`,
    '',
    table(
      ['field', 'full', 'here', 'why the program structure is the same'],
      changes.map(change => [change.path, show(change.from), show(change.to), reasonOf(change)]),
    ),
    '',
    table(['function', 'collectives per call', 'calls (full)', 'calls (here)'], rowsOf(full, here)),
    `${counted(quiet(full), 'other function')} without collectives; P2P sends between stages: ${full.messages} (full), ${here.messages} (here)`,
    '',
    ...samenessOf(rehearsal),
    describe(verdict),
    ...(engine
      ? [
          `${engine.kernels} kernels in ${small.plan.precision}: losses differ from a single rank's by ${engine.error.toExponential(1)}`,
        ]
      : []),
  ].join('\n')
}

function samenessOf({ full, differences }: Rehearsal): string[] {
  if (differences.length === 0)
    return [`identical program structure: ${full.segments.size}/${full.segments.size} functions match`]
  const show = (instrs: readonly string[] | undefined) =>
    instrs ? collectivesOf({ instrs }) || `${instrs.length} instructions, no collective` : 'not there'
  return [
    ...differences.map(({ name, full, here }) => `${name}: full plan ${show(full)}; here ${show(here)}`),
    `ANOTHER program structure: ${differences.length} of ${counted(full.segments.size, 'function')} differ`,
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
  names.length === 1 ? names[0] : `${names[0].split(' ')[0]} (${names.length} functions)`

const asJson = (rehearsal: Rehearsal) => {
  const { job, changes, full, here, differences, verdict, engine } = rehearsal
  const segments = [...full.segments.values()].map(({ name, instrs, calls }) => ({
    ...{ name, collectives: collectivesOf({ instrs }), instructions: instrs.length },
    ...{ calls: { full: calls, here: here.segments.get(name)?.calls ?? 0 } },
  }))
  return { ok: isFine(rehearsal), ranks: worldOfPlan(job.plan), job, changes, segments, differences, verdict, engine }
}
