/**
 * One rank's time through a list of work, collectives and waits: what the event simulation does, for ranks that are
 * alike. Collectives start at once if their lane is free and are waited for later; work beside them is slower. The list is
 * kept: beside what the data axes move it takes longer, and is played again.
 */
import { Acts, starts, startsApart, waits, works } from '../schedules/acts.js'
import type { Lane } from './lanes.js'

/** Axes whose collectives are part of a layer: of dp those in which ranks agree on scales. */
export type WaitedAxis = 'tp' | 'cp' | 'ep' | 'dp'

export interface Flight {
  readonly slot: number
  readonly start: number
  readonly end: number
}

export class Clock {
  now = 0
  /** Of that: computing forward values again, and waiting for collectives, by axis. */
  again = 0
  readonly waited: Record<WaitedAxis, number> = { tp: 0, cp: 0, ep: 0, dp: 0 }
  readonly #acts: number[] = []
  readonly #contention: number
  readonly #slower: number
  /** By lane: when it is free. */
  readonly #free = [0, 0]
  #slots = 0
  readonly #flying: Flight[] = []
  #done: Acts | undefined

  /** `contention`: what work loses while a collective runs. */
  constructor(contention: number) {
    this.#contention = contention
    this.#slower = 1 + contention
  }

  /** Of all that was done. */
  get acts(): Acts {
    this.#done ??= new Acts(this.#acts, this.#contention)
    return this.#done
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

  /** `lane`: 1 for links that the other collectives do not use. Undefined: there is nothing to carry. */
  start(seconds: number, lane: Lane = 0): Flight | undefined {
    if (seconds === 0) return undefined
    this.#acts.push(lane === 0 ? starts : startsApart, seconds)
    const start = Math.max(this.now, this.#free[lane])
    const flight = { slot: this.#slots++, start, end: start + seconds }
    this.#free[lane] = flight.end
    // In the order of their starts.
    let at = this.#flying.length
    while (at > 0 && this.#flying[at - 1].start > start) at--
    this.#flying.splice(at, 0, flight)
    return flight
  }

  wait(flight: Flight | undefined, axis: WaitedAxis = 'tp'): void {
    if (!flight) return
    const at = this.#flying.indexOf(flight)
    if (at < 0) return
    this.#acts.push(waits, flight.slot)
    this.#flying.splice(at, 1)
    if (flight.end <= this.now) return
    this.waited[axis] += flight.end - this.now
    this.now = flight.end
  }
}
