/**
 * The time of a layer of our own program: its products, collectives over tp and waits in the order the compiler writes
 * them. Starts are moved up and waits down. What the data axes move while layers compute is in flying.ts.
 */

import { activationBytes, type MeshAxis } from '../../base/index.js'
import type { Cluster } from '../../cluster/index.js'
import { hopsOf, type Kernel, priceInStep } from '../../cost/index.js'
import type { TaskKind } from '../../schedule/index.js'
import { kvSplit } from '../counts.js'
import { ByFields } from '../entry.js'
import type { Cut } from '../layer.js'
import type { LayerCost } from '../others/layer-cost.js'
import type { OwnLayers, PriceTable } from '../prices.js'
import type { Acts } from '../schedules/acts.js'
import type { TaskTimes } from '../schedules/play.js'
import { reducesEach, splitsAll } from '../schedules/stages.js'
import type { Setup, Split } from '../setup.js'
import { Clock, type Flight } from './clock.js'
import type { Linear, OwnWork } from './work.js'

/** A block's tasks: how long they take with nothing beside them, and what they do. */
export interface BlockTime {
  readonly seconds: TaskTimes
  readonly acts: Readonly<Record<TaskKind, Acts>>
}

/** By what each kind of task does on a clock. */
export function blockTime(clocks: Readonly<Record<TaskKind, Clock>>): BlockTime {
  const { F, I, W, B } = clocks
  return {
    seconds: { F: F.now, I: I.now, W: W.now, B: B.now },
    acts: { F: F.acts, I: I.acts, W: W.acts, B: B.acts },
  }
}

export interface OwnLayerCost extends LayerCost {
  readonly block: BlockTime
}

/** Seconds of the collectives of a layer. 0: there is none. */
interface Traffic {
  /** Sequence parallel: what is split becomes whole. */
  readonly gather: number
  /** What is partial becomes split, or whole without sequence parallelism. */
  readonly sum: number
  /** Keys, or values, of all ranks of cp together; and their gradients to their sum. */
  readonly keys: number
  readonly keySum: number
  /** These go over other links than those of tp. */
  readonly keyLane: 0 | 1
  /** Adding a gradient to those of the microbatches before it. */
  readonly accumulate: (parameters: number) => number
  /** Parameters of a norm, or of a bias on the residual stream. */
  readonly embed: number
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
    const allKeys = this.#keys()
    this.#product(values, whole, again)
    clock.work(turn.values, again)
    this.#arrive([allKeys, this.#keys()])
    clock.work(attention.forward, again)
    this.#product(out, undefined, again)
    clock.wait(this.#sum())
    this.#passAndBias(3, again)
    this.#pass(1, again)
    const second = this.#gather()
    const arriving = again ? this.#gather() : undefined
    for (const linear of feed) this.#product(linear, second, again)
    if (again) return { arriving }
    clock.work(activation.forward)
    this.#product(down, undefined, again)
    clock.wait(this.#sum())
    this.#passAndBias(2, again)
    return { arriving }
  }

  /** Whole, or of the input alone. */
  backward(recompute: Split['recompute'], both: boolean): void {
    const { clock } = this
    const { queries, keys, values, out, feed, down, turnBack, attention, activation } = this.#w
    const { embed } = this.#t
    const full = recompute === 'full'
    const arriving = full ? this.forward(true).arriving : this.#gather()
    if (both) this.#bias(embed)
    if (full && both) clock.work(activation.forward, true)
    // With nothing before them on their way, keys and values are asked for at once.
    const early = !full && (recompute === 'selective' || this.#alone) ? this.#bothKeys() : undefined
    if (recompute === 'selective') {
      this.#arrive(early)
      clock.work(attention.forward, true)
    }
    if (recompute === 'per-op') clock.work(0.42 * this.#products(), true)
    this.#back(down, arriving, both)
    let whole = both && !full ? this.#gather() : undefined
    clock.work(activation.backward)
    if (both) this.#bias(down.parameters / embed, true)
    for (const linear of feed.toReversed()) {
      const soon = feed.length === 1 && both ? () => this.#sum() : undefined
      const sum = this.#back(linear, whole, both, soon)
      if (feed.length === 1) this.#finishNorm(sum ?? this.#sum(), both, false)
    }
    if (feed.length > 1) {
      clock.work(this.#w.wholePass(this.#alone && both ? 2 : 3))
      this.#finishNorm(this.#sum(), both, this.#alone)
    }
    this.#pass(2)
    if (both) this.#bias(embed, true)
    const gradient = this.#gather()
    const late = full || early ? undefined : this.#bothKeys()
    this.#back(out, gradient, both)
    if (!this.#crosses) whole = both && !full ? this.#gather() : undefined
    this.#arrive(early ?? late)
    clock.work(attention.backward)
    const valueSum = this.#keySum()
    if (this.#crosses) whole = both && !full ? this.#gather() : undefined
    const keySum = this.#keySum()
    // Gradients of biases come before products.
    this.#arrive(this.#t.biases && both ? [valueSum, keySum] : [valueSum])
    if (both) for (const { parameters } of [values, keys, queries]) this.#bias(parameters / embed)
    this.#back(values, whole, both)
    this.#arrive([keySum])
    clock.work(turnBack.keys)
    this.#back(keys, whole, both)
    clock.work(turnBack.queries)
    this.#back(queries, whole, both)
    clock.work(this.#w.wholePass(this.#alone && both ? 3 : 4))
    this.#finishNorm(this.#sum(), both, this.#alone)
    this.#pass(1)
  }

  /** Weight gradients alone: all gathers start at once. */
  weights(recompute: Split['recompute']): void {
    const { clock } = this
    const { queries, keys, values, out, feed, down, activation } = this.#w
    const { embed } = this.#t
    const [first, second, third, fourth] = [this.#gather(), this.#gather(), this.#gather(), this.#gather()]
    if (recompute === 'full') clock.work(activation.forward, true)
    this.#bias(embed)
    this.#made(down, first)
    this.#bias(down.parameters / embed)
    for (const linear of feed.toReversed()) this.#made(linear, second)
    this.#pass(2)
    this.#normGradient()
    this.#bias(embed)
    this.#made(out, third)
    for (const { parameters } of [values, keys, queries]) this.#bias(parameters / embed)
    for (const linear of [values, keys, queries]) this.#made(linear, fourth)
    this.#pass(2)
    this.#normGradient()
  }

  /** No tensor-parallel collectives stand between kernels. */
  get #alone(): boolean {
    return this.#t.sum === 0
  }

  /** The sequence is cut over cp. */
  get #crosses(): boolean {
    return this.#t.keys > 0
  }

  #keys(): Flight | undefined {
    return this.clock.start(this.#t.keys, this.#t.keyLane)
  }

  #keySum(): Flight | undefined {
    return this.clock.start(this.#t.keySum, this.#t.keyLane)
  }

  #bothKeys(): (Flight | undefined)[] {
    return [this.#keys(), this.#keys()]
  }

  #arrive(flights: readonly (Flight | undefined)[] | undefined): void {
    for (const flight of flights ?? []) this.clock.wait(flight, true)
  }

  #products(): number {
    const { queries, keys, values, out, feed, down } = this.#w
    return [queries, keys, values, out, ...feed, down].reduce((sum, { forward }) => sum + forward, 0)
  }

  #pass(times: number, again = false): void {
    this.clock.work(this.#w.pass(times), again)
  }

  /** A bias is added on the way, where there are any. */
  #passAndBias(times: number, again: boolean): void {
    this.clock.work(this.#w.pass(times, this.#t.biases ? 2 : 1), again)
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

  /** `fused`: with the sum of gradients before it, where no collective stands between. */
  #finishNorm(sum: Flight | undefined, both: boolean, fused: boolean): void {
    this.clock.wait(sum)
    const [passes, kernels] = both ? [4, 2] : [2, 1]
    this.clock.work(this.#w.pass(fused ? passes / 2 : passes, kernels))
    if (both) this.#normGradient()
  }

  /** A norm has a gain, and some a bias. */
  #normGradient(): void {
    const { accumulate, embed, biases } = this.#t
    this.clock.work(accumulate(embed))
    if (biases) this.clock.work(accumulate(embed))
  }

  /** The gradient of a bias, `fused` with what makes it. Those of the residual stream are split like it. */
  #bias(parameters: number, fused = false): void {
    const { accumulate, embed, biases } = this.#t
    if (!biases) return
    if (!fused) this.clock.work(parameters === embed ? this.#w.pass(1) : this.#w.sumOfRows(parameters))
    this.clock.work(accumulate(parameters))
  }
}

/** One layer and one microbatch on one rank. */
export function ownLayerCost(setup: Setup, table: PriceTable, own: OwnLayers): OwnLayerCost {
  const inTwo = splitsAll(setup.split)
  const known = inTwo ? own.known.inTwo : own.known.whole
  const { microbatches, recompute } = setup.split
  const key = { microbatches, recompute, reducesEach: reducesEach(setup.split) }
  return known.of(key, () => played(setup, table, own.work, inTwo))
}

/** What of a plan the time of a layer depends on, beside what its kernels do and whether its backward pass is split. */
const layerFields = ['microbatches', 'recompute', 'reducesEach'] as const
/** Of data ranks, ZeRO and `reduce` only whether gradients leave after each microbatch. */
type LayerSplit = Cut & Pick<Split, MeshAxis | 'zero' | 'reduce' | 'microbatches' | 'recompute'>
type LayerSetup = Omit<Setup, 'split'> & { readonly split: LayerSplit }

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
  const clocks: Readonly<Record<TaskKind, Clock>> = {
    F: play(phase => phase.forward()),
    I: play(phase => phase.backward(split.recompute, false)),
    W: play(phase => phase.weights(split.recompute)),
    B: play(phase => phase.backward(split.recompute, true)),
  }
  const block = blockTime(clocks)
  const done = inTwo ? [clocks.F, clocks.I, clocks.W] : [clocks.F, clocks.B]
  const total = (read: (clock: Clock) => number) => done.reduce((sum, clock) => sum + read(clock), 0)
  const { F: forward, I: input, W: weight, B: both } = block.seconds
  const [tp, cp] = [total(clock => clock.waited), total(clock => clock.waitedForKeys)]
  const recompute = total(clock => clock.again)
  return {
    ...{ forward, input: inTwo ? input : both - weight, weight, block },
    compute: total(clock => clock.now) - tp - cp - recompute,
    ...{ recompute, tp, cp, ep: 0, gather: 0, launch: 0 },
  }
}

/** Seconds to add the gradient of so many parameters to those of the microbatches before. The first is kept as it is. */
export function accumulation({ split, cluster, software }: LayerSetup): (parameters: number) => number {
  const { microbatches } = split
  const bytes = 3 * software.gradientBytes * (1 - 1 / microbatches)
  const kernel = (n: number): Kernel => ({ kind: 'memory', read: (n * bytes) / 2, written: (n * bytes) / 2 })
  return n => (microbatches === 1 || reducesEach(split) ? 0 : priceInStep(kernel(n), cluster.device))
}

/** Keys and values go over other links than the collectives of tp. */
export function keysApart({ tp, cp }: Pick<Split, 'tp' | 'cp'>, cluster: Cluster): boolean {
  const linkOf = (size: number, stride: number) => hopsOf({ size, stride }, cluster).at(-1)?.link.kind
  return cp > 1 && tp > 1 && linkOf(cp, tp) !== linkOf(tp, 1)
}

function trafficOf(setup: LayerSetup, table: PriceTable): Traffic {
  const { shape, split, precision } = setup
  const { tp, cp, sequenceParallel, microbatch } = split
  const element = activationBytes(precision)
  const activation = ((microbatch * shape.seq) / cp) * shape.embed * element
  const keys = (microbatch * shape.seq * shape.kvHeads * shape.headDim * element) / kvSplit(shape, tp)
  return {
    gather: sequenceParallel ? table.collective('all-gather', activation, tp, 1) : 0,
    sum: table.collective(sequenceParallel ? 'reduce-scatter' : 'all-reduce', activation, tp, 1),
    keys: table.collective('all-gather', keys, cp, tp),
    keySum: table.collective('reduce-scatter', keys, cp, tp),
    keyLane: keysApart(split, setup.cluster) ? 1 : 0,
    accumulate: accumulation(setup),
    embed: shape.embed,
    biases: shape.biases,
  }
}
