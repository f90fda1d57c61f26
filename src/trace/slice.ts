/**
 * Spans as slices of a track: in whole nanoseconds, none of them empty, none of a track over another. Readers drop slices
 * that overlap by a rounding, and bind no arrow to one that takes no time.
 */
import { lanes } from './columns.js'
import type { Span } from './span.js'

export interface Slice {
  readonly span: Span
  /** Microseconds, from the first span on. */
  readonly start: number
  readonly end: number
  /** The name of its track, and the track's number among those of the rank. */
  readonly track: string
  readonly thread: number
}

/** Tracks that a rank has at most. */
export const threadsPerRank = 64

/** Links of different kinds are used at once: each is a track. */
const trackOf = ({ lane, link }: Span): string => (link === undefined ? lane : `${lane}: ${link}`)

const nanoseconds = (seconds: number): number => Math.round(seconds * 1e9)

export function slicesOf(spans: readonly Span[], origin: number): Slice[] {
  const tracks = [...new Set([...lanes, ...spans.map(trackOf)])]
  /** Of each rank and track, when each of its rows is free again. */
  const free = new Map<string, number[]>()
  return spans
    .toSorted((a, b) => a.start - b.start || a.end - b.end)
    .map(span => {
      const track = trackOf(span)
      const key = `${span.rank} ${track}`
      const rows = free.get(key) ?? []
      free.set(key, rows)
      const from = nanoseconds(span.start - origin)
      const row = rowFor(rows, from)
      const start = Math.max(from, rows[row] ?? 0)
      const end = Math.max(nanoseconds(span.end - origin), start + 1)
      rows[row] = end
      return {
        ...{ span, start: start / 1e3, end: end / 1e3 },
        track: row === 0 ? track : `${track} (${row + 1})`,
        thread: tracks.indexOf(track) + row * tracks.length,
      }
    })
}

/** What is later than it is by no more than this was moved by rounding, or by neighbours that took no time. */
const rounding = 1000
const mostRows = 4

/** The first row that is free, or nearly. */
function rowFor(rows: readonly number[], from: number): number {
  const found = rows.findIndex(until => until <= from + rounding)
  return found >= 0 ? found : Math.min(rows.length, mostRows - 1)
}
