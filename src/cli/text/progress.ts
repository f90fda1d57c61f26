/**
 * What a command is doing and how long it will still take: one line on standard error, on a terminal only, drawn over and
 * erased at the end. The time left is estimated from how long the part done so far has taken.
 */
import { setImmediate } from 'node:timers/promises'
import { duration, printable, type Watcher, type Work } from '../../base/index.js'
import type { Io } from '../io.js'

/** Ctrl-C was pressed (exit code 130), or a scheduler ends the process (143). */
export class Interrupted extends Error {
  readonly code: number

  constructor(code: number) {
    super('interrupted')
    this.code = code
  }
}

/** Runs `use` and erases the line, whatever happens. */
export async function withProgress<T>(io: Io, use: (progress: Progress) => T | Promise<T>): Promise<T> {
  const progress = new Progress(io)
  try {
    return await use(progress)
  } finally {
    progress.erase()
  }
}

const eraseLine = '\r\x1b[2K'
const millisecondsBetweenLines = 100
const millisecondsBetweenPauses = 40

export class Progress implements Watcher {
  readonly #io: Io
  #phases: Readonly<Record<string, number>> = {}
  #started = 0
  #phase = ''
  #drawnAt = Number.NEGATIVE_INFINITY

  constructor(io: Io) {
    this.#io = io
  }

  expect(phases: Readonly<Record<string, number>>): void {
    this.#phases = phases
    this.#started = performance.now()
  }

  readonly say = (phase: string, share = 0): void => {
    const columns = this.#io.progressColumns()
    const now = performance.now()
    if (columns === undefined || (phase === this.#phase && now - this.#drawnAt < millisecondsBetweenLines)) return
    this.#phase = phase
    this.#drawnAt = now
    const line = lineOf(phase, this.#shareOfAll(phase, share), (now - this.#started) / 1000)
    this.#io.control('err', eraseLine)
    this.#io.err(printable(line).slice(0, columns - 1))
  }

  readonly erase = (): void => {
    if (this.#phase !== '') this.#io.control('err', eraseLine)
    this.#phase = ''
  }

  /** Runs the work as a phase, with pauses in which Ctrl-C is heard: that throws Interrupted. */
  async run<T>(phase: string, work: Work<T> | AsyncGenerator<number, T, void>): Promise<T> {
    let stopped: number | undefined
    const forget = this.#io.onInterrupt(code => {
      stopped = code
    })
    let pausedAt = performance.now()
    try {
      for (;;) {
        const next = await work.next()
        if (next.done) return next.value
        this.say(phase, next.value)
        if (performance.now() - pausedAt >= millisecondsBetweenPauses) {
          await setImmediate()
          pausedAt = performance.now()
        }
        if (stopped !== undefined) throw new Interrupted(stopped)
      }
    } finally {
      forget()
      await work.return(undefined as never) // what the work has opened, it closes now
    }
  }

  #shareOfAll(phase: string, share: number): number | undefined {
    const names = Object.keys(this.#phases)
    const at = names.indexOf(phase)
    if (at < 0) return undefined
    const lengths = Object.values(this.#phases)
    const sum = (some: readonly number[]) => some.reduce((a, b) => a + b, 0)
    return (sum(lengths.slice(0, at)) + share * lengths[at]) / sum(lengths)
  }
}

/** Before this many seconds and this share of the work, an estimate would be a guess. */
const leastSeconds = 1
const leastShare = 0.02
const barWidth = 20

export function lineOf(phase: string, share: number | undefined, elapsed: number): string {
  if (!share) return `${phase} ...` // a bar that stays at 0 % looks stuck
  const full = Math.floor(barWidth * share)
  const left = (elapsed * (1 - share)) / share
  const time = elapsed >= leastSeconds && share >= leastShare ? `, ${duration(left)} left` : ''
  return `${'━'.repeat(full)}${'─'.repeat(barWidth - full)} ${Math.floor(100 * share)} %${time}: ${phase}`
}
