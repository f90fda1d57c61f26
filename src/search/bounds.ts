/**
 * What no plan of a group can be better than. Each bound is the price of something that every plan of the group has
 * and that depends on the group alone; the test prices whole spaces and finds no plan below its bounds.
 */
import { gcd } from '../base/index.js'
import { isTimed } from '../cluster/index.js'
import { CutPrice, type Holding, memoryLike, pipelineIn, type Split, totalBytes } from '../estimate/index.js'
import type { ScheduleName } from '../plan/index.js'
import { leastEndOf, type UnlaidPipeline } from './laid.js'
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
export const cutBound = (request: Request, cut: DeviceCut, priceOf: CommonPrices): number =>
  amongMany(request, cut, priceOf, price => (price.busy() * request.globalBatch) / (cut.dp * cut.pp))

/** Of one group, by the same price: one of its microbatches passes all layers and comes back. */
export const passageBound = (request: Request, group: Group, priceOf: CommonPrices): number =>
  amongMany(request, group, priceOf, price => price.passage() * group.microbatch)

/** Of one group, by the same price: its pipelines have bubbles. */
export const bubbleBound = (
  request: Request,
  group: Group,
  pipelines: readonly UnlaidPipeline[],
  priceOf: CommonPrices,
): number => {
  const { microbatch, microbatches } = group
  return amongMany(request, group, priceOf, price => leastEndOf(price, pipelines, microbatches) * microbatch)
}

function amongMany(
  { cluster }: Request,
  cut: DeviceCut,
  priceOf: CommonPrices,
  secondsOf: (price: CutPrice) => number,
): number {
  if (isTimed(cluster)) return 0
  return secondsOf(priceOf({ ...cut, microbatch: manySequences, microbatches: 1 })) / manySequences
}

/**
 * The price of what one microbatch takes with all plans of a group, or with those that compute as much again, on one rank that
 * has all the layers.
 */
export function commonPrice(
  { shape, cluster, precision, software, book }: Request,
  group: Group,
  recompute: Saving['recompute'] = 'none',
): CutPrice {
  const { tp, cp, ep, etp, sequenceParallel, microbatch, imbalance, ulysses, ring, extras } = group
  const split: Split = {
    ...{ ...plainSplit, tp, cp, sequenceParallel, microbatch, recompute },
    // Experts are shared with ranks of dp: their rows travel.
    ...((ep > 1 || etp) && { dp: copiesSharing(group), ep }),
    ...(etp && { etp }),
    ...(imbalance && { imbalance }),
    ...(ulysses && { ulysses }),
    ...(ring && { ring }),
    ...extras,
  }
  return new CutPrice({ shape, split, cluster, precision, software, book })
}

/** Of the ranks of dp those that share experts with one: they lie side by side, and how many others there are has no say in how rows travel. */
const copiesSharing = ({ tp, cp, ep, etp = 1 }: Group): number => (ep * etp) / gcd(ep * etp, tp * cp)

export type CommonPrices = (group: Group, recompute?: Saving['recompute']) => CutPrice

/** The same for many groups: found once for all that cut layers alike. */
export function commonPrices(request: Request): CommonPrices {
  const known = new Map<string, CutPrice>()
  return (group, recompute = 'none') => {
    const { tp, cp, ep, etp, sequenceParallel, microbatch, imbalance, ulysses, ring } = group
    const key = `${tp} ${cp} ${ep} ${etp} ${sequenceParallel} ${microbatch} ${imbalance} ${ulysses} ${ring} ${recompute}`
    const price = known.get(key) ?? commonPrice(request, group, recompute)
    known.set(key, price)
    return price
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
  const known = new Map<number, readonly Holding[]>()
  const { layers } = request.shape
  return group => {
    const each = Math.ceil(layers / group.pp)
    // Of three ranks the second is between the ends.
    const pp = group.pp === 1 ? 1 : 3
    const plain = { ...group, pp, microbatches: 1 }
    const holdings = known.get(group.pp) ?? heldBetween(request, pp, each)
    known.set(group.pp, holdings)
    return saving => {
      const memory = memoryLike(setupOf(request, splitFrom(plain, onePass, saving)))
      return Math.min(...holdings.map(holding => totalBytes(memory.of(holding))))
    }
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
