/**
 * Bounds of measured times: work never takes longer than larger work of its kind, nor longer than as many pieces of smaller work as
 * cover it. One sample of a thread that waited for a core would break them, and prices extrapolate from it: 10 ms for 1 KiB are 10 s for 1 MiB.
 */

/** What is compared: work of one kind, by its sizes. */
export interface Sized {
  readonly kind: string
  readonly sizes: readonly number[]
}

/** Shapes that caches or vectors dislike take longer than slightly larger ones; a thread that waited, many times as long. */
const slack = 2

/** The same points, in the same order; a time beyond what the others allow is lowered to that. */
export function physical<T extends { readonly seconds: number }>(
  points: readonly T[],
  sizedOf: (point: T) => Sized,
): T[] {
  const sized = points.map(point => ({ point, ...sizedOf(point) }))
  return sized.map(({ point, kind, sizes }) => {
    const limits = sized
      .filter(other => other.point !== point && other.kind === kind)
      .map(other => copiesThatCover(sizes, other.sizes) * other.point.seconds)
    const limit = Math.min(...limits)
    return point.seconds > slack * limit ? { ...point, seconds: limit } : point
  })
}

const copiesThatCover = (sizes: readonly number[], pieces: readonly number[]): number =>
  sizes.reduce((copies, size, i) => copies * Math.ceil(size / Math.max(1, pieces[i])), 1)
