/**
 * Plans a search has priced, for a picture of time against memory while it runs: as many as there is room for, evenly over all that
 * came. When it is full every other one goes, and from then on every other one is taken: which ones depends on nothing but their order.
 */
import type { Priced } from './search.js'

/** An even sample, of bounded size, of all plans that a search estimates. */
export class PlanSample {
  readonly #most: number
  #plans: Priced[] = []
  #every = 1
  #seen = 0

  constructor(most = 2000) {
    this.#most = Math.max(2, most)
  }

  add(plan: Priced): void {
    if (this.#seen++ % this.#every !== 0) return
    if (this.#plans.length >= this.#most) {
      this.#plans = this.#plans.filter((_, i) => i % 2 === 0)
      this.#every *= 2
      if ((this.#seen - 1) % this.#every !== 0) return
    }
    this.#plans.push(plan)
  }

  /** In the order they came. */
  get plans(): readonly Priced[] {
    return this.#plans
  }

  /** How many came. */
  get seen(): number {
    return this.#seen
  }
}
