/** What a run remembers of the gradient norms of its steps where it skips spikes: checkpoints carry it, so every plan goes on with it. */
export interface Norms {
  /** The squares of the norms of the last steps that were taken, the latest last. */
  readonly accepted: readonly number[]
  /** How many steps after them were spikes. */
  readonly spikes: number
}

export const noNorms: Norms = { accepted: [], spikes: 0 }

/** Whether a value that was read is one. */
export function isNorms(value: unknown): value is Norms {
  const { accepted, spikes } = (value ?? {}) as Partial<Norms> // each is looked at
  return Array.isArray(accepted) && accepted.every(Number.isFinite) && Number.isSafeInteger(spikes)
}
