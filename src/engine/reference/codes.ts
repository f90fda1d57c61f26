/** Products of 8-bit codes: a number of each block brings it into their range, and the product is of what codes stand for. */
import {
  type Blocks,
  type CodeType,
  codeFacts,
  codeScale,
  type Dim,
  elementsOf,
  type Formats,
  leastAmax,
  type OpKind,
  type OpOf,
  type Scaled,
  squaredLimit,
} from '../../base/index.js'
import { type Cells, type Shape, strideOf } from '../../geometry/index.js'
import { contract } from './contract.js'
import { aligned } from './elementwise.js'
import { expertContract, expertWeightGrad } from './experts.js'
import type { Kernel, Prepare } from './kernel.js'

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
  const { greatest } = codeFacts[format]
  const [xs] = aligned([x], codes)
  const at = blockOf(codes.dims, amax.dims, blocks)
  return (cells, [from, max], [to]) => {
    const scaleOf = scaling(by, cells)
    for (let i = 0; i < xs.length; i++) {
      const value = cells[from.at + xs[i]] * scaleOf(format, cells[max.at + at[i]])
      cells[to.at + i] = value > greatest ? greatest : value < -greatest ? -greatest : value
    }
  }
}

/** Where the number is the scale itself, it is that. A machine in f64 keeps all digits of an exact scale too. */
const scaling = (by: Scaled['by'], cells: Cells) => (format: CodeType, number: number) => {
  if (by === 'exact' && !(cells instanceof Float32Array))
    return codeFacts[format].greatest / Math.max(number, leastAmax)
  return by === 'scale' ? number : codeScale(format, number, by)
}

/** Operands of a product that are codes, each with the one that says how it was scaled; those come last. */
type CodedOperands = readonly (readonly [codes: number, scale: number])[]

/** A product of what codes stand for. Dividing by a power of two rounds nothing. */
const ofNumbers =
  <K extends OpKind>(product: Prepare<K>, plain: OpOf<K>, coded: CodedOperands) =>
  ({ formats, blocks = [], by }: Formats & Scaled, ins: readonly Shape[], outs: readonly Shape[]): Kernel => {
    const given = ins.slice(0, ins.length - coded.length)
    const multiply = product(plain, given, outs)
    const blockAt = coded.map(([codes, scale], i) => blockOf(ins[codes].dims, ins[scale].dims, blocks[i]))
    const lengths = [...given, ...outs].map(({ dims }) => elementsOf(dims))
    const at = lengths.map((_, i) => lengths.slice(0, i).reduce((sum, length) => sum + length, 0))
    const room = new Float64Array(lengths.reduce((sum, length) => sum + length, 0))
    return (cells, places, [to], moment) => {
      const scaleOf = scaling(by, cells)
      for (const i of given.keys()) room.set(cells.subarray(places[i].at, places[i].at + lengths[i]), at[i])
      for (const [i, [codes, scale]] of coded.entries())
        for (const [j, block] of blockAt[i].entries())
          room[at[codes] + j] /= scaleOf(formats[i], cells[places[scale].at + block])
      const moved = at.map(first => ({ ...to, at: first }))
      multiply(room, moved.slice(0, given.length), moved.slice(given.length), moment)
      cells.set(room.subarray(at[given.length]), to.at)
    }
  }

export const scaledContract: Prepare<'scaledContract'> = ofNumbers(contract, { kind: 'contract' }, [
  [0, 2],
  [1, 3],
])
export const scaledExpertContract: Prepare<'scaledExpertContract'> = ofNumbers(
  expertContract,
  { kind: 'expertContract' },
  [
    [0, 3],
    [2, 4],
  ],
)
export const scaledExpertWeightGrad: Prepare<'scaledExpertWeightGrad'> = ofNumbers(
  expertWeightGrad,
  { kind: 'expertWeightGrad' },
  [
    [0, 3],
    [1, 4],
  ],
)

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
