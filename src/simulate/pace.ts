/** How fast ranks are: slow ones by a factor, and luck that changes from call to call. */
import { normal, type Rank } from '../base/index.js'
import type { Alike } from './alike.js'

export interface Jitter {
  /** Standard deviation of the time of a call, as a share of it. */
  readonly share: number
  readonly seed: number
}

/** Luck this bad is cut off: a call does not run backwards in time. */
const leastPace = 0.1

export type PaceOf = (pp: number, call: number) => Float64Array

export function paceOf(streams: number, alike: Alike, slow: ReadonlyMap<Rank, number>, jitter?: Jitter): PaceOf {
  const steady = steadyPaces(streams, alike, slow)
  if (!jitter) return pp => steady[pp]
  const luck = normal({ seed: jitter.seed, name: 'jitter' })
  const ranks = alike.classes * streams
  // One for each stream: a stream may be woken in the middle of another's call.
  const paces = steady.map(() => new Float64Array(alike.classes))
  return (pp, call) => {
    const pace = paces[pp]
    for (let k = 0; k < pace.length; k++) {
      const draw = luck(call * ranks + pp * alike.classes + k)
      pace[k] = steady[pp][k] * Math.max(leastPace, 1 + jitter.share * draw)
    }
    return pace
  }
}

function steadyPaces(streams: number, { classes, classOf, placeOf }: Alike, slow: ReadonlyMap<Rank, number>) {
  const paces = Array.from({ length: streams }, () => new Float64Array(classes).fill(1))
  for (const [rank, factor] of slow) {
    const { pp, column } = placeOf(rank)
    paces[pp][classOf[column]] = factor
  }
  return paces
}
