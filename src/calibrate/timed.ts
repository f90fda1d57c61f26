/** What a run has timed, and what it would cost. */
import type { Kernel } from '../cost/index.js'
import type { Prices } from '../simulate/index.js'

/** Arithmetic: products and attention together, where they were not told apart. */
export type Rate = Kernel['kind'] | 'arithmetic' | { readonly link: string }
export interface Timed {
  readonly rate: Rate
  readonly seconds: number
  /** Something was always carried meanwhile. */
  readonly beside: boolean
  readonly price: (prices: Prices) => number
}
