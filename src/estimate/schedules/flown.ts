/** A pipeline played block by block, beside what the data axes move meanwhile. */
import type { TaskKind } from '../../schedule/index.js'
import { type Acts, type ActsAlone, starts, startsApart, workBeside, works } from './acts.js'
import { farther, firstForward, firstOfPair, kindOfTask, lastMaker, nowhere, type Order, taskKinds } from './order.js'
import type { FlownBlock, PipelineCosts, PipelineFlights, PlayedRanks, StepFlights } from './play.js'

/** What one block does in one kind of task: its seconds with nothing beside it, and its acts. */
interface Part {
  readonly seconds: number
  readonly acts: Acts
}

/** What flies for each call of a rank. */
interface CallFlights {
  /** Seconds of the gathers of all calls that read parameters, one after the other; when those that have left are there. */
  readonly gathers: number[]
  readonly arrivals: number[]
  /** Likewise of what comes from the host before; when the link to it is free. */
  readonly lifts: number[]
  readonly lifted: number[]
  link: number
  expected: FlownBlock | undefined
  fetched: FlownBlock | undefined
  own: number
  /** Gradients of one call under way: when they are there, and the block they are of. */
  underWay: number
  leaving: FlownBlock | undefined
  /** Gradients of one call that leave behind the next message. */
  ready: FlownBlock | undefined
}

// Written out, as all that is made for each play: objects made by spreading are of several shapes to the machine.
const noCalls = (): CallFlights => ({
  gathers: [],
  arrivals: [],
  lifts: [],
  lifted: [],
  link: 0,
  expected: undefined,
  fetched: undefined,
  own: 0,
  underWay: Number.NaN,
  leaving: undefined,
  ready: undefined,
})

const everyone = -1

/**
 * All ranks, each beside the lane of its data axes: whatever flies starts now, behind what flies already. Numbers lie in columns by
 * rank, and what every task needs is one loop over them: a search plays millions of tasks.
 */
export class FlownPlay {
  readonly #order: Order
  readonly #costs: PipelineCosts
  readonly #flights: PipelineFlights
  readonly #slower: number
  readonly #now: Float64Array
  readonly #idle: Float64Array
  /** When the lane of flights is free, and that of messages. */
  readonly #free: Float64Array
  readonly #messages: Float64Array
  /** Seconds of flights of the step that leave behind the next message. */
  readonly #ready: Float64Array
  readonly #steps: (StepFlights | undefined)[] = []
  readonly #calls: CallFlights[] = []
  /** By task, where `taskIndex` says: the parts of its blocks in the order it comes to them. */
  readonly #parts: (readonly Part[] | undefined)[] = []

  constructor(order: Order, costs: PipelineCosts, flights: PipelineFlights) {
    this.#order = order
    this.#costs = costs
    this.#flights = flights
    this.#slower = 1 + flights.contention
    this.#now = new Float64Array(order.ranks)
    this.#idle = new Float64Array(order.ranks)
    this.#free = new Float64Array(order.ranks)
    this.#messages = new Float64Array(order.ranks)
    this.#ready = new Float64Array(order.ranks)
  }

  run(): PlayedRanks {
    for (let rank = 0; rank < this.#order.ranks; rank++) this.#begin(rank)
    this.#play(everyone)
    for (let rank = 0; rank < this.#order.ranks; rank++) this.#end(rank)
    return { finish: this.#now, idle: this.#idle }
  }

  /** One rank, with all that comes from others there at once. */
  runAlone(rank: number): number {
    this.#begin(rank)
    this.#play(rank)
    this.#end(rank)
    return this.#now[rank]
  }

  #begin(rank: number): void {
    const step = this.#flights.ofStep(rank)
    this.#steps[rank] = step
    this.#calls[rank] = noCalls()
    this.#free[rank] = step.begun
  }

  #end(by: number): void {
    this.#settle(by)
    this.#wait(by, this.#free[by])
  }

  #play(only: number): void {
    const { rank, what, after, marks, sends, stages, arrived } = this.#order
    const { tasks, near, far } = this.#costs
    const { prefetch, reducesEach, agrees } = this.#flights
    const { besideTp, besideApart, messagesBesideTp, messagesBesideApart } = this.#flights
    const [now, idle, free, messages, slower] = [this.#now, this.#idle, this.#free, this.#messages, this.#slower]
    const besideBlocks = besideTp || besideApart
    const messagesBeside = messagesBesideTp || messagesBesideApart
    // Beside tasks before these, and that begin and end nothing, nothing new moves.
    const moving = prefetch !== undefined ? 0 : reducesEach ? weights * stages : what.length * stages
    if (prefetch !== undefined) this.#expect(only)
    for (let task = 0; task < rank.length; task++) {
      const by = rank[task]
      if (only !== everyone && by !== only) continue
      const need = after[task]
      if (only === everyone && need >= 0 && arrived[need] > now[by]) {
        idle[by] += arrived[need] - now[by]
        now[by] = arrived[need]
      }
      const index = what[task]
      const mark = marks[task]
      if (mark & (firstForward | lastMaker) || index >= moving) this.#blocks(by, index, mark, sends[task] !== nowhere)
      else if (agrees && free[by] > now[by]) {
        this.#agree(by, index)
        now[by] += tasks[index]
      } else if ((besideBlocks && free[by] > now[by]) || (messagesBeside && messages[by] > now[by])) {
        const parts = this.#parts[index] ?? this.#partsOf(index)
        for (let i = 0; i < parts.length; i++) this.#part(by, parts[i])
      } else now[by] += workBeside(tasks[index], free[by] - now[by], slower)
      if (mark & firstOfPair) continue
      // What a pair has made is sent when both are done.
      if (task > 0 && marks[task - 1] & firstOfPair) arrived[task - 1] = send(task - 1, by)
      arrived[task] = send(task, by)
      this.#depart(by)
    }

    function send(task: number, by: number): number {
      if (sends[task] === nowhere) return now[by]
      const start = messages[by] > now[by] ? messages[by] : now[by]
      messages[by] = start + (sends[task] === farther ? far : near)
      return messages[by]
    }
  }

  /** What tasks to come will fetch. A call that reads what the one before it does finds it still there. */
  #expect(only: number): void {
    const { rank, what, stages } = this.#order
    for (let task = 0; task < rank.length; task++) {
      if (only !== everyone && rank[task] !== only) continue
      const kind = taskKinds[Math.floor(what[task] / stages)]
      const blocks = this.#flights.blocks[what[task] % stages]
      const calls = this.#calls[rank[task]]
      for (let i = 0; i < blocks.length; i++) {
        const block = blocks[kind === 'F' ? i : blocks.length - 1 - i]
        if (!reads(kind, block) || block === calls.expected) continue
        calls.gathers.push(block.gather)
        calls.lifts.push(block.lift)
        calls.expected = block
      }
    }
  }

  #partsOf(index: number): readonly Part[] {
    const { stages } = this.#order
    const kind = taskKinds[Math.floor(index / stages)]
    const all = this.#flights.blocks[index % stages].map(
      ({ seconds, acts }): Part => ({ seconds: seconds[kind], acts: acts[kind] }),
    )
    const parts = (kind === 'F' ? all : all.reverse()).filter(({ seconds }) => kind !== 'I' || seconds !== 0)
    this.#parts[index] = parts
    return parts
  }

  /** A task beside which something may begin or end to move. */
  #blocks(by: number, index: number, mark: number, sends: boolean): void {
    const { stages } = this.#order
    const { prefetch, reducesEach, agrees } = this.#flights
    const stage = index % stages
    const kind = taskKinds[Math.floor(index / stages)]
    const blocks = this.#flights.blocks[stage]
    const arrivals = mark & firstForward ? this.#steps[by]!.arrivals.get(stage) : undefined
    const departures = mark & lastMaker ? this.#steps[by]!.departures.get(stage) : undefined
    for (let i = 0; i < blocks.length; i++) {
      const at = kind === 'F' ? i : blocks.length - 1 - i
      const block = blocks[at]
      if (kind === 'I' && block.seconds.I === 0) continue
      if (prefetch !== undefined && reads(kind, block)) this.#fetch(by, block, prefetch)
      if (arrivals) this.#wait(by, arrivals[at])
      if (agrees) this.#agree(by, index)
      this.#part(by, { seconds: block.seconds[kind], acts: block.acts[kind] })
      if (departures) this.#leaves(by, departures[at], sends)
      if (reducesEach && (kind === 'B' || kind === 'W')) this.#made(by, block, sends && i === blocks.length - 1)
    }
  }

  /** Gradients of weights are made of codes that are there; whatever else multiplies waits until ranks have agreed. */
  #agree(by: number, index: number): void {
    if (kindOfTask(this.#order.stages, index) !== 'W') this.#wait(by, this.#free[by])
  }

  /** What was kept back for a message leaves. */
  #depart(by: number): void {
    if (this.#ready[by] > 0) {
      this.#start(by, this.#ready[by])
      this.#ready[by] = 0
    }
    const { ready } = this.#calls[by]
    if (!ready) return
    this.#made(by, ready, false)
    this.#calls[by].ready = undefined
  }

  #fetch(by: number, block: FlownBlock, prefetch: number): void {
    const calls = this.#calls[by]
    if (block === calls.fetched) return
    calls.fetched = block
    this.#startUpTo(by, ++calls.own)
    this.#wait(by, calls.arrivals[calls.own - 1])
    if (block.unpack > 0) this.#work(by, block.unpack)
    this.#startUpTo(by, calls.own + prefetch)
    if (block.lift > 0) this.#liftUpTo(by, calls.own + prefetch + (prefetch > 0 ? 1 : 0))
  }

  #startUpTo(by: number, count: number): void {
    const { arrivals, gathers, lifts, lifted } = this.#calls[by]
    while (arrivals.length < count && arrivals.length < gathers.length) {
      const at = arrivals.length
      if (lifts[at] > 0) this.#liftUpTo(by, count)
      // What nobody else holds a part of is there when it has come; else a rank waits for it before it gathers.
      if (lifts[at] > 0 && gathers[at] === 0) arrivals.push(lifted[at])
      else {
        if (lifts[at] > 0) this.#wait(by, lifted[at])
        arrivals.push(this.#start(by, gathers[at]))
      }
    }
  }

  #liftUpTo(by: number, count: number): void {
    const calls = this.#calls[by]
    while (calls.lifted.length < count && calls.lifted.length < calls.lifts.length) {
      calls.link = Math.max(calls.link, this.#now[by]) + calls.lifts[calls.lifted.length]
      calls.lifted.push(calls.link)
    }
  }

  #leaves(by: number, seconds: number, sends: boolean): void {
    if (sends) this.#ready[by] += seconds
    else if (seconds > 0) this.#start(by, seconds)
  }

  /** Gradients of a call leave; those of the call before it have had its time to arrive. */
  #made(by: number, block: FlownBlock, later: boolean): void {
    const calls = this.#calls[by]
    if (later) {
      calls.ready = block
      return
    }
    const arrival = this.#start(by, block.reduce)
    this.#settle(by)
    calls.underWay = arrival
    calls.leaving = block
  }

  #settle(by: number): void {
    const calls = this.#calls[by]
    if (!calls.leaving) return
    this.#wait(by, calls.underWay)
    this.#work(by, calls.leaving.add)
    calls.leaving = undefined
  }

  #start(by: number, seconds: number): number {
    let start = this.#free[by] > this.#now[by] ? this.#free[by] : this.#now[by]
    if (this.#flights.besideMessages && this.#messages[by] > start) start = this.#messages[by]
    this.#free[by] = start + seconds
    return this.#free[by]
  }

  #wait(by: number, until: number): void {
    if (until > this.#now[by]) this.#now[by] = until
  }

  #work(by: number, seconds: number): void {
    this.#now[by] += workBeside(seconds, this.#free[by] - this.#now[by], this.#slower)
  }

  /** A block, whose collectives may have to wait for their links. */
  #part(by: number, { seconds, acts }: Part): void {
    const { besideTp, besideApart, messagesBesideTp, messagesBesideApart } = this.#flights
    const now = this.#now[by]
    if ((besideTp || besideApart) && this.#free[by] > now) this.#act(by, acts.alone)
    else if ((messagesBesideTp || messagesBesideApart) && this.#messages[by] > now) this.#act(by, acts.alone)
    else this.#work(by, seconds)
  }

  /** Collectives over tp leave behind what is on their links. */
  #act(by: number, { pairs, rest, free: lateTp, freeApart: lateApart }: ActsAlone): void {
    const { besideTp, besideApart, messagesBesideTp, messagesBesideApart } = this.#flights
    const slower = this.#slower
    const free = this.#free[by]
    const messages = messagesBesideTp || messagesBesideApart ? this.#messages[by] : 0
    const clear = messages > free ? messages : free
    let now = this.#now[by]
    let slots = 0
    let tp = besideTp ? free : 0
    let apart = besideApart ? free : 0
    if (messagesBesideApart && messages > apart) apart = messages
    for (let i = 0; i < pairs.length; i += 2) {
      if (now >= clear && now >= tp && now >= apart && rest[i >> 1] >= 0) {
        now += rest[i >> 1]
        tp = now + lateTp
        apart = now + lateApart
        break
      }
      const what = pairs[i]
      const value = pairs[i + 1]
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
    this.#now[by] = now
    if (besideTp && tp > this.#free[by]) this.#free[by] = tp
    if (besideApart && apart > this.#free[by]) this.#free[by] = apart
  }
}

/** Kinds of tasks from here on make gradients of weights: W and B. */
const weights = taskKinds.indexOf('W')

/** Of collectives within a block, by slot. */
const arrivals = new Float64Array(2 ** 14)

const reads = (kind: TaskKind, { readsBack }: FlownBlock): boolean => kind === 'F' || (kind !== 'W' && readsBack)
