/** What Muon takes beside its update: means of matrices are dealt out whole over the ranks that hold parts of them, made orthogonal, and brought back. */
import { bytesPer, type Optimizer, uncast } from '../base/index.js'
import { type Kernel, priceInStep } from '../cost/index.js'
import { scheduleFacts } from '../plan/index.js'
import { kvSplit } from './counts.js'
import { expertCopies, routedShare } from './experts.js'
import type { PriceTable } from './prices.js'
import { type Setup, shardRanks } from './setup.js'

/** Means and directions are f32. */
const wide = bytesPer.f32

/** Tensors of one shape that a layer has: how many, of how many layers, how many matrices each is (of experts), over whom it is split, who has copies. */
export interface Matrices {
  readonly count: number
  readonly share: number
  readonly each: number
  readonly rows: number
  readonly columns: number
  readonly split: number
  readonly copies: number
}

/** Of the mean layer, as far as it is split over ranks that make none of it whole. */
export function matricesOf({ shape, split }: Pick<Setup, 'shape' | 'split'>): readonly Matrices[] {
  const { embed, heads, kvHeads, headDim, ffn, gated, experts, latent } = shape
  const { tp, ep, etp = 1 } = split
  const of = (count: number, rows: number, columns: number, over = tp): Matrices => ({
    ...{ count, share: 1, each: 1, rows, columns, split: over, copies: shardRanks(split) },
  })
  const routed = routedShare(shape)
  const feed = (width: number, share: number) => [{ ...of(gated ? 3 : 2, embed, width), share }]
  const attention = latent
    ? latentMatrices(shape, latent, of)
    : [of(2, embed, heads * headDim), of(2, embed, kvHeads * headDim, kvSplit(shape, tp))]
  const own = experts && {
    ...{ ...of(3, embed, experts.ffn, etp), share: routed, each: experts.count / ep, copies: expertCopies(split) },
  }
  return [
    ...attention,
    ...(routed < 1 ? feed(ffn, 1 - routed) : []),
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

/** How matrices of so many layers are dealt out: in rounds, each over so many ranks. */
function roundsOf({ share, split, copies }: Matrices, layers: number) {
  const tensors = Math.max(1, Math.round(share * layers))
  const over = tensors <= copies ? copies : copies * split
  return { tensors, over, rounds: Math.ceil(tensors / over), together: Math.min(tensors, over) }
}

/** Layers of the fullest rank. */
const layersHeld = ({ shape, split }: Pick<Setup, 'shape' | 'split'>): number =>
  (scheduleFacts[split.schedule].placement === 'both ends' ? 2 : 1) * Math.ceil(shape.layers / split.pp)

/**
 * Bytes while the largest matrices are made orthogonal: what was dealt, and what was made of it, whole and in parts, with room for one more (two where it
 * lies in blocks) and two squares.
 */
export function muonRoom(placed: Pick<Setup, 'shape' | 'split'>): number {
  const sizes = matricesOf(placed).map(matrices => {
    const { each, rows, columns, split, copies } = matrices
    const one = rows * columns
    const { together } = roundsOf(matrices, layersHeld(placed))
    const shared = split * copies > 1
    const parts = shared ? (2 * together * each * one) / (split * copies) : 0
    return 2 * each * one + parts + (shared && split > 1 ? 2 : 1) * one + 2 * Math.min(rows, columns) ** 2
  })
  return wide * Math.max(...sizes)
}

/** Seconds of so many layers. */
export function muonCost(setup: Setup, table: PriceTable, optimizer: Optimizer, layers: number): number {
  const seconds = matricesOf(setup).map(matrices => {
    const isDealt = !setup.split.offload && !setup.split.lifted && matrices.split * matrices.copies > 1
    return matrices.count * (isDealt ? dealtCost : gatheredCost)(setup, table, optimizer, matrices, layers)
  })
  return seconds.reduce((a, b) => a + b, 0)
}

const passed = ({ cluster }: Setup, bytes: number): number =>
  priceInStep({ kind: 'memory', read: bytes / 2, written: bytes / 2 }, cluster.device)

/** Of all matrices of one tensor. */
function productCost({ cluster, precision }: Setup, optimizer: Optimizer, { each, rows, columns }: Matrices): number {
  const { steps = 5 } = optimizer as { readonly steps?: number } // a job says it, a run of others does not
  const [short, long] = [Math.min(rows, columns), Math.max(rows, columns)]
  const multiplied = uncast(precision)
  const product: Kernel = {
    ...{ kind: 'matmul', m: short, n: short, k: 2 * long + short, batch: each * steps },
    ...{ precision: multiplied === 'f32' ? 'f32' : 'bf16', resultBytes: multiplied === 'f32' ? 4 : 2 },
  }
  return priceInStep(product, cluster.device)
}

type Cost = (setup: Setup, table: PriceTable, optimizer: Optimizer, matrices: Matrices, layers: number) => number

/** Every rank that holds a part makes the whole. */
const gatheredCost: Cost = (setup, table, optimizer, matrices, layers) => {
  const { split, software } = setup
  const { share, each, rows, columns, split: over } = matrices
  const data = split.zero === 0 ? 1 : matrices.copies
  const whole = wide * each * rows * columns
  const block = whole / over
  const mean = passed(setup, (block / data) * (1 + (software.gradientBytes + software.stateBytes) / wide))
  const gathered =
    table.collective('all-gather', block, data, split.tp) + table.collective('all-gather', whole, over, 1)
  const cut = (over > 1 ? passed(setup, 2 * block) : 0) + (data > 1 ? passed(setup, (2 * block) / data) : 0)
  const product = productCost(setup, optimizer, matrices)
  return layers * share * (mean + gathered + product + cut + passed(setup, block / data))
}

/** Means and directions of each tensor, and rounds: an exchange, the products of one tensor, an exchange back. */
const dealtCost: Cost = (setup, table, optimizer, matrices, layers) => {
  const { split, software } = setup
  const { each, rows, columns, split: cut, copies } = matrices
  const { tensors, over, rounds, together } = roundsOf(matrices, layers)
  const whole = wide * each * rows * columns
  const [block, part] = [whole / cut, whole / cut / copies]
  const held = split.zero === 0 ? block : part
  const isWhole = split.zero === 0 && copies > 1
  const mean = passed(setup, held * (1 + (software.gradientBytes + software.stateBytes) / wide))
  const back = isWhole ? table.collective('all-gather', block, copies, split.tp) + passed(setup, 2 * part) : 0
  const stride = over > copies ? 1 : split.tp
  const exchange = table.collective('all-to-all', over * part, over, stride)
  const gathered =
    over === copies && cut > 1 ? table.collective('all-gather', whole, cut, 1) + passed(setup, 2 * block) : 0
  const stacked = passed(setup, 2 * (together + over) * part)
  const round = 2 * exchange + gathered + stacked + productCost(setup, optimizer, matrices)
  return tensors * (mean + back + passed(setup, held)) + rounds * round
}
