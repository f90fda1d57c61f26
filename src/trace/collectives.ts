/** What the collectives and messages of a measured step came to, by kind and axis, over all ranks. */
import { type Collective, isCollective, type Program, type Step, type Stream } from '../ir/index.js'
import { carriedBy } from './bandwidth.js'
import { doneBy, type Span, streamOf } from './span.js'

/** Count, bytes and time of one kind of collective, summed over ranks. */
export interface CollectiveSum {
  readonly kind: string
  /** The axis of its process group; several axes are joined by +. */
  readonly axis: string
  readonly count: number
  /** Per collective, the larger of what the rank sends and receives. */
  readonly bytes: number
  /** Seconds from its start to the end of the wait for it. */
  readonly seconds: number
  /** Exposed seconds: the rank did nothing else. */
  readonly exposed: number
}

/** Sums measured or simulated spans by collective: count, bytes and time. */
export function collectivesOf(program: Program, spans: readonly Span[]): CollectiveSum[] {
  const sums = new Map<string, CollectiveSum>()
  for (const { kind, axis, bytes, start, end, exposed } of timesOf(program, spans)) {
    const before = sums.get(`${kind} ${axis}`) ?? { kind, axis, count: 0, bytes: 0, seconds: 0, exposed: 0 }
    sums.set(`${kind} ${axis}`, {
      ...{ kind, axis, count: before.count + 1, bytes: before.bytes + bytes },
      ...{ seconds: before.seconds + end - start, exposed: before.exposed + exposed },
    })
  }
  return [...sums.values()].sort((a, b) => b.exposed - a.exposed)
}

/** One collective, or message, of one rank. */
interface Part extends Pick<CollectiveSum, 'kind' | 'axis' | 'bytes'> {
  /** The same for all its spans. */
  readonly key: string
}

interface PartTimes extends Part {
  readonly start: number
  readonly end: number
  readonly exposed: number
}

function timesOf(program: Program, spans: readonly Span[]): Iterable<PartTimes> {
  const times = new Map<string, PartTimes>()
  const tags = new Map<Stream, ReadonlyMap<string, Step>>()
  const tagged = (stream: Stream, tag: string): Step | undefined => {
    if (!tags.has(stream)) tags.set(stream, messagesIn(stream))
    return tags.get(stream)?.get(tag)
  }
  for (const span of spans) {
    const part = span.lane === 'network' ? partOf(program, span, tagged) : undefined
    if (!part) continue
    const { start, end, rank } = span
    const key = `${rank} ${part.key}`
    const { exposed = 0, ...known } = times.get(key) ?? { start, end }
    times.set(key, {
      ...{ ...part, start: Math.min(known.start, start), end: Math.max(known.end, end) },
      exposed: exposed + end - start,
    })
  }
  return times.values()
}

const messagesIn = ({ steps }: Stream): ReadonlyMap<string, Step> =>
  new Map(steps.flatMap(step => (step.kind === 'send' || step.kind === 'recv' ? [[step.tag, step]] : [])))

type Tagged = (stream: Stream, tag: string) => Step | undefined

function partOf(program: Program, span: Span, tagged: Tagged): Part | undefined {
  const { step, instr } = doneBy(program, span)
  const stream = streamOf(program, span.rank)
  const message = step.kind === 'wait' ? tagged(stream, step.tag) : step
  if (message?.kind === 'send' || message?.kind === 'recv')
    return {
      ...{ key: `${message.kind} ${message.tag}`, kind: message.kind, axis: 'pp' },
      bytes: stream.frames[message.frame].bytes,
    }
  if (step.kind !== 'call' || !instr) return undefined
  const segment = program.segments[step.segment]
  const all = segment.instrs.filter(isCollective)
  const collective: Collective | undefined = all.find(
    other => other === instr || (instr.kind === 'wait' && other.outs[0] === instr.on),
  )
  return (
    collective && {
      ...{ key: `${span.step} ${segment.instrs.indexOf(collective)}`, kind: collective.kind },
      axis: collective.group.axes.join('+'),
      bytes: carriedBy(collective, segment, program),
    }
  )
}
