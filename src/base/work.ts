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
