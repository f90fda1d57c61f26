/** A collective or a message under way: when it runs, for each class of ranks it concerns. */

import type { Part } from '../metrics/index.js'
import type { Collectives } from './alike.js'

export interface Flight {
  /** When the last member had come, when it began, when it is done. */
  readonly ready: Float64Array
  readonly start: Float64Array
  readonly end: Float64Array
  /** What waiting for the bytes counts as, and what waiting for those who are late. */
  part: Part
  late: Part
  /** Whether its call only starts it: messages pass it, as they travel on channels of their own. */
  readonly tagged: boolean
  /** What it is called by those who wait for members from other streams; empty once the times above are known. */
  awaits: string
}

export const flightOf = (classes: number, tagged: boolean): Flight => ({
  tagged,
  ready: new Float64Array(classes),
  start: new Float64Array(classes),
  end: new Float64Array(classes),
  ...{ part: 'other', late: 'other', awaits: '' },
})

/** Who comes to a collective from one stream: when each class is there, when its lane is free, and who else is on the link. */
export interface Party {
  readonly flight: Flight
  readonly lane: Float64Array
  readonly other: Float64Array
}

/** Everybody has come: it begins when the last is there and all lanes are free, and holds the lanes until it is done. */
export function settle(parties: readonly Party[], { of, count }: Collectives, seconds: number): void {
  const ready = new Float64Array(count)
  const free = new Float64Array(count)
  for (const { flight, lane, other } of parties)
    for (let k = 0; k < lane.length; k++) {
      const collective = of[k]
      if (flight.ready[k] > ready[collective]) ready[collective] = flight.ready[k]
      const late = Math.max(lane[k], other[k])
      if (late > free[collective]) free[collective] = late
    }
  for (const { flight, lane } of parties) {
    flight.awaits = ''
    for (let k = 0; k < lane.length; k++) {
      const collective = of[k]
      flight.ready[k] = ready[collective]
      flight.start[k] = Math.max(ready[collective], free[collective])
      flight.end[k] = flight.start[k] + seconds
      lane[k] = flight.end[k]
    }
  }
}

/** How long work takes that is slower while one of these is under way. They are in the order they started. */
export function besides(
  flying: readonly Flight[],
  k: number,
  from: number,
  { seconds, slower }: { readonly seconds: number; readonly slower: number },
): number {
  let now = from
  let left = seconds
  for (const { start, end, awaits } of flying) {
    // Of a collective with other streams nobody knows yet when it runs.
    if (awaits !== '' || end[k] <= now) continue
    const alone = Math.min(left, Math.max(0, start[k] - now))
    now += alone
    left -= alone
    const shared = Math.min(left * slower, end[k] - now)
    now += shared
    left -= shared / slower
  }
  return now + left - from
}
