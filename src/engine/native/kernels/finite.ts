/** Which numbers are not finite, and how large the others are. */
import type { ElementType } from '../../../base/index.js'
import { decode, type Elements } from './dtypes.js'

/** Of a number that is not finite all bits of the exponent are set. */
const exponents: Readonly<Partial<Record<string, number>>> = { bf16: 0x7f80, f16: 0x7c00 } satisfies Partial<
  Record<ElementType, number>
>

const infinities: typeof exponents = { f32: 0x7f800000, ...exponents }

/** Of numbers of such a type, seen as bits: all but the sign, and infinity, above which there is nothing but NaN. */
export interface NaNBits {
  readonly size: number
  readonly infinity: number
}

/**
 * Every NaN counts as the same where bits are compared: which of its bits an operation sets is left open. WebAssembly sets others
 * once its code is compiled again, in the middle of a run, with operands in another order.
 */
export const nanBitsOf = (dtype: Parameters<typeof decode>[0]): NaNBits => ({
  ...{ size: dtype === 'f32' ? 0x7fffffff : 0x7fff, infinity: infinities[dtype] ?? Number.POSITIVE_INFINITY },
})

/** The first that is not finite; -1: all are. -infinity may be a number here. */
export function firstNotFinite(dtype: Parameters<typeof decode>[0], elements: Elements, ofNothing = false): number {
  const exponent = exponents[dtype]
  for (let i = 0; i < elements.length; i++) {
    const bits = elements[i]
    if (exponent === undefined ? bits - bits === 0 : (bits & exponent) !== exponent) continue
    if (!ofNothing || decode(dtype, bits) !== Number.NEGATIVE_INFINITY) return i
  }
  return -1
}

/** The greatest size; NaN where one is among them. */
export function greatestIn(dtype: Parameters<typeof decode>[0], elements: Elements): number {
  let greatest = 0
  for (const bits of elements) {
    const size = Math.abs(decode(dtype, bits))
    if (Number.isNaN(size)) return size
    if (size > greatest) greatest = size
  }
  return greatest
}
