/**
 * How the queries of a rank meet the keys of all ranks, where a sequence is split over cp: keys and values are gathered, or go
 * round, or ranks exchange sequence for heads and meet as if nothing were split (or go round among fewer). Starts and waits
 * are where the compiler's overlap leaves them.
 */
import type { Clock, Flight } from './clock.js'
import type { Lane } from './lanes.js'

/** Forward and backward, in seconds. */
export interface BothWays {
  readonly forward: number
  readonly backward: number
}

export interface MeetingWork {
  /** All keys at once; or, where they go round, turn by turn. */
  readonly attention: BothWays
  readonly turns: readonly BothWays[]
  /** Kernels bound by memory over so many times the queries of a rank with their sums, its queries, its keys, its values. */
  readonly results: (times: number) => number
  readonly queries: (times: number) => number
  readonly keys: (times: number) => number
  readonly values: (times: number) => number
  /** What comes after gradients of queries and keys are added up is part of the same kernel. */
  readonly turnsBack: boolean
}

/** Seconds of collectives over cp. */
export interface MeetingTraffic {
  /** Of all ranks, gathered; and gradients to their sums. */
  readonly gather: Handed
  readonly sum: Handed
  /** Keys and values of one rank to the next. */
  readonly shift: number
  readonly around: Lane
  /** Sequence for heads, or back. */
  readonly exchange: Handed & { readonly queries: number; readonly result: number; readonly again: number }
  readonly exchanging: Lane
}

interface Handed {
  readonly keys: number
  readonly values: number
}

export interface Meeting {
  /** Forward: these are made of the rank's own tokens. */
  queries(): void
  keys(): void
  values(): void
  forward(again: boolean): void
  /** What attention made is there for the rank's own tokens. */
  result(): void
  /** Going back, what other ranks have is needed again: asked for at once. */
  ask(): void
  /** The same, if it has not been. */
  askLate(): void
  /** The gradient of the result is made. */
  handGradient(): void
  /** `beside`: what else is started as soon as nothing of this is before it. */
  backward(beside: () => void): void
  /** Gradients of the rank's own tokens are needed. */
  valuesBack(): void
  keysBack(): void
  queriesBack(): void
}

/** Nothing is split, or by heads alone. */
class Whole implements Meeting {
  readonly clock: Clock
  readonly work: MeetingWork

  constructor(clock: Clock, work: MeetingWork) {
    this.clock = clock
    this.work = work
  }

  queries(): void {}
  keys(): void {}
  values(): void {}
  forward(again: boolean): void {
    this.clock.work(this.work.attention.forward, again)
  }
  result(): void {}
  ask(): void {}
  askLate(): void {}
  handGradient(): void {}
  backward(beside: () => void): void {
    beside()
    this.clock.work(this.work.attention.backward)
  }
  valuesBack(): void {}
  keysBack(): void {}
  queriesBack(): void {}
}

/** Keys and values lie on other ranks, and are asked for. */
class Apart extends Whole {
  readonly traffic: MeetingTraffic
  /** Whether they have been asked for. */
  asked = false

  constructor(clock: Clock, work: MeetingWork, traffic: MeetingTraffic) {
    super(clock, work)
    this.traffic = traffic
  }

  override askLate(): void {
    if (!this.asked) this.ask()
  }
}

class Gathered extends Apart {
  #keys: Flight | undefined
  #values: Flight | undefined

  override keys(): void {
    this.#keys = this.clock.start(this.traffic.gather.keys, this.traffic.around)
  }

  override values(): void {
    this.#values = this.clock.start(this.traffic.gather.values, this.traffic.around)
    this.asked = true
  }

  override forward(again: boolean): void {
    this.valuesBack()
    this.keysBack()
    super.forward(again)
  }

  override ask(): void {
    this.keys()
    this.values()
  }

  override backward(beside: () => void): void {
    this.valuesBack()
    this.keysBack()
    this.clock.work(this.work.attention.backward)
    this.#values = this.clock.start(this.traffic.sum.values, this.traffic.around)
    beside()
    this.#keys = this.clock.start(this.traffic.sum.keys, this.traffic.around)
  }

  override valuesBack(): void {
    this.clock.wait(this.#values, 'cp')
  }

  override keysBack(): void {
    this.clock.wait(this.#keys, 'cp')
  }
}

class Ring extends Apart {
  /** Keys and values that are on their way here. */
  #coming: Flight | undefined

  override values(): void {
    this.ask()
  }

  override ask(): void {
    this.#coming = this.#shift()
    this.asked = true
  }

  override forward(again: boolean): void {
    const { turns, results } = this.work
    let next: Flight | undefined
    turns.forEach(({ forward }, turn) => {
      const last = turns.length - 1
      if (turn > 0) this.clock.wait(this.#coming, 'cp')
      if (turn > 0 && turn < last) this.#coming = this.#shift()
      // Going back begins with the same keys, which are asked for behind the last of these.
      if (again && turn === Math.max(0, last - 1)) next = this.#shift()
      this.clock.work(forward, again)
      if (turn > 0) this.clock.work(results((turn === 1 ? 2 : 1) + (turn === last ? 1 : 0)), again)
    })
    this.#coming = next
    this.asked = again
  }

  override backward(beside: () => void): void {
    const { turns, queries, turnsBack } = this.work
    const last = turns.length - 1
    let home: Flight | undefined
    turns.forEach(({ backward }, turn) => {
      if (turn > 0) this.clock.wait(this.#coming, 'cp')
      if (turn < last && turn > 0) this.#coming = this.#shift()
      this.clock.work(backward)
      if (turn === 0) return
      const leaving = this.#shift()
      if (turn === last) beside()
      this.clock.work(queries((turn === 1 ? 2 : 1) + (turn === last && !turnsBack ? 1 : 0)))
      this.#comeHome(home, turn - 1)
      home = leaving
    })
    this.#comeHome(home, last)
  }

  /** Gradients of keys and values that have come from so many turns on are added. */
  #comeHome(home: Flight | undefined, turn: number): void {
    if (turn < 1) return
    const { turns, keys, values, turnsBack } = this.work
    const last = turn === turns.length - 1
    const read = turn === 1 ? 2 : 1
    this.clock.wait(home, 'cp')
    this.clock.work(keys(read + (last && !turnsBack ? 1 : 0)))
    this.clock.work(values(read + (last ? 1 : 0)))
  }

  #shift(): Flight | undefined {
    return this.clock.start(this.traffic.shift, this.traffic.around)
  }
}

/** Ranks exchange sequence for heads, and what is left of the sequence's split meets in another way. */
class Exchanged implements Meeting {
  readonly #inner: Meeting
  readonly #clock: Clock
  readonly #traffic: MeetingTraffic
  readonly #flights: Partial<Record<'queries' | 'keys' | 'values' | 'result' | 'gradient', Flight | undefined>> = {}

  constructor(clock: Clock, traffic: MeetingTraffic, inner: Meeting) {
    this.#clock = clock
    this.#traffic = traffic
    this.#inner = inner
  }

  queries(): void {
    this.#start('queries')
  }
  keys(): void {
    this.#start('keys')
  }
  values(): void {
    this.#start('values')
  }

  forward(again: boolean): void {
    this.valuesBack()
    this.keysBack()
    this.#inner.askLate()
    this.queriesBack()
    this.#inner.forward(again)
    this.#flights.result = this.#clock.start(this.#traffic.exchange.result, this.#traffic.exchanging)
  }

  result(): void {
    this.#clock.wait(this.#flights.result, 'cp')
  }

  ask(): void {}
  askLate(): void {}

  handGradient(): void {
    this.#flights.gradient = this.#clock.start(this.#traffic.exchange.result, this.#traffic.exchanging)
    this.#inner.askLate()
  }

  backward(beside: () => void): void {
    this.#clock.wait(this.#flights.gradient, 'cp')
    this.#clock.wait(this.#clock.start(this.#traffic.exchange.again, this.#traffic.exchanging), 'cp')
    this.#inner.backward(() => {})
    this.#start('values')
    beside()
    this.#start('keys')
    this.#start('queries')
  }

  valuesBack(): void {
    this.#clock.wait(this.#flights.values, 'cp')
  }
  keysBack(): void {
    this.#clock.wait(this.#flights.keys, 'cp')
  }
  queriesBack(): void {
    this.#clock.wait(this.#flights.queries, 'cp')
  }

  #start(what: 'queries' | 'keys' | 'values'): void {
    this.#flights[what] = this.#clock.start(this.#traffic.exchange[what], this.#traffic.exchanging)
  }
}

export function meetingOn(clock: Clock, work: MeetingWork, traffic: MeetingTraffic): Meeting {
  const inner =
    work.turns.length > 0
      ? new Ring(clock, work, traffic)
      : traffic.gather.keys > 0
        ? new Gathered(clock, work, traffic)
        : new Whole(clock, work)
  return traffic.exchange.queries > 0 ? new Exchanged(clock, traffic, inner) : inner
}
