/** The spans of one rank in one training step, and what follows from their order: messages, collectives in flight. */
import { coordinatesOf, type Rank, rankAt } from '../base/index.js'
import type { Program } from '../ir/index.js'
import { type Span, streamOf } from './span.js'

export interface Round {
  readonly rank: Rank
  /** Which of several training steps, from 0. */
  readonly index: number
  /** Sorted by start. */
  readonly spans: readonly Span[]
}

/** A rank walks its stream once a training step: where the count of steps falls, the next one begins. */
export function roundsOf(spans: readonly Span[]): Round[] {
  const byRank = new Map<Rank, Span[]>()
  for (const span of spans) {
    const own = byRank.get(span.rank)
    if (own) own.push(span)
    else byRank.set(span.rank, [span])
  }
  return [...byRank].flatMap(([rank, own]) =>
    cut(own.sort((a, b) => a.start - b.start)).map((part, index) => ({ rank, index, spans: part })),
  )
}

function cut(spans: readonly Span[]): Span[][] {
  const parts: Span[][] = [[]]
  let before = -1
  for (const span of spans) {
    if (span.lane !== 'network') {
      if (span.step < before) parts.push([])
      before = span.step
    }
    parts[parts.length - 1].push(span)
  }
  return parts
}

/** A message: the span that sent it, and the first work after it was waited for. */
export interface Sent {
  readonly tag: string
  readonly from: Span
  readonly to: Span
}

export function messagesOf(program: Program, rounds: readonly Round[]): Sent[] {
  const receivers = new Map(rounds.map(round => [`${round.rank} ${round.index}`, receiverOf(program, round)]))
  return rounds.flatMap(({ rank, index, spans }) => {
    const steps = streamOf(program, rank)?.steps ?? []
    return spans.flatMap(from => {
      const step = steps[from.step]
      if (step?.kind !== 'send') return []
      const peer = rankAt(program.mesh, { ...coordinatesOf(program.mesh, rank), pp: step.peer })
      const to = receivers.get(`${peer} ${index}`)?.(step.tag)
      return to ? [{ tag: step.tag, from, to }] : []
    })
  })
}

/** For a tag, the first work of the round after the wait for it. */
function receiverOf(program: Program, { rank, spans }: Round): (tag: string) => Span | undefined {
  const waits = new Map<string, number>()
  for (const [at, step] of (streamOf(program, rank)?.steps ?? []).entries())
    if (step.kind === 'wait') waits.set(step.tag, at)
  const worked = spans.filter(({ lane }) => lane === 'compute')
  return tag => {
    const wait = waits.get(tag)
    return wait === undefined ? undefined : worked[firstWhere(worked.length, i => worked[i].step > wait)]
  }
}

/** A call that only starts, from its start to the end of the wait for it: what its rank computes meanwhile hides it. */
export interface FlightSpan {
  readonly tag: string
  readonly from: Span
  readonly start: number
  readonly end: number
  /** Seconds of that in which the rank computes. */
  readonly hidden: number
}

export function flightsOf(program: Program, { rank, spans }: Round): FlightSpan[] {
  const steps = streamOf(program, rank)?.steps ?? []
  const flights = new Map<string, { from: Span; end: number }>()
  // An engine writes the work of a wait down as the call's own; a simulation knows the wait by its step.
  for (const span of spans) {
    const step = steps[span.step]
    const tag = step?.kind === 'call' || step?.kind === 'wait' ? step.tag : undefined
    const flight = tag === undefined ? undefined : flights.get(tag)
    if (flight) flight.end = Math.max(flight.end, span.end)
    else if (tag !== undefined && step?.kind === 'call') flights.set(tag, { from: span, end: span.end })
  }
  const computed = computedBy(spans)
  return [...flights].map(([tag, { from, end }]) => {
    const { start } = from
    return { tag, from, start, end, hidden: computed(end) - computed(start) }
  })
}

/** For a moment, the seconds a rank has computed until then. A rank computes one thing at a time. */
function computedBy(spans: readonly Span[]): (time: number) => number {
  const computing = spans.filter(({ lane }) => lane === 'compute')
  const before = [0]
  for (const { start, end } of computing) before.push(before[before.length - 1] + end - start)
  return time => {
    const at = firstWhere(computing.length, i => computing[i].end > time)
    return before[at] + Math.max(0, time - (computing[at]?.start ?? time))
  }
}

/** The first of `count` indices for which it is true; it stays true from there on. */
function firstWhere(count: number, holds: (index: number) => boolean): number {
  let [from, to] = [0, count]
  while (from < to) {
    const middle = (from + to) >> 1
    if (holds(middle)) to = middle
    else from = middle + 1
  }
  return from
}

/** Of all the time that collectives were in flight, the share in which their rank computed. Undefined: none were. */
export function overlapOf(program: Program, spans: readonly Span[]): number | undefined {
  const flights = roundsOf(spans).flatMap(round => flightsOf(program, round))
  const total = (of: (flight: FlightSpan) => number) => flights.reduce((sum, flight) => sum + of(flight), 0)
  const flown = total(({ start, end }) => end - start)
  return flown > 0 ? total(({ hidden }) => hidden) / flown : undefined
}
