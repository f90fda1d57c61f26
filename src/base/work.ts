/**
 * Long-running work as a generator: it yields the fraction done, from 0 to 1, and returns the result. The caller
 * decides what happens in between: nothing (`finish`), a progress bar, a check for Ctrl-C.
 */
export type Work<T> = Generator<number, T, void>

/** Runs a generator variant to its end and returns the result. */
export function finish<T>(work: Work<T>): T {
  for (;;) {
    const next = work.next()
    if (next.done) return next.value
  }
}

/** Runs work as part of larger work: its progress counts from `from` to `to` there. */
export function* asPart<T>(from: number, to: number, work: Work<T>): Work<T> {
  for (;;) {
    const next = work.next()
    if (next.done) return next.value
    yield from + (to - from) * next.value
  }
}

/** An observer of work in several phases: the command line draws a progress bar. */
export interface Watcher {
  /** Phases to come, each with its expected length in any unit. An unexpected phase has no length. */
  expect(phases: Readonly<Record<string, number>>): void
  /** `share` of the phase is done. */
  say(phase: string, share?: number): void
  /** Runs the work as a phase. */
  run<T>(phase: string, work: Work<T> | AsyncGenerator<number, T, void>): Promise<T>
}

/** Nobody watches: the work just runs. */
export const unwatched: Watcher = {
  expect() {},
  say() {},
  async run(_, work) {
    for (;;) {
      const next = await work.next()
      if (next.done) return next.value
    }
  },
}
