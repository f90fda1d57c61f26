/** Prices between what was measured. */

/**
 * Seconds at `x`, through points of (x, seconds) in rising order: straight lines between them on paper that is
 * logarithmic both ways. Before the first and after the last, in proportion, but never less than `floor`.
 */
export function interpolate(
  points: readonly (readonly [x: number, seconds: number])[],
  x: number,
  floor: number,
): number {
  const above = points.findIndex(([at]) => at >= x)
  if (above <= 0) {
    const [at, seconds] = points.at(above) ?? [1, 0]
    return Math.max(floor, (seconds * x) / at)
  }
  const [[x0, s0], [x1, s1]] = [points[above - 1], points[above]]
  return s0 * (s1 / s0) ** (Math.log(x / x0) / Math.log(x1 / x0))
}

/** How a model's time is corrected near what was measured: exact at a point, an average far from all of them. */
export function bend(points: readonly { readonly distance: number; readonly ratio: number }[]): number {
  let sum = 0
  let weights = 0
  for (const { distance, ratio } of points) {
    if (distance === 0) return ratio
    const weight = 1 / distance
    sum += weight * Math.log(ratio)
    weights += weight
  }
  return Math.exp(sum / weights)
}

/** How far apart two sizes are: the square of the logarithm of their ratio. */
export const apart = (a: number, b: number): number => Math.log(a / b) ** 2
