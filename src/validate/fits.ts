/** Runs that were published, so they fit: how many does the memory model say do not? */
import { fitOf, footprint, roomOf, totalBytes } from '../estimate/index.js'
import type { Timed } from './times.js'

export interface FitsOfRuns {
  /** Runs whose recomputation is published. */
  readonly runs: number
  /** Of these, runs that are said not to fit. */
  readonly unfit: number
  /** Runs left out: what they keep of a forward pass is not published. */
  readonly unknown: number
}

export function fitsOfRuns(timed: readonly Timed[]): FitsOfRuns {
  const known = timed.filter(({ row: { recompute } }) => recompute !== '' && recompute !== 'not said')
  const unfit = known.filter(({ setup }) => {
    const { cluster, software } = setup
    const bytes = totalBytes(footprint(setup))
    return fitOf(bytes, roomOf(cluster.device, software), cluster.device, software).verdict === 'does not fit'
  })
  return { runs: known.length, unfit: unfit.length, unknown: timed.length - known.length }
}
