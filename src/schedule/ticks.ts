/**
 * Ranks on a V run tick by tick, every task taking one. Each rank takes the pass that is due next; if that cannot
 * run, something out of turn or a weight gradient. Nobody holds more activations than the limit.
 */
import { RowWriter } from './numbered.js'
import { vStage } from './place.js'
import type { Counts } from './task.js'

/** The four passes that other ranks wait for, in the order a microbatch meets them; even ones go down the ranks. */
const passes = [
  { kind: 'F', chunk: 0 },
  { kind: 'F', chunk: 1 },
  { kind: 'I', chunk: 1 },
  { kind: 'I', chunk: 0 },
] as const
export type Pass = 0 | 1 | 2 | 3

/** A microbatch is six tasks on every rank: two forwards, two input gradients, two weight gradients. */
export const period = 6

/** What may be done out of turn: before weight gradients, after them, and how many activations must stay free. */
export interface Patience {
  readonly before: readonly Pass[]
  readonly after: readonly Pass[]
  readonly spare: number
}

export interface Ways {
  readonly limit: number
  /** Per rank and pass: when microbatch 0 is due. */
  readonly due: readonly (readonly number[])[]
  readonly patience: Patience
}

export interface TickRun {
  /** Built when asked for: of several runs one is used. */
  readonly rows: () => number[][]
  /** Infinite where everybody waits, since the limit is too tight for this order, or where it took more than was wanted. */
  readonly ticks: number
  /** Idle ticks between the first and the last task of each rank, all together. */
  readonly inside: number
}

const useless: TickRun = { rows: () => [], ticks: Number.POSITIVE_INFINITY, inside: 0 }

/** `most`: a run of more ticks is of no use. */
export function runTicks(counts: Counts, ways: Ways, most = Number.POSITIVE_INFINITY): TickRun {
  const ranks = new Ranks(counts, ways)
  let ticks = 0
  for (let left = period * counts.ranks * counts.microbatches; left > 0; ticks++) {
    const before = left
    left -= ranks.tick(ticks)
    if (left === before || ranks.leastTicks() > most) return useless
  }
  return { rows: () => ranks.rows(), ticks, inside: ranks.idle() }
}

/** A pass of a rank, a weight gradient, or nothing. */
type Choice = Pass | typeof weight | typeof nothing
const weight = 4
const nothing = -1
/** When a pass is due of which nothing remains. */
const never = 2 ** 31 - 1

/** All ranks, as numbers in rows: a search runs this for thousands of pipelines. */
class Ranks {
  readonly #ranks: number
  readonly #microbatches: number
  readonly #limit: number
  readonly #patience: Patience
  /** At 4 * rank + pass: when the next microbatch is due, which that is, and which it was when the tick began. */
  readonly #due: Int32Array
  readonly #next: Int32Array
  readonly #seen: Int32Array
  /** By rank: activations it holds, those of chunk 0 among them, and weight gradients that are done. */
  readonly #live: Int32Array
  readonly #liveDown: Int32Array
  readonly #weightsDone: Int32Array
  /** By rank: the tick of the first task, and the one after the last. */
  readonly #first: Int32Array
  readonly #last: Int32Array
  /** By rank: what was chosen, one after the other, and of input gradients alone the chunks, oldest first; how many there are. */
  readonly #chosen: Uint8Array[]
  readonly #done: Int32Array
  readonly #weights: Uint8Array[]
  readonly #weightsMade: Int32Array
  /** Ticks that some rank has waited. */
  #waited = 0

  constructor({ ranks, microbatches }: Counts, { limit, due, patience }: Ways) {
    this.#ranks = ranks
    this.#microbatches = microbatches
    this.#limit = limit
    this.#patience = patience
    this.#due = Int32Array.from(due.flat())
    this.#next = new Int32Array(4 * ranks)
    this.#seen = new Int32Array(4 * ranks)
    this.#live = new Int32Array(ranks)
    this.#liveDown = new Int32Array(ranks)
    this.#weightsDone = new Int32Array(ranks)
    this.#first = new Int32Array(ranks).fill(-1)
    this.#last = new Int32Array(ranks)
    this.#chosen = Array.from({ length: ranks }, () => new Uint8Array(period * microbatches))
    this.#done = new Int32Array(ranks)
    this.#weights = Array.from({ length: ranks }, () => new Uint8Array(2 * microbatches))
    this.#weightsMade = new Int32Array(ranks)
  }

  /** Every rank does what it can; returns how many did something. */
  tick(at: number): number {
    this.#seen.set(this.#next)
    let busy = 0
    for (let rank = 0; rank < this.#ranks; rank++) {
      const choice = this.#choose(rank)
      if (choice === nothing) {
        const done = this.#done[rank]
        if (done < period * this.#microbatches) this.#waited = Math.max(this.#waited, at + 1 - done)
        continue
      }
      this.#perform(rank, choice, at)
      busy++
    }
    return busy
  }

  /** No run takes less: the rank that has waited longest does all its tasks as well. */
  leastTicks(): number {
    return period * this.#microbatches + this.#waited
  }

  idle(): number {
    return this.#done.reduce((sum, done, rank) => sum + this.#last[rank] - this.#first[rank] - done, 0)
  }

  rows(): number[][] {
    const cells = { stages: 2 * this.#ranks, microbatches: this.#microbatches }
    return this.#chosen.map((row, rank) => {
      const writer = new RowWriter(cells)
      const stages = [vStage(this.#ranks, rank, 0), vStage(this.#ranks, rank, 1)]
      const next = [0, 0, 0, 0]
      const weights = [0, 0]
      let done = 0
      for (let at = 0; at < this.#done[rank]; at++) {
        const choice = row[at]
        if (choice === weight) {
          const chunk = this.#weights[rank][done++]
          writer.task('W', stages[chunk], weights[chunk]++)
        } else {
          const { kind, chunk } = passes[choice]
          writer.task(kind, stages[chunk], next[choice]++)
        }
      }
      return writer.row
    })
  }

  #choose(rank: number): Choice {
    const { before, after, spare } = this.#patience
    const head = this.#head(rank)
    if (head !== nothing && this.#isReady(rank, head, 0)) return head
    const sooner = this.#earliest(rank, before, spare)
    if (sooner !== nothing) return sooner
    return this.#weightsMade[rank] > this.#weightsDone[rank] ? weight : this.#earliest(rank, after, spare)
  }

  /** Of all passes that remain the one that is due first. */
  #head(rank: number): Pass | typeof nothing {
    const [due, at] = [this.#due, 4 * rank]
    let best: Pass = 0
    if (due[at + 1] < due[at]) best = 1
    if (due[at + 2] < due[at + best]) best = 2
    if (due[at + 3] < due[at + best]) best = 3
    return due[at + best] === never ? nothing : best
  }

  /** Of those that can run now the one that is due first. */
  #earliest(rank: number, among: readonly Pass[], spare: number): Pass | typeof nothing {
    let best: Pass | typeof nothing = nothing
    let soonest = never
    for (let i = 0; i < among.length; i++) {
      const due = this.#due[4 * rank + among[i]]
      if (due >= soonest || !this.#isReady(rank, among[i], spare)) continue
      best = among[i]
      soonest = due
    }
    return best
  }

  #isReady(rank: number, pass: Pass, spare: number): boolean {
    const microbatch = this.#next[4 * rank + pass]
    if (microbatch >= this.#arrived(rank, pass)) return false
    if (pass > 1) return microbatch < this.#seen[4 * rank + 3 - pass]
    if (this.#live[rank] >= this.#limit - spare) return false
    // One place is kept for chunk 1, or nothing could ever come back up.
    return pass === 1 || this.#liveDown[rank] < this.#limit - 1 - spare
  }

  /** How many microbatches have reached a pass of a rank, from its neighbour or from its own pass before. */
  #arrived(rank: number, pass: Pass): number {
    const from = pass % 2 === 0 ? rank - 1 : rank + 1
    if (from >= 0 && from < this.#ranks) return this.#seen[4 * from + pass]
    return pass === 0 ? this.#microbatches : this.#seen[4 * rank + pass - 1]
  }

  #perform(rank: number, choice: Pass | typeof weight, tick: number): void {
    if (this.#first[rank] < 0) this.#first[rank] = tick
    this.#last[rank] = tick + 1
    this.#chosen[rank][this.#done[rank]++] = choice
    if (choice === weight) {
      this.#live[rank]--
      if (this.#weights[rank][this.#weightsDone[rank]++] === 0) this.#liveDown[rank]--
      return
    }
    const at = 4 * rank + choice
    this.#due[at] = ++this.#next[at] < this.#microbatches ? this.#due[at] + period : never
    const { kind, chunk } = passes[choice]
    if (kind === 'I') this.#weights[rank][this.#weightsMade[rank]++] = chunk
    else {
      this.#live[rank]++
      if (chunk === 0) this.#liveDown[rank]++
    }
  }
}
