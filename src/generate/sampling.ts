/**
 * Which token comes next. Without a temperature the likeliest. With one, logits are divided by it; then the `topK` likeliest
 * are left, then of these the fewest whose probabilities add up to `topP`; one of those is drawn.
 */
import { error, type Problem } from '../base/index.js'
import type { Logits } from './decoder.js'

/** Sampling parameters: temperature, top-k and top-p. */
export interface Sampling {
  /** 0: greedy. */
  readonly temperature?: number
  readonly topK?: number | undefined
  readonly topP?: number | undefined
}

export function samplingProblems({ temperature = 0, topK, topP }: Sampling): Problem[] {
  const wrong = (path: string, message: string) => error('generate/options', path, message)
  return [
    ...(temperature >= 0 && temperature < Number.POSITIVE_INFINITY
      ? []
      : [wrong('temperature', `${temperature} is not a number of at least 0`)]),
    ...(topK === undefined || (Number.isSafeInteger(topK) && topK >= 1)
      ? []
      : [wrong('topK', `${topK} is not a number of tokens`)]),
    ...(topP === undefined || (topP > 0 && topP <= 1)
      ? []
      : [wrong('topP', `${topP} is not a probability above 0 and up to 1`)]),
  ]
}

/** Of equals the one of lower id. */
export function likeliest(logits: Logits): number {
  let best = 0
  for (let id = 1; id < logits.length; id++) if (logits[id] > logits[best]) best = id
  return best
}

/** `chance` in [0, 1): the same one, of the same logits, is the same token. */
export function sampled(logits: Logits, { temperature = 0, topK, topP = 1 }: Sampling, chance: number): number {
  if (temperature === 0 || topK === 1) return likeliest(logits)
  const ids = topK === undefined && topP === 1 ? undefined : inOrder(logits)
  const kept = ids ? ids.subarray(0, Math.min(topK ?? ids.length, ids.length)) : Uint32Array.from(logits.keys())
  const most = logits[likeliest(logits)]
  const weights = Float64Array.from(kept, id => Math.exp((logits[id] - most) / temperature))
  const count = topP === 1 ? kept.length : nucleus(weights, topP)
  let left = chance * sum(weights, count)
  for (let i = 0; i < count - 1; i++) {
    left -= weights[i]
    if (left < 0) return kept[i]
  }
  return kept[count - 1]
}

/** The likeliest first; of equals those of lower id. */
const inOrder = (logits: Logits): Uint32Array =>
  Uint32Array.from(logits.keys()).sort((a, b) => logits[b] - logits[a] || a - b)

/** How many of the first add up to a share of all. */
function nucleus(weights: Float64Array, share: number): number {
  const enough = share * sum(weights, weights.length)
  let [count, total] = [0, 0]
  while (count < weights.length && total < enough) total += weights[count++]
  return Math.max(1, count)
}

function sum(weights: Float64Array, count: number): number {
  let total = 0
  for (let i = 0; i < count; i++) total += weights[i]
  return total
}
