/**
 * Runs a pipeline on paper while its order is still being decided: whichever rank is free next looks at what has
 * arrived for it and picks a forward, an input gradient, a weight gradient, or to wait. A policy says how it picks.
 *
 * A weight gradient is wanted by nobody, so it belongs into the time between what others want. Where it does not fit
 * there exactly, a rank must either idle or keep others waiting; its patience is the idle time it would rather bear.
 *
 * A run also records what it asked of its policy: another policy that answers all of that alike has the same outcome.
 */
import { Clocks } from './clocks.js'
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

export interface Policy {
  /** For each rank behind it, how many more forwards than input gradients a rank may have done. */
  readonly lead: number
  /** When both have arrived: the input gradient, the forward, or the forward even if a weight gradient must make room. */
  readonly first: 'I' | 'F' | 'WF'
  /** Whether a forward is held back for an input gradient that would arrive while it runs. */
  readonly holdsBack: 'never' | 'patiently' | 'always'
  /** Idle time a rank bears in all; `fair`: as much as any rank has borne so far. */
  readonly patience: number | 'fair'
}

/** What a run asked of its policy. */
export interface Questions {
  /** A forward was kept from running ahead. */
  lead: boolean
  /** An input gradient and a forward had both arrived. */
  first: boolean
  /** A forward lacked room that a weight gradient could make. */
  room: boolean
  /** A forward could be held back; and one was to be although that took more patience than there was. */
  holdBack: boolean
  impatient: boolean
  /** The longest idle time that was borne, and the shortest that was not. */
  borne: number
  notBorne: number
}

export const kinds = ['F', 'I', 'W'] as const
const [F, I, W, wait] = [0, 1, 2, 3] as const
type Kind = typeof F | typeof I | typeof W

/** The kinds of a rank's tasks, as places in `kinds`; tasks of a kind are done in the order of microbatches. */
export type Order = Uint8Array

export interface Outcome {
  /** One for each rank. */
  readonly orders: readonly Order[]
  readonly makespan: number
  /** The longest time of any rank from its first task to its last, and the time that rank idles in between. */
  readonly span: number
  readonly idle: number
}

interface Rank {
  readonly index: number
  /** The cost of each kind, and how many are done. */
  readonly cost: readonly number[]
  readonly done: Int32Array
  readonly transfer: number
  readonly mostAhead: number
  readonly order: Order
  length: number
  /** When what the n-th forward, or the n-th input gradient, needs is here; infinite while nobody knows. */
  readonly arrives: readonly [Float64Array, Float64Array]
  held: number
  begin: number
  free: number
  idle: number
  /** When it looks again at what to do, where it has chosen to wait. */
  next: number
}

/** The outcome, or nothing as soon as `hopeless` says so of a rank that began then and has idled so long. */
export function runGreedy(
  pipeline: Pipeline,
  policy: Policy,
  hopeless: (rank: number, begin: number, idle: number) => boolean,
): { readonly outcome: Outcome | undefined; readonly questions: Questions } {
  const ranks = Array.from({ length: pipeline.ranks }, (_, index) => newRank(pipeline, policy, index))
  const clocks = new Clocks(ranks.length, pipeline.tolerance)
  const questions = newQuestions()
  let mostIdle = 0
  for (let left = 3 * pipeline.ranks * pipeline.microbatches; left > 0; ) {
    const rank = ranks[clocks.earliest()]
    const now = clocks.at(rank.index)
    const patience = policy.patience === 'fair' ? mostIdle : policy.patience
    const choice = choose(pipeline, policy, { rank, now, patience }, questions)
    if (choice === wait) {
      clocks.set(rank.index, rank.next)
      continue
    }
    perform(pipeline, rank, choice, now)
    clocks.set(rank.index, rank.free)
    const told = tell(ranks, rank, choice)
    if (told && clocks.at(told.index) > told.free) clocks.set(told.index, Math.max(told.free, now))
    if (hopeless(rank.index, rank.begin, rank.idle)) return { outcome: undefined, questions }
    mostIdle = Math.max(mostIdle, rank.idle)
    left--
  }
  const most = (of: (rank: Rank) => number) => Math.max(...ranks.map(of))
  const outcome = {
    orders: ranks.map(({ order }) => order),
    makespan: most(({ free }) => free),
    span: most(({ free, begin }) => free - begin),
    idle: mostIdle,
  }
  return { outcome, questions }
}

const newQuestions = (): Questions => ({
  lead: false,
  first: false,
  room: false,
  holdBack: false,
  impatient: false,
  borne: Number.NEGATIVE_INFINITY,
  notBorne: Number.POSITIVE_INFINITY,
})

function newRank({ ranks, microbatches, costs }: Pipeline, { lead }: Policy, index: number): Rank {
  const behind = ranks - 1 - index
  const unknown = () => new Float64Array(microbatches).fill(Number.POSITIVE_INFINITY)
  const cost = costs[index]
  return {
    index,
    cost: kinds.map(kind => cost[kind]),
    done: new Int32Array(3),
    transfer: cost.C,
    mostAhead: behind === 0 ? 1 : 1 + Math.ceil(lead * behind - 1e-9),
    order: new Uint8Array(3 * microbatches),
    length: 0,
    arrives: [index === 0 ? unknown().fill(0) : unknown(), unknown()],
    held: 0,
    begin: 0,
    free: 0,
    idle: 0,
    next: 0,
  }
}

interface Moment {
  readonly rank: Rank
  readonly now: number
  readonly patience: number
}

function choose(
  { microbatches, limit, held, tolerance }: Pipeline,
  { first, holdsBack }: Policy,
  { rank, now, patience }: Moment,
  questions: Questions,
): Kind | typeof wait {
  const { cost, done, arrives, idle } = rank
  const isLed = done[F] - done[I] < rank.mostAhead
  if (done[F] < microbatches && !isLed) questions.lead = true
  const wanted = done[F] < microbatches && isLed ? arrives[F][done[F]] : Number.POSITIVE_INFINITY
  const fits = rank.held + held.I <= limit
  const forwardAt = fits ? wanted : Number.POSITIVE_INFINITY
  const inputAt = done[I] < done[F] ? arrives[I][done[I]] : Number.POSITIVE_INFINITY
  const [forward, input, weight] = [forwardAt <= now + tolerance, inputAt <= now + tolerance, done[W] < done[I]]

  if (!fits && weight && wanted <= now + tolerance) {
    questions.room = true
    if (first === 'WF') return W
  }
  if (input) {
    if (forward) questions.first = true
    return forward && first !== 'I' ? F : I
  }
  if (forward) {
    if (inputAt >= now + cost[F] - tolerance) return F
    questions.holdBack = true
    if (holdsBack === 'never') return F
  }
  const next = forward ? inputAt : Math.min(forwardAt, inputAt)
  if (weight && now + cost[W] <= next + tolerance) return W
  rank.next = next
  if (!forward && !weight) return wait
  const bears = isBorne(idle + next - now, patience + tolerance, questions)
  if (!forward) return bears ? wait : W
  if (!bears) questions.impatient = true
  return bears || holdsBack === 'always' ? wait : F
}

function isBorne(idle: number, most: number, questions: Questions): boolean {
  const bears = idle <= most
  if (bears) questions.borne = Math.max(questions.borne, idle)
  else questions.notBorne = Math.min(questions.notBorne, idle)
  return bears
}

function perform({ held }: Pipeline, rank: Rank, kind: Kind, now: number): void {
  const microbatch = rank.done[kind]++
  const start = kind === W ? now : Math.max(now, rank.arrives[kind][microbatch])
  if (rank.length === 0) rank.begin = start
  else rank.idle += start - rank.free
  rank.order[rank.length++] = kind
  rank.held += kind === F ? held.I : kind === I ? held.W - held.I : -held.W
  rank.free = start + rank.cost[kind]
}

/** Lets the rank that needs what was just done know when it will be there. */
function tell(ranks: readonly Rank[], from: Rank, kind: Kind): Rank | undefined {
  if (kind === W) return undefined
  const turns = kind === F && from.index === ranks.length - 1
  const to: Rank | undefined = ranks[turns ? from.index : kind === F ? from.index + 1 : from.index - 1]
  if (to) to.arrives[turns ? I : kind][from.done[kind] - 1] = turns ? from.free : from.free + from.transfer
  return to
}

/** Whether another policy would have answered everything a run asked as its own did, `same` being the tolerance of times. */
export function answersAlike(policy: Policy, other: Policy, asked: Questions, same: number): boolean {
  const alike = <K extends 'first' | 'holdsBack'>(key: K, value: Policy[K]) =>
    (policy[key] === value) === (other[key] === value)
  return (
    (policy.lead === other.lead || (policy.lead < other.lead && !asked.lead)) &&
    (!asked.first || alike('first', 'I')) &&
    (!asked.room || alike('first', 'WF')) &&
    (!asked.holdBack || alike('holdsBack', 'never')) &&
    (!asked.impatient || alike('holdsBack', 'always')) &&
    (policy.patience === other.patience || bearsAlike(other.patience, asked, same))
  )
}

/** How much anybody had borne at a moment is not known afterwards: to that only silence is an answer. */
const bearsAlike = (patience: Policy['patience'], { borne, notBorne }: Questions, same: number): boolean =>
  patience === 'fair'
    ? borne === Number.NEGATIVE_INFINITY && notBorne === Number.POSITIVE_INFINITY
    : borne <= patience + same && patience + same < notBorne
