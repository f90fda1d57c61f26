/** What a search keeps of the plans it is offered: the fastest few, and the front of time against memory. */
import type { Priced } from './search.js'

/** The front ends here: nobody trades more than so many times the time for memory. */
const slowest = 2

export class Best {
  readonly #keep: number
  readonly #fronted: boolean
  readonly fastest: Priced[] = []
  /** Fastest first, each lighter than the one before; with plans too slow to be of interest. */
  readonly #front: Priced[] = []

  constructor(keep: number, fronted = true) {
    this.#keep = keep
    this.#fronted = fronted
  }

  offer(plan: Priced): void {
    const { step } = plan.estimate
    if (this.fastest.length < this.#keep || step < this.#worst()) {
      this.fastest.splice(placeOf(this.fastest, plan), 0, plan)
      if (this.fastest.length > this.#keep) this.fastest.pop()
    }
    if (!this.#fronted || this.#dominated(step, plan.bytes)) return
    const at = placeOf(this.#front, plan)
    let heavier = at
    while (heavier < this.#front.length && this.#front[heavier].bytes >= plan.bytes) heavier++
    this.#front.splice(at, heavier - at, plan)
  }

  get front(): Priced[] {
    return this.#front.filter(({ estimate }) => !this.#tooSlow(estimate.step))
  }

  /** Whether plans at best so fast and so light could neither be kept nor stand on the front. */
  cannotUse(step: number, bytes: number): boolean {
    return (
      this.fastest.length === this.#keep &&
      step >= this.#worst() &&
      (!this.#fronted || this.#tooSlow(step) || this.#dominated(step, bytes))
    )
  }

  #tooSlow(step: number): boolean {
    return step > slowest * this.fastest[0].estimate.step
  }

  #worst(): number {
    return this.fastest[this.fastest.length - 1].estimate.step
  }

  /** Some plan is as fast and as light. The front falls in bytes, so the last that is as fast is the lightest of them. */
  #dominated(step: number, bytes: number): boolean {
    let [low, high] = [0, this.#front.length]
    while (low < high) {
      const middle = (low + high) >> 1
      if (this.#front[middle].estimate.step <= step) low = middle + 1
      else high = middle
    }
    return low > 0 && this.#front[low - 1].bytes <= bytes
  }
}

/** Before the first that is slower, or as fast and heavier. */
function placeOf(plans: readonly Priced[], { estimate: { step }, bytes }: Priced): number {
  let [low, high] = [0, plans.length]
  while (low < high) {
    const middle = (low + high) >> 1
    const other = plans[middle]
    if (other.estimate.step < step || (other.estimate.step === step && other.bytes <= bytes)) low = middle + 1
    else high = middle
  }
  return low
}
