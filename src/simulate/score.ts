/**
 * A segment as the simulator plays it: priced once, however often it is called. Runs of instructions that compute
 * become one act, since nothing can happen between them; what is left are the moments at which ranks meet.
 */
import {
  axisOfCollective,
  type Collective,
  type Group,
  madeBy,
  type Program,
  type Segment,
  traitsOf,
} from '../ir/index.js'
import type { Part } from '../metrics/index.js'
import { partOfPhase } from './parts.js'
import type { Prices } from './prices.js'

export type Act =
  | {
      readonly kind: 'work'
      readonly part: Part
      readonly lane: 'compute' | 'host'
      readonly seconds: number
      /** Instructions of the run, and when each is done, from the start of the act. */
      readonly instrs: readonly number[]
      readonly ends: readonly number[]
    }
  | {
      readonly kind: 'start'
      readonly instr: number
      /** Which of the segment's collectives. */
      readonly slot: number
      readonly group: Group
      readonly part: Part
      readonly seconds: number
      readonly link: number
    }
  | { readonly kind: 'wait'; readonly slot: number }

export type Work = Extract<Act, { kind: 'work' }>
export type Start = Extract<Act, { kind: 'start' }>

export interface Score {
  readonly acts: readonly Act[]
  readonly slots: number
  /** It meets nobody from other pipeline coordinates, and leaves nothing under way. */
  readonly alone: boolean
  /** The links that its collectives go over. */
  readonly links: readonly number[]
  /** FLOPs a rank executes, and those among them that make forward values again. */
  readonly flops: number
  readonly repeated: number
  /** Those of attention among the repeated. */
  readonly repeatedAttention: number
}

/** Scores that programs share where they share segments and prices. Whoever simulates many of them keeps these. */
export type ScoreBook = WeakMap<Prices, WeakMap<Segment, Score>>

export function scoresOf(program: Program, prices: Prices, book: ScoreBook): ReadonlyMap<string, Score> {
  const scores = book.get(prices) ?? new WeakMap<Segment, Score>()
  book.set(prices, scores)
  const forwards = forwardsOf(program)
  return new Map(
    Object.values(program.segments).map(segment => {
      const score = scores.get(segment) ?? scoreOf(segment, prices, forwards.get(segment.name))
      scores.set(segment, score)
      return [segment.name, score]
    }),
  )
}

/** What the forward of each backward segment's block makes: made there again, it is recomputation. */
function forwardsOf({ blocks, segments, streams }: Program): Map<string, ReadonlySet<string>> {
  const kinds = new Map<string, string>()
  for (const { steps } of streams)
    for (const step of steps)
      if (step.kind === 'call' && step.block >= 0 && !kinds.has(step.segment))
        kinds.set(step.segment, blocks[step.block].kind)
  const made = new Map<string, Set<string>>()
  for (const [name, kind] of kinds)
    if (segments[name].phase === 'F') made.set(kind, new Set(segments[name].instrs.map(madeBy)))
  return new Map(
    [...kinds].flatMap(([name, kind]) =>
      segments[name].phase === 'F' ? [] : [[name, made.get(kind) ?? new Set<string>()] as const],
    ),
  )
}

function scoreOf(segment: Segment, prices: Prices, forward: ReadonlySet<string> = new Set()): Score {
  const acts: Act[] = []
  const slots = new Map<string, number>()
  let [flops, repeated, repeatedAttention] = [0, 0, 0]
  segment.instrs.forEach((instr, at) => {
    const { starts, finishes, writes, lane } = traitsOf(instr)
    if (starts) {
      slots.set(writes[0], slots.size)
      acts.push(startOf(instr as Collective, at, slots.size - 1, segment, prices)) // only collectives start
    } else if (finishes !== undefined) {
      acts.push({ kind: 'wait', slot: slots.get(finishes)! })
    } else {
      const again = forward.has(madeBy(instr))
      const work = prices.flops(instr, segment)
      flops += work
      if (again) repeated += work
      if (again && instr.kind === 'attention') repeatedAttention += work
      const part = again ? 'recompute' : partOfPhase[segment.phase]
      extend(acts, { part, lane: lane === 'host' ? 'host' : 'compute' }, at, prices.compute(instr, segment))
    }
  })
  return {
    acts: stretched(acts, prices.contention.network),
    ...{ slots: slots.size, alone: acts.every(staysWithin) && isOver(acts) },
    ...{ flops, repeated, repeatedAttention },
    links: [...new Set(acts.flatMap(act => (act.kind === 'start' ? [act.link] : [])))],
  }
}

const staysWithin = (act: Act): boolean =>
  act.kind !== 'start' || (act.group.stages === undefined && !act.group.axes.includes('pp'))

const isOver = (acts: readonly Act[]): boolean =>
  acts.filter(({ kind }) => kind === 'start').length === acts.filter(({ kind }) => kind === 'wait').length

function startOf(instr: Collective, at: number, slot: number, segment: Segment, prices: Prices): Start {
  const { group } = instr
  return {
    kind: 'start',
    instr: at,
    slot,
    group,
    part: instr.kind === 'move' ? 'offload' : (axisOfCollective(instr) ?? 'other'),
    ...prices.collective(instr, segment),
  }
}

/** Adds an instruction to the run before it, if it is of the same sort. */
function extend(acts: Act[], { part, lane }: Pick<Work, 'part' | 'lane'>, instr: number, seconds: number): void {
  const last = acts.at(-1)
  const run = last?.kind === 'work' && last.part === part && last.lane === lane ? last : undefined
  if (run) acts.pop()
  const end = (run?.seconds ?? 0) + seconds
  acts.push({
    ...{ kind: 'work', part, lane, seconds: end },
    ...{ instrs: [...(run?.instrs ?? []), instr], ends: [...(run?.ends ?? []), end] },
  })
}

/**
 * A collective that has work beside it, from its start to its wait, takes longer by the share the two have in common.
 * What work loses is found as it is played, since ranks need not arrive together.
 */
function stretched(acts: readonly Act[], contention: number): readonly Act[] {
  if (contention === 0) return acts
  return acts.map((act, at) => {
    if (act.kind !== 'start') return act
    const end = acts.findIndex((other, i) => i > at && other.kind === 'wait' && other.slot === act.slot)
    if (end < 0) return act // a call that only starts has nothing beside it; what comes after it is not known here
    const beside = acts.slice(at, end).reduce((sum, other) => sum + (other.kind === 'work' ? other.seconds : 0), 0)
    return { ...act, seconds: act.seconds + contention * Math.min(act.seconds, beside) }
  })
}
