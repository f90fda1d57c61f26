/**
 * What a block does in one task, as a row of pairs: so many seconds of work, the start of a collective that takes so many
 * (over the links of tp, or over others), or the wait for the collective that was started as the so-manieth.
 */
export class Acts {
  readonly #list: readonly number[]
  readonly #contention: number
  #alone: ActsAlone | undefined
  readonly #rests: number[] = []

  /** `contention`: what work loses while a collective runs. */
  constructor(list: readonly number[], contention: number) {
    this.#list = list
    this.#contention = contention
  }

  /** The same, and so many seconds more. */
  longerBy(seconds: number): Acts {
    return seconds > 0 ? new Acts([...this.#list, works, seconds], this.#contention) : this
  }

  /** As numbers in a row, and how they go with nothing else on their links. Found when somebody asks: few do. */
  get alone(): ActsAlone {
    this.#alone ??= actsAlone(Float64Array.from(this.#list), 1 + this.#contention)
    return this.#alone
  }

  /**
   * Seconds from when its first collective over the links of tp, or over others, is let on to them, to its end, at the least: all
   * that need not wait for it may have been done before. 0: it has none over such links.
   */
  restFrom(overTp: boolean, overOthers: boolean): number {
    const which = (overTp ? 1 : 0) + (overOthers ? 2 : 0)
    this.#rests[which] ??= restFrom(this.#list, overTp, overOthers)
    return this.#rests[which]
  }
}

export const works = 0
export const starts = 1
export const waits = 2
export const startsApart = 3

export interface ActsAlone {
  readonly pairs: Float64Array
  /**
   * By pair: the seconds from there to the end where nothing is under way, -1 where something is. Whoever was held up and comes
   * here with nothing under way, either, takes as long from here on.
   */
  readonly rest: Float64Array
  /** When the links of tp, and others, are free, counted from the end. */
  readonly free: number
  readonly freeApart: number
}

function actsAlone(pairs: Float64Array, slower: number): ActsAlone {
  const begun = new Float64Array(pairs.length / 2)
  const underWay = waitsToCome(pairs)
  const arrivals: number[] = []
  let [now, free, apart] = [0, Number.NEGATIVE_INFINITY, Number.NEGATIVE_INFINITY]
  for (let i = 0; i < pairs.length; i += 2) {
    begun[i / 2] = underWay[i / 2] || free > now || apart > now ? Number.NaN : now
    const value = pairs[i + 1]
    if (pairs[i] === works) now += workBeside(value, Math.max(free, apart) - now, slower)
    else if (pairs[i] === starts) arrivals.push((free = Math.max(free, now) + value))
    else if (pairs[i] === startsApart) arrivals.push((apart = Math.max(apart, now) + value))
    else now = Math.max(now, arrivals[value])
  }
  const rest = begun.map(at => (at >= 0 ? now - at : -1))
  return { pairs, rest, free: free - now, freeApart: apart - now }
}

function restFrom(list: readonly number[], overTp: boolean, overOthers: boolean): number {
  const before = Number.NEGATIVE_INFINITY
  const arrivals: number[] = []
  let [now, free, apart] = [before, overTp ? 0 : before, overOthers ? 0 : before]
  for (let i = 0; i < list.length; i += 2) {
    const [what, value] = [list[i], list[i + 1]]
    if (what === works) now += value
    else if (what === starts) arrivals.push((free = Math.max(free, now) + value))
    else if (what === startsApart) arrivals.push((apart = Math.max(apart, now) + value))
    else now = Math.max(now, arrivals[value])
  }
  return Math.max(0, now)
}

/** How long work takes while collectives run for so long. */
export const workBeside = (seconds: number, left: number, slower: number): number =>
  left > 0 ? seconds + Math.min(seconds * slower, left) * (1 - 1 / slower) : seconds

/** By pair: whether a collective that was started before it is waited for there or later. */
function waitsToCome(pairs: Float64Array): Uint8Array {
  const [open, slots]: [Uint8Array, number[]] = [new Uint8Array(pairs.length / 2), []]
  for (let i = 0; i < pairs.length; i += 2)
    if (pairs[i] === waits) open.fill(1, slots[pairs[i + 1]] + 1, i / 2 + 1)
    else if (pairs[i] !== works) slots.push(i / 2)
  return open
}
