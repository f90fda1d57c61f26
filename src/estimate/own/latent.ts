/**
 * Latent attention: queries, and keys with values, are made from two narrow vectors of each token. Every rank of tp makes
 * those of all tokens, or of its own where the sequence is split over tp; they are gathered, narrow as they are.
 */
import type { AdapterTarget } from '../../model/index.js'
import type { StreamCut } from '../layer.js'
import type { Latent, Shape } from '../shape.js'
import { addedTo, type PricedParts } from './adapted.js'
import type { Flight } from './clock.js'
import type { Linear } from './kernels.js'
import type { Meeting } from './meeting.js'
import type { Phase } from './phase.js'
import type { Projection } from './projection.js'

export interface LatentWork {
  /** To the narrow vector of queries, if there is one; queries without and with a position from it. */
  readonly queryDown?: Linear
  readonly queryPlain: Linear
  readonly queryTurned: Linear
  readonly keyDown: Linear
  readonly keyPlain: Linear
  /** The one key with a position that all heads share; and the gradient it gives to all tokens. */
  readonly keyTurned: Linear
  readonly keyTurnedBack: number
  readonly values: Linear
  /** Sums over tp of what that key gives to all tokens: its matrix one, its adapter another. */
  readonly turnedSums: number
  /** Passes over the narrow vectors of a rank, and of all its tokens. */
  readonly narrowQueries: Narrow
  readonly narrowKeys: Narrow
  /** Rotations, and laying parts of a head side by side. */
  readonly turnQueries: number
  readonly turnKeys: number
  readonly join: number
}

interface Narrow {
  readonly width: number
  readonly own: (times: number) => number
  readonly whole: (times: number) => number
}

/** Seconds of collectives over tp. */
export interface LatentTraffic {
  readonly gather: NarrowTraffic
  readonly sum: NarrowTraffic
}

interface NarrowTraffic {
  readonly queries: number
  readonly keys: number
  readonly turned: number
}

export function latentWork(
  shape: Shape,
  latent: Latent,
  cut: StreamCut,
  { prices, element, adapted }: PricedParts,
): LatentWork {
  const { queries, keyValues, plain, turned, values } = latent
  const rows = (cut.microbatch * shape.seq) / cut.cp
  const own = cut.sequenceParallel ? rows / cut.tp : rows
  const each = shape.heads / cut.tp
  const from = queries ?? shape.embed
  const narrow = (width: number): Narrow => ({
    width,
    own: times => prices.memory(times * own * width * element),
    whole: times => prices.memory(times * rows * width * element),
  })
  const of = (target: AdapterTarget, count: number, from: number, to: number, made: number = addedTo.passing): Linear =>
    adapted(prices.linear(count, from, to), target, {
      ...{ rows: count, from, to, passes: { made, given: addedTo.passing } },
      ...(cut.sequenceParallel && count === rows && { tokens: 'gathered' }),
    })
  return {
    ...(queries && { queryDown: of('q', own, shape.embed, queries, addedTo.kept) }),
    queryPlain: of('q', rows, from, each * plain),
    queryTurned: of('q', rows, from, each * turned),
    keyDown: of('k', own, shape.embed, keyValues, addedTo.kept),
    keyPlain: of('k', rows, keyValues, each * plain),
    keyTurned: of('k', own, shape.embed, turned),
    keyTurnedBack: of('k', rows, shape.embed, turned).input,
    values: of('v', rows, keyValues, each * values, addedTo.alone),
    turnedSums: shape.adapters?.targets.includes('k') ? 2 : 1,
    narrowQueries: narrow(queries ?? 0),
    narrowKeys: narrow(keyValues),
    turnQueries: prices.memory(rows * each * turned * element),
    turnKeys: prices.memory(own * turned * element),
    join: prices.memory(rows * each * (2 * plain + turned) * element),
  }
}

export class LatentProjection implements Projection {
  readonly #phase: Phase
  readonly #meeting: Meeting
  readonly #work: LatentWork
  readonly #traffic: LatentTraffic
  #keys: Flight | undefined
  #queries: Flight | undefined

  constructor(phase: Phase, meeting: Meeting, work: LatentWork, traffic: LatentTraffic) {
    this.#phase = phase
    this.#meeting = meeting
    this.#work = work
    this.#traffic = traffic
  }

  forward(again: boolean): void {
    const { clock } = this.#phase
    const { queryDown, queryPlain, queryTurned, keyDown, keyPlain, keyTurned, values } = this.#work
    const { narrowQueries, narrowKeys, turnQueries, turnKeys, join } = this.#work
    const { gather } = this.#traffic
    if (queryDown) {
      clock.work(queryDown.forward, again)
      clock.work(narrowQueries.own(2), again)
      clock.wait(clock.start(gather.queries))
    } else clock.wait(this.#phase.gather())
    clock.work(queryPlain.forward + queryTurned.forward + turnQueries + join, again)
    this.#meeting.queries()
    clock.work(keyDown.forward, again)
    clock.work(narrowKeys.own(2), again)
    const known = clock.start(gather.keys)
    clock.work(keyTurned.forward + turnKeys, again)
    const shared = clock.start(gather.turned)
    clock.wait(known)
    clock.work(keyPlain.forward, again)
    clock.wait(shared)
    clock.work(join, again)
    this.#meeting.keys()
    clock.work(values.forward, again)
    this.#meeting.values()
  }

  askEarly(): void {
    this.#keys = this.#phase.clock.start(this.#traffic.gather.keys)
  }

  ask(): void {}

  backward(both: boolean): void {
    this.#keysBack(both)
    this.#queriesBack(both)
    // The sum of what came back is part of the norm's kernel.
    this.#phase.pass(both ? 3 : 4)
    this.#phase.finishNorm(undefined, both, true)
  }

  #keysBack(both: boolean): void {
    const { clock, alone } = this.#phase
    const { keyDown, keyPlain, keyTurned, keyTurnedBack, values, narrowKeys, turnKeys, join } = this.#work
    const { gather, sum } = this.#traffic
    this.#meeting.valuesBack()
    this.#phase.back(values, this.#keys, both)
    this.#meeting.keysBack()
    clock.work(join)
    this.#phase.back(keyPlain, this.#keys, both)
    clock.work(turnKeys)
    const shared = clock.start(sum.turned)
    clock.work(keyTurnedBack)
    clock.wait(shared)
    if (both) this.#phase.made(keyTurned, undefined)
    clock.work(narrowKeys.whole(alone ? 2 : 3))
    const summed = clock.start(sum.keys)
    if (both && this.#work.queryDown) this.#queries = clock.start(gather.queries)
    clock.wait(summed)
    this.#normBack(narrowKeys, both)
    this.#phase.back(keyDown, undefined, both)
  }

  #queriesBack(both: boolean): void {
    const { clock, alone } = this.#phase
    const { queryDown, queryPlain, queryTurned, narrowQueries, turnQueries, join } = this.#work
    this.#meeting.queriesBack()
    clock.work(join + turnQueries)
    this.#phase.back(queryTurned, this.#queries, both)
    this.#phase.back(queryPlain, this.#queries, both)
    const summed = queryDown && clock.start(this.#traffic.sum.queries)
    if (queryDown) clock.work(narrowQueries.whole(alone ? 2 : 3))
    const residuals = Array.from({ length: this.#work.turnedSums }, () => this.#phase.sum())
    clock.wait(summed)
    if (queryDown) {
      this.#normBack(narrowQueries, both)
      this.#phase.back(queryDown, undefined, both)
    }
    for (const residual of residuals) clock.wait(residual)
  }

  #normBack({ width, own }: Narrow, both: boolean): void {
    const { clock, alone, traffic } = this.#phase
    clock.work(own(alone ? 2 : 3))
    if (!both) return
    clock.work(own(alone ? 1 : 2))
    clock.work(traffic.accumulate(width))
  }

  weights(): void {
    const { queryDown, queryPlain, queryTurned, keyDown, keyPlain, keyTurned, values } = this.#work
    const { narrowQueries, narrowKeys } = this.#work
    const { clock, traffic } = this.#phase
    for (const linear of [values, keyPlain, keyTurned]) this.#phase.made(linear, undefined)
    clock.work(narrowKeys.own(2) + traffic.accumulate(narrowKeys.width))
    for (const linear of [keyDown, queryTurned, queryPlain]) this.#phase.made(linear, undefined)
    if (!queryDown) return
    clock.work(narrowQueries.own(2) + traffic.accumulate(narrowQueries.width))
    this.#phase.made(queryDown, undefined)
  }
}
