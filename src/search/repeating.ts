/**
 * Steps of very many microbatches. A pipeline in its steady state repeats itself: with each further microbatch the step, the time of
 * its parts and the FLOPs grow by the same amount, and memory by the tokens of that microbatch. Two short steps tell the long one;
 * test/repeating.test.ts compares them with long ones in full.
 */
import { asPart, type Work } from '../base/index.js'
import type { Split } from '../estimate/index.js'

/** Microbatches per pipeline rank of the first of two short steps, of the second, and up to which a step is not long. */
const [few, more, many] = [12, 24, 48]
/** Memory settles sooner than time. */
const compiled = 16

/** The microbatches of the steps that are simulated in place of this one: itself, or two short ones. */
export const simulatedCounts = ({ pp, microbatches }: Pick<Split, 'pp' | 'microbatches'>): readonly number[] =>
  microbatches > many * pp ? [few * pp, more * pp] : [microbatches]

/** The microbatches that a long step is compiled with; undefined: all of its own. */
export const compiledCount = ({ pp, microbatches }: Pick<Split, 'pp' | 'microbatches'>): number | undefined =>
  microbatches > many * pp ? compiled * pp : undefined

/** A number of the long step by that of two short ones. */
export type Further = (first: number, second: number) => number

/** What is found of a plan; of one with a long step, what two short ones tell. */
export const repeating = <Outcome>(
  outcomeOf: (split: Split) => Work<Outcome>,
  extend: (first: Outcome, second: Outcome, further: Further) => Outcome,
): ((split: Split) => Work<Outcome>) =>
  function* (split) {
    const [first, second] = simulatedCounts(split)
    if (second === undefined) return yield* outcomeOf(split)
    const short = yield* asPart(0, 0.3, outcomeOf({ ...split, microbatches: first }))
    const longer = yield* asPart(0.3, 1, outcomeOf({ ...split, microbatches: second }))
    const times = (split.microbatches - second) / (second - first)
    return extend(short, longer, (a, b) => b + times * (b - a))
  }
