/** What Muon takes beside its update: the mean of every matrix of a layer is gathered whole, made orthogonal, and cut into parts again. */
import { bytesPer, dataRanks, type Optimizer, uncast } from '../base/index.js'
import { type Kernel, priceInStep } from '../cost/index.js'
import { kvSplit } from './counts.js'
import { expertCopies, routedShare } from './experts.js'
import type { PriceTable } from './prices.js'
import type { Setup } from './setup.js'

/** Means and directions are f32. */
const wide = bytesPer.f32

/** Matrices of one shape: how many a layer has, over how many ranks of tp each is split, and how many ranks share its parts. */
export interface Matrices {
  readonly count: number
  readonly rows: number
  readonly columns: number
  readonly split: number
  readonly data: number
}

/** Of the mean layer, as far as it is split over ranks that make none of it whole. */
export function matricesOf({ shape, split }: Pick<Setup, 'shape' | 'split'>): readonly Matrices[] {
  const { embed, heads, kvHeads, headDim, ffn, gated, experts, latent } = shape
  const { tp, ep, etp = 1 } = split
  const data = split.zero === 0 ? 1 : dataRanks(split)
  const copies = split.zero === 0 ? 1 : expertCopies(split)
  const of = (count: number, rows: number, columns: number, over = tp): Matrices => ({
    ...{ count, rows, columns, split: over, data },
  })
  const routed = routedShare(shape)
  const feed = (width: number, share: number) => [of(share * (gated ? 3 : 2), embed, width)]
  const attention = latent
    ? latentMatrices(shape, latent, of)
    : [of(2, embed, heads * headDim), of(2, embed, kvHeads * headDim, kvSplit(shape, tp))]
  const own = experts && { ...of(routed * 3 * (experts.count / ep), embed, experts.ffn, etp), data: copies }
  return [
    ...attention,
    ...feed(ffn, 1 - routed),
    ...(experts?.shared ? feed(experts.shared, routed) : []),
    ...(own ? [own] : []),
  ]
}

function latentMatrices(
  { embed, heads }: Setup['shape'],
  { queries, keyValues, plain, turned, values }: NonNullable<Setup['shape']['latent']>,
  of: (count: number, rows: number, columns: number, over?: number) => Matrices,
): Matrices[] {
  const asked = heads * (plain + turned)
  return [
    ...(queries ? [of(1, embed, queries, 1), of(1, queries, asked)] : [of(1, embed, asked)]),
    ...[of(1, embed, keyValues, 1), of(1, embed, turned, 1)],
    ...[of(1, keyValues, heads * plain), of(1, keyValues, heads * values), of(1, heads * values, embed)],
  ]
}

/** Bytes while the largest matrix is made orthogonal: itself, what is made of it, and room for one more and two squares. */
export function muonRoom(placed: Pick<Setup, 'shape' | 'split'>): number {
  const sizes = matricesOf(placed).map(({ rows, columns }) => 3 * rows * columns + 2 * Math.min(rows, columns) ** 2)
  return wide * Math.max(...sizes)
}

/** Seconds of so many layers. */
export function muonCost(setup: Setup, table: PriceTable, optimizer: Optimizer, layers: number): number {
  const { cluster, precision, split, software } = setup
  const { steps = 5 } = optimizer as { readonly steps?: number } // a job says it, a run of others does not
  const passed = (bytes: number): number =>
    priceInStep({ kind: 'memory', read: bytes / 2, written: bytes / 2 }, cluster.device)
  const seconds = matricesOf(setup).map(({ count, rows, columns, split: over, data }) => {
    const [short, long] = [Math.min(rows, columns), Math.max(rows, columns)]
    const [block, whole] = [(wide * rows * columns) / over, wide * rows * columns]
    const multiplied = uncast(precision)
    const product: Kernel = {
      ...{ kind: 'matmul', m: short, n: short, k: 2 * long + short, batch: steps },
      ...{ precision: multiplied === 'f32' ? 'f32' : 'bf16', resultBytes: multiplied === 'f32' ? 4 : 2 },
    }
    const mean = passed((block / data) * (1 + (software.gradientBytes + software.stateBytes) / wide))
    const gathered =
      (data > 1 ? table.collective('all-gather', block, data, split.tp) : 0) +
      (over > 1 ? table.collective('all-gather', whole, over, 1) : 0)
    const cut = (over > 1 ? passed(2 * block) : 0) + (data > 1 ? passed((2 * block) / data) : 0)
    return count * (mean + gathered + priceInStep(product, cluster.device) + cut + passed(block / data))
  })
  return layers * seconds.reduce((a, b) => a + b, 0)
}
