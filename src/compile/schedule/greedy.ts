/**
 * Runs a pipeline on paper while its order is still being decided: whichever rank is free next looks at what has
 * arrived for it and picks a forward, an input gradient, a weight gradient, or to wait. A habit says how it picks.
 *
 * A weight gradient is wanted by nobody, so it belongs into the time between what others want. Where it does not fit
 * there exactly, a rank must either idle or keep others waiting; its patience is the idle time it would rather bear.
 */
import type { TaskCost } from './run.js'
import type { Held } from './timing.js'

export interface Pipeline {
  readonly ranks: number
  readonly microbatches: number
  /** One for each rank. */
  readonly costs: readonly TaskCost[]
  /** The most that may be held on a rank. */
  readonly limit: number
  readonly held: Held
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

type Kind = 'F' | 'I' | 'W'

/** Tasks of a kind are done in the order of microbatches, so their kinds say all. */
export type Order = readonly Kind[]

export interface Outcome {
  /** One for each rank. */
  readonly orders: readonly Order[]
  readonly makespan: number
  /** Of the rank for which it is longest: the time from its first task to its last, and the time it idles in between. */
  readonly span: number
  readonly idle: number
}

interface Rank {
  readonly index: number
  readonly cost: TaskCost
  readonly mostAhead: number
  readonly order: Kind[]
  readonly done: Record<Kind, number>
  /** When what the n-th task needs is here; infinite while nobody knows. */
  readonly arrives: { readonly F: Float64Array; readonly I: Float64Array }
  held: number
  begin: number
  free: number
  idle: number
}

/** The outcome, or nothing as soon as `hopeless` says so of a rank that began then and has idled so long. */
export function runGreedy(
  pipeline: Pipeline,
  habit: Habit,
  hopeless: (rank: number, begin: number, idle: number) => boolean,
): Outcome | undefined {
  const ranks = Array.from({ length: pipeline.ranks }, (_, index) => newRank(pipeline, habit, index))
  /** When each rank looks again at what to do. */
  const looks = new Float64Array(ranks.length)
  let mostIdle = 0
  for (let left = 3 * pipeline.ranks * pipeline.microbatches; left > 0; ) {
    const rank = ranks[earliest(looks, pipeline.tolerance)]
    const now = looks[rank.index]
    const choice = choose(pipeline, habit, rank, now, habit.patience === 'fair' ? mostIdle : habit.patience)
    if (typeof choice === 'number') {
      looks[rank.index] = choice
      continue
    }
    perform(pipeline, rank, choice, now)
    looks[rank.index] = rank.free
    const told = tell(ranks, rank, choice)
    if (told && looks[told.index] > told.free) looks[told.index] = Math.max(told.free, now)
    if (hopeless(rank.index, rank.begin, rank.idle)) return undefined
    mostIdle = Math.max(mostIdle, rank.idle)
    left--
  }
  const most = (of: (rank: Rank) => number) => Math.max(...ranks.map(of))
  return {
    orders: ranks.map(({ order }) => order),
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
    order: [],
    done: { F: 0, I: 0, W: 0 },
    arrives: { F: index === 0 ? unknown().fill(0) : unknown(), I: unknown() },
    held: 0,
    begin: 0,
    free: 0,
    idle: 0,
  }
}

function earliest(looks: Float64Array, tolerance: number): number {
  let first = 0
  for (let rank = 1; rank < looks.length; rank++) if (looks[rank] < looks[first] - tolerance) first = rank
  return first
}

/** What a rank does now, or when it looks again. */
function choose(
  { microbatches, limit, held, tolerance }: Pipeline,
  { first, holdsBack }: Habit,
  { cost, done, arrives, mostAhead, held: holds, idle }: Rank,
  now: number,
  patience: number,
): Kind | number {
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

function perform({ held }: Pipeline, rank: Rank, kind: Kind, now: number): void {
  const microbatch = rank.done[kind]++
  const start = kind === 'W' ? now : Math.max(now, rank.arrives[kind][microbatch])
  if (rank.order.length === 0) rank.begin = start
  else rank.idle += start - rank.free
  rank.order.push(kind)
  rank.held += kind === 'F' ? held.I : kind === 'I' ? held.W - held.I : -held.W
  rank.free = start + rank.cost[kind]
}

/** Lets the rank that needs what was just done know when it will be there. */
function tell(ranks: readonly Rank[], from: Rank, kind: Kind): Rank | undefined {
  if (kind === 'W') return undefined
  const turns = kind === 'F' && from.index === ranks.length - 1
  const to: Rank | undefined = ranks[turns ? from.index : kind === 'F' ? from.index + 1 : from.index - 1]
  if (to) to.arrives[turns ? 'I' : kind][from.done[kind] - 1] = turns ? from.free : from.free + from.cost.C
  return to
}
