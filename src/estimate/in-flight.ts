/**
 * How many activations a pipeline rank holds at its worst, in stages' worth of one microbatch. A schedule that splits
 * backward lets go of most of a stage after its input gradient and of the rest after its weight gradient, so there are
 * two counts. Closed forms: test/estimate-memory.test.ts counts them in the schedules themselves.
 */
import type { Split } from './setup.js'

export interface InFlight {
  /** Between forward and input gradient. */
  readonly open: number
  /** Between forward and weight gradient, those included. */
  readonly held: number
}

type Counts = Pick<Split, 'pp' | 'chunks' | 'microbatches'>
type Rule = (counts: Counts, rank: number) => number

interface Rules {
  readonly open: Rule
  readonly held?: Rule
}

/** Microbatches that pass one chunk before the next has its turn: equal groups where they divide, else one a rank. */
const group = ({ pp, microbatches }: Counts): number => {
  const groups = Math.max(1, Math.floor(microbatches / pp))
  return microbatches % groups === 0 ? microbatches / groups : pp
}
const alternating =
  (lead: number): Rule =>
  (c, rank) =>
    lead * (c.pp - rank - 1) + 1 + (c.chunks - 1) * group(c)
const atMost =
  (limit: (pp: number) => number): Rule =>
  ({ pp }) =>
    limit(pp)

const rules: Readonly<Record<string, Rules>> = {
  gpipe: { open: c => c.microbatches },
  'looped-bfs': { open: c => c.microbatches * c.chunks },
  '1f1b': { open: alternating(1) },
  interleaved: { open: (c, rank) => alternating(c.chunks === 1 ? 1 : 2)(c, rank) },
  'interleaved-zb': { open: alternating(1), held: c => alternating(1)(c, 0) },
  'zb-h1': { open: alternating(1), held: c => alternating(1)(c, 0) },
  'zb-h2': { open: alternating(2), held: c => alternating(2)(c, 0) },
  'zb-v': { open: atMost(pp => 2 * pp) },
  'v-half': { open: atMost(pp => Math.min(2 * pp, pp + 2)) },
  'v-min': { open: atMost(pp => Math.min(2 * pp, Math.max(4, 2 * Math.ceil(pp / 2)))) },
  'dualpipe-v': { open: atMost(pp => 2 * pp + 1) },
  dualpipe: { open: atMost(pp => pp + 1 + (pp % 2)) },
}

export function inFlight(split: Counts & Pick<Split, 'schedule'>, rank: number): InFlight {
  const { open, held } = rules[split.schedule] ?? rules['1f1b']
  const most = split.microbatches * split.chunks
  const opened = Math.min(most, open(split, rank))
  return { open: opened, held: held ? Math.min(most, held(split, rank)) : opened }
}
