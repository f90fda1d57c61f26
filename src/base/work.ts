/**
 * Work that can be watched and stopped: a generator that yields the share done so far, from 0 to 1, and returns the
 * result. Its caller decides what happens between two shares: nothing (`finish`), or a line of progress and a look
 * for Ctrl-C (the command line).
 */
export type Work<T> = Generator<number, T, void>

/** Runs the work to its end without a pause. */
export function finish<T>(work: Work<T>): T {
  for (;;) {
    const next = work.next()
    if (next.done) return next.value
  }
}

/** Runs the work as a part of a larger one: its shares count from `from` to `to` there. */
export function* asPart<T>(from: number, to: number, work: Work<T>): Work<T> {
  for (;;) {
    const next = work.next()
    if (next.done) return next.value
    yield from + (to - from) * next.value
  }
}

/** Somebody who watches work of several phases: the command line draws how far it is. */
export interface Watcher {
  /** Phases to come, each with the length it is expected to have, in any unit. A phase nobody expected has no time. */
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
