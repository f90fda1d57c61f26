/** The blocks of our own program as its flights see them: what of their parameters moves over the data axes, in seconds. */
import { activationBytes, dataRanks, ranksOf } from '../../base/index.js'
import { type Kernel, priceInStep } from '../../cost/index.js'
import {
  expertParameters,
  type Held,
  kvSplit,
  layerCounts,
  layerParameters,
  layerTensors,
  trainedParameters,
} from '../counts.js'
import { denseOf, expertCopies, expertShards, expertStride, routedOf } from '../experts.js'
import type { Cut } from '../layer.js'
import { moveSeconds } from '../moves.js'
import type { Prices, PriceTable } from '../prices.js'
import type { FlownBlock } from '../schedules/play.js'
import { reducesEach } from '../schedules/stages.js'
import { type Setup, shardRanks } from '../setup.js'
import type { Shape } from '../shape.js'
import { lanesOf } from './lanes.js'
import type { BlockTime, Ends, OwnLayerCost } from './layer.js'
import { isCoded, packing, travelOf } from './wire.js'

/** Parameters that always fly together, in elements. */
export interface Flyer {
  readonly name: string
  readonly elements: number
  /** Those of experts, of which other ranks have copies. */
  readonly experts: number
  /** Of these, what is trained. */
  readonly trained: Held
  readonly tensors: number
  /** Of the gradients, those that tp sums up as well: over all its ranks, or over the copies of key-value heads. */
  readonly overAll: number
  readonly overCopies: number
  /** Of the gradients, those that travel as they are though others are coded: several stages hold them. */
  readonly exact: number
}

export interface FlyingBlock extends FlownBlock {
  readonly params: readonly Flyer[]
}

/** Seconds of flights. */
export interface BlockTraffic {
  readonly gather: (params: readonly Flyer[]) => number
  readonly lift: (params: readonly Flyer[]) => number
  readonly reduce: (params: readonly Flyer[]) => number
  /** Collectives over tp, those over cp where they have other links, and messages, use the same links. */
  readonly besideTp: boolean
  readonly besideApart: boolean
  readonly besideMessages: boolean
  /** Messages use the links of tp. */
  readonly messagesBesideTp: boolean
  /** They use those of cp, where cp has others. */
  readonly messagesBesideApart: boolean
}

export function trafficOf(setup: Setup, table: PriceTable): BlockTraffic {
  const { shape, split } = setup
  const { tp, pp, zero } = split
  // What no step changes is gathered where ranks keep parts of it.
  const gathered = (p: Flyer): Held => (zero === 3 ? { all: p.elements, experts: p.experts } : p.trained)
  const [{ sent: wide, stored }, { sent: element }] = [travelOf(setup, 'reduce'), travelOf(setup, 'gather')]
  const coded = isCoded(split) && wide < stored
  const as = coded ? stored : wide
  const data = shardRanks(split)
  const groups = zero === 0 ? 1 : dataRanks(split) / data
  const copies = tp / kvSplit(shape, tp)
  const total = (params: readonly Flyer[], of: (param: Flyer) => number) => params.reduce((sum, p) => sum + of(p), 0)
  const lanes = lanesOf(split, table)
  const [sharing, apart] = [zero === 0 ? expertCopies(split) : expertShards(split), expertStride(split)]
  const replicated = replicaSums(setup, table, wide)
  const between = ranksOf(split) / pp
  const isApart = groups > 1 && !lanes.alike([data, tp], [groups, data * tp])
  return {
    gather: params => {
      const [all, experts] = [total(params, p => gathered(p).all), total(params, p => gathered(p).experts)]
      return (
        table.collective('all-gather', element * (all - experts), data, tp) +
        table.collective('all-gather', element * experts, sharing, apart)
      )
    },
    lift: params => {
      const [all, experts] = [total(params, p => p.elements), total(params, p => p.experts)]
      return liftSeconds(
        setup,
        (all - experts) / data + experts / sharing,
        total(params, p => p.tensors),
      )
    },
    reduce: params => {
      const [overAll, overCopies] = [total(params, p => p.overAll), total(params, p => p.overCopies)]
      const experts = total(params, p => p.trained.experts)
      const exact = coded ? total(params, p => p.exact) : 0
      const own = total(params, p => p.trained.all) - overAll - overCopies - experts - exact
      const kind = zero === 0 ? 'all-reduce' : 'reduce-scatter'
      const summed = (elements: number, ranks: number, stride: number) =>
        !coded
          ? table.collective(kind, wide * elements, ranks, stride)
          : table.collective('all-to-all', wide * elements, ranks, stride) +
            (zero === 0 ? table.collective('all-gather', wide * elements, ranks, stride) : 0)
      const within =
        summed(own, data, tp) +
        summed(experts, sharing, apart) +
        table.collective(kind, as * exact, data, tp) +
        table.collective('all-reduce', as * overAll, dataRanks(split) * tp, 1) +
        table.collective('all-reduce', as * overCopies, dataRanks(split) * copies, 1)
      const across = replicated(own, data, tp) + replicated(experts, sharing, apart)
      return isApart ? Math.max(within, across) : within + across
    },
    besideTp: data > 1 && lanes.shares(0, data, tp),
    besideApart: data > 1 && lanes.shares(1, data, tp),
    besideMessages: pp > 1 && data > 1 && lanes.alike([data, tp], [2, between]),
    messagesBesideTp: pp > 1 && lanes.shares(0, 2, between),
    messagesBesideApart: pp > 1 && lanes.shares(1, 2, between),
  }
}

/** HSDP: seconds, per reduction within a group, in which parts of so many elements are summed over its replicas once a step. */
const replicaSums =
  ({ split }: Setup, table: PriceTable, wide: number) =>
  (elements: number, ranks: number, stride: number): number => {
    const groups = dataRanks(split) / shardRanks(split)
    const sum = table.collective('all-reduce', (wide * elements) / ranks, groups, ranks * stride)
    return groups === 1 ? 0 : sum / (reducesEach(split) ? split.microbatches : 1)
  }

/** Of so many elements, where parameters live elsewhere. */
function liftSeconds({ split, cluster, precision }: Setup, elements: number, tensors: number): number {
  if (!split.lifted) return 0
  return moveSeconds(cluster, { space: split.lifted, way: 'in', bytes: activationBytes(precision) * elements, tensors })
}

/** What all stages of a plan are made of. */
export interface FlyingBlocks {
  /** Layers without experts and those with some, where there are both. */
  readonly layers: readonly FlyingBlock[]
  readonly layerAt: (number: number) => FlyingBlock
  /** Found when asked for: bounds ask for layers alone. */
  readonly ends: () => FlyingEnds
}

export interface FlyingEnds {
  readonly embedding: FlyingBlock
  readonly head: FlyingBlock
  /** The head of a rank that holds the table it shares with the embedding. */
  readonly tiedHead: FlyingBlock
}

export function flyingBlocks(
  setup: Setup,
  prices: Prices,
  traffic: BlockTraffic,
  { block: layer, kinds }: Pick<OwnLayerCost, 'block' | 'kinds'>,
  { first, last }: Ends<BlockTime>,
): FlyingBlocks {
  const { shape, split, software } = setup
  const sums = split.sequenceParallel && split.tp > 1
  const ofEnd = (name: string, elements: number, whole: number, exact = 0): Flyer => ({
    ...{ name, elements, experts: 0, tensors: 1, overCopies: 0 },
    ...(shape.adapters
      ? { trained: { all: 0, experts: 0 }, overAll: 0, exact: 0 }
      : { trained: { all: elements, experts: 0 }, overAll: sums ? whole : 0, exact }),
  })
  const { byKvHeads } = layerCounts(shape)
  const kv = kvSplit(shape, split.tp)
  const copied = split.tp > kv ? byKvHeads / kv : 0
  // Written out, and so are layers: a search makes thousands of these.
  const block = ({ seconds, acts }: BlockTime, pieces: number, ...params: readonly Flyer[]): FlyingBlock => ({
    seconds,
    acts,
    params,
    readsBack: true,
    gather: traffic.gather(params),
    lift: traffic.lift(params),
    reduce: traffic.reduce(params),
    add: addSeconds(setup, params, pieces) + packing(setup, 'reduce', trainedIn(params), pieces),
    unpack: packing(setup, 'gather', heldIn(params), pieces),
  })
  const layerOf = ({ elements, experts, trained, whole }: LayerHeld, time: BlockTime): FlyingBlock => {
    const overAll = sums && !shape.adapters ? whole : 0
    const overCopies = shape.adapters ? 0 : copied
    const tensors = layerTensors(shape)
    const all: Flyer = { name: 'layer', elements, experts, trained, tensors, overAll, overCopies, exact: 0 }
    return block(time, software.pieces, all)
  }
  const { mean, plain, routed } = prices.own!.held // of our own program
  const layers = kinds ? [layerOf(plain, kinds.plain), layerOf(routed, kinds.routed)] : [layerOf(mean, layer)]
  const endsOf = (): FlyingEnds => {
    const normElements = (shape.norm === 'layer' ? 2 : 1) * shape.embed
    const several = shape.tied && split.pp > 1 ? prices.embeddingParameters : 0
    const table = ofEnd('table', prices.embeddingParameters, 0, several)
    const norm = ofEnd('norm', normElements, normElements)
    const out = ofEnd('out', prices.headParameters - normElements, 0)
    return {
      embedding: { ...block(first, 1, table), readsBack: false },
      head: block(last, 2, norm, out),
      tiedHead: block(last, 2, norm, table),
    }
  }
  let known: FlyingEnds | undefined
  return { layers, layerAt: numberedLayers(layers, kinds?.dense ?? 0), ends: () => (known ??= endsOf()) }
}

/** Parameters of a layer on one rank, and of those with whole gradients on every rank of tp. */
export interface LayerHeld extends Pick<Flyer, 'elements' | 'experts' | 'trained'> {
  readonly whole: number
}

/** Of the mean layer, and of one without experts and one with some. */
export interface HeldByKind {
  readonly mean: LayerHeld
  readonly plain: LayerHeld
  readonly routed: LayerHeld
}

export function heldByKind(shape: Shape, cut: Cut): HeldByKind {
  const of = (one: Shape): LayerHeld => ({
    elements: layerParameters(one, cut),
    experts: expertParameters(one, cut),
    trained: trainedParameters(one, cut),
    whole: layerCounts(one).whole,
  })
  const mean = of(shape)
  return shape.experts
    ? { mean, plain: of(denseOf(shape)), routed: of(routedOf(shape)) }
    : { mean, plain: mean, routed: mean }
}

const heldIn = (params: readonly Flyer[]): Held => ({
  all: params.reduce((sum, { elements }) => sum + elements, 0),
  experts: params.reduce((sum, { experts }) => sum + experts, 0),
})

const trainedIn = (params: readonly Flyer[]): Held => ({
  all: params.reduce((sum, { trained }) => sum + trained.all, 0),
  experts: params.reduce((sum, { trained }) => sum + trained.experts, 0),
})

/** Layers by number, so many of the first kind before the others: the parameters of each are its own. Made once for all pipelines. */
function numberedLayers(kinds: readonly FlyingBlock[], first: number): (number: number) => FlyingBlock {
  const known: FlyingBlock[] = []
  return number => {
    const layer = kinds[number < first ? 0 : kinds.length - 1]
    known[number] ??= { ...layer, params: layer.params.map(param => ({ ...param, name: `${param.name} ${number}` })) }
    return known[number]
  }
}

function addSeconds({ split, cluster, software }: Setup, params: readonly Flyer[], pieces: number): number {
  if (split.microbatches === 1) return 0
  const { all, experts } = trainedIn(params)
  const elements = (all - experts) / shardRanks(split) + experts / expertShards(split)
  // The first of a step is kept as it is.
  const bytes = elements * software.gradientBytes * (1 - 1 / split.microbatches)
  if (bytes === 0) return 0
  const kernel: Kernel = { kind: 'memory', read: 2 * bytes, written: bytes }
  return Math.max(priceInStep(kernel, cluster.device), pieces * cluster.device.curves.floor)
}
