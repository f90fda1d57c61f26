/**
 * The time of a layer of our own program: its products, collectives and waits in the order the compiler writes them.
 * Starts are moved up and waits down; a gradient travels while the next is made; what ZeRO-3 fetches arrives while other
 * parameters are used. test/estimate-simulate.test.ts holds this to the program itself.
 */

import { activationBytes, type MeshAxis, meshAxes } from '../../base/index.js'
import { hopsOf, type Kernel, priceInStep } from '../../cost/index.js'
import { ByFields } from '../entry.js'
import { type Cut, cutFields } from '../layer.js'
import type { LayerCost } from '../others/layer-cost.js'
import type { OwnLayers, PriceTable } from '../prices.js'
import { fetchesEach, reducesEach, splitsAll } from '../schedules/stages.js'
import type { Setup, Split } from '../setup.js'
import { Clock, type Flight } from './clock.js'
import type { Linear, OwnWork } from './work.js'

/** Seconds of the collectives of a layer. 0: there is none. */
interface Traffic {
  /** Sequence parallel: what is split becomes whole. */
  readonly gather: number
  /** What is partial becomes split, or whole without sequence parallelism. */
  readonly sum: number
  /** ZeRO-3: of a parameter to where it is used. */
  readonly fetch: (parameters: number) => number
  /** From ZeRO-2 on: of a gradient to where it is kept. */
  readonly reduce: (parameters: number) => number
  /** Adding a gradient to those of the microbatches before it. */
  readonly accumulate: (parameters: number) => number
  /** Sequence parallel, from ZeRO-2 on: the sum of a norm's gradient over tp. */
  readonly normSum: number
  /** Parameters of a norm, or of a bias on the residual stream. */
  readonly embed: number
  readonly biases: boolean
}

class Phase {
  readonly clock: Clock
  readonly #w: OwnWork
  readonly #t: Traffic
  readonly #fetched = new Map<Linear, Flight | undefined>()
  /** A gradient on its way: it is added up when the next has left. */
  #leaving: { readonly flight: Flight | undefined; readonly parameters: number } | undefined

  constructor(clock: Clock, work: OwnWork, traffic: Traffic) {
    this.clock = clock
    this.#w = work
    this.#t = traffic
  }

  /** `again`: as far as backward needs it. What both fetch is fetched once. */
  forward(again = false): { readonly arriving: Flight | undefined } {
    const { clock } = this
    const { queries, keys, values, out, feed, down, turn, attention, activation } = this.#w
    const first = this.#fetchNorm()
    if (!this.#gathers) this.#fetchAll([queries, keys, values, out])
    const early = this.#alone ? this.#fetchNorm() : undefined
    if (this.#alone) this.#fetchAll([...feed, down])
    clock.wait(first)
    this.#pass(2, again)
    const whole = this.#gather()
    this.#fetchAll([queries, keys, values, out])
    this.#fetchBiases(5)
    this.#product(queries, whole, again)
    clock.work(turn.queries, again)
    this.#product(keys, whole, again)
    clock.work(turn.keys, again)
    this.#product(values, whole, again)
    clock.work(attention.forward, again)
    this.#product(out, undefined, again)
    const attended = this.#sum()
    const norm = early ?? this.#fetchNorm()
    if (!this.#gathers) this.#fetchAll([...feed, down])
    clock.wait(attended)
    this.#pass(3, again)
    clock.wait(norm)
    this.#pass(1, again)
    const second = this.#gather()
    this.#fetchAll(feed)
    const arriving = again ? this.#gather() : undefined
    this.#fetch(down)
    this.#fetchBiases(again ? 2 : 3)
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
    const { embed } = this.#t
    const full = recompute === 'full'
    const arriving = full ? this.forward(true).arriving : this.#gather()
    const ahead = (linears: readonly Linear[]) => this.#fetchAll(both ? linears.slice(0, 1) : linears)
    const fed = [down, ...feed.toReversed()]
    const attended = [out, values, keys, queries]
    if (both) this.#bias(embed, 1)
    ahead(fed)
    if (!both && this.#alone) this.#fetchAll(attended)
    if (full && both) clock.work(activation.forward, true)
    if (recompute === 'selective') clock.work(attention.forward, true)
    if (recompute === 'per-op') clock.work(0.42 * this.#products(), true)
    this.#back(down, arriving, both, fed[1])
    let whole = both && !full ? this.#gather() : undefined
    clock.work(activation.backward)
    if (both) this.#bias(down.parameters / embed, 0, fed[1])
    for (const [i, linear] of feed.toReversed().entries()) {
      const early = feed.length === 1 && both && !this.#reduces ? () => this.#sum() : undefined
      const sum = this.#back(linear, whole, both, fed[i + 2], early)
      if (feed.length === 1) this.#finishNorm(sum ?? this.#sum(), both)
    }
    if (feed.length > 1) {
      clock.work(this.#w.wholePass(3))
      this.#finishNorm(this.#sum(), both)
    }
    this.#pass(2)
    if (both) this.#bias(embed, 0)
    const second = this.#gather()
    ahead(attended)
    this.#back(out, second, both, values)
    whole = both && !full ? this.#gather() : undefined
    clock.work(attention.backward)
    if (both) for (const { parameters } of [values, keys, queries]) this.#bias(parameters / embed, 0)
    this.#back(values, whole, both, keys)
    clock.work(turn.keys)
    this.#back(keys, whole, both, queries)
    clock.work(turn.queries)
    this.#back(queries, whole, both)
    clock.work(this.#w.wholePass(4))
    this.#finishNorm(this.#sum(), both)
    this.#settle()
    this.#pass(1)
  }

  /** Weight gradients alone. Without reductions between them all gathers start at once. */
  weights(recompute: Split['recompute']): void {
    const { clock } = this
    const { queries, keys, values, out, feed, down, activation } = this.#w
    const { embed } = this.#t
    const inOrder = this.#reduces
    const first = this.#gather()
    const rest = inOrder ? [] : [this.#gather(), this.#gather(), this.#gather()]
    const next = () => (inOrder ? this.#gather() : rest.shift())
    if (recompute === 'full') clock.work(activation.forward, true)
    this.#bias(embed, 1)
    this.#made(down, first)
    this.#bias(down.parameters / embed, 0)
    const second = next()
    for (const linear of feed.toReversed()) this.#made(linear, second)
    this.#pass(2)
    this.#normGradient()
    this.#bias(embed, 1)
    const third = next()
    this.#made(out, third)
    for (const { parameters } of [values, keys, queries]) this.#bias(parameters / embed, 0)
    const fourth = next()
    for (const linear of [values, keys, queries]) this.#made(linear, fourth)
    this.#pass(2)
    this.#normGradient()
    this.#settle()
  }

  /** What is on its way, and so in the order of what may be started. */
  get #reduces(): boolean {
    return this.#t.reduce(1) > 0
  }

  get #gathers(): boolean {
    return this.#t.gather > 0
  }

  /** No tensor-parallel collectives stand between parameters: all of them can be fetched at once. */
  get #alone(): boolean {
    return this.#t.sum === 0
  }

  #products(): number {
    const { queries, keys, values, out, feed, down } = this.#w
    return [queries, keys, values, out, ...feed, down].reduce((sum, { forward }) => sum + forward, 0)
  }

  #pass(times: number, again = false): void {
    this.clock.work(this.#w.pass(times), again)
  }

  #gather(): Flight | undefined {
    return this.clock.start('tp', this.#t.gather)
  }

  #sum(): Flight | undefined {
    return this.clock.start('tp', this.#t.sum)
  }

  #fetch(linear: Linear): void {
    if (!this.#fetched.has(linear)) this.#fetched.set(linear, this.clock.start('dp', this.#t.fetch(linear.parameters)))
  }

  #fetchAll(linears: readonly Linear[]): void {
    for (const linear of linears) this.#fetch(linear)
  }

  /** Small, but each has its turn on the lane. */
  #fetchBiases(count: number): void {
    if (this.#t.biases) for (let i = 0; i < count; i++) this.clock.start('dp', this.#t.fetch(this.#t.embed))
  }

  #fetchNorm(): Flight | undefined {
    return this.clock.start('dp', this.#t.fetch(this.#t.embed))
  }

  #product(linear: Linear, operand: Flight | undefined, again: boolean): void {
    this.clock.wait(this.#fetched.get(linear))
    this.clock.wait(operand)
    this.clock.work(linear.forward, again)
  }

  /** The gradient of the input, and where both are made that of the weights; `next` is fetched behind it. */
  #back(
    linear: Linear,
    operand: Flight | undefined,
    both: boolean,
    next?: Linear,
    early?: () => Flight | undefined,
  ): Flight | undefined {
    this.clock.wait(this.#fetched.get(linear))
    if (linear === this.#w.down || linear === this.#w.out) this.clock.wait(operand)
    this.clock.work(linear.input)
    const flight = early?.()
    if (both) this.#made(linear, operand, next)
    return flight
  }

  #made(linear: Linear, operand: Flight | undefined, next?: Linear): void {
    this.clock.wait(operand)
    this.clock.work(linear.weight)
    this.#leave(linear.parameters, this.#t.reduce(linear.parameters), next)
  }

  #leave(parameters: number, seconds: number, next?: Linear): void {
    if (seconds === 0) {
      this.clock.work(this.#t.accumulate(parameters))
      return
    }
    const flight = this.clock.start('dp', seconds)
    if (next) this.#fetch(next)
    this.#settle()
    this.#leaving = { flight, parameters }
  }

  #settle(): void {
    if (!this.#leaving) return
    this.clock.wait(this.#leaving.flight)
    this.clock.work(this.#t.accumulate(this.#leaving.parameters))
    this.#leaving = undefined
  }

  #finishNorm(sum: Flight | undefined, both: boolean): void {
    this.clock.wait(this.#fetchNorm())
    this.clock.wait(sum)
    this.#pass(both ? 4 : 2)
    if (both) this.#normGradient()
  }

  /** A norm has a gain, and some a bias. */
  #normGradient(): void {
    this.#leaveSplit()
    if (this.#t.biases) this.#leaveSplit()
  }

  /** The gradient of a bias; `passes` over the residual stream make it. Those of the residual stream are split like it. */
  #bias(parameters: number, passes: number, next?: Linear): void {
    if (!this.#t.biases) return
    if (passes > 0) this.#pass(passes)
    if (parameters === this.#t.embed) this.#leaveSplit()
    else if (this.#reduces) this.#leave(parameters, this.#t.reduce(parameters), next)
  }

  /** Of a vector as wide as the residual stream: under sequence parallelism tp sums it up too. */
  #leaveSplit(): void {
    const { embed, normSum, reduce } = this.#t
    if (!this.#reduces) return
    const reduced = this.clock.start('dp', reduce(embed))
    if (normSum > 0) this.clock.wait(reduced)
    const flight = normSum > 0 ? this.clock.start('tp', normSum) : reduced
    this.#settle()
    this.#leaving = { flight, parameters: embed }
  }
}

/** One layer and one microbatch on one rank. */
export function ownLayerCost(setup: Setup, table: PriceTable, own: OwnLayers): LayerCost {
  const inTwo = splitsAll(setup.split)
  const known = inTwo ? own.known.inTwo : own.known.whole
  return known.of(setup.split, () => played(setup, table, own.work, inTwo))
}

const isNotCut = (axis: MeshAxis): boolean => !(cutFields as readonly string[]).includes(axis) // widened to ask

/** What of a plan the time of a layer depends on, beside what its kernels do and whether its backward pass is split. */
const layerFields = ['zero', 'microbatches', 'recompute', 'reduce', 'gather', ...meshAxes.filter(isNotCut)] as const
type LayerSetup = Omit<Setup, 'split'> & { readonly split: Cut & Pick<Split, (typeof layerFields)[number]> }

export const ownLayerCosts = () => {
  const none = () => new ByFields<(typeof layerFields)[number], LayerCost>(layerFields)
  return { whole: none(), inTwo: none() }
}
export type OwnLayerCosts = ReturnType<typeof ownLayerCosts>

function played(setup: LayerSetup, table: PriceTable, work: OwnWork, inTwo: boolean): LayerCost {
  const { split, cluster, software } = setup
  const traffic = trafficOf(setup, table)
  const { tp, dp } = split
  const linkOf = (size: number, stride: number) => hopsOf({ size, stride }, cluster).at(-1)?.link.kind
  const shared = tp > 1 && dp > 1 && linkOf(tp, 1) === linkOf(dp, tp)
  const play = (act: (phase: Phase) => void): Clock => {
    const clock = new Clock(shared, software.contention)
    act(new Phase(clock, work, traffic))
    return clock
  }
  const forward = play(phase => phase.forward())
  const back = play(phase => phase.backward(split.recompute, !inTwo))
  const weights = inTwo ? play(phase => phase.weights(split.recompute)) : undefined
  const clocks = [forward, back, ...(weights ? [weights] : [])]
  const total = (of: (clock: Clock) => number) => clocks.reduce((sum, clock) => sum + of(clock), 0)
  const weight = weights?.now ?? weightWork(work, traffic)
  const [tpWait, gather, recompute] = [total(c => c.waited.tp), total(c => c.waited.dp), total(c => c.again)]
  return {
    forward: forward.now,
    input: back.now - (inTwo ? 0 : weight),
    weight,
    compute: total(c => c.now) - tpWait - gather - recompute,
    recompute,
    tp: tpWait,
    ...{ cp: 0, ep: 0, gather, launch: 0 },
  }
}

function weightWork({ queries, keys, values, out, feed, down }: OwnWork, { accumulate }: Traffic): number {
  const linears = [queries, keys, values, out, ...feed, down]
  return linears.reduce((sum, { weight, parameters }) => sum + weight + accumulate(parameters), 0)
}

function trafficOf({ shape, split, cluster, precision, software }: LayerSetup, table: PriceTable): Traffic {
  const { tp, dp, sequenceParallel, microbatch, microbatches } = split
  const element = activationBytes(precision)
  const activation = microbatch * shape.seq * shape.embed * element
  const reduces = reducesEach(split)
  const memory = (bytes: number): Kernel => ({ kind: 'memory', read: bytes / 2, written: bytes / 2 })
  // The first of a step is kept as it is.
  const added = (3 * software.gradientBytes * (1 - 1 / microbatches)) / (reduces ? dp : 1)
  return {
    gather: sequenceParallel ? table.meeting('all-gather', activation, tp, 1) : 0,
    sum: table.meeting(sequenceParallel ? 'reduce-scatter' : 'all-reduce', activation, tp, 1),
    fetch: n => (fetchesEach(split) ? table.meeting('all-gather', element * n, dp, tp) : 0),
    reduce: n => (reduces ? table.meeting('reduce-scatter', software.reduceBytes * n, dp, tp) : 0),
    accumulate: n => (microbatches === 1 ? 0 : priceInStep(memory(added * n), cluster.device)),
    normSum: sequenceParallel && reduces ? table.meeting('all-reduce', (4 * shape.embed) / dp, tp, 1) : 0,
    embed: shape.embed,
    biases: shape.biases,
  }
}
