/**
 * Which plans are worth simulating. Those listed are the fastest of their kinds, and a simulation comes to nearly what its
 * price says: a plan whose price is far above what others were simulated to take, its own kind or enough other kinds, is
 * not simulated. How near prices are is seen from the plans that were.
 */
import { kindOf } from './kinds.js'
import type { Priced } from './search.js'
import type { OutlinedPlan } from './simulated.js'

/** A simulation may be so much shorter than its price beside the shortest of those seen. */
const margin = 0.01

export class Race {
  readonly #places: number
  readonly #fastest = new Map<string, number>()
  /** Of all simulations the shortest beside its price. */
  #ratio = 1
  #last = Number.POSITIVE_INFINITY

  /** So many kinds are listed. */
  constructor(places: number) {
    this.#places = places
  }

  isLost(plan: Priced): boolean {
    const least = plan.estimate.step * this.#ratio * (1 - margin)
    return least >= Math.min(this.#last, this.#fastest.get(kindOf(plan)) ?? Number.POSITIVE_INFINITY)
  }

  entered(one: OutlinedPlan): OutlinedPlan {
    const kind = kindOf(one.plan)
    this.#ratio = Math.min(this.#ratio, one.step / one.plan.estimate.step)
    this.#fastest.set(kind, Math.min(one.step, this.#fastest.get(kind) ?? Number.POSITIVE_INFINITY))
    const steps = [...this.#fastest.values()].sort((a, b) => a - b)
    this.#last = steps[this.#places - 1] ?? Number.POSITIVE_INFINITY
    return one
  }
}
