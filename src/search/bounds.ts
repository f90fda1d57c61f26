/**
 * What no plan of a group can be better than. Each bound is the price of something that every plan of the group has
 * and that depends on the group alone; the test prices whole spaces and finds no plan below its bounds.
 */
import { CutPrice, rankFootprint, type Split, totalBytes } from '../estimate/index.js'
import type { ScheduleName } from '../plan/index.js'
import { plainSplit, type Request } from './request.js'
import type { Group, Saving } from './space.js'

/**
 * Time: the busiest rank computes, and meets its tensor-parallel peers, for at least a pp-th of what one rank would
 * that had all the layers. Bubble, recomputation, data ranks and messages only add to that.
 */
export function stepBound({ shape, cluster, precision, software, book }: Request, group: Group): number {
  const { tp, cp, dp, ep, etp, sequenceParallel, microbatch, microbatches, imbalance, ulysses, ring } = group
  const split: Split = {
    ...{ ...plainSplit, tp, cp, sequenceParallel, microbatch, microbatches },
    // Experts are shared with the ranks of dp: their rows travel.
    ...((ep > 1 || etp) && { dp, ep }),
    ...(etp && { etp }),
    ...(imbalance && { imbalance }),
    ...(ulysses && { ulysses }),
    ...(ring && { ring }),
  }
  return new CutPrice({ shape, split, cluster, precision, software, book }).busy() / group.pp
}

/**
 * Memory: some rank holds at least ceil(layers / pp) layers, and when the first loss is computed it holds them for one
 * microbatch. With one rank that is all there is; of several, one may hold neither embedding nor head. Backward passes
 * that are split in two need less at a time than whole ones, or more.
 */
export function bytesBound(request: Request, group: Group, saving: Saving, lists: EqualLayers = equalLayers()): number {
  const { shape, precision, software, book } = request
  // Of three ranks the second is between the ends.
  const [pp, rank] = group.pp === 1 ? [1, 0] : [3, 1]
  const layers = lists(pp, Math.ceil(shape.layers / group.pp))
  const bytesOf = (schedule: ScheduleName): number => {
    const split: Split = { ...plainSplit, ...group, ...saving, pp, schedule, microbatches: 1, layers }
    return totalBytes(rankFootprint({ shape, split, precision, software, book }, rank))
  }
  // Of others' programs it is not known what a backward pass in two would keep.
  return software.own ? Math.min(bytesOf('1f1b'), bytesOf('zb-h1')) : bytesOf('1f1b')
}

/** So many stages of so many layers each: the same list every time, since what it comes to is remembered by the list. */
export type EqualLayers = (stages: number, each: number) => readonly number[]

export function equalLayers(): EqualLayers {
  const known = new Map<string, readonly number[]>()
  return (stages, each) => {
    const key = `${stages} ${each}`
    const list = known.get(key) ?? new Array<number>(stages).fill(each)
    known.set(key, list)
    return list
  }
}
