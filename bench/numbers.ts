/** Numbers that every contender can make for itself, in C, Python and here: the same integer hash of the index. */

/** In [-0.5, 0.5), 24 bits: exact in f32. */
export function noise(n: number, seed: number): Float32Array {
  const values = new Float32Array(n)
  for (let i = 0; i < n; i++) values[i] = (hash(i, seed) >>> 8) / 2 ** 24 - 0.5
  return values
}

/** Whole numbers from 0 to 63: sums of a few are exact in any order. */
export const wholeNumber = (i: number, seed: number): number => hash(i, seed) >>> 26

const hash = (i: number, seed: number): number => Math.imul(Math.imul(i, 2654435761) + seed * 40503, 2246822519) >>> 0

/** One number that changes with any element and any exchange of two neighbours; exact for whole numbers. */
export function digest(values: ArrayLike<number>): number {
  let sum = 0
  for (let i = 0; i < values.length; i++) sum += values[i] * (1 + (i % 251))
  return sum
}
