/**
 * The time of a layer of our own program: its products, collectives over tp and waits in the order the compiler writes
 * them. Starts are moved up and waits down. What the data axes move while layers compute is in data.ts.
 */

import { activationBytes, type MeshAxis, meshAxes } from '../../base/index.js'
import { type Kernel, priceInStep } from '../../cost/index.js'
import { ByFields } from '../entry.js'
import { type Cut, cutFields } from '../layer.js'
import type { LayerCost } from '../others/layer-cost.js'
import type { OwnLayers, PriceTable } from '../prices.js'
import { reducesEach, splitsAll } from '../schedules/stages.js'
import type { Setup, Split } from '../setup.js'
import { Clock, type Flight } from './clock.js'
import type { BlockTime } from './ends.js'
import type { Linear, OwnWork } from './work.js'

/** A layer, and what each of its phases waits for tp. */
export interface OwnLayerCost extends LayerCost, BlockTime {}

/** Seconds of the collectives of a layer. 0: there is none. */
interface Traffic {
  /** Sequence parallel: what is split becomes whole. */
  readonly gather: number
  /** What is partial becomes split, or whole without sequence parallelism. */
  readonly sum: number
  /** Adding a gradient to those of the microbatches before it. */
  readonly accumulate: (parameters: number) => number
  readonly biases: boolean
}

class Phase {
  readonly clock: Clock
  readonly #w: OwnWork
  readonly #t: Traffic

  constructor(clock: Clock, work: OwnWork, traffic: Traffic) {
    this.clock = clock
    this.#w = work
    this.#t = traffic
  }

  /** `again`: as far as backward needs it. */
  forward(again = false): { readonly arriving: Flight | undefined } {
    const { clock } = this
    const { queries, keys, values, out, feed, down, turn, attention, activation } = this.#w
    this.#pass(2, again)
    const whole = this.#gather()
    this.#product(queries, whole, again)
    clock.work(turn.queries, again)
    this.#product(keys, whole, again)
    clock.work(turn.keys, again)
    this.#product(values, whole, again)
    clock.work(attention.forward, again)
    this.#product(out, undefined, again)
    clock.wait(this.#sum())
    this.#pass(4, again)
    const second = this.#gather()
    const arriving = again ? this.#gather() : undefined
    for (const linear of feed) this.#product(linear, second, again)
    if (again) return { arriving }
    clock.work(activation.forward)
    this.#product(down, undefined, again)
    clock.wait(this.#sum())
    this.#pass(2, again)
    return { arriving }
  }

  /** Whole, or of the input alone. */
  backward(recompute: Split['recompute'], both: boolean): void {
    const { clock } = this
    const { queries, keys, values, out, feed, down, turn, attention, activation } = this.#w
    const full = recompute === 'full'
    const arriving = full ? this.forward(true).arriving : this.#gather()
    if (both) this.#biasPass()
    if (full && both) clock.work(activation.forward, true)
    if (recompute === 'selective') clock.work(attention.forward, true)
    if (recompute === 'per-op') clock.work(0.42 * this.#products(), true)
    this.#back(down, arriving, both)
    let whole = both && !full ? this.#gather() : undefined
    clock.work(activation.backward)
    for (const linear of feed.toReversed()) {
      const early = feed.length === 1 && both ? () => this.#sum() : undefined
      const sum = this.#back(linear, whole, both, early)
      if (feed.length === 1) this.#finishNorm(sum ?? this.#sum(), both)
    }
    if (feed.length > 1) {
      clock.work(this.#w.wholePass(3))
      this.#finishNorm(this.#sum(), both)
    }
    this.#pass(2)
    const second = this.#gather()
    this.#back(out, second, both)
    whole = both && !full ? this.#gather() : undefined
    clock.work(attention.backward)
    this.#back(values, whole, both)
    clock.work(turn.keys)
    this.#back(keys, whole, both)
    clock.work(turn.queries)
    this.#back(queries, whole, both)
    clock.work(this.#w.wholePass(4))
    this.#finishNorm(this.#sum(), both)
    this.#pass(1)
  }

  /** Weight gradients alone: all gathers start at once. */
  weights(recompute: Split['recompute']): void {
    const { clock } = this
    const { queries, keys, values, out, feed, down, activation } = this.#w
    const [first, second, third, fourth] = [this.#gather(), this.#gather(), this.#gather(), this.#gather()]
    if (recompute === 'full') clock.work(activation.forward, true)
    this.#biasPass()
    this.#made(down, first)
    for (const linear of feed.toReversed()) this.#made(linear, second)
    this.#pass(2)
    this.#biasPass()
    this.#made(out, third)
    for (const linear of [values, keys, queries]) this.#made(linear, fourth)
    this.#pass(2)
  }

  #products(): number {
    const { queries, keys, values, out, feed, down } = this.#w
    return [queries, keys, values, out, ...feed, down].reduce((sum, { forward }) => sum + forward, 0)
  }

  #pass(times: number, again = false): void {
    this.clock.work(this.#w.pass(times), again)
  }

  /** The gradient of a bias on the residual stream. */
  #biasPass(): void {
    if (this.#t.biases) this.#pass(1)
  }

  #gather(): Flight | undefined {
    return this.clock.start(this.#t.gather)
  }

  #sum(): Flight | undefined {
    return this.clock.start(this.#t.sum)
  }

  #product(linear: Linear, operand: Flight | undefined, again: boolean): void {
    this.clock.wait(operand)
    this.clock.work(linear.forward, again)
  }

  /** The gradient of the input, and where both are made that of the weights. */
  #back(
    linear: Linear,
    operand: Flight | undefined,
    both: boolean,
    early?: () => Flight | undefined,
  ): Flight | undefined {
    if (linear === this.#w.down || linear === this.#w.out) this.clock.wait(operand)
    this.clock.work(linear.input)
    const flight = early?.()
    if (both) this.#made(linear, operand)
    return flight
  }

  #made(linear: Linear, operand: Flight | undefined): void {
    this.clock.wait(operand)
    this.clock.work(linear.weight)
    this.clock.work(this.#t.accumulate(linear.parameters))
  }

  #finishNorm(sum: Flight | undefined, both: boolean): void {
    this.clock.wait(sum)
    this.#pass(both ? 4 : 2)
  }
}

/** One layer and one microbatch on one rank. */
export function ownLayerCost(setup: Setup, table: PriceTable, own: OwnLayers): OwnLayerCost {
  const inTwo = splitsAll(setup.split)
  const known = inTwo ? own.known.inTwo : own.known.whole
  return known.of(setup.split, () => played(setup, table, own.work, inTwo))
}

export const isNotCut = (axis: MeshAxis): boolean => !(cutFields as readonly string[]).includes(axis) // widened to ask

/** What of a plan the time of a layer depends on, beside what its kernels do and whether its backward pass is split. */
const layerFields = ['zero', 'microbatches', 'recompute', 'reduce', ...meshAxes.filter(isNotCut)] as const
type LayerSetup = Omit<Setup, 'split'> & { readonly split: Cut & Pick<Split, (typeof layerFields)[number]> }

export const ownLayerCosts = () => {
  const none = () => new ByFields<(typeof layerFields)[number], OwnLayerCost>(layerFields)
  return { whole: none(), inTwo: none() }
}
export type OwnLayerCosts = ReturnType<typeof ownLayerCosts>

function played(setup: LayerSetup, table: PriceTable, work: OwnWork, inTwo: boolean): OwnLayerCost {
  const { split, software } = setup
  const traffic = trafficOf(setup, table)
  const play = (act: (phase: Phase) => void): Clock => {
    const clock = new Clock(software.contention)
    act(new Phase(clock, work, traffic))
    return clock
  }
  const forward = play(phase => phase.forward())
  const back = play(phase => phase.backward(split.recompute, !inTwo))
  const weights = inTwo ? play(phase => phase.weights(split.recompute)) : undefined
  const clocks = [forward, back, ...(weights ? [weights] : [])]
  const total = (of: (clock: Clock) => number) => clocks.reduce((sum, clock) => sum + of(clock), 0)
  const weight = weights?.now ?? weightWork(work, traffic)
  const [tp, recompute] = [total(c => c.waited), total(c => c.again)]
  return {
    forward: forward.now,
    input: back.now - (inTwo ? 0 : weight),
    weight,
    compute: total(c => c.now) - tp - recompute,
    recompute,
    tp,
    ...{ cp: 0, ep: 0, gather: 0, launch: 0 },
    waits: { forward: forward.waited, input: back.waited, weight: weights?.waited ?? 0 },
  }
}

function weightWork({ queries, keys, values, out, feed, down }: OwnWork, { accumulate }: Traffic): number {
  const linears = [queries, keys, values, out, ...feed, down]
  return linears.reduce((sum, { weight, parameters }) => sum + weight + accumulate(parameters), 0)
}

function trafficOf({ shape, split, cluster, precision, software }: LayerSetup, table: PriceTable): Traffic {
  const { tp, sequenceParallel, microbatch, microbatches } = split
  const activation = microbatch * shape.seq * shape.embed * activationBytes(precision)
  const memory = (bytes: number): Kernel => ({ kind: 'memory', read: bytes / 2, written: bytes / 2 })
  // The first of a step is kept as it is.
  const added = 3 * software.gradientBytes * (1 - 1 / microbatches)
  const accumulates = microbatches > 1 && !reducesEach(split)
  return {
    gather: sequenceParallel ? table.collective('all-gather', activation, tp, 1) : 0,
    sum: table.collective(sequenceParallel ? 'reduce-scatter' : 'all-reduce', activation, tp, 1),
    accumulate: n => (accumulates ? priceInStep(memory(added * n), cluster.device) : 0),
    biases: shape.biases,
  }
}
