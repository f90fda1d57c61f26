/** A pipeline played block by block, beside what the data axes move meanwhile. */
import type { TaskKind } from '../../schedule/index.js'
import { type ActsAlone, starts, startsApart, workBeside, works } from './acts.js'
import { farther, firstForward, firstOfPair, lastMaker, nowhere, type Order, taskKinds } from './order.js'
import type { FlownBlock, PipelineCosts, PipelineFlights, PlayedRanks, StepFlights } from './play.js'

/** All ranks, with a lane for flights each, and what they wait for. */
export class FlownPlay {
  readonly #order: Order
  readonly #costs: PipelineCosts
  readonly #flights: PipelineFlights

  constructor(order: Order, costs: PipelineCosts, flights: PipelineFlights) {
    this.#order = order
    this.#costs = costs
    this.#flights = flights
  }

  run(): PlayedRanks {
    const { rank, what, after, marks, stages, arrived } = this.#order
    const ranks = Array.from({ length: this.#order.ranks }, (_, one) => this.#rank(one))
    if (this.#flights.prefetch !== undefined)
      for (let task = 0; task < rank.length; task++)
        ranks[rank[task]].expect(taskKinds[Math.floor(what[task] / stages)], what[task] % stages)
    for (let task = 0; task < rank.length; task++) {
      const by = ranks[rank[task]]
      const need = after[task]
      if (need >= 0) by.idleUntil(arrived[need])
      this.#task(by, task)
      if (marks[task] & firstOfPair) continue
      if (task > 0 && marks[task - 1] & firstOfPair) arrived[task - 1] = this.#send(by, task - 1)
      arrived[task] = this.#send(by, task)
      by.depart()
    }
    for (const by of ranks) by.end()
    const column = (of: (rank: FlownRank) => number) => Float64Array.from(ranks, of)
    return { finish: column(({ now }) => now), idle: column(({ idle }) => idle) }
  }

  /** One rank, with all that comes from others there at once. */
  runAlone(alone: number): number {
    const { rank, what, marks, stages } = this.#order
    const by = this.#rank(alone)
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

  #rank(rank: number): FlownRank {
    return new FlownRank(this.#flights, this.#flights.ofStep(rank))
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

  #work(seconds: number): void {
    this.now += workBeside(seconds, this.#free - this.now, this.#slower)
  }

  /** Whether collectives over tp must wait for their links. */
  get isCrowded(): boolean {
    const { besideTp, besideApart, messagesBesideTp, messagesBesideApart } = this.#flights
    if ((besideTp || besideApart) && this.#free > this.now) return true
    return (messagesBesideTp || messagesBesideApart) && this.#messages > this.now
  }

  #block({ seconds, acts }: FlownBlock, kind: TaskKind): void {
    if (this.isCrowded) this.#act(acts[kind].alone)
    else this.#work(seconds[kind])
  }

  /** Collectives over tp leave behind what is on their links. Nearly all the time of a search is spent here. */
  #act({ pairs, rest, free: lateTp, freeApart: lateApart }: ActsAlone): void {
    const { besideTp, besideApart, messagesBesideTp, messagesBesideApart } = this.#flights
    const [slower, free] = [this.#slower, this.#free]
    const messages = messagesBesideTp || messagesBesideApart ? this.#messages : 0
    const clear = messages > free ? messages : free
    let [now, slots] = [this.now, 0]
    let [tp, apart] = [besideTp ? free : 0, besideApart ? free : 0]
    if (messagesBesideApart && messages > apart) apart = messages
    for (let i = 0; i < pairs.length; i += 2) {
      if (now >= clear && now >= tp && now >= apart && rest[i >> 1] >= 0) {
        now += rest[i >> 1]
        tp = now + lateTp
        apart = now + lateApart
        break
      }
      const [what, value] = [pairs[i], pairs[i + 1]]
      if (what === works) {
        const lane = tp > apart ? tp : apart
        now += workBeside(value, (lane > free ? lane : free) - now, slower)
      } else if (what === startsApart) apart = arrivals[slots++] = (apart > now ? apart : now) + value
      else if (what === starts) {
        let start = tp > now ? tp : now
        if (messagesBesideTp && messages > start) start = messages
        tp = arrivals[slots++] = start + value
      } else if (arrivals[value] > now) now = arrivals[value]
    }
    this.now = now
    if (besideTp && tp > this.#free) this.#free = tp
    if (besideApart && apart > this.#free) this.#free = apart
  }
}

/** Of collectives within a block, by slot. */
const arrivals = new Float64Array(2 ** 14)

const reads = (kind: TaskKind, { readsBack }: FlownBlock): boolean => kind === 'F' || (kind !== 'W' && readsBack)
