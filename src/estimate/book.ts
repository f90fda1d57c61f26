/**
 * What plans share, worked out once: prices by shape, cluster, software and precision; pipelines and their orders by
 * layers, schedule and microbatches. Whoever prices many plans keeps a book and passes it with each setup.
 */
import type { Cluster, Precision } from '../cluster/index.js'
import { ByFields, entry } from './entry.js'
import type { Software } from './others/software.js'
import { type CutFacts, sharedFields } from './own/cut-facts.js'
import { PriceTable } from './prices.js'
import { type Holding, HoldingBook, type Holdings, type SurelyHeld, surelyHeld } from './schedules/holding.js'
import { OrderBook, type PlayedOrders } from './schedules/order.js'
import type { TaskPath } from './schedules/path.js'
import { type Pipeline, pipelineOf } from './schedules/stages.js'
import type { Placed, Setup, Split } from './setup.js'
import type { Shape } from './shape.js'

type ByPrecision = Map<Precision, PriceTable>
type BySoftware = WeakMap<Software, ByPrecision>
type ByCluster = WeakMap<Cluster, BySoftware>
type ByMicrobatches = Map<number, KnownPipeline>
type ByStages = Map<number, ByMicrobatches>

/** What pipelines share. */
interface OrderedHoldings {
  readonly orders: OrderBook
  readonly holdings: HoldingBook
}

const orderedHoldings = (): OrderedHoldings => ({ orders: new OrderBook(), holdings: new HoldingBook() })

/** The stages of a pipeline, the order of its tasks, and what its ranks hold: each is found when it is asked for. */
export class KnownPipeline {
  /** Chains of tasks that decided how long some plan with this pipeline takes. */
  readonly paths: TaskPath[] = []
  readonly #shape: Shape
  readonly #split: Split
  readonly #book: OrderedHoldings
  #orders: PlayedOrders | undefined
  #holdings: Holdings | undefined
  #pipeline: Pipeline | undefined
  #surely: readonly SurelyHeld[] | undefined
  #ends: readonly Holding[] | undefined

  constructor(shape: Shape, split: Split, book: OrderedHoldings) {
    this.#shape = shape
    this.#split = split
    this.#book = book
  }

  get pipeline(): Pipeline {
    this.#pipeline ??= pipelineOf(this.#shape, this.#split)
    return this.#pipeline
  }

  get orders(): PlayedOrders {
    this.#orders ??= this.#book.orders.of(this.#split)
    return this.#orders
  }

  get holdings(): Holdings {
    this.#holdings ??= this.#book.holdings.of(this.#split, this.pipeline, this.orders)
    return this.#holdings
  }

  /** What all ranks hold, if that is known; else what some do, or hold at the least: the first and the last where their rows tell. */
  get ends(): readonly Holding[] {
    if (this.#holdings) return this.#holdings.lumped
    this.#ends ??= this.#book.holdings.ends(this.#split, this.pipeline, this.#book.orders)
    return this.#ends
  }

  /** What some ranks hold at one time, at the least. */
  get surely(): readonly SurelyHeld[] {
    this.#surely ??= surelyHeld(this.#shape, this.#split, this.#book.orders)
    return this.#surely
  }
}

/** A cache of costs and schedules that many estimates share. Keep one per search. */
export class EstimateBook {
  readonly #tables = new WeakMap<Shape, ByCluster>()
  readonly #orders = orderedHoldings()
  readonly #cuts = new WeakMap<Shape, ByFields<(typeof sharedFields)[number], CutFacts>>()
  /** Of a list of layers, or of a shape where they are shared out evenly: by schedule, then by numbers. */
  readonly #pipelines = new WeakMap<object, Map<string, ByStages>>()

  table({ shape, cluster, software, precision }: Setup): PriceTable {
    const byCluster = entry(this.#tables, shape, (): ByCluster => new WeakMap())
    const bySoftware = entry(byCluster, cluster, (): BySoftware => new WeakMap())
    const byPrecision = entry(bySoftware, software, (): ByPrecision => new Map())
    return entry(byPrecision, precision, () => new PriceTable({ shape, cluster, software, precision }))
  }

  /** The facts of a layer's split that its memory depends on. */
  cutFacts(shape: Shape, split: Split, make: () => CutFacts): CutFacts {
    return entry(this.#cuts, shape, () => new ByFields<(typeof sharedFields)[number], CutFacts>(sharedFields)).of(
      split,
      make,
    )
  }

  pipeline(shape: Shape, split: Split): KnownPipeline {
    const { schedule, pp, chunks, microbatches } = split
    const bySchedule = entry(this.#pipelines, split.layers ?? shape, () => new Map<string, ByStages>())
    const byStages = entry(bySchedule, schedule, (): ByStages => new Map())
    const byMicrobatches = entry(byStages, pp * 2 ** 26 + chunks, (): ByMicrobatches => new Map())
    return entry(byMicrobatches, microbatches, () => new KnownPipeline(shape, split, this.#orders))
  }
}

export const tableOf = (setup: Setup): PriceTable => {
  const { shape, cluster, software, precision, book } = setup
  return book ? book.table(setup) : new PriceTable({ shape, cluster, software, precision })
}

export const pipelineIn = ({ shape, split, book }: Placed): KnownPipeline =>
  book ? book.pipeline(shape, split) : new KnownPipeline(shape, split, orderedHoldings())
