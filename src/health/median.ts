/** Middle values: what a few bad steps do not move. */

/** NaN of none. */
export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b)
  const middle = sorted.length >> 1
  return sorted.length % 2 === 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2
}

/** The deviation of a normal distribution whose middle deviation from `center` is that of the values. */
export const spreadAround = (center: number, values: readonly number[]): number =>
  1.4826 * median(values.map(value => Math.abs(value - center)))
