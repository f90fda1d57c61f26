/** Products with matrices that are frozen, and with adapters beside them: both narrow, and what they make is scaled and added. */
import type { AdapterTarget } from '../../model/index.js'
import type { Shape } from '../shape.js'
import type { KernelPrices, Linear } from './kernels.js'

const frozenLinear = (linear: Linear): Linear => ({ ...linear, weight: 0, parameters: 0 })

/** What is multiplied: so many rows, what is summed over and what is made; `by` what, where it is not one matrix for all rows. */
export interface Multiplied {
  readonly rows: number
  readonly from: number
  readonly to: number
  readonly by?: (from: number, to: number) => Linear
  /** Passes over what is made, and over the gradient of what is given, for adding what adapters make: 1 where a kernel reads the sum that is there anyway. */
  readonly passes?: { readonly made: number; readonly given: number }
  /** Where ranks of tp have tokens of their own: whether the product has all of them, or makes parts of a sum over all of them. */
  readonly tokens?: 'gathered' | 'summed'
}

/** A product and those of its adapters; without a target there are none, and where others have some it is frozen. */
export type AdaptedBy = (linear: Linear, target: AdapterTarget | undefined, of: Multiplied) => Linear

/** What is read by kernels of small work alone, and what is kept for the backward pass too, or read by a product or a collective. */
export const addedTo = { passing: 1, kept: 2, alone: 3 } as const

/**
 * `meeting`: seconds of a collective of so many bytes over tp. Under sequence parallelism what is narrow is gathered for all tokens, or its
 * gradient is, and what gradients of adapters are made of is summed up for a rank's own; each is waited for at once.
 */
export function adaptedBy(
  { adapters }: Shape,
  prices: KernelPrices,
  element: number,
  meeting: (bytes: number) => number,
): AdaptedBy {
  return (linear, target, { rows, from, to, by, passes = { made: 1, given: 1 }, tokens }) => {
    if (!adapters) return linear
    if (target === undefined || !adapters.targets.includes(target)) return frozenLinear(linear)
    const product = by ?? ((given: number, made: number) => prices.plain(rows, given, made))
    const [a, b] = [product(from, adapters.rank), product(adapters.rank, to)]
    const narrow = prices.memory(2 * rows * adapters.rank * element)
    const met = tokens ? meeting(rows * adapters.rank * element) : 0
    const [ahead, back] = tokens === 'gathered' ? [met, 0] : [0, met]
    const [made, given] = [passes.made * rows * to, passes.given * rows * from]
    return {
      forward: linear.forward + a.forward + b.forward + narrow + prices.memory(made * element) + ahead,
      input: linear.input + a.input + b.input + narrow + prices.memory(given * element) + back,
      weight: a.weight + b.weight + met,
      parameters: a.parameters + b.parameters,
    }
  }
}

/** What parts of a layer are priced with. */
export interface PricedParts {
  readonly prices: KernelPrices
  readonly element: number
  readonly adapted: AdaptedBy
}
