/** The spans of one rank in one training step, and what follows from their order: memory over time, and who sent to whom. */
import { coordinatesOf, type Rank, rankAt } from '../base/index.js'
import { type Kind, kinds, type Program } from '../ir/index.js'
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

/** Bytes of each kind that are live from a moment on. */
export interface MemoryPoint {
  readonly time: number
  readonly bytes: Readonly<Record<Kind, number>>
}

/** A frame lives from the start of what follows its alloc to the end of what precedes its free. */
export function memoryOf(program: Program, { rank, spans }: Round): MemoryPoint[] {
  const stream = streamOf(program, rank)
  const worked = spans.filter(({ lane }) => lane !== 'network')
  if (!stream || worked.length === 0) return []
  const live = Object.fromEntries(kinds.map(kind => [kind, 0])) as Record<Kind, number> // all of them
  for (const frame of stream.resident) live[stream.frames[frame].kind] += stream.frames[frame].bytes
  const points: MemoryPoint[] = [{ time: worked[0].start, bytes: { ...live } }]
  let next = 0
  for (const [at, step] of stream.steps.entries()) {
    if (step.kind !== 'alloc' && step.kind !== 'free') continue
    while (next < worked.length && worked[next].step < at) next++
    const last = worked[Math.max(0, next - 1)].end
    const time = step.kind === 'free' ? last : (worked[next]?.start ?? last)
    const { kind, bytes } = stream.frames[step.frame]
    live[kind] += step.kind === 'alloc' ? bytes : -bytes
    points.push({ time: Math.max(time, points[points.length - 1].time), bytes: { ...live } })
  }
  return points.filter(({ time }, i) => points[i + 1]?.time !== time)
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
    if (wait === undefined) return undefined
    let [from, to] = [0, worked.length]
    while (from < to) {
      const middle = (from + to) >> 1
      if (worked[middle].step <= wait) from = middle + 1
      else to = middle
    }
    return worked[from]
  }
}
