/**
 * lockstep dry-run: scales a plan that is too large for this machine down without changing the program's structure, runs it
 * and compares it with one rank.
 */
import { printable, table } from '../../base/index.js'
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
  'model.layers': 'layers of a kind share their segments; every stage that has any keeps one',
  'model.moe.dense': 'one layer of each kind',
  'model.moe.every': 'one layer of each kind',
  'training.seq': 'numbers inside instructions',
  'training.globalBatch': 'one sequence for each microbatch and copy',
  'plan.dp': 'copies do the same; two of them reduce, split and gather as many do',
  'plan.tp': 'each factor of tp splits the same dims, in two',
  'plan.cp': 'two ranks cut, gather and exchange a sequence as many do; a ring keeps its ranks',
  'plan.attention': 'as many ranks as cp has left',
  'plan.ep': 'each axis that experts are spread over is there, in two',
  'plan.etp': 'each axis that splits experts is there, in two',
  'plan.rows': 'of few tokens chance decides how many rows a rank has: room for all, so that none is stopped',
  'plan.zigzag': 'said, so that a shorter sequence is cut in the same way',
  'data.documents.pad': 'two chunks of a document for each rank, of a token each',
  'plan.pp': 'as deep as there is room for; the rows follow the same rule',
  'plan.microbatches': 'warm-up, steady state and drain stay; only rounds are left out',
  'plan.layers': 'every stage that has layers keeps one',
  'plan.deviceMemory': 'what is rehearsed is the program, not its bytes',
}
const reasonOf = ({ path }: Change): string =>
  reasons[path] ?? (path.startsWith('model.') ? 'numbers inside instructions' : '')

function asText(job: Job, rehearsal: Rehearsal): string {
  const { job: small, changes, verdict, engine, full, here } = rehearsal
  const show = (value: unknown) => (value === undefined ? 'not given' : JSON.stringify(value))
  return [
    `${printable(job.name ?? job.model.family)}: ${worldOfPlan(job.plan)} ranks rehearsed on ${worldOfPlan(small.plan)}`,
    '',
    table(
      ['shrunk', 'from', 'to', 'why it is still the same program'],
      changes.map(change => [change.path, show(change.from), show(change.to), reasonOf(change)]),
    ),
    '',
    table(['segment', 'collectives of one call', 'calls, full plan', 'calls, here'], rowsOf(full, here)),
    `${quiet(full)} others have no collectives; messages between stages: ${full.messages} in the full plan, ${here.messages} here`,
    '',
    ...samenessOf(rehearsal),
    describe(verdict),
    ...(engine
      ? [
          `${engine.kernels} kernels in ${small.plan.precision}: losses differ from one rank's by ${engine.error.toExponential(1)}`,
        ]
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
