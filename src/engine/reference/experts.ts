/**
 * Rows of tokens that chose the same expert, and what experts do with them. A rank has the rows of its own experts, in the
 * order of experts and then of tokens; how many there are is known only now, so buffers have room to spare, filled with 0.
 */
import { elementsOf, failureClause, type Spoken, SpokenError, sayFailure } from '../../base/index.js'
import { along, type Cells, offsets, type Shape, sizeIn, strideOf, without } from '../../geometry/index.js'
import type { Prepare } from './kernel.js'
import { silu, siluSlope } from './math.js'

const named = (dims: Shape['dims'], ...names: string[]) => names.flatMap(name => dims.filter(dim => dim.name === name))
const tokenDims = ['batch', 'seq']

/** Where each choice lies, counted through tokens and then their choices. */
export const choicesIn = ({ dims }: Shape): Int32Array => offsets(named(dims, ...tokenDims, 'choice'), dims)

/**
 * Every rank of a group that shares the experts sees the same choices, and so knows the rows of all of them: `to` counts
 * through the rows of the first rank, then those of the second. What it keeps of `from` and `counts` is its own.
 */
export const rowsOf: Prepare<'rowsOf'> = ({ guarded }, [choice], [to, from, counts]) => {
  const [read, write] = [choicesIn(choice), choicesIn(to)]
  const [room, own, experts] = [from.dims[0].size, counts.dims[0].size, counts.whole[0].size]
  return (cells, [atChoice], [atTo, atFrom, atCounts], { block, microbatch }) => {
    const first = along(counts, atCounts, 'expert').origin
    const chosen = Array.from(read, at => cells[atChoice.at + at])
    const total = new Array<number>(experts).fill(0)
    for (const expert of chosen) if (expert >= 0) total[expert]++
    const needed = total.slice(first, first + own).reduce((a, b) => a + b, 0)
    if (needed > room)
      throw overflow(
        guarded,
        { needed, room, even: (chosen.length * own) / experts },
        failureClause('.rows/in', { block, microbatch }),
      )
    const next = total.map((_, expert) => rowsBefore(total, expert, own))
    cells.fill(chosen.some(Number.isNaN) ? NaN : -1, atFrom.at, atFrom.at + room)
    chosen.forEach((expert, i) => {
      const row = expert >= 0 ? next[expert]++ : expert
      cells[atTo.at + write[i]] = expert >= 0 ? Math.floor(expert / own) * room + row : row
      if (expert >= first && expert < first + own) cells[atFrom.at + row] = i
    })
    for (let e = 0; e < own; e++) cells[atCounts.at + e] = total[first + e]
  }
}

/** Rows of experts that the same rank holds and that come before. */
const rowsBefore = (total: readonly number[], expert: number, own: number): number =>
  total.slice(expert - (expert % own), expert).reduce((a, b) => a + b, 0)

function overflow(guarded: boolean, rows: { needed: number; room: number; even: number }, where: Spoken): Error {
  const { needed, room, even } = rows
  const factor = Math.ceil((100 * needed) / even) / 100
  if (guarded) return new SpokenError(failureClause('.rows/interpreter', { where, needed, room, factor }))
  return new Error(
    `internal: ${sayFailure(where)}: the experts of this rank get ${needed} rows, there is room for ${room}`,
  )
}

/** A choice as `from` counts it, in its own rank's tensors: its token and its place among the token's choices. */
export interface Routed {
  /** Where tokens lie in the tensor that is dispatched or combined into. */
  readonly tokens: Int32Array
  /** How far apart choices are; 0 where the tensor is the same for all of them. */
  readonly stride: number
  readonly chosen: number
  readonly rows: Int32Array
  /** The elements that move together, in the tensor of tokens and in that of rows. */
  readonly inTokens: Int32Array
  readonly inRows: Int32Array
}

export function routedOf(tokens: Shape, rows: Shape, to: Shape): Routed {
  const inner = without(rows.dims, named(rows.dims, 'row'))
  return {
    tokens: offsets(named(tokens.dims, ...tokenDims), tokens.dims),
    stride: strideOf(tokens.dims, 'choice'),
    chosen: sizeIn(to.dims, 'choice')!,
    rows: offsets(named(rows.dims, 'row'), rows.dims),
    inTokens: offsets(inner, tokens.dims),
    inRows: offsets(inner, rows.dims),
  }
}

/** Where a choice lies, by its number: which member of the group has it, and at which of its cells it begins. */
export type FindChoice = (choice: number) => { readonly cells: Cells; readonly at: number }

/** Row after row from where its token lies. */
export function fillRows(
  { rows, inRows, inTokens }: Routed,
  from: ArrayLike<number>,
  find: FindChoice,
  out: Cells,
): void {
  for (let r = 0; r < rows.length; r++) {
    const source = from[r] >= 0 ? find(from[r]) : undefined
    for (let i = 0; i < inRows.length; i++)
      out[rows[r] + inRows[i]] = source ? source.cells[source.at + inTokens[i]] : from[r] === -1 ? 0 : NaN
  }
}

/** Token after token from where its rows lie, in the order of its choices. */
export function fillTokens(routed: Routed, to: (i: number) => number, find: FindChoice, out: Cells): void {
  const { tokens, stride, chosen, inRows, inTokens } = routed
  const lands = (t: number, c: number, i: number) => tokens[t] + c * stride + inTokens[i]
  for (let t = 0; t < tokens.length; t++) {
    for (let c = 0; c < chosen; c++) for (let i = 0; i < inTokens.length; i++) out[lands(t, c, i)] = 0
    for (let c = 0; c < chosen; c++) {
      const row = to(t * chosen + c)
      const source = row >= 0 ? find(row) : undefined
      for (let i = 0; i < inTokens.length; i++)
        if (row !== -1) out[lands(t, c, i)] += source ? source.cells[source.at + inRows[i]] : NaN
    }
  }
}

export const dispatch: Prepare<'dispatch'> = (_, [x, to], [out]) => {
  const routed = routedOf(x, out, to)
  const { tokens, chosen, stride, rows } = routed
  return (cells, [atX, , atFrom], [atOut]) => {
    const from = cells.slice(atFrom.at, atFrom.at + rows.length)
    const find: FindChoice = choice => ({
      cells,
      at: atX.at + tokens[Math.floor(choice / chosen)] + (choice % chosen) * stride,
    })
    fillRows(routed, from, find, cells.subarray(atOut.at, atOut.at + elementsOf(out.dims)))
  }
}

export const combine: Prepare<'combine'> = (_, [rows, to], [out]) => {
  const routed = routedOf(out, rows, to)
  const choices = choicesIn(to)
  return (cells, [atRows, atTo], [atOut]) => {
    const find: FindChoice = row => ({ cells, at: atRows.at + routed.rows[row] })
    const result = cells.subarray(atOut.at, atOut.at + elementsOf(out.dims))
    fillTokens(routed, i => cells[atTo.at + choices[i]], find, result)
  }
}

/** The expert of each row, as this rank counts them; -1 behind the last. */
function expertsOf(cells: Cells, counts: number, experts: number, room: number): Int32Array {
  const owners = new Int32Array(room).fill(-1)
  let row = 0
  for (let e = 0; e < experts; e++) {
    owners.fill(e, row, row + cells[counts + e])
    row += cells[counts + e]
  }
  return owners
}

export const expertContract: Prepare<'expertContract'> = (_, [rows, counts, w], [out]) => {
  const columns = without(out.dims, named(out.dims, 'row'))
  const summed = without(rows.dims, out.dims)
  const [rowsIn, rowsOut] = [rows, out].map(({ dims }) => offsets(named(dims, 'row'), dims))
  const [aSum, bSum] = [rows, w].map(({ dims }) => offsets(summed, dims))
  const [bCol, outCol] = [w, out].map(({ dims }) => offsets(columns, dims))
  const stride = strideOf(w.dims, 'expert')
  return (cells, [atRows, atCounts, atW], [to]) => {
    const owners = expertsOf(cells, atCounts.at, counts.dims[0].size, rowsIn.length)
    for (let r = 0; r < rowsIn.length; r++) {
      const [fromA, weights, out] = [atRows.at + rowsIn[r], atW.at + owners[r] * stride, to.at + rowsOut[r]]
      const terms = owners[r] >= 0 ? aSum.length : 0
      for (let c = 0; c < outCol.length; c++) {
        const fromB = weights + bCol[c]
        let sum = 0
        for (let k = 0; k < terms; k++) sum += cells[fromA + aSum[k]] * cells[fromB + bSum[k]]
        cells[out + outCol[c]] = sum
      }
    }
  }
}

export const expertWeightGrad: Prepare<'expertWeightGrad'> = (_, [rows, drows, counts], [out]) => {
  const [rowsIn, rowsOut] = [rows, drows].map(({ dims }) => offsets(named(dims, 'row'), dims))
  const inner = [rows, drows].map(({ dims }) => without(dims, named(dims, 'row')))
  const [aIn, bIn] = [offsets(inner[0], rows.dims), offsets(inner[1], drows.dims)]
  const [outA, outB] = inner.map(dims => offsets(dims, out.dims))
  const stride = strideOf(out.dims, 'expert')
  return (cells, [atRows, atDrows, atCounts], [to]) => {
    const owners = expertsOf(cells, atCounts.at, counts.dims[0].size, rowsIn.length)
    const sums = new Float64Array(elementsOf(out.dims))
    for (let r = 0; r < rowsIn.length && owners[r] >= 0; r++) {
      const [fromA, fromB] = [atRows.at + rowsIn[r], atDrows.at + rowsOut[r]]
      for (let a = 0; a < aIn.length; a++) {
        const [x, sum] = [cells[fromA + aIn[a]], owners[r] * stride + outA[a]]
        for (let b = 0; b < bIn.length; b++) sums[sum + outB[b]] += x * cells[fromB + bIn[b]]
      }
    }
    cells.set(sums, to.at)
  }
}

export const weightedSwiglu: Prepare<'weightedSwiglu'> = (_, ins, [out]) => {
  const [gates, ups, weights] = ins.map(({ dims }) => offsets(out.dims, dims))
  return (cells, [atGate, atUp, atWeight], [to]) => {
    for (let i = 0; i < gates.length; i++)
      cells[to.at + i] = silu(cells[atGate.at + gates[i]]) * cells[atUp.at + ups[i]] * cells[atWeight.at + weights[i]]
  }
}

export const weightedSwigluGrad: Prepare<'weightedSwigluGrad'> = (_, ins, [dgate, dup, dweight]) => {
  const [dys, gates, ups, weights] = ins.map(({ dims }) => offsets(dgate.dims, dims))
  const [dups, dweights] = [dup, dweight].map(({ dims }) => offsets(dgate.dims, dims))
  const sums = new Float64Array(elementsOf(dweight.dims))
  return (cells, [atDy, atGate, atUp, atWeight], [toGate, toUp, toWeight]) => {
    sums.fill(0)
    for (let i = 0; i < dys.length; i++) {
      const [dy, weight] = [cells[atDy.at + dys[i]], cells[atWeight.at + weights[i]]]
      const [gate, up] = [cells[atGate.at + gates[i]], cells[atUp.at + ups[i]]]
      cells[toGate.at + i] = dy * weight * up * siluSlope(gate)
      cells[toUp.at + dups[i]] = dy * weight * silu(gate)
      sums[dweights[i]] += dy * silu(gate) * up
    }
    cells.set(sums, toWeight.at)
  }
}
