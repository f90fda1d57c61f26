/** What a step costs the ranks of a pipeline: the busiest of them, and the tasks of every stage. */

import type { LayerCost, PassTimes } from './others/layer-cost.js'
import type { Ends, OwnLayerCost } from './own/layer.js'
import type { OthersTimes, Prices } from './prices.js'
import type { TaskTimes } from './schedules/play.js'
import type { Pipeline, PipelineRank, RankLayers } from './schedules/stages.js'
import type { MostHeld } from './step-cost.js'

/** Seconds of the tasks of a layer, and of what embedding and head add to theirs. */
export interface StageParts {
  readonly layer: TaskTimes
  /** A layer without experts less one with some, where layers are a mean of both. */
  readonly lighter?: TaskTimes | undefined
  readonly ends: Ends
  /** What the host adds to each stage and microbatch. */
  readonly host: number
  /** Backward passes are one task or two, or some of them one and some two. */
  readonly backward: 'whole' | 'split' | 'paired'
  /** All that is done with a microbatch, with such passes. */
  readonly total: PartTotals
}

export interface PartTotals {
  readonly layer: number
  readonly first: number
  readonly last: number
}

export const totalsOf = (layer: TaskTimes, { first, last }: Ends, backward: StageParts['backward']): PartTotals => ({
  layer: totalOf(layer, { backward }),
  first: totalOf(first, { backward }),
  last: totalOf(last, { backward }),
})

export const taskTimes = ({ forward, input, weight }: PassTimes): TaskTimes => ({
  ...{ F: forward, I: input, W: weight, B: input + weight },
})

export const layerTimes = (layer: LayerCost): TaskTimes =>
  'block' in layer ? (layer as OwnLayerCost).block.seconds : taskTimes(layer) // of our own layers every task is known

/** What a layer without experts takes less one with some: of our own, where those come first. */
export function lighterTimes(layer: LayerCost): TaskTimes | undefined {
  const { kinds } = layer as Partial<OwnLayerCost>
  if (!kinds) return undefined
  const [plain, routed] = [kinds.plain.seconds, kinds.routed.seconds]
  return { F: plain.F - routed.F, I: plain.I - routed.I, W: plain.W - routed.W, B: plain.B - routed.B }
}

/** Of others' programs. */
export const usualEnds = ({ embedding, head }: OthersTimes, { tpEmbedding }: Prices): Ends => ({
  first: taskTimes({ forward: embedding.forward + tpEmbedding, input: embedding.input, weight: embedding.weight }),
  last: taskTimes(head),
})

/** All of one microbatch; where some backward passes are in two, the lesser. */
export const totalOf = ({ F, I, W, B }: TaskTimes, { backward }: Pick<StageParts, 'backward'>): number =>
  F + (backward === 'whole' ? B : backward === 'split' ? I + W : Math.min(B, I + W))

/** Of the mean layer, of one without experts less one with some, and of the one that takes longest. */
export interface MeanSeconds {
  readonly mean: number
  readonly lighter: number
  readonly most: number
}

/** Seconds that the parameters of a layer are on their way for one call, and its gradients for one microbatch. */
export interface FlownEach {
  readonly gather: MeanSeconds
  readonly rest: MeanSeconds
}

export interface Busiest {
  readonly rank: PipelineRank
  /** Seconds it works in a step; of that what embedding and head add, and their collectives over tp. */
  readonly busy: number
  readonly endsBusy: number
  readonly endsTp: number
}

export function busiestOf({ firsts: ranks }: Pipeline, prices: Prices, parts: StageParts): Busiest {
  let rank = ranks[0]
  let busy = busyOf(rank, parts)
  for (let i = 1; i < ranks.length; i++) {
    const seconds = busyOf(ranks[i], parts)
    if (seconds <= busy) continue
    busy = seconds
    rank = ranks[i]
  }
  const endsTp = rank.firstTurns * prices.tpEmbedding
  const layers = rank.layerTurns * parts.total.layer
  const endsBusy = busy - layers - endsTp - rank.turns * parts.host
  return { rank, busy, endsBusy, endsTp }
}

/** Parameters that are trained on the rank that holds most. */
export function mostHeld({ firsts: ranks }: Pipeline, prices: Prices): MostHeld {
  let [all, layers, mostLayers] = [0, 0, 0]
  for (const rank of ranks) {
    const held = parametersOf(rank, prices)
    if (held > all) layers = rank.layers
    all = Math.max(all, held)
    mostLayers = Math.max(mostLayers, rank.layers)
  }
  const experts = mostLayers * (prices.trained?.experts ?? prices.expertParameters)
  return { all, experts, layers, mostLayers }
}

/** Seconds a rank works in a step. */
export function busyOf(rank: PipelineRank, parts: StageParts, times = 1): number {
  const { lighter, total, host } = parts
  return (
    times * rank.turns * host +
    (lighter ? manyOf(lighter, times * rank.excessTurns, parts) : 0) +
    times * rank.layerTurns * total.layer +
    times * rank.firstTurns * total.first +
    times * rank.lastTurns * total.last
  )
}

/** So many times as `totalOf`: where there are fewer than none, the lesser is the greater. */
const manyOf = ({ F, I, W, B }: TaskTimes, by: number, { backward }: StageParts): number =>
  by * F + (backward === 'whole' ? by * B : backward === 'split' ? by * I + by * W : Math.min(by * B, by * I + by * W))

/** Of one microbatch, on average. */
export function meanTimes(rank: PipelineRank, { layer, ends }: StageParts, microbatches: number): PassTimes {
  const { layerTurns, firstTurns, lastTurns } = rank
  const of = (kind: keyof TaskTimes) =>
    (layerTurns * layer[kind] + firstTurns * ends.first[kind] + lastTurns * ends.last[kind]) / microbatches
  return { forward: of('F'), input: of('I'), weight: of('W') }
}

/** Of every task of every stage; `late`: what a message costs the rank that sends it. */
export function stageTimes(
  { stages, excess }: Pipeline,
  { layer, lighter, ends, host }: StageParts,
  late: number,
): TaskTimes[] {
  return stages.map((layers, stage) => {
    const [first, last] = [stage === 0 ? 1 : 0, stage === stages.length - 1 ? 1 : 0]
    const of = (kind: keyof TaskTimes) =>
      layers * layer[kind] +
      first * ends.first[kind] +
      last * ends.last[kind] +
      (lighter && excess ? excess[stage] * lighter[kind] : 0)
    return { F: of('F') + late + host, I: of('I') + late, W: of('W'), B: of('B') + late }
  })
}

const parametersOf = ({ layers, first, last }: RankLayers, prices: Prices): number =>
  prices.trained !== undefined
    ? layers * prices.trained.all
    : layers * prices.layerParameters +
      (first ? prices.embeddingParameters : 0) +
      (last ? (first ? prices.headBesideEmbedding : prices.headParameters) : 0)

/**
 * When a step can be done at the soonest, whatever the order of its tasks. One microbatch passes all stages and comes back;
 * no microbatch comes to a rank before it has passed the stages before, and when the rank has sent its last gradient
 * that must pass them again. And a rank's lane carries all it fetches and all it gives away.
 */
export function leastEnd({ pipeline, times }: Repeated, parts: StageParts, message: number, flown: FlownEach): number {
  const { stages, layers, ranks, lasts } = pipeline
  const { layer, ends, lighter = noTime } = parts
  const whole = parts.backward === 'whole'
  const back = backOf(layer, whole)
  const backToFirst = backOf(ends.first, whole)
  const lighterBack = whole ? lighter.B : lighter.I
  const pass = layer.F + back
  const passFirst = ends.first.F + backToFirst
  const passLast = ends.last.F + backOf(ends.last, whole)
  // On a V the turn at the bottom is not sent.
  const hops = ranks.length === 1 ? 0 : Math.max(0, stages.length - 2)
  let least = layers * pass + passFirst + passLast + 2 * hops * message
  for (let i = 0; i < lasts.length; i++) {
    const rank = lasts[i]
    const { layersBefore, stagesBefore, excessBefore } = rank
    const entered = stagesBefore > 0 ? 1 : 0
    const way = stagesBefore * message
    const start = layersBefore * layer.F + excessBefore * lighter.F + entered * ends.first.F + way
    const home = layersBefore * back + excessBefore * lighterBack + entered * backToFirst + way
    const own = start + busyOf(rank, parts, times)
    const layerTurns = times * rank.layerTurns
    const excessTurns = times * rank.excessTurns
    const more = excessTurns * (lighter.F + lighterBack)
    const first = times * rank.firstTurns * passFirst
    const sent = start + layerTurns * pass + more + first + times * rank.lastTurns * passLast
    const moved = movedBy(flown, layerTurns, excessTurns, times * rank.turns)
    least = Math.max(least, own, sent + home, moved)
  }
  return least
}

/** A pipeline that so many times as many microbatches pass as it was laid out for. */
export interface Repeated {
  readonly pipeline: Pipeline
  readonly times: number
}

/** Forward and backward fetch, but a call may find what the one before it has fetched. */
function movedBy({ gather, rest }: FlownEach, layerTurns: number, excessTurns: number, turns: number): number {
  const gathered = layerTurns * gather.mean + excessTurns * gather.lighter
  const fetched = Math.max(0, 2 * (gathered - turns * gather.most))
  return fetched + (layerTurns * rest.mean + excessTurns * rest.lighter)
}

const noTime: TaskTimes = { F: 0, I: 0, W: 0, B: 0 }

/** Of one microbatch, until its gradient can be sent on. */
const backOf = ({ I, B }: TaskTimes, whole: boolean): number => (whole ? B : Math.min(I, B))
