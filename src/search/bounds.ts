/**
 * What no plan of a group can be better than. Each bound is the price of something that every plan of the group has
 * and that depends on the group alone; the test prices whole spaces and finds no plan below its bounds.
 */
import { gcd } from '../base/index.js'
import { isTimed } from '../cluster/index.js'
import { CutPrice, type Holding, memoryLike, pipelineIn, type Split, totalBytes } from '../estimate/index.js'
import type { ScheduleName } from '../plan/index.js'
import { leastEndOf, type UnlaidPipeline } from './laid.js'
import { once } from './once.js'
import { plainSplit, type Request, setupOf } from './request.js'
import { type DeviceCut, type Group, type Saving, splitFrom } from './space.js'

/** More sequences than any microbatch has. */
const manySequences = 2 ** 16

/**
 * Time of all groups that cut devices alike, whatever the size of their microbatches: the busiest rank computes, and meets its
 * tensor-parallel peers, for at least a pp-th of what one rank would that had all the layers. Bubble, recomputation, data ranks, messages
 * and adding up gradients only add to that. A sequence takes least among very many, where every wave of tiles is full and nothing
 * waits for latencies. 0 where kernels or collectives were timed: in between large ones may be slower.
 */
export const cutBound = (request: Request, cut: DeviceCut, prices: CutPrices): number =>
  amongMany(request, prices('none'), price => (price.busy() * request.globalBatch) / (cut.dp * cut.pp))

/** Of one group, by the same price: one of its microbatches passes all layers and comes back. */
export const passageBound = (request: Request, { microbatch }: Group, prices: CutPrices): number =>
  amongMany(request, prices('none'), price => price.passage() * microbatch)

/** Of one group, by the price of what is computed again: its pipelines have bubbles. */
export const bubbleBound = (
  request: Request,
  { microbatch, microbatches }: Group,
  pipelines: readonly UnlaidPipeline[],
  prices: PricesBySize,
): number => amongMany(request, prices, price => leastEndOf(price, pipelines, microbatches) * microbatch)

function amongMany({ cluster }: Request, prices: PricesBySize, secondsOf: (price: CutPrice) => number): number {
  return isTimed(cluster) ? 0 : secondsOf(prices(manySequences)) / manySequences
}

/**
 * The price of what one microbatch takes with all plans of a group, or with those that compute as much again, on one rank that
 * has all the layers.
 */
function commonPrice(
  { shape, cluster, precision, software, book }: Request,
  cut: DeviceCut,
  microbatch: number,
  recompute: Saving['recompute'],
): CutPrice {
  const { tp, cp, ep, etp, sequenceParallel, imbalance, ulysses, ring, extras } = cut
  const split: Split = {
    ...{ ...plainSplit, tp, cp, sequenceParallel, microbatch, recompute },
    // Experts are shared with ranks of dp: their rows travel.
    ...((ep > 1 || etp) && { dp: copiesSharing(cut), ep }),
    ...(etp && { etp }),
    ...(imbalance && { imbalance }),
    ...(ulysses && { ulysses }),
    ...(ring && { ring }),
    ...extras,
  }
  return new CutPrice({ shape, split, cluster, precision, software, book })
}

/** Of the ranks of dp those that share experts with one: they lie side by side, and how many others there are has no say in how rows travel. */
const copiesSharing = ({ tp, cp, ep, etp = 1 }: DeviceCut): number => (ep * etp) / gcd(ep * etp, tp * cp)

/** By the sequences of a microbatch. */
export type PricesBySize = (microbatch: number) => CutPrice
/** Of the groups of a cut: by what is computed again. */
export type CutPrices = (recompute: Saving['recompute']) => PricesBySize

/** The same for many groups: found once for all that cut layers alike. */
export function commonPrices(request: Request): (cut: DeviceCut) => CutPrices {
  const known = new Map<string, CutPrices>()
  return cut => {
    const { tp, cp, ep, etp, sequenceParallel, imbalance, ulysses, ring } = cut
    const key = `${tp} ${cp} ${ep} ${etp} ${sequenceParallel} ${imbalance} ${ulysses} ${ring}`
    const alike = once((recompute: Saving['recompute']) =>
      once((microbatch: number) => commonPrice(request, cut, microbatch, recompute)),
    )
    const prices = known.get(key) ?? alike
    known.set(key, prices)
    return prices
  }
}

/**
 * Memory: some rank holds at least ceil(layers / pp) layers, and when the first loss is computed it holds them for one
 * microbatch. With one rank that is all there is; of several, one may hold neither embedding nor head. Backward passes
 * that are split in two need less at a time than whole ones, or more.
 */
export const bytesBound = (request: Request, group: Group, saving: Saving): number => byteBounds(request)(group)(saving)

/** The same for many groups: what a rank holds is found once for all that have as many layers there. */
export function byteBounds(request: Request): (group: Group) => (saving: Saving) => number {
  const { layers } = request.shape
  // Of three ranks the second is between the ends.
  const holdingsOf = once((pp: number) => heldBetween(request, pp === 1 ? 1 : 3, Math.ceil(layers / pp)))
  return group => {
    const holdings = holdingsOf(group.pp)
    const plain = { ...group, pp: group.pp === 1 ? 1 : 3, microbatches: 1 }
    return once(saving => {
      const memory = memoryLike(setupOf(request, splitFrom(plain, onePass, saving)))
      return Math.min(...holdings.map(holding => totalBytes(memory.of(holding))))
    })
  }
}

const onePass = { schedule: '1f1b', chunks: 1 } as const

/** By a rank between the ends, or by the only one, of one microbatch: of backward passes that are whole, and in two. */
function heldBetween({ shape, precision, software, book }: Request, pp: number, each: number): Holding[] {
  const layers = new Array<number>(pp).fill(each)
  // Of others' programs it is not known what a backward pass in two would keep.
  const schedules: readonly ScheduleName[] = software.own ? ['1f1b', 'zb-h1'] : ['1f1b']
  return schedules.map(schedule => {
    const split: Split = { ...plainSplit, pp, schedule, layers }
    return pipelineIn({ shape, split, precision, software, book }).holdings.all[pp === 1 ? 0 : 1]
  })
}
