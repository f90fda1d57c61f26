/**
 * One rank's time beside the lane of its data axes. Whatever flies starts at the present moment, behind what flies
 * already: the lane is busy from now until it is free, and all there is to remember is when that will be.
 */
export class Lane {
  now = 0
  /** Of that: waiting for flights. */
  waited = 0
  #free = 0
  readonly #slower: number
  readonly #shared: boolean

  /** `contention`: what work loses while something flies. `shared`: collectives over tp use the same links. */
  constructor(contention: number, shared: boolean) {
    this.#slower = 1 + contention
    this.#shared = shared
  }

  work(seconds: number): void {
    const beside = Math.min(seconds * this.#slower, Math.max(0, this.#free - this.now))
    this.now += seconds + beside * (1 - 1 / this.#slower)
  }

  /** Collectives over tp that are waited for at once. */
  meet(seconds: number): void {
    if (seconds === 0) return
    if (this.#shared) this.wait(this.#free)
    this.now += seconds
    if (this.#shared) this.#free = this.now
  }

  /** When it will have arrived. */
  start(seconds: number): number {
    if (seconds === 0) return 0
    this.#free = Math.max(this.#free, this.now) + seconds
    return this.#free
  }

  wait(until: number): void {
    if (until <= this.now) return
    this.waited += until - this.now
    this.now = until
  }
}
