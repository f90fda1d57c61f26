/**
 * Prices that many plans share, worked out once: a plan varies its pipeline, data ranks and microbatches far more often
 * than the cut of a layer. One table for each (shape, cluster, precision, software); within it one row for each cut.
 */
import type { Cluster, Precision } from '../cluster/index.js'
import { type Kernel, type Meeting, priceKernel, priceMeeting } from '../cost/index.js'
import { type Cut, embeddingKernels, headKernels, type Kernels, layerKernels, paddedVocab } from './layer.js'
import type { Setup } from './setup.js'
import type { Shape } from './shape.js'
import type { Software } from './software.js'

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
  /** Collectives of one layer over tp and cp, whether hidden or not. */
  readonly tp: { readonly forward: number; readonly backward: number }
  readonly cp: { readonly forward: number; readonly backward: number }
  /** Of the embedding's sum over the split vocabulary. */
  readonly tpEmbedding: number
  /** Bytes handed to the next stage by one rank, and the gather that makes them whole again. */
  readonly handed: number
  readonly regather: number
  /** Parameters one rank computes with. */
  readonly layerParameters: number
  readonly tableParameters: number
}

export class PriceTable {
  readonly #rows = new Map<number, Prices>()
  readonly #meetings = new Map<string, number>()
  readonly #setup: Omit<Setup, 'split'>

  constructor(setup: Omit<Setup, 'split'>) {
    this.#setup = setup
  }

  of(cut: Cut): Prices {
    const key = ((cut.microbatch * 2 + (cut.sequenceParallel ? 1 : 0)) * 65536 + cut.cp) * 4096 + cut.tp
    let row = this.#rows.get(key)
    if (row === undefined) this.#rows.set(key, (row = pricesOf(this.#setup, cut)))
    return row
  }

  meeting(kind: Meeting['kind'], bytes: number, size: number, stride: number): number {
    if (size <= 1 || bytes === 0) return 0
    const key = `${kind} ${bytes} ${size} ${stride}`
    let seconds = this.#meetings.get(key)
    if (seconds === undefined) {
      seconds = priceMeeting({ kind, bytes, group: { size, stride } }, this.#setup.cluster)
      this.#meetings.set(key, seconds)
    }
    return seconds
  }
}

const tables = new WeakMap<Shape, WeakMap<Cluster, WeakMap<Software, Map<Precision, PriceTable>>>>()

export function tableOf(setup: Setup): PriceTable {
  const { shape, cluster, software, precision } = setup
  const byCluster = entry(tables, shape, () => new WeakMap<Cluster, WeakMap<Software, Map<Precision, PriceTable>>>())
  const bySoftware = entry(byCluster, cluster, () => new WeakMap<Software, Map<Precision, PriceTable>>())
  const byPrecision = entry(bySoftware, software, () => new Map<Precision, PriceTable>())
  return entry(byPrecision, precision, () => new PriceTable({ shape, cluster, software, precision }))
}

interface Lookup<K, V> {
  get(key: K): V | undefined
  set(key: K, value: V): unknown
}

function entry<K, V>(map: Lookup<K, V>, key: K, make: () => V): V {
  let value = map.get(key)
  if (value === undefined) map.set(key, (value = make()))
  return value
}

function pricesOf({ shape, cluster, precision, software }: Omit<Setup, 'split'>, cut: Cut): Prices {
  const total = (kernels: readonly Kernel[]) => kernels.reduce((sum, k) => sum + priceKernel(k, cluster.device), 0)
  const times = (k: Kernels): Times => ({
    forward: total(k.forward),
    input: total(k.input),
    weight: total(k.weight),
    core: total(k.core),
  })
  const element = precision === 'f32' ? 4 : 2
  const activation = ((cut.microbatch * shape.seq) / cut.cp) * shape.embed * element
  const meet = (kind: Meeting['kind'], bytes: number, size: number, stride: number) =>
    priceMeeting({ kind, bytes, group: { size, stride } }, cluster)
  const reduce = meet('all-reduce', activation, cut.tp, 1)
  const gather = meet('all-gather', activation, cut.tp, 1)
  const scatter = meet('reduce-scatter', activation, cut.tp, 1)
  const keys = (2 * cut.microbatch * shape.seq * Math.max(shape.kvHeads, cut.tp) * shape.headDim * element) / cut.tp
  const keyGather = meet('all-gather', keys, cut.cp, cut.tp)
  const { split, whole } = parametersOf(shape)
  return {
    layer: times(layerKernels(shape, cut, precision, software)),
    embedding: times(embeddingKernels(shape, cut)),
    head: times(headKernels(shape, cut, precision, software)),
    tp: cut.sequenceParallel
      ? { forward: 2 * gather + 2 * scatter, backward: 4 * gather + 2 * scatter }
      : { forward: 2 * reduce, backward: 2 * reduce },
    cp: { forward: keyGather, backward: 2 * keyGather },
    tpEmbedding: cut.sequenceParallel ? scatter + gather : 2 * reduce,
    handed: activation / cut.tp,
    regather: cut.sequenceParallel ? 0 : gather,
    layerParameters: split / cut.tp + whole,
    tableParameters: paddedVocab(shape, cut.tp) * shape.embed,
  }
}

/** Of one layer: what tp splits, and what every rank holds. */
function parametersOf(shape: Shape): { split: number; whole: number } {
  const { embed, heads, kvHeads, headDim, ffn, gated, experts } = shape
  const attention = embed * headDim * (2 * heads + 2 * kvHeads)
  const hidden = (gated ? 3 : 2) * embed * ffn * (experts?.count ?? 1)
  const biases = shape.biases ? 2 * embed : 0
  return { split: attention + hidden, whole: (shape.norm === 'layer' ? 4 : 2) * embed + biases }
}
