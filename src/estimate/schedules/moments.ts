/**
 * What lies on a pipeline rank when it is fullest. A schedule that splits backward has microbatches in two states: *open*
 * between forward and input gradient, *pending* between input gradient and weight gradient. What a rank holds falls only
 * when a backward task is done, so it is fullest when one begins; of those moments the ones that no other exceeds are
 * kept, by what is at work. Numbers in rows, not objects: a search looks through millions of them.
 */
import { type Order, taskKinds } from './order.js'

/** At work: a layer or the head going backward, whole or in two, or the table's gradient. */
export const worksAt = ['layer', 'layer input', 'layer weight', 'head', 'head input', 'head weight', 'table'] as const
export type AtWork = (typeof worksAt)[number]

/** Blocks by what decides the size of their parameters. */
export const blockSizes = ['nothing', 'layer', 'table'] as const
export type BlockSize = (typeof blockSizes)[number]
const [nothing, layer, table] = [0, 1, 2]

/**
 * Rows of five: a code; layers that are open and that are pending; heads that are open and that are pending; what is at
 * work included. The code says what is at work, whose gradients were made last (they may still be on their way), and
 * which block is the next to read parameters.
 */
export type Moments = Float64Array
export const momentWidth = 5

export const codes = worksAt.length * blockSizes.length ** 2
const codeOf = (atWork: number, behind: number, ahead: number): number => (atWork * 3 + behind) * 3 + ahead
export const atWorkOf = (code: number): AtWork => worksAt[Math.floor(code / 9)]
export const behindOf = (code: number): BlockSize => blockSizes[Math.floor(code / 3) % 3]
export const aheadOf = (code: number): BlockSize => blockSizes[code % 3]

/** Of each rank. */
export function momentsOf(order: Order, layersOfStage: readonly number[]): Moments[] {
  const { rank, what, stages } = order
  const ranks = Array.from({ length: order.ranks }, () => new RankWatch())
  const nexts = nextReads(order, layersOfStage)
  for (let task = 0; task < rank.length; task++) {
    const stage = what[task] % stages
    const kind = Math.floor(what[task] / stages)
    ranks[rank[task]].take(kind, layersOfStage[stage], stage === 0, stage === stages - 1, nexts[task])
  }
  return ranks.map(watch => watch.moments())
}

const [forward, input, weight] = (['F', 'I', 'W'] as const).map(kind => taskKinds.indexOf(kind))

/** By task: which block of its rank is the next to read parameters when it is done. */
function nextReads({ ranks, rank, what, stages }: Order, layersOfStage: readonly number[]): Uint8Array {
  const nexts = new Uint8Array(rank.length)
  const next = new Uint8Array(ranks)
  for (let task = rank.length - 1; task >= 0; task--) {
    nexts[task] = next[rank[task]]
    const kind = Math.floor(what[task] / stages)
    const stage = what[task] % stages
    const isEnd = stage === (kind === forward ? 0 : stages - 1)
    if (kind !== weight) next[rank[task]] = isEnd || layersOfStage[stage] === 0 ? table : layer
  }
  return nexts
}

const [atLayer, atLayerInput, atLayerWeight, atHead, atHeadInput, atHeadWeight, atTable] = worksAt.keys()

/** One rank, task by task. */
class RankWatch {
  /** By code: rows of four. */
  readonly #rows: (number[] | undefined)[] = new Array(codes)
  #open = 0
  #pending = 0
  #openHeads = 0
  #pendingHeads = 0
  #behind = nothing

  /** `next`: the block that reads parameters when the task is done. */
  take(kind: number, layers: number, first: boolean, last: boolean, next: number): void {
    if (kind === forward) {
      this.#open += layers
      if (last) this.#openHeads++
    } else if (kind === input) this.#input(layers, last, next)
    else if (kind === weight) this.#weight(layers, first, last, next)
    else this.#whole(layers, first, last, next)
  }

  moments(): Moments {
    const all: number[] = []
    for (let code = 0; code < codes; code++) {
      const rows = this.#rows[code]
      if (rows) for (let i = 0; i < rows.length; i += 4) all.push(code, rows[i], rows[i + 1], rows[i + 2], rows[i + 3])
    }
    return Float64Array.from(all)
  }

  #whole(layers: number, first: boolean, last: boolean, next: number): void {
    if (last) {
      this.#note(atHead, layers > 0 ? layer : next)
      this.#openHeads--
      this.#behind = table
    }
    if (layers > 0) {
      this.#note(atLayer, layers > 1 ? layer : next)
      this.#behind = layer
      this.#open--
      if (layers > 1) this.#note(atLayer, layers > 2 ? layer : next)
      this.#open -= layers - 1
    }
    if (first) this.#table(next)
  }

  #table(next: number): void {
    this.#note(atTable, next)
    this.#behind = table
  }

  /** Layer by layer what was open is pending: fullest at the first of them, or at the last. */
  #input(layers: number, last: boolean, next: number): void {
    if (last) {
      this.#note(atHeadInput, layers > 0 ? layer : next)
      this.#openHeads--
      this.#pendingHeads++
    }
    if (layers === 0) return
    this.#note(atLayerInput, layers > 1 ? layer : next)
    this.#open -= layers - 1
    this.#pending += layers - 1
    this.#note(atLayerInput, next)
    this.#open--
    this.#pending++
  }

  #weight(layers: number, first: boolean, last: boolean, next: number): void {
    if (last) {
      this.#note(atHeadWeight, next)
      this.#pendingHeads--
      this.#behind = table
    }
    if (layers > 0) {
      this.#note(atLayerWeight, next)
      this.#behind = layer
      this.#pending--
      if (layers > 1) this.#note(atLayerWeight, next)
      this.#pending -= layers - 1
    }
    if (first) this.#table(next)
  }

  #note(atWork: number, ahead: number): void {
    const code = codeOf(atWork, this.#behind, ahead)
    const [open, pending, openHeads, pendingHeads] = [this.#open, this.#pending, this.#openHeads, this.#pendingHeads]
    const rows = this.#rows[code] ?? []
    // What came last is the likeliest to come again.
    for (let i = rows.length - 4; i >= 0; i -= 4)
      if (rows[i] >= open && rows[i + 1] >= pending && rows[i + 2] >= openHeads && rows[i + 3] >= pendingHeads) return
    let kept = 0
    for (let i = 0; i < rows.length; i += 4) {
      if (rows[i] <= open && rows[i + 1] <= pending && rows[i + 2] <= openHeads && rows[i + 3] <= pendingHeads) continue
      for (let k = 0; k < 4; k++) rows[kept + k] = rows[i + k]
      kept += 4
    }
    rows.length = kept
    rows.push(open, pending, openHeads, pendingHeads)
    this.#rows[code] = rows
  }
}

/** Every moment of the one is exceeded by a moment of the other with the same at work. */
export function exceedsAll(one: Moments, other: Moments): boolean {
  for (let j = 0; j < other.length; j += momentWidth) {
    let found = false
    for (let i = 0; i < one.length && !found; i += momentWidth) found = exceeds(one, i, other, j)
    if (!found) return false
  }
  return true
}

const exceeds = (one: Moments, i: number, other: Moments, j: number): boolean =>
  one[i] === other[j] &&
  one[i + 1] >= other[j + 1] &&
  one[i + 2] >= other[j + 2] &&
  one[i + 3] >= other[j + 3] &&
  one[i + 4] >= other[j + 4]

/** Where all forwards come first, what is open grows with the microbatches. */
export const grown = (moments: Moments, by: number): Moments =>
  moments.map((value, i) => (i % momentWidth === 1 || i % momentWidth === 3 ? value * by : value))
