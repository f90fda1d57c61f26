/**
 * The gradient norm from which on a step is a spike, by the norms of the steps taken before it. All ranks of an emitted run find it by
 * themselves, on whatever machines they are, and must find the same bits: so logarithms and powers are made here of sums, products
 * and quotients, which are the same everywhere. emit/runtime/spikes.py does the same, in the same order.
 */
import { type Norms, noNorms } from '../base/index.js'
import { expectedAfter, leastAccepted, leastDeviation, mostAccepted, mostDeviations, mostInARow } from './spikes.js'

/** The limit of the norm's square, in f32; infinite where too few norms are known. */
export function squaredNormLimit({ accepted }: Norms): number {
  if (accepted.length < leastAccepted) return Number.POSITIVE_INFINITY
  const { expected, deviation } = expectedAfter(accepted.map(square => 0.5 * logarithm(square)))
  const limit = power(2 * (expected + mostDeviations * Math.max(deviation, leastDeviation)))
  // What f32 cannot hold is below no limit.
  return limit < 3.4e38 ? Math.fround(limit) : Number.POSITIVE_INFINITY
}

/** What is known after a step with such a square of its norm, where `limit` was that of squares. */
export function normsAfter(
  norms: Norms,
  normSquared: number,
  { limit, taken }: { limit: number; taken: boolean },
): Norms {
  if (!Number.isFinite(normSquared) || normSquared === 0) return norms
  // What stays is no spike but another level, by which the next steps are judged.
  if (normSquared >= limit) return norms.spikes + 1 < mostInARow ? { ...norms, spikes: norms.spikes + 1 } : noNorms
  return taken ? { accepted: [...norms.accepted, normSquared].slice(-mostAccepted), spikes: 0 } : norms
}

const log2 = Math.LN2
/** Terms of a series after which nothing changes. */
const terms = 24

/** Of a number above 0: of its power of two, and 2 artanh((m - 1) / (m + 1)) of the rest. */
export function logarithm(x: number): number {
  let [m, twos] = [x, 0]
  for (; m >= 1.5; twos++) m *= 0.5
  for (; m < 0.75; twos--) m *= 2
  const t = (m - 1) / (m + 1)
  let sum = 0
  for (let n = 2 * terms - 1; n > 0; n -= 2) sum = sum * (t * t) + 1 / n
  return twos * log2 + 2 * t * sum
}

/** e^x: a power of two times the series of what is left. */
export function power(x: number): number {
  const twos = Math.floor(x / log2 + 0.5)
  const rest = x - twos * log2
  let sum = 1
  for (let n = terms; n > 0; n--) sum = 1 + (sum * rest) / n
  for (let i = 0; i < Math.min(twos, 1100); i++) sum *= 2
  for (let i = 0; i > Math.max(twos, -1100); i--) sum *= 0.5
  return sum
}
