/** Memory over time: what a stream's steps leave live, at the moments at which a rank came to them. */
import { type Kind, kinds, liveAtStart, liveBytes, type Program, type Stream } from '../ir/index.js'
import { lanes, type SpanColumns } from './columns.js'
import type { Round } from './round.js'
import { streamOf } from './span.js'

/** Bytes of each kind that are live from a moment on. */
export interface MemoryPoint {
  readonly time: number
  readonly bytes: Readonly<Record<Kind, number>>
}

/** Live bytes over time, as columns: `bytes[kind][i]` holds from `time[i]` on. */
export interface MemoryTrack {
  readonly time: Float64Array<ArrayBuffer>
  readonly bytes: Readonly<Record<Kind, Float64Array<ArrayBuffer>>>
}

/** What a rank worked on, one after the other. */
interface Worked {
  readonly step: ArrayLike<number>
  readonly start: ArrayLike<number>
  readonly end: ArrayLike<number>
}

/** Live device memory over the time of a step, for the ranks of a pipeline coordinate. */
export function memoryTrack({ streams }: Program, pp: number, columns: SpanColumns): MemoryTrack {
  const network = lanes.indexOf('network')
  const work = (_: number, i: number) => columns.lane[i] !== network
  const { step, start, end } = columns
  return trackOf(streams[pp], { step: step.filter(work), start: start.filter(work), end: end.filter(work) })
}

export function memoryOf(program: Program, { rank, spans }: Round): MemoryPoint[] {
  const worked = spans.filter(({ lane }) => lane !== 'network')
  const columns = {
    step: worked.map(({ step }) => step),
    start: worked.map(({ start }) => start),
    end: worked.map(({ end }) => end),
  }
  const { time, bytes } = trackOf(streamOf(program, rank), columns)
  const at = (i: number) => Object.fromEntries(kinds.map(kind => [kind, bytes[kind][i]])) as MemoryPoint['bytes'] // all of them
  return Array.from(time, (time, i) => ({ time, bytes: at(i) }))
}

/** A frame lives from the start of what follows its alloc to the end of what precedes its free. */
function trackOf(stream: Stream, { step: worked, start, end }: Worked): MemoryTrack {
  const times: number[] = []
  /** The step after which each point is; -1: before the first. */
  const after: number[] = []
  const add = (time: number, step: number) => {
    if (times.at(-1) === time) after[after.length - 1] = step
    else {
      times.push(time)
      after.push(step)
    }
  }
  if (worked.length > 0) add(start[0], -1)
  let next = 0
  for (const [at, { kind }] of stream.steps.entries()) {
    if (worked.length === 0 || (kind !== 'alloc' && kind !== 'free')) continue
    while (next < worked.length && worked[next] < at) next++
    const last = end[Math.max(0, next - 1)]
    const time = kind === 'free' ? last : (start[next] ?? last)
    add(Math.max(time, times[times.length - 1]), at)
  }
  const [live, before] = [liveBytes(stream), liveAtStart(stream)]
  const column = (kind: Kind) => Float64Array.from(after, at => (at < 0 ? before[kind] : live[kind][at]))
  return {
    time: Float64Array.from(times),
    bytes: Object.fromEntries(kinds.map(kind => [kind, column(kind)])) as Record<Kind, Float64Array<ArrayBuffer>>, // all of them
  }
}
