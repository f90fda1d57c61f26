/**
 * Prices that many plans share, worked out once: a plan varies its pipeline, data ranks and microbatches far more often
 * than the cut of a layer. One table for each (shape, cluster, precision, software); within it one row for each cut. An EstimateBook keeps tables.
 */

import { activationBytes } from '../base/index.js'
import { collectiveKinds } from '../cluster/index.js'
import {
  type Collective,
  hopsOf,
  type Kernel,
  priceCollective,
  priceExchange,
  priceInStep,
  sendsOnce,
} from '../cost/index.js'
import {
  embeddingParameters,
  expertParameters,
  type Held,
  headParameters,
  layerParameters,
  tableRanks,
  trainedParameters,
} from './counts.js'
import { ByFields, entry } from './entry.js'
import { denseOf, partsOfToken, routedOf, routedShare, routedTokens } from './experts.js'
import {
  type Cut,
  cutFields,
  cutOf,
  embeddingKernels,
  headKernels,
  type Kernels,
  layerKernels,
  type StreamCut,
  streamFields,
} from './layer.js'
import { type HeldByKind, heldByKind } from './own/flying.js'
import type { KnownClocks, KnownTimes } from './own/layer.js'
import { BlockStructures } from './own/structures.js'
import type { Setup, Split } from './setup.js'
import type { Shape } from './shape.js'

/** Seconds of compute of one microbatch on one rank. */
export interface Times {
  readonly forward: number
  readonly input: number
  readonly weight: number
  readonly core: number
  readonly last: number
}

/** Everything one microbatch costs a rank, but for what depends on data ranks and stages. */
export interface Prices {
  /** Of the embedding's sum over the split vocabulary. */
  readonly tpEmbedding: number
  /** Bytes handed to the next stage by one rank, and the gather that makes them whole again. */
  readonly handed: number
  readonly regather: number
  /** Parameters one rank computes with; a tied head has none of its own beside the embedding. */
  readonly layerParameters: number
  /** Of that, those of experts. */
  readonly expertParameters: number
  /** Of a layer where adapters alone are trained: those. */
  readonly trained?: Held
  readonly embeddingParameters: number
  readonly headParameters: number
  readonly headBesideEmbedding: number
  /** Of our own program, and of others'. */
  readonly own?: OwnLayers
  readonly others?: OthersTimes
}

/** Seconds of kernels and collectives. */
export interface OthersTimes {
  readonly layer: Times
  readonly embedding: Times
  readonly head: Times
  /** Collectives of one layer, whether hidden or not; over ep in one direction. Of tp also the one that ends forward, which `Kernels.last` makes the addends of. */
  readonly tp: { readonly forward: number; readonly backward: number; readonly last: number }
  readonly cp: { readonly forward: number; readonly backward: number }
  readonly ep: number
}

/** What blocks take, by what else than their cut that depends on. */
export interface OwnLayers {
  readonly known: KnownTimes
  /** Of layers with experts; of all that layers share which differ in their experts alone. */
  readonly clocks: KnownClocks
  readonly stream: KnownClocks
  readonly held: HeldByKind
}

type LinkKind = ReturnType<typeof hopsOf>[number]['link']['kind']

export class PriceTable {
  readonly #rows = new ByFields<keyof Cut, Prices>([...cutFields, 'agreeing'])
  readonly #streams = new ByFields<keyof StreamCut, KnownClocks>(streamFields)
  readonly #collectives = new Map<number, Map<number, number>>()
  readonly #links = new Map<number, { readonly kind: LinkKind | undefined }>()
  readonly #setup: Omit<Setup, 'split'>
  #structures: BlockStructures | undefined

  constructor(setup: Omit<Setup, 'split'>) {
    this.#setup = setup
  }

  of(split: Cut & Pick<Split, 'dp'>): Prices {
    const cut = cutOf(split)
    return this.#rows.of(cut, () => pricesOf(this.#setup, cut, this))
  }

  stream(cut: StreamCut): KnownClocks {
    return this.#streams.of(cut, () => new Map())
  }

  /** Blocks as the compiler writes them. */
  get structures(): BlockStructures {
    this.#structures ??= new BlockStructures(this.#setup)
    return this.#structures
  }

  /** The kind of the outermost links among so many ranks so far apart; undefined: there are none. */
  linkOf(size: number, stride: number): LinkKind | undefined {
    return entry(this.#links, size * 2 ** 20 + stride, () => ({
      kind: hopsOf({ size, stride }, this.#setup.cluster).at(-1)?.link.kind,
    })).kind
  }

  collective(kind: Collective['kind'], bytes: number, size: number, stride: number): number {
    if (size <= 1 || bytes === 0) return 0
    const who = (collectiveKinds.indexOf(kind) * 2 ** 20 + size) * 2 ** 20 + stride
    const byBytes = entry(this.#collectives, who, () => new Map<number, number>())
    let seconds = byBytes.get(bytes)
    if (seconds === undefined) {
      seconds = priceCollective({ kind, bytes, group: { size, stride } }, this.#setup.cluster)
      byBytes.set(bytes, seconds)
    }
    return seconds
  }
}

function othersTimes(setup: Omit<Setup, 'split'>, cut: Cut): OthersTimes {
  const { shape, cluster, precision, software } = setup
  const total = (kernels: readonly Kernel[]) => kernels.reduce((sum, k) => sum + priceInStep(k, cluster.device), 0)
  const times = (k: Kernels): Times => ({
    forward: total(k.forward),
    input: total(k.input),
    weight: total(k.weight),
    core: total(k.core),
    last: total(k.last),
  })
  return {
    layer: meanTimes(shape, one => times(layerKernels(one, cut, precision, software))),
    embedding: times(embeddingKernels(shape, cut)),
    head: scaled(times(headKernels(shape, cut, precision, software)), 1 + (shape.further ?? 0)),
    ...othersTraffic(setup, cut),
  }
}

function pricesOf(setup: Omit<Setup, 'split'>, cut: Cut, table: PriceTable): Prices {
  const { shape, software } = setup
  const ranks = software.own ? tableRanks(shape, cut.tp) : cut.tp
  return {
    ...handingOf(setup, cut),
    layerParameters: layerParameters(shape, cut),
    expertParameters: expertParameters(shape, cut),
    ...(shape.adapters && { trained: trainedParameters(shape, cut) }),
    embeddingParameters: embeddingParameters(shape, ranks),
    headParameters: headParameters(shape, ranks, false),
    headBesideEmbedding: headParameters(shape, ranks, true),
    ...(software.own ? { own: ownLayers(setup, cut, table.stream(cut)) } : { others: othersTimes(setup, cut) }),
  }
}

const ownLayers = ({ shape }: Omit<Setup, 'split'>, cut: Cut, stream: KnownClocks): OwnLayers => ({
  ...{ known: new Map(), clocks: new Map(), stream, held: heldByKind(shape, cut) },
})

const scaled = ({ forward, input, weight, core, last }: Times, by: number): Times => ({
  ...{ forward: by * forward, input: by * input, weight: by * weight, core: by * core, last: by * last },
})

/** Of the mean layer, where only some are routed. */
function meanTimes(shape: Shape, of: (shape: Shape) => Times): Times {
  const routed = routedShare(shape)
  const [without, with_] = [routed < 1 ? of(denseOf(shape)) : undefined, routed > 0 ? of(routedOf(shape)) : undefined]
  if (!without || !with_) return (without ?? with_) as Times // one of them is there
  const mean = (kind: keyof Times) => (1 - routed) * without[kind] + routed * with_[kind]
  return {
    ...{ forward: mean('forward'), input: mean('input'), weight: mean('weight') },
    ...{ core: mean('core'), last: mean('last') },
  }
}

/** To the experts and back, in one direction: rows, and where experts are split the gathering and summing of them. */
function exchangeSeconds({ shape, cluster, precision, software }: Omit<Setup, 'split'>, cut: Cut): number {
  const { experts } = shape
  if (!experts) return 0
  const { ep, etp = 1, imbalance = 1 } = cut
  const transport = software.exchange ?? 'all-to-all'
  const bytes = routedTokens(shape, cut) * shape.embed * activationBytes(precision) * imbalance
  const copies = (parts: number) => (sendsOnce(transport) ? partsOfToken(experts, parts) : experts.active)
  const way = priceExchange({ bytes, group: { size: ep, stride: etp }, transport, copies }, cluster)
  const rows = etp * experts.active * bytes
  const split = (kind: Collective['kind']) =>
    priceCollective({ kind, bytes: rows, group: { size: etp, stride: 1 } }, cluster)
  return routedShare(shape) * (2 * way + split('all-gather') + split('reduce-scatter'))
}

/** Bytes of the residual stream on one rank without sequence parallelism, and the collectives over tp that it takes part in. */
function tensorParallel({ shape, cluster, precision, software }: Omit<Setup, 'split'>, { tp, cp, microbatch }: Cut) {
  const activation = ((microbatch * shape.seq) / cp) * shape.embed * activationBytes(precision)
  const within = (kind: Collective['kind']) =>
    priceCollective({ kind, bytes: activation, group: { size: tp, stride: 1 } }, cluster) / software.tensorCollectives
  return {
    ...{ activation, reduce: within('all-reduce'), gather: within('all-gather'), scatter: within('reduce-scatter') },
  }
}

/** What goes from stage to stage, and what the embedding sums. */
function handingOf(setup: Omit<Setup, 'split'>, cut: Cut): Pick<Prices, 'tpEmbedding' | 'handed' | 'regather'> {
  const { own } = setup.software
  const { activation, reduce, gather, scatter } = tensorParallel(setup, cut)
  return {
    tpEmbedding: cut.sequenceParallel ? scatter + gather : (own ? 1 : 2) * reduce,
    // Others send a part each and gather it on the other side; we send what a rank has.
    handed: own && !cut.sequenceParallel ? activation : activation / cut.tp,
    regather: own || cut.sequenceParallel ? 0 : gather,
  }
}

function othersTraffic(setup: Omit<Setup, 'split'>, cut: Cut): Pick<OthersTimes, 'tp' | 'cp' | 'ep'> {
  const { shape, cluster, precision, software } = setup
  const { tp, cp, microbatch, sequenceParallel } = cut
  const { reduce, gather, scatter } = tensorParallel(setup, cut)
  const width = shape.latent
    ? (shape.heads * (shape.latent.plain + shape.latent.turned + shape.latent.values)) / 2
    : shape.kvHeads * shape.headDim
  const held = Math.min(tp, shape.latent ? shape.heads : shape.kvHeads)
  const bytes = (2 * microbatch * shape.seq * width * activationBytes(precision)) / held
  const keyGather = priceCollective({ kind: 'all-gather', bytes, group: { size: cp, stride: tp } }, cluster)
  return {
    tp: sequenceParallel
      ? {
          forward: 2 * gather + 2 * scatter,
          backward: (software.regathers ? 4 : 2) * gather + 2 * scatter,
          last: scatter,
        }
      : { forward: 2 * reduce, backward: 2 * reduce, last: reduce },
    cp: { forward: keyGather, backward: 2 * keyGather },
    ep: exchangeSeconds(setup, cut),
  }
}
