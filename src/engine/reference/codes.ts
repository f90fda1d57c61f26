/** Products of 8-bit codes: a number of each block brings it into their range, and the product is of what codes stand for. */
import {
  type Blocks,
  type CodeType,
  codeFacts,
  codeScale,
  type Dim,
  elementsOf,
  type Scaled,
  squaredLimit,
} from '../../base/index.js'
import { strideOf } from '../../geometry/index.js'
import { contract } from './contract.js'
import { aligned } from './elementwise.js'
import type { Prepare } from './kernel.js'

/** For every element of a tensor the place of its block's number in a tensor of `counted`. */
function blockOf(dims: readonly Dim[], counted: readonly Dim[], blocks: Blocks = {}): Int32Array {
  let table = Int32Array.of(0)
  for (const { name, size } of dims) {
    const [stride, block] = [strideOf(counted, name), blocks[name] ?? size]
    table = Int32Array.from({ length: table.length * size }, (_, i) => {
      return table[Math.floor(i / size)] + Math.floor((i % size) / block) * stride
    })
  }
  return table
}

/** Math.max keeps a NaN, so a poisoned number poisons its block. */
export const absMax: Prepare<'absMax'> = ({ blocks }, [x], [amax]) => {
  const at = blockOf(x.dims, amax.dims, blocks)
  const count = elementsOf(amax.dims)
  return (cells, [from], [to]) => {
    cells.fill(0, to.at, to.at + count)
    for (let i = 0; i < at.length; i++)
      cells[to.at + at[i]] = Math.max(cells[to.at + at[i]], Math.abs(cells[from.at + i]))
  }
}

/** Rounded when it is stored, as everything is. A comparison with a NaN is false: it stays one. */
export const quantize: Prepare<'quantize'> = ({ format, blocks, by }, [x, amax], [codes]) => {
  const scaleOf = scaling(by)
  const { greatest } = codeFacts[format]
  const [xs] = aligned([x], codes)
  const at = blockOf(codes.dims, amax.dims, blocks)
  return (cells, [from, max], [to]) => {
    for (let i = 0; i < xs.length; i++) {
      const value = cells[from.at + xs[i]] * scaleOf(format, cells[max.at + at[i]])
      cells[to.at + i] = value > greatest ? greatest : value < -greatest ? -greatest : value
    }
  }
}

/** Where the number is the scale itself, it is that. */
const scaling = (by: Scaled['by']) => (format: CodeType, number: number) =>
  by === 'scale' ? number : codeScale(format, number, by)

/** Dividing by a power of two rounds nothing. */
export const scaledContract: Prepare<'scaledContract'> = ({ formats, blocks = [], by }, ins, outs) => {
  const scaleOf = scaling(by)
  const multiply = contract({ kind: 'contract' }, ins.slice(0, 2), outs)
  const blockAt = formats.map((_, i) => blockOf(ins[i].dims, ins[i + 2].dims, blocks[i]))
  const [a, b] = blockAt.map(({ length }) => length)
  const elements = elementsOf(outs[0].dims)
  const room = new Float64Array(a + b + elements)
  return (cells, places, [to], moment) => {
    const at = [0, a, a + b]
    for (const [i, format] of formats.entries())
      for (let j = 0; j < blockAt[i].length; j++)
        room[at[i] + j] = cells[places[i].at + j] / scaleOf(format, cells[places[i + 2].at + blockAt[i][j]])
    const [left, right, out] = at.map(first => ({ ...to, at: first }))
    multiply(room, [left, right], [out], moment)
    for (let i = 0; i < elements; i++) cells[to.at + i] = room[a + b + i]
  }
}

/**
 * The first of the history is room for this step's; when the scale is chosen all move down, and the first is room again. So steps are
 * chosen from as many as the history is long.
 */
export const track: Prepare<'track'> = (op, _, [, { dims }]) => {
  const length = elementsOf(dims)
  const { greatest } = codeFacts[op.format]
  return (cells, [amax, norm], [scale, history]) => {
    if (!(cells[norm.at] < squaredLimit(op))) return
    cells[history.at] = cells[amax.at]
    const kept = Array.from(cells.subarray(history.at, history.at + length))
    const chosen = op.algo === 'max' ? Math.max(...kept) : kept[0]
    if (chosen > 0 && chosen < Infinity) cells[scale.at] = scaleOfChosen(chosen, greatest, op.margin)
    for (let i = 1; i < length; i++) cells[history.at + i - 1] = kept[i]
    cells[history.at + length - 1] = kept[0]
    cells[history.at] = 0
  }
}

/** An f32 number whatever the precision of a run, by way of the reciprocal, as PyTorch divides a number by a tensor. */
function scaleOfChosen(chosen: number, greatest: number, margin: number): number {
  const inRange = Math.fround(Math.fround(1 / Math.fround(chosen)) * greatest)
  return Math.min(inRange / 2 ** margin, greatestF32)
}

const greatestF32 = (2 - 2 ** -23) * 2 ** 127
