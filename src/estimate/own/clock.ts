/**
 * One rank's time through a list of work, collectives and waits: what the event simulation does, for ranks that are
 * alike. Collectives start at once if their lane is free and are waited for later; work beside them is slower.
 */
export type Lane = 'tp' | 'dp'

export interface Flight {
  readonly lane: Lane
  readonly start: number
  readonly end: number
}

export class Clock {
  now = 0
  /** Of that: computing forward values again, and waiting for a lane. */
  again = 0
  readonly waited = { tp: 0, dp: 0 }
  readonly #shared: boolean
  readonly #slower: number
  readonly #free = { tp: 0, dp: 0 }
  readonly #flying: Flight[] = []

  /** `shared`: both lanes are the same links. `contention`: what work loses while a collective runs. */
  constructor(shared: boolean, contention: number) {
    this.#shared = shared
    this.#slower = 1 + contention
  }

  work(seconds: number, again = false): void {
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
  start(lane: Lane, seconds: number): Flight | undefined {
    if (seconds === 0) return undefined
    const used = this.#shared ? 'tp' : lane
    const start = Math.max(this.now, this.#free[used])
    const flight = { lane, start, end: start + seconds }
    this.#free[used] = flight.end
    this.#flying.push(flight)
    return flight
  }

  wait(flight: Flight | undefined): void {
    if (!flight) return
    const at = this.#flying.indexOf(flight)
    if (at >= 0) this.#flying.splice(at, 1)
    if (flight.end <= this.now) return
    this.waited[flight.lane] += flight.end - this.now
    this.now = flight.end
  }
}
