/**
 * What one microbatch leaves behind in one layer for its backward pass (Korthikanti et al. 2022, generalised to grouped
 * queries, gated feed-forward layers, fused attention and what each framework keeps). Per token and element of the
 * residual stream: 34 bytes in all, of which 10 are not split by tp unless the sequence is.
 */
import { activationBytes } from '../../base/index.js'
import { kvSplit } from '../counts.js'
import { routedShare } from '../experts.js'
import type { Placed } from '../setup.js'
import type { MemoryProfile } from './memory-profile.js'

/** Tokens of one microbatch that one rank computes on. */
export const tokensOf = ({ shape, split }: Placed): number => (split.microbatch * shape.seq) / split.cp

/** Bytes of one layer and one microbatch when nothing is computed again. */
export function layerBytes(setup: Placed, profile: MemoryProfile): number {
  const { shape, split, software } = setup
  const element = activationBytes(setup.precision)
  const residual = 2 * (2 * element + (software.fusedNorm ? 0 : profile.norm)) + (shape.dropout ? 2 : 0)
  const perToken =
    (residual * shape.embed) / (split.sequenceParallel ? split.tp : 1) +
    attentionBytes(setup, element) +
    feedBytes(setup, profile, element)
  return tokensOf(setup) * (perToken + scoreBytes(setup, profile))
}

/** Queries, keys, values and the result; a fused kernel also keeps one sum a query. */
function attentionBytes({ shape, split, software }: Placed, element: number): number {
  const { heads, kvHeads, headDim, latent } = shape
  if (latent) {
    const { queries = 0, keyValues, plain, turned, values } = latent
    const narrow = queries + keyValues + turned
    return element * narrow + (heads * (2 * element * (plain + turned + values) + 4)) / split.tp
  }
  const sums = software.attention === 'unfused' ? 0 : 4 * heads
  return (
    (element * 2 * heads * headDim + sums) / split.tp + (element * 2 * kvHeads * headDim) / kvSplit(shape, split.tp)
  )
}

function scoreBytes({ shape, split, software }: Placed, profile: MemoryProfile): number {
  if (software.attention !== 'unfused') return 0
  return ((profile.score + (shape.dropout ? profile.scoreDropout : 0)) * shape.heads * shape.seq) / split.tp
}

/** Of the mean layer; rows of experts are kept as they came, and tp shares out their tokens. */
function feedBytes({ shape, split }: Placed, profile: MemoryProfile, element: number): number {
  const { experts, ffn, embed } = shape
  const tensors = shape.gated ? profile.gated : 2
  if (!experts) return (element * tensors * ffn) / split.tp
  const { active, shared, ffn: width } = experts
  const routed = active * (tensors * width + embed) + tensors * shared
  const share = routedShare(shape)
  return (element * (share * routed + (1 - share) * tensors * ffn)) / split.tp
}

/** Bytes of one layer and one microbatch that are kept under the plan's recomputation. */
export function keptBytes(setup: Placed, profile: MemoryProfile): number {
  const { shape, split } = setup
  const element = activationBytes(setup.precision)
  const input = (tokensOf(setup) * element * shape.embed) / (split.sequenceParallel ? split.tp : 1)
  switch (split.recompute) {
    case 'none':
    case 'cheap':
      return layerBytes(setup, profile)
    case 'selective':
      return layerBytes(setup, profile) - tokensOf(setup) * scoreBytes(setup, profile)
    case 'full':
      return input
    case 'per-op':
      return input + everyOtherProduct(setup, element)
  }
}

/** torchtitan: the result of attention and of every other matrix product (query, value, gate, down) is kept. */
function everyOtherProduct({ shape, split, ...setup }: Placed, element: number): number {
  const { heads, kvHeads, headDim, embed, ffn } = shape
  const perToken = (2 * heads * headDim + ffn) / split.tp + (kvHeads * headDim) / kvSplit(shape, split.tp)
  const down = embed / (split.sequenceParallel ? split.tp : 1)
  return tokensOf({ shape, split, ...setup }) * element * (perToken + down)
}

/** The last norm, and logits with everything the loss makes of them. */
export function lossBytes(setup: Placed, profile: MemoryProfile): number {
  const { shape, split } = setup
  if (split.tp === 1 || profile.gathersLogits) return tokensOf(setup) * profile.logit * shape.vocab
  return (tokensOf(setup) * profile.splitLogit * shape.vocab) / split.tp
}
