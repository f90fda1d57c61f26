/**
 * The pipeline bubble, as a share of the step. Two numbers go by that name, and they differ where stages are uneven:
 * the mean over ranks, which a better schedule and a better balance of stages could save, and the wait on the critical
 * path, that of the busiest stage, which only a better schedule could save.
 */
import type { Part } from './parts.js'

/** Pipeline bubble of a step, as shares of it. */
export interface Bubble {
  /** Mean over all ranks. */
  readonly mean: number
  /** Of the stage that waits least: the part of the step that is not its work. */
  readonly criticalPath: number
}

/** Bubble from the time breakdown of every stage. */
export function bubbleOf(stages: readonly Readonly<Record<Extract<Part, 'bubble'>, number>>[], step: number): Bubble {
  const shares = stages.map(({ bubble }) => bubble / step)
  return { mean: shares.reduce((sum, share) => sum + share, 0) / shares.length, criticalPath: Math.min(...shares) }
}
