/** Copies that should be alike. */
import type { Rank, StateName } from '../base/index.js'

/** Ranks that hold the same part of a parameter, or of one of its states, with different bits. */
export interface Disagreement {
  readonly parameter: string
  readonly state?: StateName
  /** All that hold the part, with a hash of its bits. */
  readonly holders: readonly { readonly rank: Rank; readonly hash: string }[]
  /** Those whose bits are not those of most; undefined: no bits are most's. */
  readonly odd?: readonly Rank[]
}

/** Of holders whose hashes differ. */
export function oddOnes(holders: Disagreement['holders']): readonly Rank[] | undefined {
  const votes = new Map<string, number>()
  for (const { hash } of holders) votes.set(hash, (votes.get(hash) ?? 0) + 1)
  const [most] = [...votes].find(([, count]) => 2 * count > holders.length) ?? []
  return most === undefined ? undefined : holders.flatMap(({ rank, hash }) => (hash === most ? [] : [rank]))
}
