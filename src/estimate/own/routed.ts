/**
 * A feed-forward part that is routed. Rows go to the ranks of their experts and come back; what every token passes beside
 * them is computed meanwhile.
 */
import type { AdapterTarget } from '../../model/index.js'
import { expertLoad, expertTensor } from '../experts.js'
import type { Cut } from '../layer.js'
import type { Experts, Shape } from '../shape.js'
import { addedTo, type PricedParts } from './adapted.js'
import type { Flight } from './clock.js'
import type { Feed } from './feed.js'
import type { Linear } from './kernels.js'
import type { Lane } from './lanes.js'
import type { Phase } from './phase.js'

export interface RoutedWork {
  readonly router: Linear
  /** Gate and up of the experts of a rank, and down. */
  readonly feed: readonly [Linear, Linear]
  readonly down: Linear
  readonly activation: { readonly forward: number; readonly backward: number }
  /** Passes over scores, over tokens that the rank sends, over rows as wide as these, and kernels that take the least there is. */
  readonly scores: (times: number) => number
  readonly sent: (times: number, kernels?: number) => number
  readonly rows: (times: number) => number
  readonly small: (kernels: number) => number
  readonly shared?: SharedWork
}

/** What every token passes beside the experts. */
interface SharedWork {
  readonly feed: readonly [Linear, Linear]
  readonly down: Linear
  readonly activation: { readonly forward: number; readonly backward: number }
}

/** Seconds of collectives. */
export interface RoutedTraffic {
  /** What tokens chose, to all who share experts; rows, to their experts or back; a number for each of them. */
  readonly choices: number
  readonly rows: number
  readonly weights: number
  readonly lane: Lane
  /** Tokens are whole on the ranks of tp, and each sends its own. */
  readonly slices: boolean
  /** Experts are split: tokens of the ranks that share one become all of them, and what these give is summed up. */
  readonly tokens: number
  readonly sum: number
  /** Over tp: tokens of a rank become all, and what all have made is summed up for each. */
  readonly whole: number
  readonly parts: number
}

type Gated = (from: number, to: number, target: AdapterTarget) => Linear

export function routedWork(
  shape: Shape,
  experts: Experts,
  cut: Cut,
  { prices, element, adapted }: PricedParts,
): RoutedWork {
  const rows = (cut.microbatch * shape.seq) / cut.cp
  const own = cut.sequenceParallel && expertTensor(cut) === 1 ? rows / cut.tp : rows
  const sent = cut.sequenceParallel || expertTensor(cut) === 1 ? rows / cut.tp : rows
  const load = expertLoad(shape, experts, cut, cut.imbalance)
  const all = load.experts * load.rows
  const by = (from: number, to: number) => prices.grouped(load.experts, load.rows, from, to)
  /** What down makes goes on its way to other ranks, or is added up. */
  const passes = (target: AdapterTarget, leaves: boolean) => ({
    made: target !== 'down' ? addedTo.kept : leaves ? addedTo.alone : addedTo.passing,
    given: addedTo.passing,
  })
  const grouped: Gated = (from, to, target) =>
    adapted(by(from, to), target, { rows: all, from, to, by, passes: passes(target, cut.ep > 1) })
  const common: Gated = (from, to, target) =>
    adapted(prices.linear(rows, from, to), target, {
      ...{ rows, from, to, passes: passes(target, cut.tp > 1) },
      ...(cut.sequenceParallel && { tokens: target === 'down' ? 'summed' : 'gathered' }),
    })
  const gated = (of: Gated, count: number, width: number) => {
    const hidden = count * width * element
    return {
      feed: [of(shape.embed, width, 'gate'), of(shape.embed, width, 'up')] as const,
      down: of(width, shape.embed, 'down'),
      activation: { forward: prices.memory(3 * hidden), backward: prices.memory(5 * hidden) },
    }
  }
  const [from, to] = [shape.embed, experts.count]
  return {
    ...gated(grouped, all, load.ffn),
    router: adapted(prices.plain(own, from, to), undefined, { rows: own, from, to }),
    scores: times => prices.memory(4 * times * own * experts.count),
    sent: (times, kernels) => prices.memory(times * sent * shape.embed * element, kernels),
    rows: times => prices.memory(times * all * shape.embed * element),
    small: kernels => kernels * prices.floor,
    ...(experts.shared > 0 && { shared: gated(common, rows, experts.shared / cut.tp) }),
  }
}

export class RoutedFeed implements Feed {
  readonly #phase: Phase
  readonly #work: RoutedWork
  readonly #traffic: RoutedTraffic
  #rows: Flight | undefined
  #arriving: Flight | undefined
  #whole: Flight | undefined

  constructor(phase: Phase, work: RoutedWork, traffic: RoutedTraffic) {
    this.#phase = phase
    this.#work = work
    this.#traffic = traffic
  }

  forward(again: boolean): void {
    const { clock } = this.#phase
    const { router, small, scores } = this.#work
    const { slices } = this.#traffic
    clock.work(router.forward, again)
    clock.work(scores(2) + (again ? 0 : small(1)), again)
    const chosen = again ? undefined : this.#start(this.#traffic.choices)
    clock.work(small(1), again)
    clock.wait(chosen, 'ep')
    if (!again) clock.work(small(2))
    if (slices) clock.work(this.#work.sent(1), again)
    const back = this.#experts(again)
    const sum = this.#shared(again)
    if (again) return
    clock.wait(sum)
    clock.wait(back, 'ep')
    clock.wait(clock.start(this.#traffic.sum))
    clock.work(this.#work.sent((this.#work.shared ? 3 : 2) + (slices ? 1 : 0)))
    clock.wait(this.makeWhole())
  }

  makeWhole(): Flight | undefined {
    return this.#traffic.slices ? this.#phase.clock.start(this.#traffic.whole) : undefined
  }

  /** Until what they give is on its way back. */
  #experts(again: boolean): Flight | undefined {
    const { clock } = this.#phase
    const { feed, down, activation } = this.#work
    clock.wait(clock.start(this.#traffic.tokens))
    const rows = this.#start(this.#traffic.rows)
    const weights = this.#start(this.#traffic.weights)
    clock.wait(rows, 'ep')
    if (again) this.ask()
    for (const { forward } of feed) clock.work(forward, again)
    clock.wait(weights, 'ep')
    if (again) return undefined
    clock.work(activation.forward + down.forward)
    return this.#start(this.#traffic.rows)
  }

  #shared(again: boolean): Flight | undefined {
    const { clock } = this.#phase
    const { shared } = this.#work
    if (!shared) return undefined
    clock.wait(this.#phase.gather())
    for (const { forward } of shared.feed) clock.work(forward, again)
    if (again) return undefined
    clock.work(shared.activation.forward + shared.down.forward)
    return clock.start(this.#traffic.parts)
  }

  ask(): void {
    const { shared } = this.#work
    this.#arriving = shared ? this.#phase.gather() : undefined
    this.#whole = shared ? this.#phase.gather() : undefined
    this.#phase.clock.wait(this.#phase.clock.start(this.#traffic.tokens))
    // What is sliced first is written behind what every token passes.
    if (!this.#traffic.slices) this.#rows = this.#start(this.#traffic.rows)
  }

  again(): void {
    const { activation, shared } = this.#work
    this.#phase.clock.work(activation.forward + (shared?.activation.forward ?? 0), true)
  }

  backward(both: boolean): void {
    const { clock } = this.#phase
    const { feed, down, activation, rows, shared, router, scores } = this.#work
    const { sum } = this.#traffic
    const sharedBack = this.#sharedBack(both)
    if (this.#traffic.slices) {
      clock.work(this.#work.sent(2))
      this.#rows = this.#start(this.#traffic.rows)
    }
    clock.wait(this.#rows, 'ep')
    this.#phase.back(down, undefined, both)
    clock.work(activation.backward)
    const weights = this.#start(this.#traffic.weights)
    for (const linear of feed.toReversed()) this.#phase.back(linear, undefined, both)
    clock.work(rows(3))
    const back = this.#start(this.#traffic.rows)
    const sums = sharedBack ? [clock.start(this.#traffic.parts), clock.start(this.#traffic.parts)] : []
    clock.wait(weights, 'ep')
    if (sum > 0) clock.wait(back, 'ep')
    const partial = clock.start(sum)
    clock.work(scores(1) + scores(2))
    this.#phase.back(router, undefined, both)
    for (const flight of [...sums, partial]) clock.wait(flight)
    clock.wait(back, 'ep')
    clock.work(this.#work.sent((shared ? 4 : 2) + (both ? 0 : 1)))
    clock.work(both ? this.#work.sent(2, 2) : this.#work.sent(1))
    if (both) this.#phase.normGradient()
  }

  /** Whether its gradients are parts of sums over tp. */
  #sharedBack(both: boolean): boolean {
    const { clock, alone } = this.#phase
    const { shared } = this.#work
    if (!shared) return false
    clock.wait(this.#arriving)
    this.#phase.back(shared.down, this.#arriving, both)
    clock.work(shared.activation.backward)
    for (const linear of shared.feed.toReversed()) this.#phase.back(linear, this.#whole, both)
    return !alone
  }

  askWeights(): void {
    this.#whole = this.#work.shared ? this.#phase.gather() : undefined
  }

  weights(): void {
    const { feed, down, router, shared } = this.#work
    if (shared) for (const linear of [shared.down, ...shared.feed]) this.#phase.made(linear, this.#whole)
    for (const linear of [down, ...feed, router]) this.#phase.made(linear, undefined)
  }

  #start(seconds: number): Flight | undefined {
    return this.#phase.clock.start(seconds, this.#traffic.lane)
  }
}
