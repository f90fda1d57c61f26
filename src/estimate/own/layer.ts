/**
 * The time of a layer of our own program: its kernels, collectives and waits in the order the compiler writes them. Starts are
 * moved up and waits down. What the data axes move while layers compute is in flying.ts.
 */

import { activationBytes, isCast, type MeshAxis, precisionFacts } from '../../base/index.js'
import { type Kernel, priceInStep } from '../../cost/index.js'
import { type Fp8Recipe, usualBlock } from '../../plan/index.js'
import type { TaskKind } from '../../schedule/index.js'
import { entry } from '../entry.js'
import { comeFirst, expertLoad, expertTensor, routedShare, routedTokens } from '../experts.js'
import type { Cut } from '../layer.js'
import { carriedSeconds } from '../moves.js'
import type { LayerCost } from '../others/layer-cost.js'
import type { OwnLayers, PriceTable } from '../prices.js'
import type { Acts } from '../schedules/acts.js'
import type { TaskTimes } from '../schedules/play.js'
import { reducesEach, splitsAll } from '../schedules/stages.js'
import type { Setup, Split } from '../setup.js'
import type { Experts } from '../shape.js'
import { Clock, type WaitedAxis } from './clock.js'
import { meetingTraffic } from './context.js'
import { type Feed, PlainFeed } from './feed.js'
import { type Lanes, lanesOf } from './lanes.js'
import { LatentProjection, type LatentTraffic } from './latent.js'
import { type Meeting, type MeetingTraffic, meetingOn } from './meeting.js'
import { Phase, type Traffic } from './phase.js'
import { PlainProjection, type Projection } from './projection.js'
import { RoutedFeed, type RoutedTraffic } from './routed.js'
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

/** Of all parts of a layer. */
interface LayerTraffic extends CutTraffic {
  readonly common: Traffic
}

/** All of it but how gradients are added up, which the cut of a layer does not tell. */
interface CutTraffic {
  readonly common: Omit<Traffic, 'accumulate'>
  readonly meeting: MeetingTraffic
  readonly latent: LatentTraffic
  readonly routed?: RoutedTraffic
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

/** Of data ranks, ZeRO and `reduce` only whether gradients leave after each microbatch. */
type LayerSplit = Cut & Pick<Split, MeshAxis | 'zero' | 'reduce' | 'microbatches' | 'recompute'>
type LayerSetup = Omit<Setup, 'split'> & { readonly split: LayerSplit }

/**
 * Of one cut, by what else of a plan the time of a layer depends on: what is computed again, and of how many microbatches
 * gradients are added up. Those that leave after each are not.
 */
export class BySaving<T> {
  readonly #known = new Map<Split['recompute'], Map<number, T>>()

  of(split: LayerSplit, make: () => T): T {
    const byAdded = entry(this.#known, split.recompute, () => new Map<number, T>())
    return entry(byAdded, reducesEach(split) ? 0 : split.microbatches, make)
  }
}

/** What all layers of a cut share: their traffic, and what those without experts and those with some do but for adding up gradients. */
interface SharedByCut {
  traffic?: CutTraffic
  readonly plain: SharedTasks
  readonly routed: SharedTasks
}

/** Forward passes, and gradients of inputs alone by what is computed again. */
interface SharedTasks {
  forward?: Clock
  readonly inputs: Map<Split['recompute'], Clock>
}

export class OwnLayerCosts {
  readonly shared: SharedByCut = { plain: { inputs: new Map() }, routed: { inputs: new Map() } }
  readonly #known = new BySaving<LayerCosts>()

  /** Of one microbatch nothing is added up, either. */
  of(split: LayerSplit, make: () => LayerCosts): LayerCosts {
    return this.#known.of(split.microbatches === 1 ? { ...split, microbatches: 0 } : split, make)
  }
}

/** Where only some layers are routed, the mean: what it does is what most of them do. */
function meanLayers(layer: CutLayer, { recompute }: LayerSplit): LayerCosts {
  const { share, dense } = layer
  const some = share > 0 ? layer.played(recompute, true) : undefined
  const others = share < 1 ? layer.played(recompute, false) : undefined
  const of = (inTwo: boolean): OwnLayerCost => {
    if (!some || !others) return costOf((some ?? others)!, inTwo) // one of them is there
    return meanCost(costOf(some, inTwo), costOf(others, inTwo), share, dense)
  }
  return { whole: of(false), inTwo: of(true) }
}

function meanCost(some: OwnLayerCost, others: OwnLayerCost, share: number, dense: number | undefined): OwnLayerCost {
  const mean = (a: number, b: number) => share * a + (1 - share) * b
  const { block: a, ...cost } = some
  const { block: b, ...other } = others
  const names = Object.keys(cost) as (keyof LayerCost)[] // what is left are numbers
  const seconds = { F: 0, I: 0, W: 0, B: 0 }
  for (const kind of ['F', 'I', 'W', 'B'] as const) seconds[kind] = mean(a.seconds[kind], b.seconds[kind])
  const costs = Object.fromEntries(names.map(name => [name, mean(cost[name], other[name])]))
  return {
    ...(costs as unknown as LayerCost), // the same names
    block: { seconds, acts: share < 0.5 ? b.acts : a.acts },
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
    shared.traffic ??= trafficOf(setup, table)
    const { common, ...traffic } = shared.traffic
    this.share = routedShare(setup.shape)
    this.dense = comeFirst(setup.shape) ? setup.shape.experts?.dense : undefined
    this.#work = work
    this.#traffic = { ...traffic, common: { ...common, accumulate: accumulation(setup) } }
    this.#contention = setup.software.contention
    this.#shared = shared
  }

  played(recompute: Split['recompute'], isRouted: boolean): Clocks {
    const play = (act: (task: LayerTask) => void): Clock => {
      const clock = new Clock(this.#contention)
      act(new LayerTask(clock, this.#work, this.#traffic, isRouted))
      return clock
    }
    const shared = isRouted ? this.#shared.routed : this.#shared.plain
    shared.forward ??= play(task => task.forward())
    return {
      F: shared.forward,
      I: entry(shared.inputs, recompute, () => play(task => task.backward(recompute, false))),
      W: play(task => task.weights(recompute)),
      B: play(task => task.backward(recompute, true)),
    }
  }
}

function costOf(clocks: Clocks, inTwo: boolean): OwnLayerCost {
  const block = blockTime(clocks)
  const done = inTwo ? [clocks.F, clocks.I, clocks.W] : [clocks.F, clocks.B]
  const total = (read: (clock: Clock) => number) => done.reduce((sum, clock) => sum + read(clock), 0)
  const { F: forward, I: input, W: weight, B: both } = block.seconds
  const waited = (axis: WaitedAxis) => total(clock => clock.waited[axis])
  const [tp, cp, ep] = [waited('tp'), waited('cp'), waited('ep')]
  const recompute = total(clock => clock.again)
  return {
    ...{ forward, input: inTwo ? input : both - weight, weight, block },
    compute: total(clock => clock.now) - tp - cp - ep - recompute,
    ...{ recompute, tp, cp, ep, gather: 0, launch: 0 },
  }
}

/** Seconds to add the gradient of so many parameters to those of the microbatches before. The first is kept as it is. */
export function accumulation({ split, cluster, software }: LayerSetup): (parameters: number) => number {
  const { microbatches } = split
  const bytes = 3 * software.gradientBytes * (1 - 1 / microbatches)
  const kernel = (n: number): Kernel => ({ kind: 'memory', read: (n * bytes) / 2, written: (n * bytes) / 2 })
  return n => (n === 0 || microbatches === 1 || reducesEach(split) ? 0 : priceInStep(kernel(n), cluster.device))
}

/** Of a number in blocks, on average: f32 of 128, a byte of 32. */
const scaleBytes = { blocks: 4 / usualBlock.blocks, mx: 1 / usualBlock.mx } as const
const inBlocksOf = (recipe: Fp8Recipe | undefined): recipe is keyof typeof scaleBytes =>
  recipe !== undefined && Object.hasOwn(scaleBytes, recipe)

function trafficOf(setup: LayerSetup, table: PriceTable): CutTraffic {
  const { shape, split, precision } = setup
  const { tp, cp, sequenceParallel, microbatch } = split
  const rows = ((microbatch * shape.seq) / cp) * activationBytes(precision)
  // Codes are what is gathered.
  const narrow = isCast(precision) ? precisionFacts[precision].bytes / activationBytes(precision) : 1
  // Blocks have scales, which follow in a gather of their own.
  const scales = inBlocksOf(split.fp8) ? scaleBytes[split.fp8] / activationBytes(precision) : 0
  const gathered = (width: number) =>
    sequenceParallel
      ? table.collective('all-gather', narrow * rows * width, tp, 1) +
        (scales > 0 ? table.collective('all-gather', scales * rows * width, tp, 1) : 0)
      : 0
  const summed = (width: number) =>
    table.collective(sequenceParallel ? 'reduce-scatter' : 'all-reduce', rows * width, tp, 1)
  const lanes = lanesOf(split, table)
  const { queries = 0, keyValues = 0, turned = 0 } = shape.latent ?? {}
  return {
    common: {
      gather: gathered(shape.embed),
      gatherTwice: inBlocksOf(split.fp8),
      sum: summed(shape.embed),
      embed: shape.embed,
      biases: shape.biases,
      frozen: shape.adapters !== undefined,
    },
    meeting: meetingTraffic(setup, table, lanes),
    latent: {
      gather: { queries: gathered(queries), keys: gathered(keyValues), turned: gathered(turned) },
      sum: { queries: summed(queries), keys: summed(keyValues), turned: sequenceParallel ? summed(turned) : 0 },
    },
    ...(shape.experts && { routed: routedTraffic(setup, shape.experts, table, lanes) }),
  }
}

function routedTraffic(
  { shape, split, precision }: LayerSetup,
  experts: Experts,
  table: PriceTable,
  lanes: Lanes,
): RoutedTraffic {
  const { tp, cp, ep, sequenceParallel, microbatch } = split
  const etp = expertTensor(split)
  const load = expertLoad(shape, experts, split, split.imbalance)
  const rows = load.experts * load.rows
  const element = activationBytes(precision)
  const activation = ((microbatch * shape.seq) / cp) * shape.embed * element
  const among = (bytes: number) => table.collective('all-to-all', bytes, ep, etp)
  const chosen = 4 * routedTokens(shape, split) * etp * experts.active * ep
  // Without sequence parallelism tokens are whole on the ranks of tp: on those that split an expert, if they are among them.
  const known = !sequenceParallel && tp % etp === 0
  const shared = etp * routedTokens(shape, split) * shape.embed * element
  return {
    choices: table.collective('all-gather', chosen, ep, etp),
    rows: among(rows * shape.embed * element),
    weights: among(4 * rows),
    lane: lanes.of(ep, etp),
    slices: tp > 1 && !sequenceParallel && etp === 1,
    tokens: known ? 0 : table.collective('all-gather', shared, etp, 1),
    sum: table.collective(known ? 'all-reduce' : 'reduce-scatter', known ? activation : shared, etp, 1),
    whole: table.collective('all-gather', activation, tp, 1),
    parts: table.collective(sequenceParallel || etp === 1 ? 'reduce-scatter' : 'all-reduce', activation, tp, 1),
  }
}
