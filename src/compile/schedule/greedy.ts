/**
 * Runs a pipeline on paper while its order is still being decided: whichever rank is free next looks at what has
 * arrived for it and picks a forward, an input gradient, a weight gradient, or to wait. A habit says how it picks.
 *
 * A weight gradient is wanted by nobody, so it belongs into the time between what others want. Where it does not fit
 * there exactly, a rank must either idle or keep others waiting; its patience is the idle time it would rather bear.
 */
import type { TaskCost } from './run.js'
import type { Task } from './task.js'

export interface Pipeline {
  readonly ranks: number
  readonly microbatches: number
  /** One for each rank. */
  readonly costs: readonly TaskCost[]
  /** The most that may be held on a rank. */
  readonly limit: number
  /** What a microbatch holds while it waits for its input gradient, and for its weight gradient. */
  readonly held: { readonly I: number; readonly W: number }
  /** Times that differ by no more than this are the same: sums of decimals are not exact. */
  readonly tolerance: number
}

export interface Habit {
  /** For each rank behind it, how many more forwards than input gradients a rank may have done. */
  readonly lead: number
  /** When both have arrived: the input gradient, the forward, or the forward even if a weight gradient must make room. */
  readonly first: 'I' | 'F' | 'WF'
  /** Whether a forward is held back for an input gradient that would arrive while it runs. */
  readonly holdsBack: 'never' | 'patiently' | 'always'
  /** Idle time a rank bears in all; `fair`: as much as any rank has borne so far. */
  readonly patience: number | 'fair'
}

/** When ranks begin and end, and how long each idles in between. */
export interface Outcome {
  readonly rows: readonly (readonly Task[])[]
  readonly makespan: number
  readonly span: number
  readonly idle: number
}

interface Rank {
  readonly index: number
  readonly cost: TaskCost
  readonly mostAhead: number
  readonly row: Task[]
  /** How many of each are done; they are done in the order of microbatches. */
  readonly done: { F: number; I: number; W: number }
  /** When what the n-th task needs is here; infinite while nobody knows. */
  readonly arrives: { readonly F: Float64Array; readonly I: Float64Array }
  held: number
  begin: number
  free: number
  idle: number
  /** When it looks again at what to do. */
  looks: number
}

/** The outcome, or nothing as soon as `hopeless` says so of a rank that began then and has idled so long. */
export function runGreedy(
  pipeline: Pipeline,
  habit: Habit,
  hopeless: (rank: number, begin: number, idle: number) => boolean,
): Outcome | undefined {
  const ranks = Array.from({ length: pipeline.ranks }, (_, index) => newRank(pipeline, habit, index))
  let mostIdle = 0
  for (let left = 3 * pipeline.ranks * pipeline.microbatches; left > 0; ) {
    const rank = nextOf(ranks, pipeline.tolerance)
    const now = rank.looks
    const choice = choose(pipeline, habit, rank, habit.patience === 'fair' ? mostIdle : habit.patience)
    if (typeof choice === 'number') {
      rank.looks = choice
      continue
    }
    perform(pipeline, rank, choice)
    if (choice !== 'W') tell(ranks, rank, choice, now)
    if (hopeless(rank.index, rank.begin, rank.idle)) return undefined
    mostIdle = Math.max(mostIdle, rank.idle)
    left--
  }
  const most = (of: (rank: Rank) => number) => Math.max(...ranks.map(of))
  return {
    rows: ranks.map(({ row }) => row),
    makespan: most(({ free }) => free),
    span: most(({ free, begin }) => free - begin),
    idle: mostIdle,
  }
}

function newRank({ ranks, microbatches, costs }: Pipeline, { lead }: Habit, index: number): Rank {
  const behind = ranks - 1 - index
  const unknown = () => new Float64Array(microbatches).fill(Number.POSITIVE_INFINITY)
  return {
    index,
    cost: costs[index],
    mostAhead: behind === 0 ? 1 : 1 + Math.ceil(lead * behind - 1e-9),
    row: [],
    done: { F: 0, I: 0, W: 0 },
    arrives: { F: index === 0 ? unknown().fill(0) : unknown(), I: unknown() },
    held: 0,
    begin: 0,
    free: 0,
    idle: 0,
    looks: 0,
  }
}

function nextOf(ranks: readonly Rank[], tolerance: number): Rank {
  let next = ranks[0]
  for (const rank of ranks) if (rank.looks < next.looks - tolerance) next = rank
  return next
}

/** What a rank does now, or when it looks again. */
function choose(
  { microbatches, limit, held, tolerance }: Pipeline,
  { first, holdsBack }: Habit,
  { looks: now, cost, done, arrives, mostAhead, held: holds, idle }: Rank,
  patience: number,
): 'F' | 'I' | 'W' | number {
  const wanted = done.F < microbatches && done.F - done.I < mostAhead ? arrives.F[done.F] : Number.POSITIVE_INFINITY
  const fits = holds + held.I <= limit
  const forwardAt = fits ? wanted : Number.POSITIVE_INFINITY
  const inputAt = done.I < done.F ? arrives.I[done.I] : Number.POSITIVE_INFINITY
  const [forward, input, weight] = [forwardAt <= now + tolerance, inputAt <= now + tolerance, done.W < done.I]

  if (first === 'WF' && !fits && weight && wanted <= now + tolerance) return 'W'
  if (input) return forward && first !== 'I' ? 'F' : 'I'
  if (forward && (holdsBack === 'never' || inputAt >= now + cost.F - tolerance)) return 'F'
  const next = forward ? inputAt : Math.min(forwardAt, inputAt)
  if (weight && now + cost.W <= next + tolerance) return 'W'
  const bears = idle + next - now <= patience + tolerance
  if (forward) return bears || holdsBack === 'always' ? next : 'F'
  return weight && !bears ? 'W' : next
}

function perform({ held }: Pipeline, rank: Rank, kind: 'F' | 'I' | 'W'): void {
  const microbatch = rank.done[kind]++
  const start = kind === 'W' ? rank.looks : Math.max(rank.looks, rank.arrives[kind][microbatch])
  if (rank.row.length === 0) rank.begin = start
  else rank.idle += start - rank.free
  rank.row.push({ kind, stage: rank.index, microbatch })
  rank.held += kind === 'F' ? held.I : kind === 'I' ? held.W - held.I : -held.W
  rank.free = start + rank.cost[kind]
  rank.looks = rank.free
}

/** Lets the rank that waits for it know when a result will be there. */
function tell(ranks: readonly Rank[], { index, done, free, cost }: Rank, kind: 'F' | 'I', now: number): void {
  const turns = kind === 'F' && index === ranks.length - 1
  const to = ranks[turns ? index : kind === 'F' ? index + 1 : index - 1]
  if (!to) return
  to.arrives[turns ? 'I' : kind][done[kind] - 1] = turns ? free : free + cost.C
  if (to.looks > to.free) to.looks = Math.max(to.free, now)
}
