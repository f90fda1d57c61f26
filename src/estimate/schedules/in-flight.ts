/**
 * How many activations a pipeline rank holds at its worst, in stages' worth of one microbatch. A schedule that splits
 * backward has microbatches in two states, and a rank is fullest with as many *open* ones as ever, or with as many
 * *pending* ones. Closed forms: test/estimate-memory.test.ts counts them in the schedules themselves.
 */
import { type ScheduleName, scheduleFacts } from '../../plan/index.js'
import type { Split } from '../setup.js'

export interface Load {
  /** Between forward and input gradient (or the whole backward). */
  readonly open: number
  /** Between input gradient and weight gradient. */
  readonly pending: number
}

export interface InFlight {
  readonly mostOpen: Load
  readonly mostPending: Load
}

type Counts = Pick<Split, 'pp' | 'chunks' | 'microbatches'>
type Rule = (counts: Counts, rank: number, cap: number) => InFlight

const onlyOpen = (open: number): InFlight => {
  const load = { open, pending: 0 }
  return { mostOpen: load, mostPending: load }
}

/** Microbatches that pass one chunk before the next has its turn: equal groups where they divide, else one a rank. */
export const groupOf = ({ pp, microbatches }: Counts): number => {
  const groups = Math.max(1, Math.floor(microbatches / pp))
  return microbatches % groups === 0 ? microbatches / groups : pp
}

/** One forward, one backward in turn, after `lead` forwards for every rank behind. */
const ahead = (c: Counts, rank: number, lead: number): number =>
  lead * (c.pp - rank - 1) + 1 + (c.chunks - 1) * groupOf(c)

const alternating =
  (lead: number): Rule =>
  (c, rank, cap) =>
    onlyOpen(Math.min(cap, ahead(c, rank, lead)))

/** Weight gradients wait `lead` turns for every rank before, until every rank holds what the first one does. */
const putOff =
  (lead: number): Rule =>
  (c, rank, cap) => {
    const open = Math.min(cap, ahead(c, rank, lead))
    const held = Math.min(cap, ahead(c, 0, lead))
    const pending = Math.min(held, lead * rank + 1)
    return {
      mostOpen: { open, pending: Math.min(held - open, pending) },
      mostPending: { open: held - pending, pending },
    }
  }

/**
 * On a V under a limit: weight gradients pile up on the way down, or stay few where the limit is tight. All of them do
 * where there are so few microbatches (`few`: of what the limit allows) that nothing holds them back.
 */
const limited =
  (limit: (pp: number) => number, pile: (pp: number, rank: number) => Load, few: number): Rule =>
  ({ pp }, rank, cap) => {
    const most = Math.min(cap, limit(pp))
    const short = Math.min(most, pp - 1 - rank)
    const { open, pending } = pile(pp, rank)
    return {
      mostOpen: { open: most, pending: 0 },
      mostPending:
        cap < few * limit(pp) ? { open: short, pending: most - short } : { open: Math.min(most, open), pending },
    }
  }

const wholeV = (pp: number, rank: number): Load =>
  rank === 0 ? { open: 2 * pp - 2, pending: 2 } : { open: pp - 1 - rank, pending: 2 + 2 * rank }
const halfLimit = (pp: number): number => Math.min(2 * pp, pp + 2)
const leastLimit = (pp: number): number => Math.min(2 * pp, Math.max(4, 2 * Math.ceil(pp / 2)))
const tight =
  (limit: (pp: number) => number, pending: number, onFirst = pending) =>
  (pp: number, rank: number): Load => {
    const few = rank === 0 ? onFirst : pending
    return pp <= 2 ? wholeV(pp, rank) : { open: limit(pp) - few, pending: few }
  }

/** Backwards are split only to fill the ends, and with few microbatches not at all where the two ways meet. */
const paired =
  (limit: (pp: number) => number, turn: (pp: number) => number, pile: (pp: number, rank: number) => Load): Rule =>
  ({ pp, microbatches }, rank, cap) => {
    const most = Math.min(cap, limit(pp))
    if (pp === 1 && cap < limit(pp)) return onlyOpen(most)
    if (microbatches >= 2 * pp) return { mostOpen: { open: most, pending: 0 }, mostPending: pile(pp, rank) }
    const split = Math.min(rank, turn(pp) - rank) < Math.floor(turn(pp) / 2) ? 1 : 0
    return { mostOpen: { open: most, pending: 0 }, mostPending: { open: most - split, pending: split } }
  }

const rules: Readonly<Record<ScheduleName, Rule>> = {
  gpipe: c => onlyOpen(c.microbatches),
  'looped-bfs': c => onlyOpen(c.microbatches * c.chunks),
  '1f1b': alternating(1),
  interleaved: (c, rank, cap) => alternating(c.chunks === 1 ? 1 : 2)(c, rank, cap),
  'interleaved-zb': putOff(1),
  'zb-h1': putOff(1),
  'zb-h2': putOff(2),
  'zb-v': limited(pp => 2 * pp, wholeV, 2),
  'v-half': limited(halfLimit, tight(halfLimit, 4, 3), 1.1),
  'v-min': limited(leastLimit, tight(leastLimit, 2), 1.1),
  'dualpipe-v': paired(
    pp => 2 * pp + 1,
    pp => 2 * pp - 1,
    (pp, rank) => (rank === 0 ? { open: 2 * pp - 1, pending: 1 } : { open: pp - 1 - rank, pending: rank + 1 }),
  ),
  dualpipe: paired(
    pp => pp + 1 + (pp % 2),
    pp => pp - 1,
    (pp, rank) => ({ open: pp - 1, pending: Math.min(rank, pp - 1 - rank) + 1 }),
  ),
}

export const inFlight = (split: Counts & Pick<Split, 'schedule'>, rank: number): InFlight =>
  rules[split.schedule](split, rank, split.microbatches * split.chunks)

/** All that is in flight, open or pending, at the fullest. */
export const heldStages = (split: Counts & Pick<Split, 'schedule'>, rank: number): number => {
  const { mostOpen, mostPending } = inFlight(split, rank)
  return Math.max(mostOpen.open + mostOpen.pending, mostPending.open + mostPending.pending)
}

/** Groups of microbatches take turns on the chunks, one forward and one whole backward at a time. */
const takesTurns = ({ schedule }: Split): boolean => {
  const { chunksFixed, backward, forwardsFirst } = scheduleFacts[schedule]
  return !chunksFixed && backward === 'whole' && !forwardsFirst
}

/**
 * Layers that `stages` stages in flight come to, where a rank's chunks hold unlike numbers of them. Forwards go round
 * the chunks in groups and backwards follow the other way round, so the mix turns with them: the heaviest counts.
 */
export function layersInFlight(split: Split, stages: number, layersOfChunk: readonly number[]): number {
  const { chunks } = split
  const layers = layersOfChunk.reduce((sum, n) => sum + n, 0)
  const alike = layersOfChunk.every(n => n === layersOfChunk[0])
  if (alike || stages === 0 || !takesTurns(split)) return (stages * layers) / chunks
  const size = groupOf(split)
  const most = split.microbatches * chunks
  let heaviest = 0
  for (let turn = 0; turn < 2 * chunks; turn++) {
    const back = Math.min(turn * size, (turn + 1) * size - (stages % size))
    if (stages + back > most) break
    let live = 0
    for (let chunk = 0; chunk < chunks; chunk++)
      live +=
        layersOfChunk[chunk] *
        (passed(stages + back, chunk, chunks, size) - passed(back, chunks - 1 - chunk, chunks, size))
    heaviest = Math.max(heaviest, live)
  }
  return heaviest
}

/** Of the first `turns` turns, how many were a chunk's. */
const passed = (turns: number, chunk: number, chunks: number, size: number): number => {
  const rounds = Math.floor(turns / (chunks * size))
  return rounds * size + Math.min(size, Math.max(0, turns - (rounds * chunks + chunk) * size))
}
