/**
 * One rank's time through a list of work, collectives and waits: what the event simulation does, for ranks that are
 * alike. Collectives start at once if their lane is free and are waited for later; work beside them is slower. The list is
 * kept: beside what the data axes move it takes longer, and is played again.
 */
import { type Acts, starts, waits, works } from '../schedules/acts.js'

export interface Flight {
  readonly slot: number
  readonly start: number
  readonly end: number
}

export class Clock {
  now = 0
  /** Of that: computing forward values again, and waiting. */
  again = 0
  waited = 0
  readonly #acts: number[] = []
  readonly #slower: number
  #free = 0
  #slots = 0
  readonly #flying: Flight[] = []

  /** `contention`: what work loses while a collective runs. */
  constructor(contention: number) {
    this.#slower = 1 + contention
  }

  get acts(): Acts {
    return Float64Array.from(this.#acts)
  }

  work(seconds: number, again = false): void {
    if (seconds === 0) return
    this.#acts.push(works, seconds)
    const from = this.now
    let left = seconds
    for (const { start, end } of this.#flying) {
      if (end <= this.now) continue
      const alone = Math.min(left, Math.max(0, start - this.now))
      this.now += alone
      left -= alone
      const beside = Math.min(left * this.#slower, end - this.now)
      this.now += beside
      left -= beside / this.#slower
    }
    this.now += left
    if (again) this.again += this.now - from
  }

  /** Undefined: there is nothing to carry. */
  start(seconds: number): Flight | undefined {
    if (seconds === 0) return undefined
    this.#acts.push(starts, seconds)
    const start = Math.max(this.now, this.#free)
    const flight = { slot: this.#slots++, start, end: start + seconds }
    this.#free = flight.end
    this.#flying.push(flight)
    return flight
  }

  wait(flight: Flight | undefined): void {
    if (!flight) return
    const at = this.#flying.indexOf(flight)
    if (at < 0) return
    this.#acts.push(waits, flight.slot)
    this.#flying.splice(at, 1)
    if (flight.end <= this.now) return
    this.waited += flight.end - this.now
    this.now = flight.end
  }
}
