/**
 * What plans share, worked out once: prices by shape, cluster, software and precision; what ranks hold by layers and
 * schedule. Whoever prices many plans keeps a book and passes it with each setup.
 */
import type { Cluster, Precision } from '../cluster/index.js'
import { entry } from './entry.js'
import type { Software } from './others/software.js'
import { PriceTable } from './prices.js'
import { type Holding, holdingsOf } from './schedules/holding.js'
import type { Placed, Setup, Split } from './setup.js'
import type { Shape } from './shape.js'

type ByPrecision = Map<Precision, PriceTable>
type BySoftware = WeakMap<Software, ByPrecision>
type ByCluster = WeakMap<Cluster, BySoftware>
type ByMicrobatches = Map<number, readonly Holding[]>
type ByStages = Map<number, ByMicrobatches>

export class EstimateBook {
  readonly #tables = new WeakMap<Shape, ByCluster>()
  /** Of a list of layers, or of a shape where they are shared out evenly: by schedule, then by numbers. */
  readonly #holdings = new WeakMap<object, Map<string, ByStages>>()

  table({ shape, cluster, software, precision }: Setup): PriceTable {
    const byCluster = entry(this.#tables, shape, (): ByCluster => new WeakMap())
    const bySoftware = entry(byCluster, cluster, (): BySoftware => new WeakMap())
    const byPrecision = entry(bySoftware, software, (): ByPrecision => new Map())
    return entry(byPrecision, precision, () => new PriceTable({ shape, cluster, software, precision }))
  }

  holdings(shape: Shape, split: Split): readonly Holding[] {
    const { schedule, pp, chunks, microbatches } = split
    const bySchedule = entry(this.#holdings, split.layers ?? shape, () => new Map<string, ByStages>())
    const byStages = entry(bySchedule, schedule, (): ByStages => new Map())
    const byMicrobatches = entry(byStages, pp * 2 ** 26 + chunks, (): ByMicrobatches => new Map())
    return entry(byMicrobatches, microbatches, () => holdingsOf(shape, split))
  }
}

export const tableOf = (setup: Setup): PriceTable => {
  const { shape, cluster, software, precision, book } = setup
  return book ? book.table(setup) : new PriceTable({ shape, cluster, software, precision })
}

export const holdingsIn = ({ shape, split, book }: Placed): readonly Holding[] =>
  book ? book.holdings(shape, split) : holdingsOf(shape, split)
