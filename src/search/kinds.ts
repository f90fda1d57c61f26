/** What plans share that hardly differ: of those the fastest is listed. */

import { fetchesEach, reducesEach, type Split } from '../estimate/index.js'
import { extraWords } from './extras.js'

/** ZeRO-3 that gathers once a step comes to ZeRO-2, and ZeRO-2 that reduces once a step to ZeRO-1. */
export function kindOf({ split }: { readonly split: Split }): string {
  const { tp, cp, ep, sequenceParallel, pp, zero, microbatch, recompute, schedule } = split
  const data = [zero > 0, reducesEach(split), fetchesEach(split)]
  const beside = extraWords(split)
  return [tp, cp, ep, sequenceParallel, pp, ...data, microbatch, recompute, schedule, ...beside].join(' ')
}

/** Schedules, or ZeRO stages, that come to the same thing have the same. */
export const outcomeOf = ({ tp, cp, pp, recompute }: Split, step: number, bytes: number): string =>
  [tp, cp, pp, recompute, step, bytes].join()
