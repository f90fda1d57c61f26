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
const [nothing, layer, table, same] = [0, 1, 2, 3]

/** The block that is the next to read parameters; or the one that read its own last is, and another comes after it. */
export const nextBlocks = [...blockSizes, 'same'] as const
export type NextBlock = (typeof nextBlocks)[number]

/**
 * Rows of six: a code; layers that are open and that are pending; heads that are open and that are pending; layers whose
 * parameters are still to be read; what is at work included. The code says what is at work, whose gradients were made last (they may still be on their way), and
 * which block is the next to read parameters.
 */
export type Moments = Float64Array
export const momentWidth = 6

const codes = worksAt.length * blockSizes.length * nextBlocks.length
const codeOf = (atWork: number, behind: number, ahead: number): number => (atWork * 3 + behind) * 4 + ahead
/** Places in the lists above. */
export const atWorkOf = (code: number): number => Math.floor(code / 12)
export const behindOf = (code: number): number => Math.floor(code / 4) % 3
export const aheadOf = (code: number): number => code % 4

/** Of each rank. */
export function momentsOf({ ranks, rank, what, stages }: Order, layersOfStage: readonly number[]): Moments[] {
  const rows = Array.from({ length: ranks }, (): number[] => [])
  for (let task = 0; task < rank.length; task++) rows[rank[task]].push(what[task])
  return rows.map(row => momentsOfRow(row, stages, layersOfStage))
}

/** Of a rank that does these tasks, each a number as `taskIndex` says. */
export function momentsOfRow(row: readonly number[], stages: number, layersOfStage: readonly number[]): Moments {
  const { nexts, again, lasts, layers } = readsToCome(row, stages, layersOfStage)
  const watch = new RankWatch(layers)
  // The stage that last went backward in its input alone, if nothing but weight gradients came since.
  let behind = -1
  for (let task = 0; task < row.length; task++) {
    const kind = Math.floor(row[task] / stages)
    const stage = row[task] - kind * stages
    const isSame = again[task] >= 0 && again[task] === behind
    watch.take(kind, layersOfStage[stage], stage === 0, stage === stages - 1, isSame ? same : nexts[task])
    if (kind !== weight) behind = kind === input ? stage : -1
    if (lasts[task]) watch.unread(layersOfStage[stage])
  }
  return watch.moments()
}

const [forward, input, weight] = (['F', 'I', 'W'] as const).map(kind => taskKinds.indexOf(kind))

interface ReadsToCome {
  /** By task: which block of its rank is the next to read parameters when it is done. */
  readonly nexts: Uint8Array
  /** By task that makes weight gradients, which reads none: the stage that goes forward after it, from a layer; else -1. */
  readonly again: Int32Array
  /** By task: whether nobody reads the parameters of its stage after it. */
  readonly lasts: Uint8Array
  /** Of all its stages. */
  readonly layers: number
}

function readsToCome(row: readonly number[], stages: number, layersOfStage: readonly number[]): ReadsToCome {
  const nexts = new Uint8Array(row.length)
  const lasts = new Uint8Array(row.length)
  const again = new Int32Array(row.length).fill(-1)
  const seen = new Uint8Array(stages)
  let [next, ahead, layers] = [nothing, -1, 0]
  for (let task = row.length - 1; task >= 0; task--) {
    const kind = Math.floor(row[task] / stages)
    const stage = row[task] - kind * stages
    nexts[task] = next
    if (kind === weight) {
      again[task] = ahead
      continue
    }
    const isEnd = stage === (kind === forward ? 0 : stages - 1)
    next = isEnd || layersOfStage[stage] === 0 ? table : layer
    ahead = kind === forward && stage > 0 && layersOfStage[stage] > 0 ? stage : -1
    if (seen[stage]) continue
    seen[stage] = 1
    lasts[task] = 1
    layers += layersOfStage[stage]
  }
  return { nexts, again, lasts, layers }
}

const [atLayer, atLayerInput, atLayerWeight, atHead, atHeadInput, atHeadWeight, atTable] = worksAt.keys()

/** One rank, task by task. */
class RankWatch {
  /** By code: rows of five. */
  readonly #rows: (number[] | undefined)[] = new Array(codes)
  readonly #now = new Array<number>(numbers).fill(0)
  #open = 0
  #pending = 0
  #openHeads = 0
  #pendingHeads = 0
  #behind = nothing
  #unread: number

  /** `layers`: of all its stages. */
  constructor(layers: number) {
    this.#unread = layers
  }

  /** The parameters of so many layers are read no more. */
  unread(layers: number): void {
    this.#unread -= layers
  }

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
    return inOneRow(this.#rows)
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
    const now = this.#now
    now[0] = this.#open
    now[1] = this.#pending
    now[2] = this.#openHeads
    now[3] = this.#pendingHeads
    now[4] = this.#unread
    this.#rows[code] ??= []
    note(this.#rows[code], now, 0)
  }
}

/** Adds a row, unless one of these reaches it; those that it reaches go. */
function note(rows: number[], other: ArrayLike<number>, at: number): void {
  // What came last is the likeliest to come again.
  for (let i = rows.length - numbers; i >= 0; i -= numbers) if (reaches(rows, i, other, at)) return
  let kept = 0
  for (let i = 0; i < rows.length; i += numbers) {
    if (reaches(other, at, rows, i)) continue
    if (kept < i) for (let k = 0; k < numbers; k++) rows[kept + k] = rows[i + k]
    kept += numbers
  }
  if (kept < rows.length) rows.length = kept
  for (let k = 0; k < numbers; k++) rows.push(other[at + k])
}

const inOneRow = (byCode: readonly (readonly number[] | undefined)[]): Moments => {
  const all: number[] = []
  for (let code = 0; code < codes; code++) {
    const rows = byCode[code]
    for (let i = 0; rows && i < rows.length; i++) {
      if (i % numbers === 0) all.push(code)
      all.push(rows[i])
    }
  }
  return Float64Array.from(all)
}

/** Of several ranks, those that no other exceeds: pipelines are weighed many times. */
export function allOf(ranks: readonly Moments[]): Moments {
  const byCode: number[][] = []
  for (const moments of ranks)
    for (let at = 0; at < moments.length; at += momentWidth) note((byCode[moments[at]] ??= []), moments, at + 1)
  return inOneRow(byCode)
}

/** Of a row, but for its code. */
const numbers = momentWidth - 1

/** No number of the one row is less than that of the other. */
function reaches(one: ArrayLike<number>, i: number, other: ArrayLike<number>, j: number): boolean {
  for (let k = 0; k < numbers; k++) if (one[i + k] < other[j + k]) return false
  return true
}

/** Where all forwards come first, what is open grows with the microbatches. */
export const grown = (moments: Moments, by: number): Moments =>
  moments.map((value, i) => (i % momentWidth === 1 || i % momentWidth === 3 ? value * by : value))
