/** One element of the result from one element of each operand. A dim an operand lacks is broadcast. */
import { elementsOf, maskName, positionIn, uniform } from '../../base/index.js'
import {
  along,
  type Cells,
  indexing,
  offsets,
  type Place,
  type Shape,
  sizeIn,
  strideOf,
  within,
} from '../../geometry/index.js'
import type { Kernel, Prepare } from './kernel.js'
import { gelu as geluExact, geluSlope, geluTanh, geluTanhSlope, silu, siluSlope } from './math.js'

/** For each operand, the offset of what belongs to each element of out. */
export function aligned(operands: readonly Shape[], out: Shape): Int32Array[] {
  for (const operand of operands) within(operand, out)
  return operands.map(operand => offsets(out.dims, operand.dims))
}

const unary = ([x]: readonly Shape[], [out]: readonly Shape[], f: (x: number) => number): Kernel => {
  const [xs] = aligned([x], out)
  return (cells, [from], [to]) => {
    for (let i = 0; i < xs.length; i++) cells[to.at + i] = f(cells[from.at + xs[i]])
  }
}

const binary = ([a, b]: readonly Shape[], [out]: readonly Shape[], f: (a: number, b: number) => number): Kernel => {
  const [as, bs] = aligned([a, b], out)
  return (cells, [atA, atB], [to]) => {
    for (let i = 0; i < as.length; i++) cells[to.at + i] = f(cells[atA.at + as[i]], cells[atB.at + bs[i]])
  }
}

export const add: Prepare<'add'> = (_, ins, outs) => {
  if (ins.length === 2) return binary(ins, outs, (a, b) => a + b)
  const tables = aligned(ins, outs[0])
  return (cells, from, [to]) => {
    for (let i = 0; i < tables[0].length; i++) {
      let sum = 0
      for (let j = 0; j < tables.length; j++) sum += cells[from[j].at + tables[j][i]]
      cells[to.at + i] = sum
    }
  }
}

export const mul: Prepare<'mul'> = (_, ins, outs) => binary(ins, outs, (a, b) => a * b)
export const scale: Prepare<'scale'> = ({ by }, ins, outs) => unary(ins, outs, x => x * by)

export const gelu: Prepare<'gelu'> = ({ approximate }, ins, outs) =>
  unary(ins, outs, approximate ? geluTanh : geluExact)
export const geluGrad: Prepare<'geluGrad'> = ({ approximate }, ins, outs) => {
  const slope = approximate ? geluTanhSlope : geluSlope
  return binary(ins, outs, (dy, x) => dy * slope(x))
}

export const swiglu: Prepare<'swiglu'> = (_, ins, outs) => binary(ins, outs, (gate, up) => silu(gate) * up)
export const swigluGrad: Prepare<'swigluGrad'> = (_, ins, [dgate, dup]) => {
  const [dys, gates, ups] = aligned(ins, dgate)
  const [dups] = aligned([dup], dgate)
  return (cells, [atDy, atGate, atUp], [toGate, toUp]) => {
    for (let i = 0; i < dys.length; i++) {
      const [dy, gate, up] = [cells[atDy.at + dys[i]], cells[atGate.at + gates[i]], cells[atUp.at + ups[i]]]
      cells[toGate.at + i] = dy * up * siluSlope(gate)
      cells[toUp.at + dups[i]] = dy * silu(gate)
    }
  }
}

/**
 * An element is kept or dropped by its index in the whole tensor, so every plan drops the same ones; where tokens have an order
 * [batch slot], by the index it would have if each token lay at its place.
 */
export const dropout: Prepare<'dropout'> = ({ dropout: { rate, key } }, [x, order], [out]) => {
  const [xs] = aligned([x], out)
  const indexed = indexing(out.dims, out.whole)
  const moved = order && movedBy(order, out)
  return (cells, [from, atOrder], [to], { seed, step, block }) => {
    const chance = uniform({ seed, name: maskName(block, key), step })
    const indexOf = indexed(to.parts)
    const move = moved?.(cells, atOrder, to)
    for (let i = 0; i < xs.length; i++) {
      const x = cells[from.at + xs[i]]
      const index = indexOf(i) + (move?.(i) ?? 0)
      // An order that is NaN was never written, or freed.
      cells[to.at + i] = Number.isNaN(index) ? NaN : chance(index) >= rate ? x / (1 - rate) : 0
    }
  }
}

/** How far each element's index in the whole tensor is from where its token would lie at its place. */
function movedBy(order: Shape, out: Shape) {
  const samples = offsets(out.dims, order.dims)
  const [each, size] = [strideOf(out.dims, 'seq'), sizeIn(out.dims, 'seq') ?? 1]
  const stride = strideOf(out.whole, 'seq')
  return (cells: Cells, atOrder: Place, to: Place) => {
    const part = along(out, to, 'seq')
    return (i: number): number => {
      const slot = positionIn(part, Math.floor(i / each) % size)
      return (cells[atOrder.at + samples[i] + slot] - slot) * stride
    }
  }
}

export const squaredErrorGrad: Prepare<'squaredErrorGrad'> = (_, [x, target], [dx]) => {
  const [xs, targets] = aligned([x, target], dx)
  return (cells, [atX, atTarget, atCount], [to]) => {
    const count = cells[atCount.at]
    for (let i = 0; i < xs.length; i++)
      cells[to.at + i] = (2 * (cells[atX.at + xs[i]] - cells[atTarget.at + targets[i]])) / count
  }
}

export const zero: Prepare<'zero'> = (_, __, [out]) => {
  const elements = elementsOf(out.dims)
  return (cells, _ins, [to]) => {
    cells.fill(0, to.at, to.at + elements)
  }
}

export const accumulate: Prepare<'accumulate'> = ({ combine }, [value], [out]) => {
  const [values] = aligned([value], out)
  const both = combine === 'max' ? Math.max : (a: number, b: number) => a + b
  return (cells, [from], [to]) => {
    for (let i = 0; i < values.length; i++) cells[to.at + i] = both(cells[to.at + i], cells[from.at + values[i]])
  }
}
