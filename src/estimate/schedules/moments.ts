/**
 * What lies on a pipeline rank when it is fullest. A schedule that splits backward has microbatches in two states: *open*
 * between forward and input gradient, *pending* between input gradient and weight gradient. What a rank holds falls only
 * when a backward task is done, so it is fullest when one begins; of those moments the ones that no other exceeds are
 * kept, by what is at work.
 */
import type { TaskKind } from '../../schedule/index.js'
import { kindOfTask, type Order } from './order.js'

/** At work: a layer or the head going backward, whole or in two, or the table's gradient. */
export type AtWork = 'layer' | 'layer input' | 'layer weight' | 'head' | 'head input' | 'head weight' | 'table'

/** Blocks by what decides the size of their parameters. */
export const blockSizes = ['nothing', 'layer', 'table'] as const
export type BlockSize = (typeof blockSizes)[number]

/** Layers and heads in flight in each state, what is at work included. */
export interface Moment {
  readonly atWork: AtWork
  /** The block whose gradients were made last, which may still be on their way, and the next block that reads parameters. */
  readonly behind: BlockSize
  readonly ahead: BlockSize
  readonly open: number
  readonly pending: number
  readonly openHeads: number
  readonly pendingHeads: number
}

/** Of each rank. */
export function momentsOf(order: Order, layersOfStage: readonly number[]): Moment[][] {
  const ranks = Array.from({ length: order.ranks }, () => new RankWatch())
  const nexts = nextReads(order, layersOfStage)
  for (let task = 0; task < order.rank.length; task++) {
    const stage = order.what[task] % order.stages
    const where = { layers: layersOfStage[stage], first: stage === 0, last: stage === order.stages - 1 }
    ranks[order.rank[task]].take(kindOfTask(order.stages, order.what[task]), where, blockSizes[nexts[task]])
  }
  return ranks.map(({ moments }) => moments)
}

/** By task: which block of its rank is the next to read parameters when it is done. */
function nextReads({ ranks, rank, what, stages }: Order, layersOfStage: readonly number[]): Uint8Array {
  const nexts = new Uint8Array(rank.length)
  const next = new Uint8Array(ranks)
  for (let task = rank.length - 1; task >= 0; task--) {
    nexts[task] = next[rank[task]]
    const kind = kindOfTask(stages, what[task])
    const stage = what[task] % stages
    const isEnd = stage === (kind === 'F' ? 0 : stages - 1)
    if (kind !== 'W') next[rank[task]] = blockSizes.indexOf(isEnd || layersOfStage[stage] === 0 ? 'table' : 'layer')
  }
  return nexts
}

interface Where {
  readonly layers: number
  readonly first: boolean
  readonly last: boolean
}

/** One rank, task by task. Numbers, not objects: there are tens of thousands of tasks. */
class RankWatch {
  readonly moments: Moment[] = []
  #open = 0
  #pending = 0
  #openHeads = 0
  #pendingHeads = 0
  #behind: BlockSize = 'nothing'

  /** `next`: the block that reads parameters when the task is done. */
  take(kind: TaskKind, where: Where, next: BlockSize): void {
    if (kind === 'F') {
      this.#open += where.layers
      if (where.last) this.#openHeads++
    } else if (kind === 'B') this.#whole(where, next)
    else if (kind === 'I') this.#input(where, next)
    else this.#weight(where, next)
  }

  #whole({ layers, first, last }: Where, next: BlockSize): void {
    if (last) {
      this.#note('head', layers > 0 ? 'layer' : next)
      this.#openHeads--
      this.#behind = 'table'
    }
    if (layers > 0) this.#note('layer', layers > 1 ? 'layer' : next)
    if (layers > 0) this.#behind = 'layer'
    if (layers > 1) {
      this.#open--
      this.#note('layer', layers > 2 ? 'layer' : next)
      this.#open++
    }
    this.#open -= layers
    if (first) this.#table(next)
  }

  #table(next: BlockSize): void {
    this.#note('table', next)
    this.#behind = 'table'
  }

  /** Layer by layer what was open is pending: fullest at the first of them, or at the last. */
  #input({ layers, last }: Where, next: BlockSize): void {
    if (last) {
      this.#note('head input', layers > 0 ? 'layer' : next)
      this.#openHeads--
      this.#pendingHeads++
    }
    if (layers === 0) return
    this.#note('layer input', layers > 1 ? 'layer' : next)
    this.#open -= layers - 1
    this.#pending += layers - 1
    this.#note('layer input', next)
    this.#open--
    this.#pending++
  }

  #weight({ layers, first, last }: Where, next: BlockSize): void {
    if (last) {
      this.#note('head weight', next)
      this.#pendingHeads--
      this.#behind = 'table'
    }
    if (layers > 0) this.#note('layer weight', next)
    if (layers > 0) this.#behind = 'layer'
    if (layers > 1) {
      this.#pending--
      this.#note('layer weight', next)
      this.#pending++
    }
    this.#pending -= layers
    if (first) this.#table(next)
  }

  #note(atWork: AtWork, ahead: BlockSize): void {
    const moment: Moment = {
      ...{ atWork, behind: this.#behind, ahead },
      ...{ open: this.#open, pending: this.#pending },
      ...{ openHeads: this.#openHeads, pendingHeads: this.#pendingHeads },
    }
    if (this.moments.some(other => exceeds(other, moment))) return
    const kept = this.moments.filter(other => !exceeds(moment, other))
    this.moments.splice(0, this.moments.length, ...kept, moment)
  }
}

/** With the same at work there is as much of everything. */
export const exceeds = (a: Moment, b: Moment): boolean =>
  a.atWork === b.atWork &&
  a.open >= b.open &&
  a.pending >= b.pending &&
  a.openHeads >= b.openHeads &&
  a.pendingHeads >= b.pendingHeads &&
  isAsLarge(a.behind, b.behind) &&
  isAsLarge(a.ahead, b.ahead)

const isAsLarge = (a: BlockSize, b: BlockSize): boolean => a === b || b === 'nothing'

/** Where all forwards come first, what is open grows with the microbatches. */
export const grown = (moment: Moment, by: number): Moment => ({
  ...moment,
  open: moment.open * by,
  openHeads: moment.openHeads * by,
})
