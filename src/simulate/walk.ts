/**
 * The event simulation. All ranks of a stream take the same steps in the same order and differ in *when* only, so a
 * stream is walked once, with a time for each class of its ranks; what must wait for another stream waits for all of
 * its classes. A lawful program cannot stop: the order in which streams are walked has nothing to do with time.
 *
 * Each rank has a compute lane (where its program runs), one network lane for each kind of link, and a host lane.
 * A collective starts when every member has come and their lanes are free, and holds the lanes until it is done; ranks
 * go on until their wait. A message holds the sender's lane, so those of a channel arrive in the order they were sent.
 */
import type { Call, Group, Program, Step, Stream } from '../ir/index.js'
import type { Alike } from './alike.js'
import { besides, type Flight, flightOf, settle } from './flight.js'
import { type Part, partNames } from './parts.js'
import type { Prices } from './prices.js'
import type { Recorder } from './record.js'
import type { Score, Start, Work } from './score.js'

export interface Cast {
  readonly alike: Alike
  readonly scores: ReadonlyMap<string, Score>
  readonly prices: Prices
  /** How many times as long the work of a stream's n-th call takes each class. */
  readonly paceOf: (pp: number, call: number) => Float64Array
  /** By stream: the classes whose spans are written down. */
  readonly watched: readonly (readonly Watched[])[]
}

export interface Watched {
  readonly of: number
  readonly recorder: Recorder
}

/** [pp][part][class]: seconds. */
export type Spent = readonly Readonly<Record<Part, Float64Array>>[]

export interface Walked {
  readonly seconds: number
  readonly spent: Spent
}

export const walk = (program: Program, cast: Cast): Walked => new Walk(program, cast).run()

type Send = Extract<Step, { kind: 'send' }>

/** How far a stream is. */
interface Front {
  readonly pp: number
  readonly stream: Stream
  readonly now: Float64Array
  /** By link: when the lane is free. */
  readonly lanes: readonly Float64Array[]
  readonly spent: Readonly<Record<Part, Float64Array>>
  /** The next step, the next act of the segment it calls, and the calls before it. */
  step: number
  act: number
  calls: number
  /** Collectives of the segment by slot, and those that are not waited for yet. */
  readonly slots: Flight[]
  readonly flying: Flight[]
  /** Its messages that are not waited for yet. */
  readonly sent: Map<string, Flight>
  /** How often it has met other streams, by group. */
  readonly met: Map<string, number>
}

class Walk {
  readonly #cast: Cast
  readonly #fronts: readonly Front[]
  readonly #bytes: ReadonlyMap<string, number>
  readonly #arrivals = new Map<string, Flight>()
  /** Collectives over several streams for which not all have come. */
  readonly #gatherings = new Map<string, Front[]>()
  /** Streams that wait, by what they wait for. */
  readonly #sleepers = new Map<string, Front[]>()

  constructor(program: Program, cast: Cast) {
    const { classes } = cast.alike
    this.#cast = cast
    this.#fronts = program.streams.map((stream, pp) => frontOf(stream, pp, classes, cast.prices.links.length))
    this.#bytes = new Map(program.streams.flatMap(received))
  }

  run(): Walked {
    for (const front of this.#fronts) this.#advance(front)
    const stuck = this.#fronts.filter(({ step, stream }) => step < stream.steps.length)
    if (stuck.length > 0) throw new Error(`internal: the simulation stopped at ${stuck.map(whereabouts).join('; ')}`)
    const seconds = this.#fronts.reduce((last, { now }) => now.reduce((a, b) => Math.max(a, b), last), 0)
    // Who is done early waits for the pipeline to drain.
    for (const { now, spent } of this.#fronts) for (const [k, at] of now.entries()) spent.bubble[k] += seconds - at
    return { seconds, spent: this.#fronts.map(({ spent }) => spent) }
  }

  /** Walks a stream as far as it goes. */
  #advance(front: Front): void {
    const { steps } = front.stream
    while (front.step < steps.length) {
      const missing = this.#take(front, steps[front.step])
      if (missing !== undefined) {
        this.#sleepers.set(missing, [...(this.#sleepers.get(missing) ?? []), front])
        return
      }
      front.step++
    }
  }

  #wake(what: string): void {
    const woken = this.#sleepers.get(what) ?? []
    this.#sleepers.delete(what)
    for (const front of woken) this.#advance(front)
  }

  /** Takes one step, or says what it must wait for first. */
  #take(front: Front, step: Step): string | undefined {
    if (step.kind === 'call') return this.#call(front, step)
    if (step.kind === 'wait') return this.#arrive(front, step.tag)
    if (step.kind === 'send') this.#send(front, step)
    return undefined
  }

  #call(front: Front, { segment }: Call): string | undefined {
    const { acts } = this.#cast.scores.get(segment)!
    const pace = this.#cast.paceOf(front.pp, front.calls)
    for (; front.act < acts.length; front.act++) {
      const act = acts[front.act]
      if (act.kind === 'work') this.#work(front, act, pace)
      else if (act.kind === 'start') this.#start(front, act)
      else {
        const missing = this.#finish(front, front.slots[act.slot])
        if (missing !== undefined) return missing
      }
    }
    front.act = 0
    front.calls++
    return undefined
  }

  #work(front: Front, act: Work, pace: Float64Array): void {
    const { pp, now, flying, step } = front
    const spent = front.spent[act.part]
    const watched = this.#cast.watched[pp].map(({ of, recorder }) => ({ of, recorder, from: now[of] }))
    const slower = 1 + this.#cast.prices.contention.compute
    for (let k = 0; k < now.length; k++) {
      const seconds = act.seconds * pace[k]
      const lasted = flying.length === 0 ? seconds : besides(flying, k, now[k], { seconds, slower })
      now[k] += lasted
      spent[k] += lasted
    }
    for (const { of, recorder, from } of watched) recorder.work(step, act, from, now[of])
  }

  #start(front: Front, act: Start): void {
    front.slots[act.slot] ??= flightOf(front.now.length)
    const flight = front.slots[act.slot]
    flight.ready.set(front.now)
    flight.part = act.part
    flight.late = 'stragglers'
    front.flying.push(flight)
    const streams = streamsOf(act.group, this.#fronts.length)
    if (streams === 1) this.#depart([front], act)
    else this.#gather(front, act, streams)
  }

  /** Streams meet in one order, so the n-th meeting of a group is the same for all of them. */
  #gather(front: Front, act: Start, streams: number): void {
    const group = `${act.group.axes.join()} ${act.group.stages?.join() ?? ''}`
    const count = front.met.get(group) ?? 0
    const name = `${group} ${count}`
    front.met.set(group, count + 1)
    front.slots[act.slot].awaits = name
    front.slots[act.slot].late = 'bubble'
    const come = [...(this.#gatherings.get(name) ?? []), front]
    this.#gatherings.set(name, come)
    if (come.length < streams) return
    this.#gatherings.delete(name)
    this.#depart(come, act)
    this.#wake(name)
  }

  /** All members are there. They are at the same collective of the same segment. */
  #depart(fronts: readonly Front[], { instr, slot, group, link, seconds }: Start): void {
    const parties = fronts.map(front => ({ flight: front.slots[slot], lane: front.lanes[link] }))
    settle(parties, this.#cast.alike.meetingsOf(group), seconds)
    for (const front of fronts) this.#record(front, front.slots[slot], { instr, link })
  }

  #finish(front: Front, flight: Flight): string | undefined {
    if (flight.awaits !== '') return flight.awaits
    front.flying.splice(front.flying.indexOf(flight), 1)
    this.#hold(front, flight, flight.ready)
    return undefined
  }

  #send(front: Front, { tag, peer, frame }: Send): void {
    const bytes = this.#bytes.get(tag) ?? front.stream.frames[frame].bytes
    const { seconds, link, held } = this.#cast.prices.message(bytes, front.pp, peer)
    const [arrival, release] = [messageOf(front.now.length), messageOf(front.now.length)]
    const lane = front.lanes[link]
    for (let k = 0; k < lane.length; k++) {
      arrival.start[k] = release.start[k] = Math.max(front.now[k], lane[k])
      arrival.end[k] = lane[k] = arrival.start[k] + seconds
      release.end[k] = release.start[k] + held
    }
    this.#record(front, arrival, { instr: -1, link })
    this.#arrivals.set(tag, arrival)
    front.sent.set(tag, release)
    this.#wake(tag)
  }

  /** A message that was sent here has left its buffer, or one that was sent to here has come. */
  #arrive(front: Front, tag: string): string | undefined {
    const messages = front.sent.has(tag) ? front.sent : this.#arrivals
    const flight = messages.get(tag)
    if (!flight) return tag
    messages.delete(tag)
    this.#hold(front, flight, flight.start)
    return undefined
  }

  /** Waits for the end of a flight: for others until `ready`, for the bytes from then on. */
  #hold({ now, spent }: Front, { end, part, late }: Flight, ready: Float64Array): void {
    const [forBytes, forOthers] = [spent[part], spent[late]]
    for (let k = 0; k < now.length; k++) {
      if (end[k] <= now[k]) continue
      const idle = Math.max(0, ready[k] - now[k])
      forOthers[k] += idle
      forBytes[k] += end[k] - now[k] - idle
      now[k] = end[k]
    }
  }

  #record({ pp, step }: Front, { start, end }: Flight, { instr, link }: { instr: number; link: number }): void {
    for (const { of, recorder } of this.#cast.watched[pp])
      recorder.add({ step, instr, lane: 'network', link }, start[of], end[of])
  }
}

function frontOf(stream: Stream, pp: number, classes: number, links: number): Front {
  const zeros = () => new Float64Array(classes)
  return {
    ...{ pp, stream, now: zeros(), lanes: Array.from({ length: links }, zeros) },
    spent: Object.fromEntries(partNames.map(name => [name, zeros()])) as Record<Part, Float64Array>, // every part is there
    ...{ step: 0, act: 0, calls: 0, slots: [], flying: [], sent: new Map(), met: new Map() },
  }
}

const messageOf = (classes: number): Flight => ({ ...flightOf(classes), part: 'pp', late: 'bubble' })

/** What a frame is received into may be larger on the sender's side: it has other uses there. */
const received = ({ frames, steps }: Stream): [string, number][] =>
  steps.flatMap(step => (step.kind === 'recv' ? [[step.tag, frames[step.frame].bytes]] : []))

/** Streams that a group has members on. */
const streamsOf = ({ axes, stages }: Group, streams: number): number =>
  stages?.length ?? (axes.includes('pp') ? streams : 1)

const whereabouts = ({ pp, step, stream }: Front): string =>
  `pp ${pp} step ${step} of ${stream.steps.length} (${stream.steps[step].kind})`
