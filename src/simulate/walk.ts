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
import { type Part, partNames } from '../metrics/index.js'
import type { Alike } from './alike.js'
import { besides, type Flight, flightOf, settle } from './flight.js'
import { Messages } from './messages.js'
import type { Message, Prices } from './prices.js'
import type { Recorder } from './record.js'
import type { Score, Start, Work } from './score.js'

export interface Cast {
  readonly alike: Alike
  readonly scores: ReadonlyMap<string, Score>
  readonly prices: Prices
  /** How many times as long the work of a stream's n-th call takes each class. */
  readonly paceOf: (pp: number, call: number) => Float64Array
  /** One class of ranks at full speed: a call takes as long every time. */
  readonly steady: boolean
  /** The classes of each stream whose spans are written down. */
  readonly watched: readonly (readonly WatchedClass[])[]
}

export interface WatchedClass {
  readonly of: number
  readonly recorder: Recorder
}

/** [pp][part][class]: seconds. */
export type PartSeconds = readonly Readonly<Record<Part, Float64Array>>[]

export interface WalkResult {
  readonly seconds: number
  readonly spent: PartSeconds
}

/** Yields the share of all steps that are taken. */
export const walking = (program: Program, cast: Cast): Generator<number, WalkResult, void> =>
  new Walk(program, cast).run()

type Send = Extract<Step, { kind: 'send' }>

/** How far a stream is. */
interface Front {
  readonly pp: number
  readonly stream: Stream
  readonly now: Float64Array
  /** When the lane of each link is free, and when it is free of what calls that only start have under way. */
  readonly lanes: readonly Float64Array[]
  readonly tagged: readonly Float64Array[]
  readonly spent: Readonly<Record<Part, Float64Array>>
  /** The next step, the next act of the segment it calls, and the calls before it. */
  step: number
  act: number
  calls: number
  /** Collectives of the segment by slot, those of calls that only start by tag, and all that are not waited for yet. */
  readonly slots: Flight[]
  readonly started: Map<string, Flight[]>
  readonly flying: Flight[]
  /** How often it has met other streams, by group. */
  readonly met: Map<string, number>
  /** The price of the last message to each peer. */
  readonly carriages: { readonly bytes: number; readonly carriage: Message }[]
  /** What it cannot go on without. */
  awaits: string | undefined
}

/** A stream that has come to a collective: at which step, and what is under way for it. */
interface Member {
  readonly front: Front
  readonly step: number
  readonly flight: Flight
}

interface Taken {
  readonly seconds: number
  readonly parts: readonly (readonly [Part, number])[]
}

class Walk {
  readonly #cast: Cast
  readonly #fronts: readonly Front[]
  /** Streams that have what they waited for. */
  readonly #ready: Front[]
  readonly #bytes: ReadonlyMap<string, number>
  readonly #messages: Messages
  /** Rows of messages by tag, until both sides have waited. */
  readonly #posted = new Map<string, number>()
  /** Collectives over several streams for which not all have come. */
  readonly #gatherings = new Map<string, Member[]>()
  /** What calls took, by their circumstances: in the same ones they take it again. */
  readonly #taken = new Map<Score, Map<number, Taken>>()

  constructor(program: Program, cast: Cast) {
    const { classes } = cast.alike
    this.#cast = cast
    this.#fronts = program.streams.map((stream, pp) => frontOf(stream, pp, classes, cast.prices.links.length))
    this.#ready = [...this.#fronts].reverse()
    this.#bytes = bytesReceived(program.streams)
    this.#messages = new Messages(classes)
  }

  *run(): Generator<number, WalkResult, void> {
    const all = this.#fronts.reduce((sum, { stream }) => sum + stream.steps.length, 0)
    for (let taken = 0, front = this.#ready.pop(); front; front = this.#ready.pop()) {
      const before = front.step
      this.#advance(front)
      taken += front.step - before
      yield taken / all
    }
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
    front.awaits = undefined
    while (front.step < steps.length) {
      front.awaits = this.#take(front, steps[front.step])
      if (front.awaits !== undefined) return
      front.step++
    }
  }

  #wake(front: Front, what: string): void {
    if (front.awaits !== what) return
    front.awaits = undefined
    this.#ready.push(front)
  }

  /** Takes one step, or says what it must wait for first. */
  #take(front: Front, step: Step): string | undefined {
    if (step.kind === 'call') return this.#call(front, step)
    if (step.kind === 'wait') return this.#collect(front, step.tag)
    if (step.kind === 'send') this.#send(front, step)
    return undefined
  }

  #call(front: Front, { segment, tag }: Call): string | undefined {
    const score = this.#cast.scores.get(segment)!
    if (tag !== undefined) {
      front.started.set(tag, [])
      return this.#play(front, score, front.started.get(tag)!)
    }
    const circumstances = this.#circumstances(front, score)
    if (circumstances < 0) return this.#play(front, score, front.slots)
    const known = this.#taken.get(score) ?? new Map<number, Taken>()
    const taken = known.get(circumstances)
    if (taken) this.#repeat(front, taken)
    else this.#taken.set(score, known.set(circumstances, this.#observe(front, score)))
    return undefined
  }

  /**
   * All that decides how long a call takes: for how many nanoseconds which lane that it needs is still taken. Negative:
   * more than that does.
   */
  #circumstances({ act, pp, now, lanes, flying }: Front, { alone, links }: Score): number {
    const { steady, watched } = this.#cast
    const beside = flying.some(({ end, awaits }) => awaits !== '' || end[0] > now[0])
    if (!steady || !alone || act > 0 || beside || watched[pp].length > 0) return -1
    let found = 0
    for (const link of links) {
      const late = lanes[link][0] - now[0]
      if (late <= 0) continue
      if (found > 0) return -1
      found = Math.round(late * 1e9) * lanes.length + link
    }
    return found
  }

  #observe(front: Front, score: Score): Taken {
    const { now, spent } = front
    const [from, before] = [now[0], partNames.map(part => spent[part][0])]
    this.#play(front, score, front.slots)
    const parts = partNames.map((part, i) => [part, spent[part][0] - before[i]] as const)
    return { seconds: now[0] - from, parts: parts.filter(([, seconds]) => seconds > 0) }
  }

  /** Its collectives are over when it is, so lanes need not be told. */
  #repeat(front: Front, { seconds, parts }: Taken): void {
    front.now[0] += seconds
    for (const [part, spent] of parts) front.spent[part][0] += spent
    front.calls++
  }

  #play(front: Front, { acts }: Score, slots: Flight[]): string | undefined {
    const pace = this.#cast.paceOf(front.pp, front.calls)
    for (; front.act < acts.length; front.act++) {
      const act = acts[front.act]
      if (act.kind === 'work') this.#work(front, act, pace)
      else if (act.kind === 'start') this.#start(front, act, slots)
      else {
        const missing = this.#finish(front, slots[act.slot])
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

  #start(front: Front, act: Start, slots: Flight[]): void {
    slots[act.slot] ??= flightOf(front.now.length, slots !== front.slots)
    const flight = slots[act.slot]
    flight.ready.set(front.now)
    flight.part = act.part
    flight.late = 'stragglers'
    front.flying.push(flight)
    const streams = streamsOf(act.group, this.#fronts.length)
    const member = { front, step: front.step, flight }
    if (streams === 1) this.#depart([member], act)
    else this.#gather(member, act, streams)
  }

  /** Streams meet in one order, so the n-th collective of a group is the same for all of them. */
  #gather(member: Member, act: Start, streams: number): void {
    const { front, flight } = member
    const group = `${act.group.axes.join()} ${act.group.stages?.join() ?? ''}`
    const count = front.met.get(group) ?? 0
    const name = `${group} ${count}`
    front.met.set(group, count + 1)
    flight.awaits = name
    flight.late = 'bubble'
    const come = [...(this.#gatherings.get(name) ?? []), member]
    this.#gatherings.set(name, come)
    if (come.length < streams) return
    this.#gatherings.delete(name)
    this.#depart(come, act)
    for (const { front: other } of come) this.#wake(other, name)
  }

  /** All members are there. They are at the same collective of the same segment. */
  #depart(members: readonly Member[], { instr, group, link, seconds }: Start): void {
    const parties = members.map(({ front: { lanes, tagged }, flight }) => {
      const [lane, other] = flight.tagged ? [tagged[link], lanes[link]] : [lanes[link], tagged[link]]
      return { flight, lane, other }
    })
    settle(parties, this.#cast.alike.collectivesOf(group), seconds)
    for (const { front, step, flight } of members) this.#record({ pp: front.pp, step }, flight, 0, { instr, link })
  }

  #finish(front: Front, flight: Flight): string | undefined {
    if (flight.awaits !== '') return flight.awaits
    front.flying.splice(front.flying.indexOf(flight), 1)
    this.#hold(front, { ready: flight.ready, end: flight.end, row: 0 }, flight)
    return undefined
  }

  /** The wait for a tag: all collectives of a call, or a message. */
  #collect(front: Front, tag: string): string | undefined {
    const started = front.started.get(tag)
    if (!started) return this.#arrive(front, tag)
    for (; started.length > 0; started.shift()) {
      const missing = this.#finish(front, started[0])
      if (missing !== undefined) return missing
    }
    front.started.delete(tag)
    return undefined
  }

  #send(front: Front, { tag, peer, frame }: Send): void {
    const bytes = this.#bytes.get(tag) ?? front.stream.frames[frame].bytes
    const carriage = this.#carriage(front, bytes, peer)
    const message = this.#messages.depart(front, carriage)
    this.#record(front, this.#messages, message, { instr: -1, link: carriage.link })
    this.#posted.set(tag, message)
    this.#wake(this.#fronts[peer], tag)
  }

  #carriage({ pp, carriages }: Front, bytes: number, peer: number): Message {
    const known = carriages[peer]
    if (known?.bytes === bytes) return known.carriage
    const carriage = this.#cast.prices.message(bytes, pp, peer)
    carriages[peer] = { bytes, carriage }
    return carriage
  }

  /** A message that was sent here has left its buffer, or one that was sent to here has come. */
  #arrive(front: Front, tag: string): string | undefined {
    const message = this.#posted.get(tag)
    if (message === undefined) return tag
    const { start, release, end } = this.#messages
    const own = this.#messages.senderOf(message) === front.pp
    this.#hold(front, { ready: start, end: own ? release : end, row: message }, byMessage)
    if (this.#messages.isOver(message)) this.#posted.delete(tag)
    return undefined
  }

  /** Waits for the end of something: for others until it is ready, for the bytes from then on. */
  #hold({ now, spent }: Front, { ready, end, row }: Wait, { part, late }: Pick<Flight, 'part' | 'late'>): void {
    const [forBytes, forOthers] = [spent[part], spent[late]]
    for (let k = 0; k < now.length; k++) {
      if (end[row + k] <= now[k]) continue
      const idle = Math.max(0, ready[row + k] - now[k])
      forOthers[k] += idle
      forBytes[k] += end[row + k] - now[k] - idle
      now[k] = end[row + k]
    }
  }

  #record(
    { pp, step }: Pick<Front, 'pp' | 'step'>,
    { start, end }: Pick<Flight, 'start' | 'end'>,
    row: number,
    { instr, link }: { instr: number; link: number },
  ): void {
    for (const { of, recorder } of this.#cast.watched[pp])
      recorder.carry({ step, instr, link }, start[row + of], end[row + of])
  }
}

/** What a rank waits for: times of each class, from a row of larger columns. */
interface Wait {
  readonly ready: Float64Array
  readonly end: Float64Array
  readonly row: number
}

const byMessage = { part: 'pp', late: 'bubble' } as const

function frontOf(stream: Stream, pp: number, classes: number, links: number): Front {
  const zeros = () => new Float64Array(classes)
  return {
    ...{ pp, stream, now: zeros() },
    lanes: Array.from({ length: links }, zeros),
    tagged: Array.from({ length: links }, zeros),
    spent: Object.fromEntries(partNames.map(name => [name, zeros()])) as Record<Part, Float64Array>, // every part is there
    ...{ step: 0, act: 0, calls: 0, slots: [], started: new Map(), flying: [], met: new Map() },
    ...{ carriages: [], awaits: undefined },
  }
}

/** What a frame is received into may be larger on the sender's side: it has other uses there. */
function bytesReceived(streams: readonly Stream[]): Map<string, number> {
  const bytes = new Map<string, number>()
  for (const { frames, steps } of streams)
    for (const step of steps) if (step.kind === 'recv') bytes.set(step.tag, frames[step.frame].bytes)
  return bytes
}

/** Streams that a group has members on. */
const streamsOf = ({ axes, stages }: Group, streams: number): number =>
  stages?.length ?? (axes.includes('pp') ? streams : 1)

const whereabouts = ({ pp, step, stream }: Front): string =>
  `pp ${pp} step ${step} of ${stream.steps.length} (${stream.steps[step].kind})`
