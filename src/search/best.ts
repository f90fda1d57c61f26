/** What a search keeps of the plans it is offered: the fastest few, and the front of time against memory. */
import { kindOf, outcomeOf } from './kinds.js'
import type { Priced } from './search.js'

/** The front ends here: nobody trades more than so many times the time for memory. Plans that are too heavy to be kept are faster. */
const slowest = 2

/** How many plans to keep, of how many kinds and of at most how many bytes, and whether there is to be a front of these. */
export interface Keeping {
  readonly keep: number
  readonly kinds: number
  readonly surely: number
  readonly front: boolean
}

export class Best {
  readonly #keep: number
  readonly #kinds: number
  readonly #surely: number
  readonly #fronted: boolean
  readonly fastest: Priced[] = []
  /** No plan that is slower than the last of these is of use. */
  #full = false
  /** Fastest first, each lighter than the one before; with plans too slow to be of interest. */
  readonly #front: Priced[] = []

  constructor({ keep, kinds, surely, front }: Keeping) {
    this.#keep = keep
    this.#kinds = kinds
    this.#surely = surely
    this.#fronted = front
  }

  offer(plan: Priced): void {
    const { step } = plan.estimate
    if (this.#isKept(step, plan.bytes)) {
      this.fastest.splice(placeOf(this.fastest, plan), 0, plan)
      const most = Math.min(this.#keep, this.#kinds < this.#keep ? lengthOf(this.fastest, this.#kinds) : this.#keep)
      this.#full = this.fastest.length >= most
      if (this.#full) this.fastest.length = most
    }
    if (this.#dominated(step, plan.bytes)) return
    const at = placeOf(this.#front, plan)
    let heavier = at
    while (heavier < this.#front.length && this.#front[heavier].bytes >= plan.bytes) heavier++
    this.#front.splice(at, heavier - at, plan)
  }

  get front(): Priced[] {
    const isAsked = ({ bytes }: Priced): boolean => this.#fronted || bytes > this.#surely
    return this.#front.filter(plan => isAsked(plan) && !this.#tooSlow(plan.estimate.step))
  }

  /** Whether plans at best so fast and so light could neither be kept nor stand on the front. */
  cannotUse(step: number, bytes: number): boolean {
    return !this.#isKept(step, bytes) && (this.#tooSlow(step) || this.#dominated(step, bytes))
  }

  #isKept(step: number, bytes: number): boolean {
    return bytes <= this.#surely && (!this.#full || step < this.#worst())
  }

  #tooSlow(step: number): boolean {
    const [best = this.#front[0]] = this.fastest
    return best !== undefined && step > (this.#fronted ? slowest : 1) * best.estimate.step
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

/** How many of the first of these there are of so many kinds; infinite where there are fewer kinds. */
function lengthOf(plans: readonly Priced[], kinds: number): number {
  const seen = new Set<string>()
  let found = 0
  for (const [i, plan] of plans.entries()) {
    const keys = [kindOf(plan), outcomeOf(plan.split, plan.estimate.step, plan.bytes)]
    if (!keys.some(key => seen.has(key)) && ++found === kinds) return i + 1
    for (const key of keys) seen.add(key)
  }
  return Number.POSITIVE_INFINITY
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
