/** Every schedule there is, by the name the plan and the command line use. */
import { nearest, type Problem, ProblemsError } from '../base/index.js'
import { isScheduleName, type ScheduleName, scheduleFacts, scheduleNames } from '../plan/schedule.js'
import { alternate, type Knobs, leadOfFirst, owedByLast } from './alternate.js'
import { dualPipe, dualPipeV, leadOfDualPipe, leadOfDualPipeV } from './dualpipe.js'
import { gpipe, loopedBfs } from './gpipe.js'
import { allRows, asSchedule, type NumberedSchedule, type RowByRow } from './numbered.js'
import { clause, refused } from './phrases.js'
import type { Counts, Schedule } from './task.js'
import { leadsOnV, vHalfLimit, vMinLimit, vShaped, zbVLimit } from './v.js'

export { isScheduleName, type ScheduleName, scheduleNames }

export interface ScheduleKind {
  readonly title: string
  readonly describe: string
  readonly make: (counts: Counts) => RowByRow
  /** Where its rows are found together, tick by tick: by rank, forwards of its first chunk that it surely does before anything else. */
  readonly leads?: (counts: Counts) => readonly number[]
  /** Of each chunk of the first rank: microbatches that it surely has begun before its first backward. */
  readonly begun: (counts: Counts) => readonly number[]
  /** Of each chunk of the last rank, where weight gradients are put off: microbatches for which it surely owes them at one time. */
  readonly owed?: (counts: Counts) => readonly number[]
}

/** Cells beyond this are refused: a table of so many would fill the memory of the machine that draws it. */
const mostCells = 1_000_000

const kind = (title: string, describe: string, make: ScheduleKind['make'], begun = one): ScheduleKind => ({
  ...{ title, describe, make, begun },
})

const one: ScheduleKind['begun'] = ({ chunks }) => new Array<number>(chunks).fill(1)
const all: ScheduleKind['begun'] = ({ chunks, microbatches }) => new Array<number>(chunks).fill(microbatches)

/** One forward and one backward in turn, of one chunk or of several. */
const turns = (title: string, describe: string, knobsOf: (counts: Counts) => Knobs): ScheduleKind => ({
  ...{ title, describe },
  make: counts => alternate(counts, knobsOf(counts)),
  begun: counts => leadOfFirst(counts, knobsOf(counts)),
  owed: counts => owedByLast(counts, knobsOf(counts)),
})

/** Weights that are put off beyond the last input gradient keep a rank busy after the others are done. */
const lagThatFits = ({ ranks, microbatches }: Counts): number =>
  Math.max(1, Math.min(2, (microbatches - 1) / Math.max(1, ranks - 1)))

/** On a V, with no more activations than a limit. */
const onV = (title: string, describe: string, limitOf: (ranks: number) => number): ScheduleKind => {
  const leads = (counts: Counts) => leadsOnV(counts, limitOf(counts.ranks))
  const make = (counts: Counts) => vShaped(counts, limitOf(counts.ranks))
  return { title, describe, make, leads, begun: counts => [leads(counts)[0], 1] }
}

/** Title and description of every named pipeline schedule. */
export const schedules: Readonly<Record<ScheduleName, ScheduleKind>> = {
  gpipe: kind('GPipe', 'all forwards, then all backwards', gpipe, all),
  '1f1b': turns('1F1B', 'one forward, one backward (1F1B)', () => ({ lead: 1 })),
  'looped-bfs': kind('Looped BFS', 'all forwards chunk by chunk, then all backwards', loopedBfs, all),
  interleaved: turns(
    'Interleaved 1F1B',
    'virtual pipeline stages (chunks): the bubble is divided by their number',
    ({ chunks }) => ({
      lead: chunks === 1 ? 1 : 2,
    }),
  ),
  'interleaved-zb': turns(
    'Interleaved zero bubble',
    'interleaved, with weight gradients deferred into the bubble',
    () => ({
      ...{ lead: 1, lag: 1 },
    }),
  ),
  'zb-h1': turns('ZB-H1', '1F1B with weight gradients in the bubble, same memory', () => ({ lead: 1, lag: 1 })),
  'zb-h2': turns('ZB-H2', 'no bubble between first and last task, twice the memory', counts => ({
    ...{ lead: 2, lag: lagThatFits(counts) },
  })),
  'zb-v': onV('ZB-V', 'zero bubble on a V, memory of 1F1B', zbVLimit),
  'v-half': onV('V-Half', 'on a V, about half the memory', vHalfLimit),
  'v-min': onV('V-Min', 'on a V, minimum memory that keeps ranks busy', vMinLimit),
  'dualpipe-v': kind('DualPipeV', 'overlapping pairs of forward and backward on a V', dualPipeV, leadOfDualPipeV),
  dualpipe: kind(
    'DualPipe',
    'bidirectional pipeline with overlapping pairs; two stages per rank',
    dualPipe,
    leadOfDualPipe,
  ),
}

/** Every reason why a schedule of that name and those counts cannot be made. */
export function scheduleProblems(name: string, counts: Counts): Problem[] {
  const found: Problem[] = (['ranks', 'chunks', 'microbatches'] as const)
    .filter(key => !Number.isSafeInteger(counts[key]) || counts[key] < 1)
    .map(key => refused(key === 'ranks' ? 'pp' : key, 'schedule/count', { count: counts[key] }))
  const cells = counts.ranks * counts.chunks * counts.microbatches
  if (found.length === 0 && cells > mostCells)
    found.push(refused('', 'schedule/size/cells', { ...counts, cells, most: mostCells }))
  if (isScheduleName(name)) {
    const { chunks, chunksFixed } = scheduleFacts[name]
    if (found.length === 0 && chunksFixed && counts.chunks !== chunks)
      found.push(refused('chunks', 'schedule/shape', { name, chunks: counts.chunks, usual: chunks }))
  } else {
    const word = nearest(name, scheduleNames)
    const known = () => clause('.there-are', { words: { joint: ',', of: scheduleNames } })
    found.unshift(
      refused('schedule', 'schedule/unknown', { name, instead: word ? clause('.meant', { word }) : known() }),
    )
  }
  return found
}

/** A pipeline schedule by name, such as `1f1b`, for counts of ranks, virtual stages and microbatches. */
export const makeSchedule = (name: ScheduleName, counts: Counts): Schedule => asSchedule(numberedSchedule(name, counts))

export function numberedSchedule(name: ScheduleName, counts: Counts): NumberedSchedule {
  const problems = scheduleProblems(name, counts)
  if (problems.length > 0) throw new ProblemsError(problems)
  return allRows(schedules[name].make(counts), counts.ranks)
}
