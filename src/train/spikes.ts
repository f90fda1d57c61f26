/** Where a run skips spikes (`training.spikes: skip`): what it tells each step, and what it remembers of it. */
import { type Norms, noNorms } from '../base/index.js'
import type { StepData, StepResult } from '../engine/index.js'
import { normsAfter, squaredNormLimit } from '../health/index.js'
import type { Training } from '../plan/index.js'
import type { Beginning } from './checkpoints.js'

export interface SpikeSkips {
  readonly norms: Norms | undefined
  /** Of the next step. */
  told(): Pick<StepData, 'limit'>
  /** Remembers a step that was told so; whether it was skipped as a spike. */
  passed(told: Pick<StepData, 'limit'>, result: StepResult): boolean
}

/** A run that goes on from a checkpoint knows what was known there; one that starts with its weights knows nothing. */
export function spikeSkips({ spikes }: Training, beginning: Beginning | undefined): SpikeSkips {
  if (spikes !== 'skip') return { norms: undefined, told: () => ({}), passed: () => false }
  let norms = (beginning?.share === 'everything' && beginning.checkpoint.norms) || noNorms
  return {
    get norms() {
      return norms
    },
    told: () => ({ limit: squaredNormLimit(norms) }),
    passed({ limit = Number.POSITIVE_INFINITY }, { normSquared, skipped }) {
      norms = normsAfter(norms, normSquared, { limit, taken: !skipped })
      return skipped && Number.isFinite(normSquared) && normSquared >= limit
    },
  }
}

/** From which norm on a step that was told so is a spike. */
export const normLimitOf = ({ limit = Number.POSITIVE_INFINITY }: Pick<StepData, 'limit'>) =>
  Number.isFinite(limit) ? { normLimit: Math.sqrt(limit) } : {}
