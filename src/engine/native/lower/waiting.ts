/** How long ranks look for each other before they sleep. */
export interface Waiting {
  readonly timeoutMs: number
  /** How often to look before yielding, and before sleeping. */
  readonly spin: number
  readonly yields: number
}

/**
 * A short spin where every rank could have a core: a busy machine may still put two on one, and then the one that is
 * waited for needs this one's. Yields cost little on a core of one's own, so they are most of the waiting before sleep.
 */
export const waitingFor = (ranks: number, cores: number, timeoutMs: number): Waiting =>
  ranks <= cores ? { timeoutMs, spin: 100, yields: 200 } : { timeoutMs, spin: 0, yields: 200 }
