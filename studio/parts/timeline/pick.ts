/** Which span is meant: one of a track's lanes, found by a pointer or walked to by keys. */
import { language } from '../../base/language.js'
import { rowHeight, rowHeights } from './raster.js'
import { text } from './text.js'
import { kinds, spanAt, type TimelineData } from './track.js'
import type { Range, View } from './view.js'

export interface Chosen {
  readonly track: number
  readonly lane: 'compute' | 'network'
  readonly span: number
  /** Of ranks drawn one by one: which. */
  readonly rank?: number
}

export type Rows = 'roles' | 'ranks'

interface Point {
  readonly time: number
  readonly y: number
  readonly height: number
}

export function pickAt(data: TimelineData, rows: Rows, view: View, { time, y, height }: Point): Chosen | undefined {
  if (rows === 'ranks') {
    const rank = Math.floor(view.row + (y / height) * view.rows)
    const track = data.trackOf?.[rank]
    return track === undefined
      ? undefined
      : (laneAt(data, track, 'compute', time, rank) ?? laneAt(data, track, 'network', time, rank))
  }
  const at = y / rowHeight + view.row
  const track = Math.floor(at)
  if (track >= data.tracks.length) return undefined
  return laneAt(data, track, (at - track) * rowHeight < rowHeights.compute ? 'compute' : 'network', time)
}

function laneAt(
  data: TimelineData,
  track: number,
  lane: Chosen['lane'],
  time: number,
  rank?: number,
): Chosen | undefined {
  const span = spanAt(data.tracks[track]![lane].spans, time)
  return span === undefined ? undefined : { track, lane, span, ...(rank !== undefined && { rank }) }
}

export const spanOf = (data: TimelineData, { track, lane, span }: Chosen) => {
  const { spans } = data.tracks[track]![lane]
  const kind = kinds[spans.kind[span]!]!
  const op = data.tracks[track]!.ops[spans.op[span]!] ?? ''
  const [stage, microbatch] = [spans.stage[span]!, spans.microbatch[span]!]
  return { start: spans.start[span]!, end: spans.end[span]!, kind, op, stage, microbatch }
}

/** Of ranks that do the same, the first. */
export const rankOf = (data: TimelineData, { rank, track }: Chosen): number => rank ?? data.tracks[track]!.rank

/** The row it is drawn in. */
export const rowOf = (data: TimelineData, rows: Rows, pick: Chosen): number =>
  rows === 'ranks' ? rankOf(data, pick) : pick.track

/** Where keys begin to walk. */
export const firstSpan = (data: TimelineData, rows: Rows): Chosen =>
  rows === 'ranks' && data.trackOf
    ? { track: data.trackOf[0]!, lane: 'compute', span: 0, rank: 0 }
    : { track: 0, lane: 'compute', span: 0 }

/** The next span of the lane, or the one before; at its ends the same. */
export function along(data: TimelineData, pick: Chosen, by: number): Chosen {
  const { length } = data.tracks[pick.track]![pick.lane].spans.start
  return { ...pick, span: Math.max(0, Math.min(length - 1, pick.span + by)) }
}

/** The lane below or above, at the same time: arithmetic, its bytes, then the next track; of ranks one by one, the next rank. */
export function across(data: TimelineData, rows: Rows, pick: Chosen, by: number): Chosen {
  const middle = (spanOf(data, pick).start + spanOf(data, pick).end) / 2
  if (rows === 'ranks' && data.trackOf) {
    const rank = Math.max(0, Math.min(data.trackOf.length - 1, rankOf(data, pick) + by))
    const track = data.trackOf[rank]!
    const { start } = data.tracks[track]![pick.lane].spans
    return start.length > 0 ? { track, lane: pick.lane, span: nearest(start, middle), rank } : pick
  }
  let at = pick.track * 2 + (pick.lane === 'network' ? 1 : 0)
  for (let tries = 0; tries < 2 * data.tracks.length; tries++) {
    at += by
    if (at < 0 || at >= 2 * data.tracks.length) return pick
    const [track, lane] = [at >> 1, at % 2 === 1 ? 'network' : 'compute'] as const
    const { start } = data.tracks[track]![lane].spans
    if (start.length > 0) return { track, lane, span: nearest(start, middle) }
  }
  return pick
}

function nearest(start: Float64Array, time: number): number {
  let [low, high] = [0, start.length - 1]
  while (low < high) {
    const middle = (low + high + 1) >> 1
    if (start[middle]! <= time) low = middle
    else high = middle - 1
  }
  return low
}

/** `0.3124 s`: as many digits as tell a span's start from its end. */
const showTime = (time: number, digits: number): string => `${Number(time.toFixed(digits))} s`

/** 0.31 s to 0.52 s of 2.4 s. */
export function rangeText({ from, to }: Range, duration: number): string {
  const digits = Math.max(2, Math.min(9, 2 - Math.floor(Math.log10(to - from))))
  return text().seen(showTime(from, digits), showTime(to, digits), showTime(duration, 3))
}

/** rank 16, forward, stage 1, microbatch 2, 0.31 to 0.35 s. */
export function say(data: TimelineData, pick: Chosen): string {
  const words = text()
  const { start, end, kind, op, stage, microbatch } = spanOf(data, pick)
  const { rank, ranks } = data.tracks[pick.track]!
  const digits = Math.min(9, Math.max(2, 2 - Math.floor(Math.log10(end - start))))
  const parts = [
    pick.rank === undefined ? words.rank(rank, ranks) : words.rank(pick.rank, 1),
    words.kinds[kind],
    op,
    stage >= 0 ? words.stage(stage) : '',
    microbatch >= 0 ? words.microbatch(microbatch) : '',
    words.times(showTime(start, digits), showTime(end, digits)),
  ]
  return parts.filter(Boolean).join(language.value === 'zh' ? '，' : ', ')
}
