/**
 * What takes the place of flights: each matrix is summed as two factors, as its greatest numbers or as signs, when its step has ended, and what
 * those lack is kept.
 */
import { bytesPer, dataRanks, factorColumns, isSparing, keptShare, keptSizes, type Wire } from '../base/index.js'
import { type Kernel, priceInStep, selectionPasses } from '../cost/index.js'
import { type Matrices, matricesOf } from './muon-cost.js'
import type { Prices, PriceTable } from './prices.js'
import type { Setup, Split } from './setup.js'
import type { MostHeld } from './step-cost.js'

const wide = bytesPer.f32

/** Gradients are summed by segments of their own, and do not fly. */
export const sendsFactors = ({ wire }: Pick<Split, 'wire'>): boolean =>
  wire?.reduce !== undefined && isSparing(wire.reduce) && wire.waiting !== true

const isOnebit = ({ wire }: Pick<Split, 'wire'>): boolean => wire?.reduce === 'onebit'

/** Bytes beside those of other plans: errors, and while parameters are updated what they become, one share of the largest, and parts of sums. */
export function factorRoom({ split }: Pick<Setup, 'split'>, all: number, largest: number) {
  if (!sendsFactors(split)) return { errors: 0, next: 0 }
  const data = dataRanks(split)
  // Owners remember of the sum as well.
  const kept = isOnebit(split) ? all * (1 + 1 / split.dp) : all
  const parts = data > 1 && split.zero > 0 ? all / data : 0
  // Of m, where it lies in parts, all is gathered.
  const gathered = isOnebit(split) && split.zero > 0 && data > 1 ? largest : 0
  const share = data > 1 || split.wire?.reduce !== 'powersgd' ? largest + gathered : 0
  return { errors: wide * kept, next: wide * (kept + parts + share) }
}

/** Seconds of all that a rank holds: so many layers, and what is left of it as one matrix. */
export function factorCost(setup: Setup, table: PriceTable, prices: Prices, { all, layers }: MostHeld): number {
  const { split, shape } = setup
  if (!split.wire || !sendsFactors(split)) return 0
  const ofTable: Matrices = {
    ...{ count: 1, share: 1, each: 1, rows: shape.vocab, columns: shape.embed, split: split.tp },
    copies: dataRanks(split),
  }
  const tables = Math.round(
    Math.max(0, all - layers * (prices.trained?.all ?? prices.layerParameters)) /
      ((shape.vocab * shape.embed) / split.tp),
  )
  const each = (matrices: Matrices) => {
    const cost = isOnebit(split) ? signsCost(setup, table, matrices) : oneCost(setup, table, split.wire!, matrices)
    return matrices.count * matrices.share * matrices.each * cost
  }
  const norms: Matrices = { ...ofTable, count: 2, rows: 1, split: 1 }
  const ofLayer = isOnebit(split) ? [...matricesOf(setup), norms] : matricesOf(setup)
  return layers * ofLayer.reduce((sum, one) => sum + each(one), 0) + tables * each(ofTable)
}

/** Signs of one tensor: to the owners of its parts and back, with all that is added and taken off. */
function signsCost({ cluster, split }: Setup, table: PriceTable, { rows, columns, split: over }: Matrices): number {
  const data = split.dp
  const block = (wide * rows * columns) / over
  const signs = block / 32
  const pass = (read: number, written: number) => priceInStep({ kind: 'memory', read, written }, cluster.device)
  const coded = (bytes: number) => pass(bytes, bytes / 32) + pass(bytes / 32, bytes)
  // The mean, its error, what was sent taken off, and what is left kept; of the sum all but the first.
  const addends = 3 * pass(2 * block, block) + pass(block, block) + coded(block)
  const sum = 2 * pass((2 * block) / data, block / data) + pass(block / data, block / data) + coded(block / data)
  const met = (kind: 'all-to-all' | 'all-gather', bytes: number) =>
    data > 1 ? table.collective(kind, bytes, data, split.tp * split.cp) : 0
  const meetings = met('all-to-all', signs) + met('all-to-all', wide * data) + met('all-gather', signs)
  // What cp adds is added up before.
  const before = split.cp > 1 ? table.collective('all-reduce', block, split.cp, split.tp) : 0
  return (
    gatheredMean({ cluster, split }, table, block) +
    before +
    addends +
    pass(signs, block / data) +
    sum +
    meetings +
    pass(signs, block)
  )
}

/** Under ZeRO every rank has a part of m, and of the sum it keeps one. */
function gatheredMean({ cluster, split }: Pick<Setup, 'cluster' | 'split'>, table: PriceTable, block: number): number {
  const data = dataRanks(split)
  if (split.zero === 0 || data === 1) return 0
  const part = block / data
  return (
    table.collective('all-gather', block, data, split.tp) +
    priceInStep({ kind: 'memory', read: part, written: part }, cluster.device)
  )
}

const oneCost: typeof factored = (setup, table, wire, matrices) =>
  (wire.reduce === 'topk' ? sparse : factored)(setup, table, wire, matrices)

/** Values and places are gathered one after the other; what is sent is laid out to be taken off. */
function sparse(
  { cluster, split }: Setup,
  table: PriceTable,
  wire: Wire,
  { rows, columns, split: over }: Matrices,
): number {
  const { dp, cp, tp } = split
  const pass = (read: number, written: number) => priceInStep({ kind: 'memory', read, written }, cluster.device)
  const [elements, ratio = 1] = [(rows * columns) / over, keptShare(wire, { role: 'matrix' })]
  const [block, kept] = [wide * elements, wide * keptSizes(elements, { ratio }).kept]
  const gathered = dp > 1 ? 2 * table.collective('all-gather', dp * kept, dp, tp * cp) : 0
  const added = cp > 1 ? table.collective('all-reduce', block, cp, tp) : 0
  const part = split.zero > 0 && dataRanks(split) > 1 ? pass(block / dataRanks(split), block / dataRanks(split)) : 0
  const laid = pass(2 * kept, block) + pass(2 * dp * kept, block)
  // Added to its error, what is sent taken off, and what is left kept.
  return 3 * pass(2 * block, block) + pass(selectionPasses * block, 2 * kept) + laid + gathered + added + part
}

function factored(
  { cluster, split, precision }: Setup,
  table: PriceTable,
  wire: Wire,
  { rows, columns, split: over }: Matrices,
): number {
  const dims = [rows, columns].map((size, i) => ({ name: `${i}`, size }))
  const rank = factorColumns(wire, { dims, inputs: 1, role: 'matrix' })
  if (rank === undefined) return 0
  const data = dataRanks(split)
  const price = (kernel: Kernel) => priceInStep(kernel, cluster.device)
  const pass = (read: number, written: number) => price({ kind: 'memory', read, written })
  const block = (wide * rows * columns) / over
  const product = (m: number, n: number, k: number) =>
    price({ kind: 'matmul', m, n, k, batch: 1, precision: precision === 'tf32' ? 'tf32' : 'f32', resultBytes: wide })
  // Whichever side tp splits, one product has fewer columns and the other sums over fewer rows.
  const products =
    product(rows / over, rank, columns) +
    product(columns, rank, rows / over) +
    (data > 1 ? 2 : 1) * product(rows / over, columns, rank)
  const orthonormal = (size: number) => pass(wide * size * rank * (2 * rank + 1), wide * size * rank * (rank + 1))
  const summed = (size: number, ranks: number) =>
    ranks > 1 ? table.collective('all-reduce', wide * size * rank, ranks, split.tp) : 0
  const gathered =
    over > 1
      ? table.collective('all-gather', wide * rows * rank, over, 1) +
        table.collective('all-reduce', wide * columns * rank, over, 1)
      : 0
  // Added to its error, shares taken off, and what is left kept; parts are cut out of the sum.
  const passes = 3 * pass(2 * block, block) + (split.zero > 0 && data > 1 ? pass(block / data, block / data) : 0)
  return (
    products + orthonormal(rows) + orthonormal(columns) + summed(rows, data) + summed(columns, data) + gathered + passes
  )
}
