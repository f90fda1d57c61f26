/**
 * Rotary positions and causal attention. A *row* is one (sample, head): every dim but seq and headDim. Keys and
 * values lack the group dim, so the rows of one group share them and their gradients are sums over it.
 * Positions are those of the whole sequence: a rank that holds a part of it knows where the part begins, and where tokens lie in
 * another order than they follow each other, which of them lies where.
 */
import {
  type AttentionOptions,
  type Dim,
  type DimPart,
  type Dropout,
  elementsOf,
  maskName,
  positionIn,
  ropeDims,
  rotationOf,
  uniform,
} from '../../base/index.js'
import {
  along,
  type Cells,
  firstIndex,
  indices,
  offsets,
  type Place,
  type Shape,
  sizeIn,
  strideOf,
  without,
} from '../../geometry/index.js'
import type { Moment, Prepare } from './kernel.js'

/** Where element (row, position, d) of an operand lies. */
interface Strip {
  readonly rows: Int32Array
  readonly seq: number
  readonly depth: number
}

/** What runs along a head: all of it, the part that turns, or what values have instead. */
const depths = [...ropeDims, 'vHeadDim']
const depthOf = ({ dims }: Shape): Dim => dims.find(({ name }) => depths.includes(name)) ?? { name: 'headDim', size: 1 }

const rowDims = (q: Shape): Dim[] => without(q.dims, [{ name: 'seq', size: 0 }, depthOf(q)])
const stripOf = (rows: readonly Dim[], shape: Shape): Strip => ({
  rows: offsets(rows, shape.dims),
  seq: strideOf(shape.dims, 'seq'),
  depth: strideOf(shape.dims, depthOf(shape).name),
})

/** x[i] and x[i + half] are the two coordinates of a point that turns by position * frequency i. */
export const rope: Prepare<'rope'> = ({ theta, inverse, scaling }, [x, places], [y]) => {
  const rows = rowDims(x)
  const [xs, ys] = [stripOf(rows, x), stripOf(rows, y)]
  const [length, depth] = [sizeIn(x.dims, 'seq') ?? 1, depthOf(x).size]
  const half = depth / 2
  const { frequencies, growth } = rotationOf(depth, theta, scaling)
  const inDocument = placesOf(rows, places)
  const [cos, sin] = [new Float64Array(half), new Float64Array(half)]
  const turnTo = (position: number) => {
    for (let i = 0; i < half; i++) {
      const angle = (inverse ? -1 : 1) * position * frequencies[i]
      cos[i] = growth * Math.cos(angle)
      sin[i] = growth * Math.sin(angle)
    }
  }
  return (cells, [from, atPlaces], [to]) => {
    const part = along(x, from, 'seq')
    for (let s = 0; s < length; s++)
      for (let r = 0; r < xs.rows.length; r++) {
        // Without documents all rows turn alike.
        if (inDocument) turnTo(inDocument(cells, atPlaces, r, s))
        else if (r === 0) turnTo(positionIn(part, s))
        for (let i = 0; i < half; i++) {
          const at = from.at + xs.rows[r] + s * xs.seq + i * xs.depth
          const out = to.at + ys.rows[r] + s * ys.seq + i * ys.depth
          const [a, b] = [cells[at], cells[at + half * xs.depth]]
          cells[out] = a * cos[i] - b * sin[i]
          cells[out + half * ys.depth] = b * cos[i] + a * sin[i]
        }
      }
  }
}

/** Where the token of a row at index s stands in its document. */
type InDocument = (cells: Cells, at: Place, row: number, s: number) => number

/** Nothing where a sequence is one document. */
function placesOf(rows: readonly Dim[], places: Shape | undefined): InDocument | undefined {
  if (!places) return undefined
  const strip = stripOf(rows, places)
  return (cells, at, row, s) => cells[at.at + strip.rows[row] + s * strip.seq]
}

/** Which token of its sequence the one at a local index of a row is. */
type TokenAt = (row: number, index: number) => number

/** Each token lies at its place, or where the order of its sequence, [batch slot], says. */
function tokensOf(q: Shape, of: Shape, order: Shape | undefined) {
  const rows = order && offsets(rowDims(q), order.dims)
  return (cells: Cells, at: Place, atOrder: Place): TokenAt => {
    const part = along(of, at, 'seq')
    if (!rows) return (_, index) => positionIn(part, index)
    return (row, index) => cells[atOrder.at + rows[row] + positionIn(part, index)]
  }
}

/** A query: its row, which token it is, and how many keys it sees at most. */
interface Query {
  readonly row: number
  readonly token: number
  readonly reach: number
}

/** Which of a rank's keys, by local index, a query sees: runs of them. */
type Visible = (query: Query) => readonly (readonly [from: number, to: number])[]

/** Where tokens lie at their places, in each of the two runs that keys may lie in. */
function visibleOf(k: Shape, order: Shape | undefined, window = Infinity) {
  const keys = sizeIn(k.dims, 'seq') ?? 1
  const seen = (least: number, token: number, [first, end]: readonly [number, number], origin: number) =>
    [Math.max(first, least - origin), Math.min(end, token + 1 - origin)] as const
  const inRuns =
    ({ origin, until, gap }: DimPart): Visible =>
    ({ token, reach }) => {
      const least = token - Math.min(window, reach) + 1
      return [
        seen(least, token, [0, Math.min(keys, until)], origin),
        ...(until < keys ? [seen(least, token, [until, keys], origin + gap)] : []),
      ]
    }
  const oneByOne =
    (keyAt: TokenAt): Visible =>
    ({ row, token, reach }) =>
      Array.from({ length: keys }, (_, t) => [t, t + 1] as const).filter(([t]) => {
        const distance = token - keyAt(row, t)
        return distance >= 0 && distance < Math.min(window, reach)
      })
  return (atK: Place, keyAt: TokenAt): Visible => (order ? oneByOne(keyAt) : inRuns(along(k, atK, 'seq')))
}

/** How many keys a query sees at most: all of its document up to itself. */
function reachOf(q: Shape, places: Shape | undefined): (cells: Cells, at: Place, row: number, s: number) => number {
  const inDocument = placesOf(rowDims(q), places)
  return inDocument ? (...of) => inDocument(...of) + 1 : () => Infinity
}

/** What a query begins with. A position or an order that is NaN was never written, or freed: it makes NaN of what it touches. */
const nothing = ({ reach, token }: Query): number => (Number.isNaN(reach + token) ? NaN : 0)

/** What the probability of (row, query, key) is multiplied by: 0 or 1 / (1 - rate). */
type Mask = (row: number, query: number, key: number) => number

const maskDims = ['batch', 'kvHeads', 'group', 'seq']

/** The mask's index is row-major over (batch, kvHeads, group, query, key) of the whole scores, however q is laid out. */
function maskOf(q: Shape, k: Shape, dropout: Dropout | undefined) {
  if (!dropout) return () => () => 1
  const named = (dims: readonly Dim[]) => maskDims.flatMap(name => dims.find(dim => dim.name === name) ?? [])
  const keys = sizeIn(k.whole, 'seq') ?? 1
  const scores = [...named(q.whole), { name: 'key', size: keys }]
  const rows = indices(rowDims(q), scores)
  return (atQ: Place, [queryAt, keyAt]: readonly TokenAt[], { seed, step, block }: Moment): Mask => {
    const chance = uniform({ seed, name: maskName(block, dropout.key), step })
    const first = firstIndex(q.dims, atQ.parts, scores) - along(q, atQ, 'seq').origin * keys
    return (row, query, key) => {
      const index = first + rows[row] + queryAt(row, query) * keys + keyAt(row, key)
      return chance(index) >= dropout.rate ? 1 / (1 - dropout.rate) : 0
    }
  }
}

function* indicesIn(ranges: ReturnType<Visible>): Generator<number> {
  for (const [from, to] of ranges) for (let t = from; t < to; t++) yield t
}

/** sum over d of a[d] b[d] */
function dot(cells: Cells, [a, strideA]: [number, number], [b, strideB]: [number, number], depth: number): number {
  let sum = 0
  for (let d = 0; d < depth; d++) sum += cells[a + d * strideA] * cells[b + d * strideB]
  return sum
}

/** What attention and its gradient ask of tokens: who sees whom, and what dropout leaves. */
function lookingOf({ window, dropout }: AttentionOptions, [q, k, places, order]: readonly Shape[]) {
  const [queriesIn, keysIn] = [tokensOf(q, q, order), tokensOf(q, k, order)]
  const visibleIn = visibleOf(k, order, window)
  const [masks, reach] = [maskOf(q, k, dropout), reachOf(q, places)]
  return (cells: Cells, [atQ, atK, atPlaces, atOrder]: readonly Place[], moment: Moment) => {
    const tokens = [queriesIn(cells, atQ, atOrder), keysIn(cells, atK, atOrder)]
    return {
      queryAt: (row: number, s: number): Query => ({
        ...{ row, token: tokens[0](row, s), reach: reach(cells, atPlaces, row, s) },
      }),
      visible: visibleIn(atK, tokens[1]),
      mask: masks(atQ, tokens, moment),
    }
  }
}

export const attention: Prepare<'attention'> = (op, [q, k, v, places, order], [out, lse]) => {
  const [qs, ks, vs, outs, lses] = [q, k, v, out, lse].map(operand => stripOf(rowDims(q), operand))
  const [queries, keys] = [sizeIn(q.dims, 'seq') ?? 1, sizeIn(k.dims, 'seq') ?? 1]
  const [depth, width] = [depthOf(q).size, depthOf(v).size]
  const factor = op.scale ?? 1 / Math.sqrt(depth)
  const looking = lookingOf(op, [q, k, places, order])
  const scores = new Float64Array(keys)
  return (cells, [atQ, atK, atV, atPlaces, atOrder], [toOut, toLse], moment) => {
    const { queryAt, visible, mask } = looking(cells, [atQ, atK, atPlaces, atOrder], moment)
    for (let r = 0; r < qs.rows.length; r++)
      for (let s = 0; s < queries; s++) {
        const query = queryAt(r, s)
        const seen = visible(query)
        const [fromQ, fromK] = [atQ.at + qs.rows[r] + s * qs.seq, atK.at + ks.rows[r]]
        let greatest = -Infinity
        for (const [from, to] of seen)
          for (let t = from; t < to; t++) {
            scores[t] = factor * dot(cells, [fromQ, qs.depth], [fromK + t * ks.seq, ks.depth], depth)
            greatest = Math.max(greatest, scores[t])
          }
        let total = nothing(query)
        for (const [from, to] of seen)
          for (let t = from; t < to; t++) total += scores[t] = Math.exp(scores[t] - greatest)
        cells[toLse.at + lses.rows[r] + s * lses.seq] = greatest + Math.log(total)
        for (const [from, to] of seen) for (let t = from; t < to; t++) scores[t] *= mask(r, s, t) / total
        for (let d = 0; d < width; d++) {
          let sum = nothing(query)
          const fromV = atV.at + vs.rows[r] + d * vs.depth
          for (const [from, to] of seen) for (let t = from; t < to; t++) sum += scores[t] * cells[fromV + t * vs.seq]
          cells[toOut.at + outs.rows[r] + s * outs.seq + d * outs.depth] = sum
        }
      }
  }
}

/** With p = exp(score - lse): dscore = p (mask dout.v - dout.out), and everything else is a product with it. */
export const attentionGrad: Prepare<'attentionGrad'> = (op, operands, results) => {
  const [dout, q, k, v, out, lse, places, order] = operands
  const strips = [dout, q, k, v, out, lse, ...results].map(operand => stripOf(rowDims(q), operand))
  const [douts, qs, ks, vs, outs, lses, dqs, dks, dvs] = strips
  const queries = sizeIn(q.dims, 'seq') ?? 1
  const [depth, width] = [depthOf(q).size, depthOf(v).size]
  const factor = op.scale ?? 1 / Math.sqrt(depth)
  const looking = lookingOf(op, [q, k, places, order])
  const [sumQ, sumK, sumV] = results.map(result => new Float64Array(elementsOf(result.dims)))
  return (cells, [atDout, atQ, atK, atV, atOut, atLse, ...atDocuments], [toQ, toK, toV], moment) => {
    const { queryAt, visible, mask } = looking(cells, [atQ, atK, ...atDocuments], moment)
    for (const sums of [sumQ, sumK, sumV]) sums.fill(0)
    for (let r = 0; r < qs.rows.length; r++)
      for (let s = 0; s < queries; s++) {
        const query = queryAt(r, s)
        const seen = visible(query)
        for (let d = 0; d < depth; d++) sumQ[dqs.rows[r] + s * dqs.seq + d * dqs.depth] += nothing(query)
        const fromQ = atQ.at + qs.rows[r] + s * qs.seq
        const fromDout = atDout.at + douts.rows[r] + s * douts.seq
        const fromOut = atOut.at + outs.rows[r] + s * outs.seq
        const logSum = cells[atLse.at + lses.rows[r] + s * lses.seq]
        const delta = dot(cells, [fromDout, douts.depth], [fromOut, outs.depth], width)
        for (const t of indicesIn(seen)) {
          const [fromK, fromV] = [atK.at + ks.rows[r] + t * ks.seq, atV.at + vs.rows[r] + t * vs.seq]
          const score = factor * dot(cells, [fromQ, qs.depth], [fromK, ks.depth], depth)
          const p = Math.exp(score - logSum)
          const kept = mask(r, s, t)
          const dp = kept * dot(cells, [fromDout, douts.depth], [fromV, vs.depth], width)
          const dscore = factor * p * (dp - delta)
          const [dq, dk, dv] = [dqs.rows[r] + s * dqs.seq, dks.rows[r] + t * dks.seq, dvs.rows[r] + t * dvs.seq]
          for (let d = 0; d < depth; d++) {
            sumQ[dq + d * dqs.depth] += dscore * cells[fromK + d * ks.depth]
            sumK[dk + d * dks.depth] += dscore * cells[fromQ + d * qs.depth]
          }
          for (let d = 0; d < width; d++) sumV[dv + d * dvs.depth] += p * kept * cells[fromDout + d * douts.depth]
        }
      }
    cells.set(sumQ, toQ.at)
    cells.set(sumK, toK.at)
    cells.set(sumV, toV.at)
  }
}

/** Each is weighed by its part of the sum of exp(scores), which is 0 where it saw no key. */
export const attentionMerge: Prepare<'attentionMerge'> = (_, [out, lse, more, moreLse], results) => {
  const tokens = without(out.dims, without(out.dims, lse.dims))
  const inRow = without(out.dims, lse.dims)
  const [outs, mores, merged] = [out, more, results[0]].map(of => offsets([...tokens, ...inRow], of.dims))
  const [lses, moreLses, mergedLses] = [lse, moreLse, results[1]].map(of => offsets(tokens, of.dims))
  const depth = elementsOf(inRow)
  return (cells, [atOut, atLse, atMore, atMoreLse], [toOut, toLse]) => {
    for (let t = 0; t < lses.length; t++) {
      const both = [cells[atLse.at + lses[t]], cells[atMoreLse.at + moreLses[t]]]
      const greatest = Math.max(...both)
      const total = greatest === -Infinity ? greatest : greatest + Math.log(sumOfExp(both, greatest))
      const [weight, other] = both.map(each => (each === -Infinity ? 0 : Math.exp(each - total)))
      cells[toLse.at + mergedLses[t]] = total
      for (let e = t * depth; e < (t + 1) * depth; e++)
        cells[toOut.at + merged[e]] = weight * cells[atOut.at + outs[e]] + other * cells[atMore.at + mores[e]]
    }
  }
}

const sumOfExp = (values: readonly number[], greatest: number): number =>
  values.reduce((sum, value) => sum + Math.exp(value - greatest), 0)
