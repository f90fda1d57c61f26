/**
 * The time of the blocks of our own program: the tasks that the compiler writes, played one after the other. What the data axes move
 * while layers compute is in flying.ts.
 */
import type { TaskKind } from '../../schedule/index.js'
import { entry } from '../entry.js'
import { comeFirst, routedShare } from '../experts.js'
import { carriedSeconds } from '../moves.js'
import type { LayerCost } from '../others/layer-cost.js'
import type { OwnLayers, PriceTable } from '../prices.js'
import type { Acts } from '../schedules/acts.js'
import type { TaskTimes } from '../schedules/play.js'
import { fetchesEach, reducesEach, splitsAll } from '../schedules/stages.js'
import type { Setup, Split } from '../setup.js'
import type { Clock } from './clock.js'
import { lanesOf } from './lanes.js'
import { type BlockName, ofBlocks, ofRouted, type TaskPhase } from './structures.js'
import { played } from './tasks.js'

/** A block's tasks: how long they take with nothing beside them, and what they do. */
export interface BlockTime {
  readonly seconds: TaskTimes
  readonly acts: Readonly<Record<TaskKind, Acts>>
}

/** What embedding and head take. */
export interface Ends<Time = TaskTimes> {
  readonly first: Time
  readonly last: Time
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

/** Its backward passes are one task each, or two. */
interface LayerCosts {
  readonly whole: OwnLayerCost
  readonly inTwo: OwnLayerCost
}

/** All that a plan's blocks take. */
export interface OwnBlockTimes {
  readonly layer: LayerCosts
  readonly ends: Ends<BlockTime>
  /** Seconds to quantize the weights of a layer, where that happens once per step. */
  readonly codes: number
}

/** Clocks by what else than the cut they depend on. */
export type KnownClocks = Map<string, Clock>

/** By what is repeated, then by how many microbatches' gradients are added up. */
export type KnownTimes = Map<string, Map<number, OwnBlockTimes>>

/** By the cut of a layer, what it repeats, and of how many microbatches its gradients are added up. */
export function ownBlockTimes(setup: Setup, table: PriceTable, own: OwnLayers): OwnBlockTimes {
  const { recompute, ops } = setup.split
  const byAdded = entry(own.known, ops ? ops.join() : recompute, () => new Map<number, OwnBlockTimes>())
  // Codes of parameters that are fetched are made each time.
  const key = 2 * addedIn(setup.split) + (fetchesEach(setup.split) ? 1 : 0)
  return entry(byAdded, key, () => blockTimes(setup, table, own))
}

/** One layer and one microbatch on one rank. */
export const ownLayerCost = (setup: Setup, table: PriceTable, own: OwnLayers): OwnLayerCost =>
  layerCostOf(setup, ownBlockTimes(setup, table, own))

export function layerCostOf(setup: Setup, { layer }: OwnBlockTimes): OwnLayerCost {
  const cost = splitsAll(setup.split) ? layer.inTwo : layer.whole
  return setup.split.waiting ? beyondMoves(cost, carriedSeconds(setup)) : cost
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

/** Microbatches whose gradients are added up. Those that leave after each are not. */
const addedIn = (split: Split): number => (reducesEach(split) ? 0 : split.microbatches)

type Clocks = Readonly<Record<TaskPhase, Clock>>

/** Plays the blocks of a plan, as far as plans that are cut alike have not played them. */
function blockTimes(setup: Setup, table: PriceTable, own: OwnLayers): OwnBlockTimes {
  const { shape } = setup
  const share = routedShare(shape)
  const stream = clocksOf(setup, table, ofBlocks(setup), own.stream)
  const some = share > 0 ? clocksOf(setup, table, ofRouted(setup), own.clocks)('routed') : undefined
  const others = share < 1 ? stream('plain') : undefined
  const [routed, plain] = [some && costsOf(some), others && costsOf(others)]
  const of = (kind: keyof LayerCosts): OwnLayerCost => {
    if (!routed || !plain) return (routed ?? plain)![kind] // one of them is there
    return meanCost(routed[kind], plain[kind], share, comeFirst(shape) ? shape.experts?.dense : undefined)
  }
  return {
    layer: { whole: of('whole'), inTwo: of('inTwo') },
    ends: { first: blockTime(stream('embedding')), last: blockTime(stream('head')) },
    codes: share * (some?.C.now ?? 0) + (1 - share) * (others?.C.now ?? 0),
  }
}

/** What is computed again is nobody's business forward, and what is added up only where gradients are made. */
function clocksOf(setup: Setup, table: PriceTable, split: Split, known: KnownClocks): (block: BlockName) => Clocks {
  const { recompute, ops, zero, microbatches } = split
  const saved = ops ? ops.join() : recompute
  const keys = { F: `${zero}`, C: `${zero}`, I: `${zero} ${saved}`, W: `${zero} ${saved} ${microbatches}` }
  let player: ReturnType<typeof playerOf> | undefined
  return block => {
    const of = (phase: TaskPhase) =>
      entry(known, `${block}${phase}${keys[phase === 'B' ? 'W' : phase]}`, () => {
        player ??= playerOf(setup, table, split)
        return player(block, phase)
      })
    return { F: of('F'), I: of('I'), W: of('W'), B: of('B'), C: of('C') }
  }
}

function playerOf({ software }: Setup, table: PriceTable, split: Split): (block: BlockName, phase: TaskPhase) => Clock {
  const { structures } = table
  const [structure, lanes] = [structures.of(split), lanesOf(split, table)]
  // What goes forward adds up losses alone.
  const sizes = { adding: structures.sizesOf(split), others: structures.sizesOf({ ...split, microbatches: 2 }) }
  return (block, phase) => {
    const tasks = structure[block]
    if (!tasks) throw new Error(`internal: the model has no ${block} block`)
    const adds = phase === 'W' || phase === 'B'
    return played(tasks[phase], structures.costs, adds ? sizes.adding : sizes.others, lanes, software.contention)
  }
}

/** By what each kind of task does on a clock. */
const blockTime = ({ F, I, W, B }: Clocks): BlockTime => ({
  seconds: { F: F.now, I: I.now, W: W.now, B: B.now },
  acts: { F: F.acts, I: I.acts, W: W.acts, B: B.acts },
})

function costsOf(clocks: Clocks): LayerCosts {
  const block = blockTime(clocks)
  const { F, I, W, B } = clocks
  return { whole: costOf(block, B.now - W.now, [F, B]), inTwo: costOf(block, I.now, [F, I, W]) }
}

/** `done`: what is done with a microbatch. */
function costOf(block: BlockTime, input: number, done: readonly Clock[]): OwnLayerCost {
  let [now, recompute, tp, cp, ep, gather] = [0, 0, 0, 0, 0, 0]
  for (const { again, waited, now: end } of done) {
    now += end
    recompute += again
    tp += waited.tp
    cp += waited.cp
    ep += waited.ep
    gather += waited.dp
  }
  const { F: forward, W: weight } = block.seconds
  const compute = now - tp - cp - ep - gather - recompute
  return { forward, input, weight, compute, recompute, tp, cp, ep, gather, launch: 0, block }
}

/** Where only some layers are routed, the mean: what it does is what most of them do. */
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
