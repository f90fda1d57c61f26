/**
 * How long a pipeline takes: its schedule is played task by task on the costs of its stages. A task starts when its rank
 * is free and what it needs has come. What the data axes move meanwhile is played beside it, block by block.
 */
import type { TaskKind } from '../../schedule/index.js'
import { type Acts, starts, startsApart, works } from './acts.js'
import {
  farther,
  firstForward,
  firstOfPair,
  lastMaker,
  nowhere,
  type Order,
  type PlayedOrders,
  taskIndex,
  taskKinds,
} from './order.js'

/** Seconds of one microbatch, by what is done with it. */
export type TaskTimes = Readonly<Record<TaskKind, number>>

export interface PipelineCosts {
  /** Seconds of every task, where `taskIndex` says. */
  readonly tasks: Float64Array
  /** Seconds of a message to the next rank, and farther. */
  readonly near: number
  readonly far: number
  readonly flights?: PipelineFlights
}

export type FlownCosts = PipelineCosts & { readonly flights: PipelineFlights }

/** A block, and what moves because of it. */
export interface FlownBlock {
  /** Of each kind of task: its seconds with nothing beside it, and what it does. */
  readonly seconds: TaskTimes
  readonly acts: Readonly<Record<TaskKind, Acts>>
  /** Its parameters on their way here, its gradients on their way from here, and adding up what has come of them. */
  readonly gather: number
  readonly reduce: number
  readonly add: number
  /** Its backward pass reads parameters, too. */
  readonly readsBack: boolean
}

/** What a rank moves once a step, by stage and by block in the order of forward. */
export interface StepFlights {
  /** When the parameters of a block are there, counted from the beginning of the step. */
  readonly arrivals: ReadonlyMap<number, Float64Array>
  /** Seconds of what leaves once the gradients of a block are final. */
  readonly departures: ReadonlyMap<number, Float64Array>
  /** When the last of the parameters is there. */
  readonly begun: number
}

export interface PipelineFlights {
  /** By stage, in the order of forward. */
  readonly blocks: readonly (readonly FlownBlock[])[]
  readonly ofStep: readonly StepFlights[]
  /** Parameters are gathered for each call, so many calls ahead. */
  readonly prefetch?: number
  /** Gradients leave after each call. */
  readonly reducesEach: boolean
  /** How much slower work is while something flies. */
  readonly contention: number
  /** Collectives over tp, those apart from them, and messages, use the same links. */
  readonly besideTp: boolean
  readonly besideApart: boolean
  readonly besideMessages: boolean
  /** Messages use the links of tp, or of what is apart from them. */
  readonly messagesBesideTp: boolean
  readonly messagesBesideApart: boolean
}

/** The costs of all tasks, where `taskIndex` says. */
export function taskCosts(stages: readonly TaskTimes[]): Float64Array {
  const costs = new Float64Array(taskKinds.length * stages.length)
  for (const [stage, times] of stages.entries())
    for (const kind of taskKinds) costs[taskIndex(stages.length, kind, stage)] = times[kind]
  return costs
}

/** By rank: when it is done, and how long it had nothing to do before that. */
export interface PlayedRanks {
  readonly finish: Float64Array
  readonly idle: Float64Array
}

export function playPipeline(
  { order, shorter }: PlayedOrders,
  microbatches: number,
  costs: PipelineCosts,
): PlayedRanks {
  const played = play(order, costs)
  if (!shorter) return played
  const before = play(shorter, costs)
  const further = grownBy(order, shorter, microbatches)
  const grown = (now: Float64Array, then: Float64Array) => now.map((time, rank) => time + further * (time - then[rank]))
  return { finish: grown(played.finish, before.finish), idle: grown(played.idle, before.idle) }
}

/** When one rank would be done if it never waited for another. */
export function playAlone(
  { order, shorter }: PlayedOrders,
  microbatches: number,
  costs: FlownCosts,
  rank: number,
): number {
  const played = new FlownPlay(order, costs, costs.flights).runAlone(rank)
  if (!shorter) return played
  const before = new FlownPlay(shorter, costs, costs.flights).runAlone(rank)
  return played + grownBy(order, shorter, microbatches) * (played - before)
}

/** How many times as much again as one order has more than the other. */
const grownBy = (order: Order, shorter: Order, microbatches: number): number =>
  (microbatches - order.microbatches) / (order.microbatches - shorter.microbatches)

const play = (order: Order, costs: PipelineCosts): PlayedRanks =>
  costs.flights ? new FlownPlay(order, costs, costs.flights).run() : plainPlay(order, costs)

function plainPlay(order: Order, { tasks, near, far }: PipelineCosts): PlayedRanks {
  const { ranks, rank, what, after, sends, marks } = order
  const arrived = new Float64Array(rank.length)
  const [now, idle, lane] = [new Float64Array(ranks), new Float64Array(ranks), new Float64Array(ranks)]
  for (let task = 0; task < rank.length; task++) {
    const by = rank[task]
    const need = after[task]
    const free = now[by]
    const start = need >= 0 && arrived[need] > free ? arrived[need] : free
    const end = start + tasks[what[task]]
    idle[by] += start - free
    now[by] = end
    if (marks[task] & firstOfPair) continue
    if (task > 0 && marks[task - 1] & firstOfPair) arrived[task - 1] = send(task - 1, by, end)
    arrived[task] = send(task, by, end)
  }
  return { finish: now, idle }

  function send(task: number, by: number, at: number): number {
    if (sends[task] === nowhere) return at
    const start = lane[by] > at ? lane[by] : at
    lane[by] = start + (sends[task] === farther ? far : near)
    return lane[by]
  }
}

/** The same with flights: all ranks have a lane for them, and what they wait for. */
class FlownPlay {
  readonly #order: Order
  readonly #costs: PipelineCosts
  readonly #flights: PipelineFlights
  readonly #ranks: readonly FlownRank[]

  constructor(order: Order, costs: PipelineCosts, flights: PipelineFlights) {
    this.#order = order
    this.#costs = costs
    this.#flights = flights
    this.#ranks = flights.ofStep.map(step => new FlownRank(flights, step))
  }

  run(): PlayedRanks {
    const { rank, what, after, marks, stages } = this.#order
    const arrived = new Float64Array(rank.length)
    const { prefetch } = this.#flights
    if (prefetch !== undefined)
      for (let task = 0; task < rank.length; task++)
        this.#ranks[rank[task]].expect(taskKinds[Math.floor(what[task] / stages)], what[task] % stages)
    for (let task = 0; task < rank.length; task++) {
      const by = this.#ranks[rank[task]]
      const need = after[task]
      if (need >= 0) by.idleUntil(arrived[need])
      this.#task(by, task)
      if (marks[task] & firstOfPair) continue
      if (task > 0 && marks[task - 1] & firstOfPair) arrived[task - 1] = this.#send(by, task - 1)
      arrived[task] = this.#send(by, task)
      by.depart()
    }
    for (const by of this.#ranks) by.end()
    const column = (of: (rank: FlownRank) => number) => Float64Array.from(this.#ranks, of)
    return { finish: column(({ now }) => now), idle: column(({ idle }) => idle) }
  }

  /** One rank, with all that comes from others there at once. */
  runAlone(alone: number): number {
    const { rank, what, marks, stages } = this.#order
    const by = this.#ranks[alone]
    if (this.#flights.prefetch !== undefined)
      for (let task = 0; task < rank.length; task++)
        if (rank[task] === alone) by.expect(taskKinds[Math.floor(what[task] / stages)], what[task] % stages)
    for (let task = 0; task < rank.length; task++) {
      if (rank[task] !== alone) continue
      this.#task(by, task)
      if (marks[task] & firstOfPair) continue
      if (task > 0 && marks[task - 1] & firstOfPair) this.#send(by, task - 1)
      this.#send(by, task)
      by.depart()
    }
    by.end()
    return by.now
  }

  #task(by: FlownRank, task: number): void {
    const { what, marks, stages, sends } = this.#order
    const { prefetch, reducesEach } = this.#flights
    const kind = taskKinds[Math.floor(what[task] / stages)]
    const marked = marks[task] & (firstForward | lastMaker)
    const still = prefetch === undefined && marked === 0 && !by.isCrowded
    if (still && (!reducesEach || kind === 'F' || kind === 'I')) by.whole(this.#costs.tasks[what[task]])
    else by.blocks(kind, what[task] % stages, marked, sends[task] !== nowhere)
  }

  #send(by: FlownRank, task: number): number {
    const way = this.#order.sends[task]
    return way === nowhere ? by.now : by.send(way === farther ? this.#costs.far : this.#costs.near)
  }
}

/** One rank beside the lane of its data axes: whatever flies starts now, behind what flies already. */
class FlownRank {
  now = 0
  idle = 0
  readonly #flights: PipelineFlights
  readonly #step: StepFlights
  readonly #slower: number
  /** When the lane of flights is free, and that of messages. */
  #free: number
  #messages = 0
  /** Seconds of the gathers of all calls that read parameters, one after the other; when those that have left are there. */
  readonly #gathers: number[] = []
  readonly #arrivals: number[] = []
  #expected: FlownBlock | undefined
  #fetched: FlownBlock | undefined
  #own = 0
  /** Gradients of one call under way: when they are there, and the block they are of. */
  #underWay = 0
  #leaving: FlownBlock | undefined
  /** What leaves behind the next message: seconds of flights of the step, and gradients of one call. */
  #ready = 0
  #readyBlock: FlownBlock | undefined

  constructor(flights: PipelineFlights, step: StepFlights) {
    this.#flights = flights
    this.#step = step
    this.#slower = 1 + flights.contention
    this.#free = step.begun
  }

  /** A task to come: what it will fetch. A call that reads what the one before it does finds it still there. */
  expect(kind: TaskKind, stage: number): void {
    const blocks = this.#flights.blocks[stage]
    for (let i = 0; i < blocks.length; i++) {
      const block = blocks[kind === 'F' ? i : blocks.length - 1 - i]
      if (!reads(kind, block) || block === this.#expected) continue
      this.#gathers.push(block.gather)
      this.#expected = block
    }
  }

  idleUntil(arrival: number): void {
    if (arrival <= this.now) return
    this.idle += arrival - this.now
    this.now = arrival
  }

  /** A task beside which nothing new moves. */
  whole(seconds: number): void {
    this.#work(seconds)
  }

  blocks(kind: TaskKind, stage: number, marked: number, sends: boolean): void {
    const blocks = this.#flights.blocks[stage]
    const { prefetch, reducesEach } = this.#flights
    const arrivals = marked & firstForward ? this.#step.arrivals.get(stage) : undefined
    const departures = marked & lastMaker ? this.#step.departures.get(stage) : undefined
    for (let i = 0; i < blocks.length; i++) {
      const at = kind === 'F' ? i : blocks.length - 1 - i
      const block = blocks[at]
      if (kind === 'I' && block.seconds.I === 0) continue
      if (prefetch !== undefined && reads(kind, block)) this.#fetch(block, prefetch)
      if (arrivals) this.#wait(arrivals[at])
      this.#block(block, kind)
      if (departures) this.#leaves(departures[at], sends)
      if (reducesEach && (kind === 'B' || kind === 'W')) this.#made(block, sends && i === blocks.length - 1)
    }
  }

  /** When the message is there. */
  send(seconds: number): number {
    this.#messages = Math.max(this.#messages, this.now) + seconds
    return this.#messages
  }

  /** What was kept back for a message leaves. */
  depart(): void {
    if (this.#ready > 0) this.#start(this.#ready)
    this.#ready = 0
    if (this.#readyBlock) this.#made(this.#readyBlock, false)
    this.#readyBlock = undefined
  }

  end(): void {
    this.#settle()
    this.#wait(this.#free)
  }

  #fetch(block: FlownBlock, prefetch: number): void {
    if (block === this.#fetched) return
    this.#fetched = block
    this.#startUpTo(++this.#own)
    this.#wait(this.#arrivals[this.#own - 1])
    this.#startUpTo(this.#own + prefetch)
  }

  #startUpTo(count: number): void {
    while (this.#arrivals.length < count && this.#arrivals.length < this.#gathers.length)
      this.#arrivals.push(this.#start(this.#gathers[this.#arrivals.length]))
  }

  #leaves(seconds: number, sends: boolean): void {
    if (sends) this.#ready += seconds
    else if (seconds > 0) this.#start(seconds)
  }

  /** Gradients of a call leave; those of the call before it have had its time to arrive. */
  #made(block: FlownBlock, later: boolean): void {
    if (later) {
      this.#readyBlock = block
      return
    }
    const arrival = this.#start(block.reduce)
    this.#settle()
    this.#underWay = arrival
    this.#leaving = block
  }

  #settle(): void {
    if (!this.#leaving) return
    this.#wait(this.#underWay)
    this.#work(this.#leaving.add)
    this.#leaving = undefined
  }

  #start(seconds: number): number {
    let start = this.#free > this.now ? this.#free : this.now
    if (this.#flights.besideMessages && this.#messages > start) start = this.#messages
    this.#free = start + seconds
    return this.#free
  }

  #wait(until: number): void {
    if (until > this.now) this.now = until
  }

  /** `tp`: when the last collective over tp is done. */
  #work(seconds: number, tp = 0): void {
    const left = (tp > this.#free ? tp : this.#free) - this.now
    if (left > 0) {
      const beside = Math.min(seconds * this.#slower, left)
      this.now += seconds + beside * (1 - 1 / this.#slower)
    } else this.now += seconds
  }

  /** Whether collectives over tp must wait for their links. */
  get isCrowded(): boolean {
    const { besideTp, besideApart, messagesBesideTp, messagesBesideApart } = this.#flights
    if ((besideTp || besideApart) && this.#free > this.now) return true
    return (messagesBesideTp || messagesBesideApart) && this.#messages > this.now
  }

  #block({ seconds, acts }: FlownBlock, kind: TaskKind): void {
    if (this.isCrowded) this.#act(acts[kind])
    else this.#work(seconds[kind])
  }

  /** Collectives over tp leave behind what is on their links. */
  #act(acts: Acts): void {
    const { besideTp, besideApart, messagesBesideTp, messagesBesideApart } = this.#flights
    let [tp, apart, slots] = [besideTp ? this.#free : 0, besideApart ? this.#free : 0, 0]
    if (messagesBesideApart && this.#messages > apart) apart = this.#messages
    for (let i = 0; i < acts.length; i += 2) {
      const value = acts[i + 1]
      if (acts[i] === works) this.#work(value, tp > apart ? tp : apart)
      else if (acts[i] === startsApart) apart = arrivals[slots++] = (apart > this.now ? apart : this.now) + value
      else if (acts[i] === starts) {
        let start = tp > this.now ? tp : this.now
        if (messagesBesideTp && this.#messages > start) start = this.#messages
        tp = arrivals[slots++] = start + value
      } else this.#wait(arrivals[value])
    }
    if (besideTp && tp > this.#free) this.#free = tp
    if (besideApart && apart > this.#free) this.#free = apart
  }
}

/** Of collectives within a block, by slot. */
const arrivals = new Float64Array(2 ** 14)

const reads = (kind: TaskKind, { readsBack }: FlownBlock): boolean => kind === 'F' || (kind !== 'W' && readsBack)
