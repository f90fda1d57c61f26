/**
 * The time of a layer of our own program: its kernels, collectives and waits in the order the compiler writes them. Starts are
 * moved up and waits down. What the data axes move while layers compute is in flying.ts.
 */

import { type Kernel, priceInStep } from '../../cost/index.js'
import type { TaskKind } from '../../schedule/index.js'
import { entry } from '../entry.js'
import { comeFirst, routedShare } from '../experts.js'
import { carriedSeconds } from '../moves.js'
import type { LayerCost } from '../others/layer-cost.js'
import type { OwnLayers, PriceTable } from '../prices.js'
import type { Acts } from '../schedules/acts.js'
import type { TaskTimes } from '../schedules/play.js'
import { reducesEach, splitsAll } from '../schedules/stages.js'
import type { Setup, Split } from '../setup.js'
import { Clock } from './clock.js'
import { type Feed, PlainFeed } from './feed.js'
import { LatentProjection } from './latent.js'
import { type CutTraffic, type LayerSetup, type LayerSplit, type LayerTraffic, layerTraffic } from './layer-traffic.js'
import { type Meeting, meetingOn } from './meeting.js'
import { Phase } from './phase.js'
import { PlainProjection, type Projection } from './projection.js'
import { RoutedFeed } from './routed.js'
import type { OwnWork } from './work.js'

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
  /** Where that is a mean of layers that follow each other. */
  readonly kinds?: LayerKinds
}

/** So many layers without experts, and those with some after them. */
export interface LayerKinds {
  readonly dense: number
  readonly plain: BlockTime
  readonly routed: BlockTime
}

class LayerTask {
  readonly #phase: Phase
  readonly #meeting: Meeting
  readonly #projection: Projection
  readonly #feed: Feed

  constructor(clock: Clock, work: OwnWork, traffic: LayerTraffic, isRouted: boolean) {
    this.#phase = new Phase(clock, work, traffic.common)
    this.#meeting = meetingOn(clock, work.meeting, traffic.meeting)
    this.#projection = work.latent
      ? new LatentProjection(this.#phase, this.#meeting, work.latent, traffic.latent)
      : new PlainProjection(this.#phase, this.#meeting)
    this.#feed =
      isRouted && work.routed && traffic.routed
        ? new RoutedFeed(this.#phase, work.routed, traffic.routed)
        : new PlainFeed(this.#phase)
  }

  /** `again`: as far as backward needs it. */
  forward(again = false): void {
    const { clock, work } = this.#phase
    this.#phase.pass(2, again)
    this.#projection.forward(again)
    this.#meeting.forward(again)
    this.#meeting.result()
    clock.work(work.out.forward, again)
    clock.wait(this.#phase.sum())
    this.#phase.passAndBias(3, again)
    this.#phase.pass(1, again)
    this.#feed.forward(again)
  }

  /** Whole, or of the input alone. */
  backward(recompute: Split['recompute'], both: boolean): void {
    const { clock, work, traffic, alone } = this.#phase
    const full = recompute === 'full'
    if (full) this.forward(true)
    else this.#feed.ask(both)
    if (both) this.#phase.bias(traffic.embed)
    if (full && both) this.#feed.again()
    // With nothing before them on their way, keys and values are asked for at once.
    if (!full && (recompute === 'selective' || alone)) this.#meeting.ask()
    if (recompute === 'selective') this.#meeting.forward(true)
    if (both && recompute === 'cheap') this.cheaply()
    if (recompute === 'per-op') clock.work(0.42 * productsOf(work), true)
    this.#feed.backward(both, full)
    this.#phase.pass(2)
    if (both) this.#phase.bias(traffic.embed, true)
    const gradient = this.#phase.gatherGradient(both) ?? this.#feed.makeWhole()
    if (!full) this.#meeting.askLate()
    if (both && !full) this.#projection.askEarly()
    clock.wait(gradient)
    const other = both ? this.#phase.gatherOtherWay(gradient) : gradient
    clock.work(work.out.input)
    this.#meeting.handGradient()
    if (both) {
      this.#meeting.result()
      this.#phase.made(work.out, other)
    }
    this.#meeting.backward(() => {
      if (both && !full) this.#projection.ask()
    })
    this.#projection.backward(both)
    this.#phase.pass(1)
    clock.wait(this.#feed.makeWhole())
  }

  /** Both norms and the activation once more, for the gradients of weights. */
  cheaply(): void {
    this.#phase.pass(2, true)
    this.#phase.pass(2, true)
    this.#feed.again()
  }

  /** Weight gradients alone: all gathers start at once. */
  weights(recompute: Split['recompute']): void {
    const { work, traffic } = this.#phase
    this.#feed.askWeights()
    const gradient = this.#phase.gather()
    this.#projection.ask()
    if (recompute === 'full') this.#feed.again()
    if (recompute === 'cheap') this.cheaply()
    this.#feed.weights()
    this.#phase.pass(2)
    this.#phase.normGradient()
    this.#phase.bias(traffic.embed)
    this.#phase.made(work.out, gradient)
    this.#projection.weights()
    this.#phase.pass(2)
    this.#phase.normGradient()
  }
}

const productsOf = ({ queries, keys, values, out, feed, down }: OwnWork): number =>
  [queries, keys, values, out, ...feed, down].reduce((sum, { forward }) => sum + forward, 0)

/** One layer and one microbatch on one rank. */
export function ownLayerCost(setup: Setup, table: PriceTable, { work, known }: OwnLayers): OwnLayerCost {
  const { split } = setup
  const { whole, inTwo } = known.of(split, () => meanLayers(new CutLayer(setup, table, work, known.shared), split))
  const cost = splitsAll(split) ? inTwo : whole
  return split.waiting ? beyondMoves(cost, carriedSeconds(setup)) : cost
}

/** A carry leaves while the next layer computes, and comes back while one does: what it takes longer than that is waited for. */
function beyondMoves(cost: OwnLayerCost, moves: ReturnType<typeof carriedSeconds>): OwnLayerCost {
  const { seconds, acts } = cost.block
  const out = Math.max(0, moves.out - seconds.F)
  const back = { B: Math.max(0, moves.in - seconds.B), I: Math.max(0, moves.in - seconds.I - seconds.W) }
  if (out + back.B + back.I === 0) return cost
  return {
    ...cost,
    forward: cost.forward + out,
    input: cost.input + back.B,
    gather: cost.gather + out + back.B,
    block: {
      seconds: { F: seconds.F + out, I: seconds.I + back.I, W: seconds.W, B: seconds.B + back.B },
      acts: { F: acts.F.longerBy(out), I: acts.I.longerBy(back.I), W: acts.W, B: acts.B.longerBy(back.B) },
    },
  }
}

/** Its backward passes are one task each, or two. */
export interface LayerCosts {
  readonly whole: OwnLayerCost
  readonly inTwo: OwnLayerCost
}

/**
 * Of one cut, by what else of a plan the time of a layer depends on: what is computed again, and of how many microbatches
 * gradients are added up. Those that leave after each are not.
 */
export class BySaving<T> {
  readonly #known = new Map<Split['recompute'], Map<number, T>>()

  of({ recompute }: Pick<Split, 'recompute'>, added: number, make: () => T): T {
    const byAdded = entry(this.#known, recompute, () => new Map<number, T>())
    return entry(byAdded, added, make)
  }
}

/** Microbatches whose gradients are added up. */
export const addedIn = (split: LayerSplit): number => (reducesEach(split) ? 0 : split.microbatches)

/** Of one nothing is added up, either. */
const addedInLayers = (split: LayerSplit): number => (split.microbatches === 1 ? 0 : addedIn(split))

/** What tasks of one kind of layer share: forward passes, and gradients of inputs alone by what is computed again. */
interface SharedTasks {
  forward?: Clock
  readonly inputs: Map<Split['recompute'], Clock>
}

/** Layers without experts, whoever shares those of others. */
export class PlainLayers {
  readonly shared: SharedTasks = { inputs: new Map() }
  readonly #known = new BySaving<Clocks>()

  of(split: LayerSplit, make: () => Clocks): Clocks {
    return this.#known.of(split, addedInLayers(split), make)
  }
}

/** What all layers of a cut share: their traffic, and what those without experts and those with some do but for adding up gradients. */
interface SharedByCut {
  traffic?: CutTraffic
  readonly plain: PlainLayers
  readonly routed: SharedTasks
}

export class OwnLayerCosts {
  readonly shared: SharedByCut
  readonly #known = new BySaving<LayerCosts>()

  constructor(plain: PlainLayers) {
    this.shared = { plain, routed: { inputs: new Map() } }
  }

  of(split: LayerSplit, make: () => LayerCosts): LayerCosts {
    return this.#known.of(split, addedInLayers(split), make)
  }
}

/** Where only some layers are routed, the mean: what it does is what most of them do. */
function meanLayers(layer: CutLayer, split: LayerSplit): LayerCosts {
  const { share, dense } = layer
  const some = share > 0 ? costsOf(layer.routed(split)) : undefined
  const others = share < 1 ? costsOf(layer.plain(split)) : undefined
  if (!some || !others) return (some ?? others)! // one of them is there
  const of = (kind: keyof LayerCosts) => meanCost(some[kind], others[kind], share, dense)
  return { whole: of('whole'), inTwo: of('inTwo') }
}

function meanCost(some: OwnLayerCost, others: OwnLayerCost, share: number, dense: number | undefined): OwnLayerCost {
  const mean = (a: number, b: number) => share * a + (1 - share) * b
  const [a, b] = [some.block, others.block]
  const seconds = (kind: TaskKind) => mean(a.seconds[kind], b.seconds[kind])
  // Written out, here and below: a search makes thousands of these.
  return {
    forward: mean(some.forward, others.forward),
    input: mean(some.input, others.input),
    weight: mean(some.weight, others.weight),
    compute: mean(some.compute, others.compute),
    recompute: mean(some.recompute, others.recompute),
    tp: mean(some.tp, others.tp),
    cp: mean(some.cp, others.cp),
    ep: mean(some.ep, others.ep),
    gather: mean(some.gather, others.gather),
    launch: mean(some.launch, others.launch),
    block: {
      seconds: { F: seconds('F'), I: seconds('I'), W: seconds('W'), B: seconds('B') },
      acts: share < 0.5 ? b.acts : a.acts,
    },
    ...(dense !== undefined && { kinds: { dense, plain: b, routed: a } }),
  }
}

type Clocks = Readonly<Record<TaskKind, Clock>>

/** A layer that is cut in one way, and its gradients added up in one. */
class CutLayer {
  /** Of the layers, those with experts. */
  readonly share: number
  /** Those without, where they come first. */
  readonly dense: number | undefined
  readonly #work: OwnWork
  readonly #traffic: LayerTraffic
  readonly #contention: number
  readonly #shared: SharedByCut

  constructor(setup: LayerSetup, table: PriceTable, work: OwnWork, shared: SharedByCut) {
    shared.traffic ??= layerTraffic(setup, table)
    const { common, ...traffic } = shared.traffic
    this.share = routedShare(setup.shape)
    this.dense = comeFirst(setup.shape) ? setup.shape.experts?.dense : undefined
    this.#work = work
    this.#traffic = { ...traffic, common: { ...common, accumulate: accumulation(setup) } }
    this.#contention = setup.software.contention
    this.#shared = shared
  }

  plain(split: LayerSplit): Clocks {
    const { plain } = this.#shared
    return plain.of(split, () => this.#played(split.recompute, plain.shared, false))
  }

  routed({ recompute }: LayerSplit): Clocks {
    return this.#played(recompute, this.#shared.routed, true)
  }

  #played(recompute: Split['recompute'], shared: SharedTasks, isRouted: boolean): Clocks {
    const play = (act: (task: LayerTask) => void): Clock => {
      const clock = new Clock(this.#contention)
      act(new LayerTask(clock, this.#work, this.#traffic, isRouted))
      return clock
    }
    shared.forward ??= play(task => task.forward())
    return {
      F: shared.forward,
      I: entry(shared.inputs, recompute, () => play(task => task.backward(recompute, false))),
      W: play(task => task.weights(recompute)),
      B: play(task => task.backward(recompute, true)),
    }
  }
}

function costsOf(clocks: Clocks): LayerCosts {
  const block = blockTime(clocks)
  const { F, I, W, B } = clocks
  return { whole: costOf(block, B.now - W.now, [F, B]), inTwo: costOf(block, I.now, [F, I, W]) }
}

/** `done`: what is done with a microbatch. */
function costOf(block: BlockTime, input: number, done: readonly Clock[]): OwnLayerCost {
  let [now, recompute, tp, cp, ep] = [0, 0, 0, 0, 0]
  for (const clock of done) {
    now += clock.now
    recompute += clock.again
    tp += clock.waited.tp
    cp += clock.waited.cp
    ep += clock.waited.ep
  }
  const { F: forward, W: weight } = block.seconds
  const compute = now - tp - cp - ep - recompute
  return { forward, input, weight, compute, recompute, tp, cp, ep, gather: 0, launch: 0, block }
}

/** Seconds to add the gradient of so many parameters to those of the microbatches before. The first is kept as it is. */
export function accumulation({ split, cluster, software }: LayerSetup): (parameters: number) => number {
  const { microbatches } = split
  const bytes = 3 * software.gradientBytes * (1 - 1 / microbatches)
  const kernel = (n: number): Kernel => ({ kind: 'memory', read: (n * bytes) / 2, written: (n * bytes) / 2 })
  return n => (n === 0 || microbatches === 1 || reducesEach(split) ? 0 : priceInStep(kernel(n), cluster.device))
}
