/**
 * The price of a step in two parts: bounds that take a microsecond, and the price itself, for which the schedule is played.
 * Plans that differ in their pipeline alone, in the order of their tasks and the layers of their stages, share a
 * `CutPrice`.
 */
import { seconds } from '../base/index.js'
import { scheduleFacts } from '../plan/index.js'
import type { TaskKind } from '../schedule/index.js'
import { type KnownPipeline, pipelineIn, tableOf } from './book.js'
import { routedShare } from './experts.js'
import { flopsOfStep } from './flops.js'
import { optimizerCost } from './optimizer-cost.js'
import { type LayerCost, layerCost } from './others/layer-cost.js'
import { type KnownFlights, pipelineFlights } from './own/data.js'
import { type BlockTraffic, type FlyingBlocks, flyingBlocks, trafficOf } from './own/flying.js'
import { type Ends, layerCostOf, type OwnLayerCost, ownBlockTimes } from './own/layer.js'
import { holderSums } from './own/sums.js'
import { packingOnce } from './own/wire.js'
import type { Prices, PriceTable } from './prices.js'
import {
  type Busiest,
  busiestOf,
  type FlownEach,
  layerTimes,
  leastEnd,
  lighterTimes,
  type MeanSeconds,
  meanTimes,
  mostHeld,
  type PartTotals,
  type StageParts,
  stageTimes,
  totalOf,
  totalsOf,
  usualEnds,
} from './rank-cost.js'
import { finishHeld } from './schedules/held.js'
import { pathTo, secondsOfPath } from './schedules/path.js'
import {
  type FlownBlock,
  type PipelineCosts,
  type PipelineFlights,
  plainPlay,
  playAlone,
  playPipeline,
  type TaskTimes,
  taskCosts,
} from './schedules/play.js'
import { fetchesEach, type Pipeline, reducesEach, splitsAll } from './schedules/stages.js'
import type { Estimate, Setup, Split } from './setup.js'
import { dataCost, messageCost } from './step-cost.js'

/** What flies in our own program. */
interface Flying {
  readonly traffic: BlockTraffic
  readonly blocks: FlyingBlocks
  readonly known: KnownFlights
}

export class CutPrice {
  readonly table: PriceTable
  readonly prices: Prices
  readonly layer: LayerCost
  readonly times: TaskTimes
  readonly lighter: TaskTimes | undefined
  readonly ends: Ends
  /** Seconds of a message to the next rank, and to the farthest. */
  readonly near: number
  readonly far: number
  readonly #setup: Setup
  readonly #flying: (() => Flying) | undefined
  #known: Flying | undefined
  /** Seconds to quantize weights once per step: the first microbatch waits for those of every layer. */
  readonly #codes: number = 0
  #each: readonly MovedEach[] | undefined
  readonly #flown: Partial<Record<StageParts['backward'], FlownEach>> = {}
  readonly #totals: Partial<Record<StageParts['backward'], PartTotals>> = {}

  constructor(setup: Setup) {
    this.#setup = setup
    this.table = tableOf(setup)
    this.prices = this.table.of(setup.split)
    const blocks = this.prices.own && ownBlockTimes(setup, this.table, this.prices.own)
    this.layer = blocks ? layerCostOf(setup, blocks) : layerCost(setup, this.table, this.prices)
    this.times = layerTimes(this.layer)
    this.lighter = lighterTimes(this.layer)
    this.near = messageCost(setup, this.table, this.prices, 1)
    this.far = messageCost(setup, this.table, this.prices, setup.split.pp - 1)
    const { table, prices, layer } = this
    if (prices.others) {
      this.ends = usualEnds(prices.others, prices)
      return
    }
    const { ends, codes } = blocks! // one of the two is there
    this.#codes = setup.shape.layers * codes
    this.ends = { first: ends.first.seconds, last: ends.last.seconds }
    this.#flying = () => {
      const traffic = trafficOf(setup, table)
      const own = layer as OwnLayerCost // asked above
      return { traffic, blocks: flyingBlocks(setup, prices, traffic, own, ends), known: new Map() }
    }
  }

  /** Undefined: not our own program. */
  get flying(): Flying | undefined {
    this.#known ??= this.#flying?.()
    return this.#known
  }

  /** Seconds that all layers and both ends take together, of all microbatches, but for what the host adds. */
  busy(): number {
    const { shape, split } = this.#setup
    const of = (times: TaskTimes) => totalOf(times, { backward: 'paired' })
    return split.microbatches * (shape.layers * of(this.times) + of(this.ends.first) + of(this.ends.last))
  }

  /** Seconds that one microbatch takes through all layers and back, until its last gradient can be sent. */
  passage(): number {
    const pass = ({ F, I, B }: TaskTimes) => F + Math.min(I, B)
    return this.#setup.shape.layers * pass(this.times) + pass(this.ends.first) + pass(this.ends.last)
  }

  /** No pipeline takes less: its ranks work for as long on average. */
  least(): number {
    const { shape, split } = this.#setup
    const layers = shape.layers / split.pp
    const flown = split.microbatches * layers * this.flownEach(anyBackward(split)).rest.mean
    const end = Math.max(this.busy() / split.pp, flown)
    return (
      (end +
        optimizerCost(this.#setup, this.table, this.prices, {
          all: layers * (this.prices.trained?.all ?? this.prices.layerParameters),
          experts: layers * (this.prices.trained?.experts ?? this.prices.expertParameters),
          layers,
          mostLayers: layers,
        })) *
      (1 + latenessOf(this.#setup))
    )
  }

  /** What the stages of a pipeline are made of. */
  partsOf({ schedule, chunks }: Pick<Split, 'schedule' | 'chunks'>): StageParts {
    const { times: layer, lighter, ends } = this
    const host = this.#setup.software.launch.batch / chunks
    const { backward } = scheduleFacts[schedule]
    const total = (this.#totals[backward] ??= totalsOf(layer, ends, backward))
    return { layer, lighter, ends, host, backward, total }
  }

  /** When the tasks of such a pipeline can be done at the soonest, whatever their order. */
  leastEnd(pipeline: Pipeline, parts: StageParts, times = 1): number {
    return leastEnd({ pipeline, times }, parts, this.near, this.flownEach(parts.backward))
  }

  /** No step with such a pipeline takes less, as far as the order of its tasks is known. */
  leastWith({ pipeline, paths }: KnownPipeline, split: Pick<Split, 'schedule' | 'chunks'>): number {
    const parts = this.partsOf(split)
    const messages = { near: this.near, far: this.far, late: this.late }
    let end = this.leastEnd(pipeline, parts)
    for (const path of paths) end = Math.max(end, secondsOfPath(path, parts, messages) * (1 - rounding))
    return this.withRest(end, pipeline)
  }

  /** What a message costs the rank that sends it. */
  get late(): number {
    return this.#setup.software.exposed.pp * this.near
  }

  /** A step whose gradients are sums after so many seconds. */
  withRest(end: number, pipeline: Pipeline): number {
    return (end + this.optimizer(pipeline)) * (1 + latenessOf(this.#setup))
  }

  optimizer(pipeline: Pipeline): number {
    const held = mostHeld(pipeline, this.prices)
    return optimizerCost(this.#setup, this.table, this.prices, held) + packingOnce(this.#setup, held) + this.#codes
  }

  /**
   * Seconds a layer's gradients, and its parameters for one call, are on their way for each microbatch. Where the collectives of a layer
   * use the same links they wait for what left before, and what leaves later waits for its call to end.
   */
  flownEach(backward: StageParts['backward']): FlownEach {
    return (this.#flown[backward] ??= this.#flownEach(backward))
  }

  #flownEach(backward: StageParts['backward']): FlownEach {
    this.#each ??= this.#movedEach()
    const kinds = this.#each
    const share = kinds.length > 1 ? routedShare(this.#setup.shape) : 0
    const meanOf = (of: (kind: MovedEach) => number): MeanSeconds => {
      const [plain = 0, routed = plain] = kinds.map(of)
      return { mean: share * routed + (1 - share) * plain, lighter: plain - routed, most: Math.max(plain, routed) }
    }
    return {
      gather: meanOf(({ gather }) => gather),
      rest: meanOf(({ reduce, beside }) => reduce + (beside ? totalOf(beside, { backward }) : 0)),
    }
  }

  /** Of each kind of layer, those without experts first. */
  #movedEach(): MovedEach[] {
    const { split } = this.#setup
    const [fetches, reduces] = [fetchesEach(split), reducesEach(split)]
    const flying = fetches || reduces ? this.flying : undefined
    if (!flying) return []
    const { traffic, blocks } = flying
    return blocks.layers.map(layer => ({
      gather: fetches ? layer.gather : 0,
      reduce: reduces ? layer.reduce : 0,
      beside: traffic.besideTp || traffic.besideApart ? besideFlights(traffic, layer) : undefined,
    }))
  }

  withPipeline(setup: Setup): StepPrice {
    return new StepPrice(setup, this)
  }
}

/** What flies for each microbatch because of a layer, and what of its tasks can be done only while nothing does. */
interface MovedEach {
  readonly gather: number
  readonly reduce: number
  readonly beside: TaskTimes | undefined
}

/** Backward passes of plans that share a cut: if they are not all in two, some may be. */
const anyBackward = (split: Split): StageParts['backward'] => (splitsAll(split) ? 'split' : 'paired')

/** Seconds of each task from its first collective over the links of the flights on. */
function besideFlights({ besideTp, besideApart }: BlockTraffic, { seconds, acts }: FlownBlock): TaskTimes {
  const of = (kind: TaskKind): number => Math.min(seconds[kind], acts[kind].restFrom(besideTp, besideApart))
  return { F: of('F'), I: of('I'), W: of('W'), B: of('B') }
}

/** Of stragglers, as a share of the step. */
const latenessOf = ({ software, cluster }: Setup): number =>
  software.jitter * Math.max(0, Math.log2(cluster.devices / 64))

/** Blocks one by one do not add up to their stage to the last bit. */
const rounding = 1e-9

interface PlayedTimes {
  /** When the last task is done, and when gradients are sums everywhere. */
  readonly pipelined: number
  readonly end: number
  /** Of the busiest rank: what its flights add to its tasks, and what comes after the last of them. */
  readonly within: number
  readonly after: number
}

export class StepPrice {
  readonly #setup: Setup
  readonly #cut: CutPrice
  readonly #known: KnownPipeline
  readonly #parts: StageParts
  readonly #busiest: Busiest
  #least: number | undefined
  #alone: number | undefined
  #tasks: Float64Array | undefined
  #knownFlights: PipelineFlights | undefined

  constructor(setup: Setup, cut: CutPrice) {
    this.#setup = setup
    this.#cut = cut
    this.#known = pipelineIn(setup)
    this.#parts = cut.partsOf(setup.split)
    this.#busiest = busiestOf(this.#known.pipeline, cut.prices, this.#parts)
  }

  /** No order of the tasks takes less. */
  least(): number {
    return this.#withRest(this.#leastEnd())
  }

  /** A further bound, dearer than the others, where something may fly beside the tasks. */
  get further(): (() => number) | undefined {
    const { split } = this.#setup
    if (!this.#cut.flying || split.pp === 1) return undefined
    // What is fetched for each call is seen by one rank alone; so is what grows with microbatches that are not played.
    const alone = this.#known.orders.shorter !== undefined || fetchesEach(split)
    return alone ? () => this.leastBeside() : () => this.leastHeld()
  }

  /** No less, knowing the order of the tasks, where all of it is played. What was found out is kept for others. */
  leastInOrder(): number {
    const { orders, pipeline, paths } = this.#known
    if (orders.shorter) return this.least()
    const { finish, last } = plainPlay(orders.order, this.#costs(undefined))
    paths.push(pathTo(orders.order, pipeline, last[finish.indexOf(Math.max(...finish))]))
    return this.#leastOf(finish)
  }

  /** No less, knowing also when links are taken. */
  leastHeld(): number {
    const flights = this.#flights()
    return flights ? this.#leastOf(finishHeld(this.#known.orders.order, this.#costs(flights))) : 0
  }

  /** No less, knowing what flies beside the tasks of the busiest rank. */
  leastBeside(): number {
    return this.#withRest(Math.max(this.#leastEnd(), this.#leastAlone()))
  }

  times(): Omit<Estimate, 'memory'> {
    const { split, software } = this.#setup
    const { table, prices, near } = this.#cut
    const layer = layerCost(this.#setup, table, prices) // of the cut's own backward passes may be whole
    const { rank, busy, endsBusy, endsTp } = this.#busiest
    const { pipelined, end, within, after } = this.#played()
    const optimizer = this.#cut.optimizer(this.#known.pipeline)
    // What the busiest rank sends and waits for on the way, and all else it waits for.
    const exposed = 2 * software.exposed.pp * near * split.chunks * split.microbatches
    const waited = Math.max(0, pipelined - busy - within - exposed)
    const handing = exposed + Math.min(waited, 2 * near * (split.pp - 1))
    const late = (end + optimizer) * latenessOf(this.#setup)
    const layers = rank.layerTurns
    return {
      step: seconds(end + optimizer + late),
      parts: {
        compute: seconds(layers * layer.compute + endsBusy),
        recompute: seconds(layers * layer.recompute),
        bubble: seconds(end - after - busy - within - handing),
        tp: seconds(layers * layer.tp + endsTp),
        dp: seconds(within + after + layers * layer.gather),
        pp: seconds(handing),
        cp: seconds(layers * layer.cp),
        ep: seconds(layers * layer.ep),
        optimizer: seconds(optimizer),
        other: seconds(late + layers * layer.launch + rank.turns * this.#parts.host),
      },
      flops: flopsOfStep(this.#setup),
    }
  }

  #played(): PlayedTimes {
    const setup = this.#setup
    const { split } = setup
    const { pipeline, orders } = this.#known
    const { table, prices, flying } = this.#cut
    const { rank, busy } = this.#busiest
    const flights = this.#flights()
    const { finish, idle } = playPipeline(orders, split.microbatches, this.#costs(flights))
    // Of many microbatches a part is played: a rank that is a little busier than the others may tell only later.
    const pipelined = Math.max(this.#leastEnd(), this.#leastAlone(), ...finish)
    if (!flying) {
      const held = mostHeld(pipeline, prices)
      const after = dataCost(setup, table, prices, held, meanTimes(rank, this.#parts, split.microbatches))
      return { pipelined, end: pipelined + after, within: 0, after }
    }
    const end = Math.max(pipelined, ...holderSums(setup, table, prices, pipeline, finish))
    const at = pipeline.ranks.indexOf(rank)
    return { pipelined, end, within: Math.max(0, finish[at] - idle[at] - busy), after: end - pipelined }
  }

  #leastOf(finish: Float64Array): number {
    return this.#withRest(Math.max(this.#leastEnd(), Math.max(...finish) * (1 - rounding)))
  }

  /** When the busiest rank would be done if it never waited for another; 0 where nothing flies. */
  #leastAlone(): number {
    if (this.#alone !== undefined) return this.#alone
    const { pipeline, orders } = this.#known
    const flights = this.#flights()
    const rank = pipeline.ranks.indexOf(this.#busiest.rank)
    const { microbatches } = this.#setup.split
    this.#alone = flights ? playAlone(orders, microbatches, this.#costs(flights), rank) : 0
    return this.#alone
  }

  #flights(): PipelineFlights | undefined {
    const { flying } = this.#cut
    if (!flying) return undefined
    const { pipeline, orders } = this.#known
    this.#knownFlights ??= pipelineFlights(
      this.#setup,
      flying.traffic,
      flying.blocks,
      pipeline,
      orders.order,
      flying.known,
    )
    return this.#knownFlights
  }

  #costs<F extends PipelineFlights | undefined>(flights: F): PipelineCosts & { readonly flights: F } {
    const { near, far, late } = this.#cut
    this.#tasks ??= taskCosts(stageTimes(this.#known.pipeline, this.#parts, late))
    return { tasks: this.#tasks, near, far, flights }
  }

  #leastEnd(): number {
    this.#least ??= this.#cut.leastEnd(this.#known.pipeline, this.#parts)
    return this.#least
  }

  #withRest(end: number): number {
    return this.#cut.withRest(end, this.#known.pipeline)
  }
}
