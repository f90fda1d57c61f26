/** How many sequences the steps of a run have: it may begin with fewer, and keeps each number until so many were seen. */

/** A number of sequences a step, and how long it is kept: until so many were seen, sequences or tokens. */
export interface EarlierBatch {
  readonly globalBatch: number
  readonly until?: number | undefined
  readonly tokens?: number | undefined
}

export interface BatchSizes {
  /** Sequences of a step; where batches grow, in the end. */
  readonly globalBatch: number
  /** Tokens of a sequence: only batches that end by a number of tokens need it. */
  readonly seq?: number
  readonly batchRamp?: readonly EarlierBatch[] | undefined
}

export interface StepBatch {
  readonly globalBatch: number
  /** Sequences that all steps before it have seen. */
  readonly first: number
}

/** Sequences that must have been seen before the next number of them comes. */
export const sequencesUntil = ({ until = 0, tokens }: EarlierBatch, seq = 1): number =>
  tokens === undefined ? until : Math.ceil(tokens / seq)

/** Of a step, from 0. Steps that were skipped have seen theirs. */
export function batchOfStep({ globalBatch, seq, batchRamp = [] }: BatchSizes, step: number): StepBatch {
  let [first, left] = [0, step]
  for (const earlier of batchRamp) {
    const steps = Math.max(0, Math.ceil((sequencesUntil(earlier, seq) - first) / earlier.globalBatch))
    if (left < steps) return { globalBatch: earlier.globalBatch, first: first + left * earlier.globalBatch }
    first += steps * earlier.globalBatch
    left -= steps
  }
  return { globalBatch, first: first + left * globalBatch }
}
