/** Parameters that are fetched for a call, from ZeRO-3 on: what of them lies beside those of the block at work. */
import { type AtWork, type BlockSize, type NextBlock, nextBlocks, worksAt } from '../schedules/moments.js'
import type { RankLayers } from '../schedules/stages.js'

export type BlockBytes = Readonly<Record<BlockSize, number>>

export interface Fetching {
  /** As they are computed with. */
  readonly bytes: BlockBytes
  /** Blocks that are asked for ahead; the share of their bytes that they have on their way, and parts that have come from the host. */
  readonly prefetch: number
  readonly narrow: number
  readonly parts: number
  /** Only experts have copies, and fly. */
  readonly apart: boolean
}

export interface FetchedBeside {
  /** Of blocks ahead, where `nextBlocks` says. */
  readonly ahead: readonly number[]
  /** Where `worksAt` says: what a rank that fetches for one block alone has while another is at work, until the last call that reads it. */
  readonly stays: readonly number[]
}

const noneAhead = nextBlocks.map(() => 0)
const noneStays = worksAt.map(() => 0)
const nothing: FetchedBeside = { ahead: noneAhead, stays: noneStays }

/** There are four kinds of ranks: those of one block, a layer or a table, and those of more, with one layer or several. */
export class FetchedBlocks {
  readonly #of: Fetching
  readonly #lone: { layer?: FetchedBeside; table?: FetchedBeside } = {}
  /** By what comes after a layer whose parameters are read once more. */
  readonly #several: { layer?: FetchedBeside; table?: FetchedBeside } = {}

  constructor(of: Fetching) {
    this.#of = of
  }

  of({ layers, first, last }: RankLayers): FetchedBeside {
    const { bytes, apart } = this.#of
    if (bytes.layer === 0 && bytes.table === 0) return nothing
    const blocks = layers + (apart ? 0 : (first ? 1 : 0) + (last ? 1 : 0))
    if (blocks <= 1) {
      const own = layers > 0 ? 'layer' : 'table'
      return (this.#lone[own] ??= { ahead: noneAhead, stays: worksAt.map(at => (isOf(own, at) ? 0 : bytes[own])) })
    }
    const after = layers === 1 ? 'table' : 'layer'
    return (this.#several[after] ??= { ahead: nextBlocks.map(next => this.#ahead(next, after)), stays: noneStays })
  }

  #ahead(next: NextBlock, after: 'layer' | 'table'): number {
    const { bytes, prefetch, narrow, parts } = this.#of
    if (next === 'nothing' || prefetch === 0) return 0
    const further = (prefetch - 1) * bytes.layer + parts
    return next === 'same' ? bytes.layer + narrow * (bytes[after] + further) : narrow * (bytes[next] + further)
  }
}

/** Whether what is at work reads the parameters of such a block. */
const isOf = (own: 'layer' | 'table', at: AtWork): boolean =>
  own === 'layer' ? at === 'layer' || at === 'layer input' : at === 'head' || at === 'head input'
