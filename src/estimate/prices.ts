/**
 * Prices that many plans share, worked out once: a plan varies its pipeline, data ranks and microbatches far more often
 * than the cut of a layer. One table for each (shape, cluster, precision, software); within it one row for each cut. An EstimateBook keeps tables.
 */

import { activationBytes } from '../base/index.js'
import { type Collective, type Kernel, priceCollective, priceInStep } from '../cost/index.js'
import { embeddingParameters, headParameters, layerParameters, tableRanks } from './counts.js'
import { ByFields, entry } from './entry.js'
import { type Cut, cutFields, embeddingKernels, headKernels, type Kernels, layerKernels } from './layer.js'
import { type OwnLayerCosts, ownLayerCosts } from './own/layer.js'
import { type OwnWork, ownWork } from './own/work.js'
import type { Setup } from './setup.js'

/** Seconds of compute of one microbatch on one rank. */
export interface Times {
  readonly forward: number
  readonly input: number
  readonly weight: number
  readonly core: number
}

/** Everything one microbatch costs a rank, but for what depends on data ranks and stages. */
export interface Prices {
  readonly layer: Times
  readonly embedding: Times
  readonly head: Times
  /** All of the embedding's compute, and of the head's. */
  readonly firstEnd: number
  readonly lastEnd: number
  /** Collectives of one layer, whether hidden or not; over ep in one direction. */
  readonly tp: { readonly forward: number; readonly backward: number }
  readonly cp: { readonly forward: number; readonly backward: number }
  readonly ep: number
  /** Of the embedding's sum over the split vocabulary. */
  readonly tpEmbedding: number
  /** Bytes handed to the next stage by one rank, and the gather that makes them whole again. */
  readonly handed: number
  readonly regather: number
  /** Parameters one rank computes with; a tied head has none of its own beside the embedding. */
  readonly layerParameters: number
  readonly embeddingParameters: number
  readonly headParameters: number
  readonly headBesideEmbedding: number
  /** Of our own program. */
  readonly own?: OwnLayers
}

/** The pieces of a layer, and what it takes by what else it depends on. */
export interface OwnLayers {
  readonly work: OwnWork
  readonly known: OwnLayerCosts
}

const kinds: readonly Collective['kind'][] = [
  'all-reduce',
  'all-gather',
  'reduce-scatter',
  'all-to-all',
  'broadcast',
  'send',
]

export class PriceTable {
  readonly #rows = new ByFields<keyof Cut, Prices>(cutFields)
  readonly #collectives = new Map<number, Map<number, number>>()
  readonly #setup: Omit<Setup, 'split'>

  constructor(setup: Omit<Setup, 'split'>) {
    this.#setup = setup
  }

  of(cut: Cut): Prices {
    return this.#rows.of(cut, () => pricesOf(this.#setup, cut))
  }

  collective(kind: Collective['kind'], bytes: number, size: number, stride: number): number {
    if (size <= 1 || bytes === 0) return 0
    const who = (kinds.indexOf(kind) * 2 ** 20 + size) * 2 ** 20 + stride
    const byBytes = entry(this.#collectives, who, () => new Map<number, number>())
    let seconds = byBytes.get(bytes)
    if (seconds === undefined) {
      seconds = priceCollective({ kind, bytes, group: { size, stride } }, this.#setup.cluster)
      byBytes.set(bytes, seconds)
    }
    return seconds
  }
}

function pricesOf(setup: Omit<Setup, 'split'>, cut: Cut): Prices {
  const { shape, cluster, precision, software } = setup
  const total = (kernels: readonly Kernel[]) => kernels.reduce((sum, k) => sum + priceInStep(k, cluster.device), 0)
  const times = (k: Kernels): Times => ({
    forward: total(k.forward),
    input: total(k.input),
    weight: total(k.weight),
    core: total(k.core),
  })
  const ranks = software.own ? tableRanks(shape, cut.tp) : cut.tp
  const embedding = times(embeddingKernels(shape, cut))
  const head = times(headKernels(shape, cut, precision, software))
  return {
    layer: times(layerKernels(shape, cut, precision, software)),
    embedding,
    head,
    firstEnd: embedding.forward + embedding.input + embedding.weight,
    lastEnd: head.forward + head.input + head.weight,
    ...collectivesOf(setup, cut),
    layerParameters: layerParameters(shape, cut),
    embeddingParameters: embeddingParameters(shape, ranks),
    headParameters: headParameters(shape, ranks, false),
    headBesideEmbedding: headParameters(shape, ranks, true),
    ...(software.own && { own: { work: ownWork(setup, cut), known: ownLayerCosts() } }),
  }
}

function collectivesOf({ shape, cluster, precision, software }: Omit<Setup, 'split'>, cut: Cut) {
  const { tp, cp, ep, microbatch, sequenceParallel } = cut
  const element = activationBytes(precision)
  const activation = ((microbatch * shape.seq) / cp) * shape.embed * element
  const meet = (kind: Collective['kind'], bytes: number, size: number, stride: number) =>
    priceCollective({ kind, bytes, group: { size, stride } }, cluster)
  const within = (kind: Collective['kind']) => meet(kind, activation, tp, 1) / software.tensorCollectives
  const [reduce, gather, scatter] = [within('all-reduce'), within('all-gather'), within('reduce-scatter')]
  const keys = (2 * microbatch * shape.seq * shape.kvHeads * shape.headDim * element) / Math.min(tp, shape.kvHeads)
  const keyGather = meet('all-gather', keys, cp, tp)
  // To the experts and back: every token goes to as many of them as see it.
  const own = software.own
  const routed = (activation * (shape.experts?.active ?? 0)) / (sequenceParallel ? tp : 1)
  return {
    tp: sequenceParallel
      ? { forward: 2 * gather + 2 * scatter, backward: (software.regathers ? 4 : 2) * gather + 2 * scatter }
      : { forward: 2 * reduce, backward: 2 * reduce },
    cp: { forward: keyGather, backward: 2 * keyGather },
    ep: 2 * meet('all-to-all', routed, ep, tp * cp),
    tpEmbedding: sequenceParallel ? scatter + gather : (own ? 1 : 2) * reduce,
    // Others send a part each and gather it on the other side; we send what a rank has.
    handed: own && !sequenceParallel ? activation : activation / tp,
    regather: own || sequenceParallel ? 0 : gather,
  }
}
