/**
 * A schedule as numbers in rows, to be played thousands of times with other costs. Tasks lie in an order in which each
 * comes after what it needs, so that one pass from front to back finds when every one of them is done.
 */
import { type ScheduleName, scheduleFacts } from '../../plan/index.js'
import {
  type Counts,
  groupSize,
  type NumberedSchedule,
  numbered,
  numberedSchedule,
  pairFrom,
  type Schedule,
  schedules,
  type TaskKind,
  taskIndex,
  taskKinds,
} from '../../schedule/index.js'
import { entry } from '../entry.js'

export { taskIndex, taskKinds }

export interface Order {
  readonly ranks: number
  readonly stages: number
  readonly microbatches: number
  /** By task: who does it, what it is (`taskIndex`), and the task whose result it waits for or -1. */
  readonly rank: Uint16Array
  readonly what: Uint32Array
  readonly after: Int32Array
  /** By task: its result goes to the next rank, or farther, or nowhere. */
  readonly sends: Uint8Array
  /** By task: marks, added up. */
  readonly marks: Uint8Array
  /** By task: when its result arrives. Room for whoever plays, who writes before it is read. */
  readonly arrived: Float64Array
  /** By task: the one it waited for, of its rank or of another; -1: none. Room, as above. */
  readonly from: Int32Array
  /** By rank. */
  readonly turns: readonly StageTurns[]
}

/** Stages of a rank in the order of their first forwards, and of the last tasks that make their gradients. */
export interface StageTurns {
  readonly firsts: number[]
  readonly lasts: number[]
}

/** Where the result of a task goes. */
export const nowhere = 0
export const toNeighbour = 1
export const farther = 2

/** The first forward of a stage on its rank, the last task that makes its gradients, the first of a pair that runs as one. */
export const firstForward = 1
export const lastMaker = 2
export const firstOfPair = 4

export const kindOfTask = (stages: number, index: number): TaskKind => taskKinds[Math.floor(index / stages)]

export const orderFrom = (schedule: Schedule): Order => new OrderWriter(numbered(schedule)).write()

const nothing = -1
const missing = -2
const [forward, input, weight] = taskKinds.keys()

/** Walks the rows side by side, each as far as what it needs has been written. */
class OrderWriter {
  readonly #rows: NumberedSchedule['rows']
  readonly #order: Order
  /** By cell: the task that makes its activation, and its input gradient; `missing` before. */
  readonly #forwards: Int32Array
  readonly #gradients: Int32Array
  /** By rank and stage: the last task written that makes gradients; `missing` before the first forward. */
  readonly #makers: Int32Array
  readonly #stages: number
  readonly #microbatches: number
  readonly #cells: number
  #written = 0

  constructor(schedule: NumberedSchedule) {
    const { stages, microbatches, rows } = schedule
    const tasks = rows.reduce((sum, row) => sum + row.length, 0)
    this.#rows = rows
    this.#stages = stages
    this.#microbatches = microbatches
    this.#cells = stages * microbatches
    this.#order = {
      ranks: rows.length,
      stages,
      microbatches,
      rank: new Uint16Array(tasks),
      what: new Uint32Array(tasks),
      after: new Int32Array(tasks),
      sends: new Uint8Array(tasks),
      marks: new Uint8Array(tasks),
      arrived: new Float64Array(tasks),
      from: new Int32Array(tasks),
      turns: rows.map(() => ({ firsts: [], lasts: [] })),
    }
    this.#forwards = new Int32Array(this.#cells).fill(missing)
    this.#gradients = new Int32Array(this.#cells).fill(missing)
    this.#makers = new Int32Array(rows.length * stages).fill(missing)
  }

  write(): Order {
    const rows = this.#rows
    const next = rows.map(() => 0)
    while (this.#written < this.#order.rank.length) {
      const before = this.#written
      for (let rank = 0; rank < rows.length; rank++)
        if (next[rank] < rows[rank].length) next[rank] = this.#advance(rank, rows[rank], next[rank])
      if (this.#written === before) throw new Error('internal: the schedule stalls')
    }
    const { marks, rank, what, turns } = this.#order
    for (const task of this.#makers.filter(maker => maker >= 0).sort()) {
      marks[task] += lastMaker
      turns[rank[task]].lasts.push(what[task] % this.#stages)
    }
    return this.#order
  }

  /** Writes tasks of a row as far as what they need is there. What a pair makes is sent when both are done. */
  #advance(rank: number, row: readonly number[], from: number): number {
    const pairs = pairFrom({ stages: this.#stages, microbatches: this.#microbatches })
    for (let at = from; at < row.length; at++) {
      const number = row[at]
      const isPair = number >= pairs
      const one = isPair ? number - pairs : number
      const need = this.#needOf(one)
      if (need === missing) return at
      if (isPair) {
        const other = this.#needOf(row[at + 1])
        if (other === missing) return at
        this.#order.marks[this.#written] += firstOfPair
        this.#task(rank, one, need)
        this.#task(rank, row[++at], other)
      } else this.#task(rank, one, need)
    }
    return row.length
  }

  #task(rank: number, number: number, need: number): void {
    const order = this.#order
    const at = this.#written++
    const kind = Math.floor(number / this.#cells)
    const cell = number - kind * this.#cells
    const stage = Math.floor(cell / this.#microbatches)
    const place = rank * this.#stages + stage
    order.rank[at] = rank
    order.after[at] = need
    if (need >= 0) order.sends[need] = wayFrom(order.rank[need], rank)
    order.what[at] = kind * this.#stages + stage
    if (kind === forward) {
      this.#forwards[cell] = at
      if (this.#makers[place] === missing) {
        this.#makers[place] = nothing
        order.marks[at] += firstForward
        order.turns[rank].firsts.push(stage)
      }
      return
    }
    if (kind !== weight) this.#gradients[cell] = at
    if (kind !== input) this.#makers[place] = at
  }

  /** The task it waits for beside those before it in its row. */
  #needOf(number: number): number {
    const kind = Math.floor(number / this.#cells)
    if (kind === weight) return nothing
    const cell = number - kind * this.#cells
    if (kind === forward) return cell < this.#microbatches ? nothing : this.#forwards[cell - this.#microbatches]
    const after = cell + this.#microbatches
    return after >= this.#cells ? nothing : this.#gradients[after]
  }
}

const wayFrom = (one: number, other: number): number =>
  one === other ? nowhere : Math.abs(one - other) === 1 ? toNeighbour : farther

/** The part of a plan that its order depends on. */
export interface PipelineCounts {
  readonly schedule: ScheduleName
  readonly pp: number
  readonly chunks: number
  readonly microbatches: number
}

/** A pipeline of very many microbatches repeats itself: two shorter ones tell what each further microbatch adds. */
export interface PlayedOrders {
  readonly order: Order
  /** With fewer microbatches; absent where `order` has all of them. */
  readonly shorter?: Order
}

/** Tasks of orders that are kept, 24 bytes each: more would fill the memory. */
const mostTasks = 2 ** 23

/** Orders that plans share, by name and counts. */
export class OrderBook {
  readonly #orders = new Map<number, Order>()
  readonly #played = new Map<number, PlayedOrders>()
  readonly #begun = new Map<number, readonly number[]>()
  readonly #leads = new Map<number, readonly number[]>()
  #tasks = 0

  of({ schedule, pp, chunks, microbatches }: PipelineCounts): PlayedOrders {
    const counts = { ranks: pp, chunks, microbatches }
    const key = keyOf(schedule, counts)
    const known = this.#played.get(key)
    if (known) return known
    const short = shortCounts(schedule, counts)
    const [shorter, order] = short
      ? short.map(n => this.#order(schedule, { ...counts, microbatches: n }))
      : [undefined, this.#order(schedule, counts)]
    const played = { order: order!, ...(shorter && { shorter }) }
    this.#played.set(key, played)
    return played
  }

  /** Of each chunk of the first rank: microbatches that it surely has begun before its first backward. */
  begun({ schedule, pp, chunks, microbatches }: PipelineCounts): readonly number[] {
    const counts = { ranks: pp, chunks, microbatches }
    return entry(this.#begun, keyOf(schedule, counts), () => schedules[schedule].begun(counts))
  }

  /** Where ranks are known to do so many forwards of their first chunk before anything else: by rank. */
  leads({ schedule, pp, chunks, microbatches }: PipelineCounts): readonly number[] | undefined {
    const { leads } = schedules[schedule]
    const counts = { ranks: pp, chunks, microbatches }
    return leads && entry(this.#leads, keyOf(schedule, counts), () => leads(counts))
  }

  #order(schedule: ScheduleName, counts: Counts): Order {
    const key = keyOf(schedule, counts)
    const known = this.#orders.get(key)
    if (known) return known
    if (this.#tasks > mostTasks) {
      this.#orders.clear()
      this.#played.clear()
      this.#tasks = 0
    }
    const order = new OrderWriter(numberedSchedule(schedule, counts)).write()
    this.#tasks += order.rank.length
    this.#orders.set(key, order)
    return order
  }
}

const names = Object.keys(scheduleFacts)

/** Ranks, chunks and microbatches are below 2^16, 2^7 and 2^21: a schedule has at most a million cells. */
const keyOf = (schedule: ScheduleName, { ranks, chunks, microbatches }: Counts): number =>
  ((names.indexOf(schedule) * 2 ** 7 + chunks) * 2 ** 16 + ranks) * 2 ** 21 + microbatches

/**
 * Two numbers of microbatches from which any greater one can be told: both past the filling of the pipeline, and in step
 * with its groups. Undefined: there are not so many.
 */
export function shortCounts(schedule: ScheduleName, counts: Counts): readonly [number, number] | undefined {
  const { microbatches, ranks } = counts
  if (microbatches <= 4 * ranks) return undefined
  const [fewer, more] = candidates(schedule, counts)
  return more === undefined || more >= microbatches ? undefined : [fewer, more]
}

function candidates(schedule: ScheduleName, counts: Counts): readonly number[] {
  const { ranks, chunks, microbatches } = counts
  const { placement, chunksFixed, forwardsFirst } = scheduleFacts[schedule]
  if (placement === 'both ends') {
    const half = Math.ceil(ranks / 2)
    return [6 * half + (microbatches % 2), 8 * half + (microbatches % 2)]
  }
  if (chunksFixed || forwardsFirst || chunks === 1) return [3 * ranks, 4 * ranks]
  const group = groupSize(counts)
  if (microbatches % group === 0) return [3 * group, 4 * group]
  const alike = [3, 4, 5, 6, 7, 8].map(rounds => rounds * ranks + (microbatches % ranks))
  return alike.filter(n => groupSize({ ...counts, microbatches: n }) === group)
}
