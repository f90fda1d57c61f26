/**
 * One forward, one backward, in turn: a family with two knobs.
 *
 * Each rank first runs ahead by `lead` forwards for every rank behind it (plus, with several chunks, one group for
 * each further chunk), then alternates. If the backward is split, its weight part waits `lag` turns for every rank
 * before it: the further back a rank is, the less its forwards hold alive, and the longer it can put weights off,
 * into what would be its bubble.
 *
 *   1f1b            chunks 1, lead 1            (Narayanan et al. 2019; memory p - r)
 *   interleaved     chunks v, lead 2            (Narayanan et al. 2021; bubble / v)
 *   zb-h1           chunks 1, lead 1, lag 1     (Qi et al. 2023; memory p on every rank)
 *   zb-h2           chunks 1, lead 2, lag 2     (memory 2p - 1, no idle time between a rank's first and last task;
 *                                               with fewer than 2p - 1 microbatches its lag is less, and never below 1)
 *   interleaved-zb  chunks v, lead 1, lag 1     (memory vp chunks)
 */
import { type RowByRow, RowWriter } from './numbered.js'
import { loopStage } from './place.js'
import type { Counts, TaskKind } from './task.js'

export interface Knobs {
  readonly lead: number
  /** Absent: backwards are whole. */
  readonly lag?: number
}

/** The n-th forward of a rank; its n-th backward is of the chunk mirrored. */
interface Turn {
  readonly chunk: number
  readonly microbatch: number
}

/**
 * Microbatches pass through a rank's chunks in groups. PyTorch makes max(1, m div p) equal groups and refuses what
 * cannot be cut so; here groups are then of p and the last one is short, as in Megatron. A row is made as if the last
 * group were full, and the turns of microbatches that do not exist are left out: shortening the alternation itself
 * would stall (p = 4, m = 9, 3 chunks).
 */
export function groupSize({ ranks, microbatches }: Counts): number {
  const groups = Math.max(1, Math.floor(microbatches / ranks))
  return microbatches % groups === 0 ? microbatches / groups : ranks
}

function turnsOf(counts: Counts): Turn[] {
  const turns: Turn[] = []
  const size = groupSize(counts)
  for (let first = 0; first < counts.microbatches; first += size)
    for (let chunk = 0; chunk < counts.chunks; chunk++)
      for (let i = 0; i < size; i++) turns.push({ chunk, microbatch: first + i })
  return turns
}

/** Of each chunk of the first rank: microbatches that it has begun before its first backward. */
export const leadOfFirst = (counts: Counts, { lead }: Pick<Knobs, 'lead'>): number[] =>
  amongFirst(counts, aheadOf(counts, 0, lead) + 1)

/** Of each chunk of the last rank: microbatches whose gradients of weights it puts off at one time. */
export const owedByLast = (counts: Counts, { lag = 0 }: Knobs): number[] =>
  amongFirst(counts, behindOf(counts.ranks - 1, lag)).reverse()

/** Of each chunk: microbatches among so many turns. */
function amongFirst(counts: Counts, turns: number): number[] {
  const found = new Array<number>(counts.chunks).fill(0)
  const size = groupSize(counts)
  const groups = Math.ceil(counts.microbatches / size)
  let left = Math.min(groups * size * counts.chunks, turns)
  for (let first = 0; left > 0; first += size)
    for (let chunk = 0; chunk < counts.chunks && left > 0; chunk++) {
      found[chunk] += Math.max(0, Math.min(size, left, counts.microbatches - first))
      left -= size
    }
  return found
}

/** Turns that a rank runs ahead before it alternates, if there are so many. */
const aheadOf = (counts: Counts, rank: number, lead: number): number =>
  (counts.chunks - 1) * groupSize(counts) + lead * (counts.ranks - 1 - rank)

/** Turns for which a rank puts weights off, if there are so many. */
const behindOf = (rank: number, lag: number): number => Math.round(lag * rank)

export function alternate(counts: Counts, knobs: Knobs): RowByRow {
  const turns = turnsOf(counts)
  const stages = counts.ranks * counts.chunks
  return { stages, microbatches: counts.microbatches, row: rank => rowOf(counts, turns, rank, knobs) }
}

function rowOf(counts: Counts, turns: readonly Turn[], rank: number, { lead, lag }: Knobs): readonly number[] {
  const { ranks, chunks, microbatches } = counts
  const writer = new RowWriter({ stages: ranks * chunks, microbatches })
  const push = (kind: TaskKind, chunk: number, microbatch: number) => {
    if (microbatch < microbatches) writer.task(kind, loopStage(ranks, rank, chunk), microbatch)
  }
  const forward = ({ chunk, microbatch }: Turn) => push('F', chunk, microbatch)
  const backward = (kind: TaskKind, { chunk, microbatch }: Turn) => push(kind, chunks - 1 - chunk, microbatch)

  const ahead = Math.min(turns.length, aheadOf(counts, rank, lead))
  const behind = lag === undefined ? turns.length : Math.min(turns.length, behindOf(rank, lag))
  for (let i = 0; i < ahead; i++) forward(turns[i])
  for (let i = 0; i < turns.length; i++) {
    if (ahead + i < turns.length) forward(turns[ahead + i])
    backward(lag === undefined ? 'B' : 'I', turns[i])
    if (i >= behind) backward('W', turns[i - behind])
  }
  if (lag !== undefined) for (let i = turns.length - behind; i < turns.length; i++) backward('W', turns[i])
  return writer.row
}
