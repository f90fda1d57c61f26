/**
 * Collectives are one idea: every member hands in a part; member i reads from each part a piece (cut along one dim,
 * or not), and lays the pieces side by side (along one dim, or not) or adds them up, always in group order.
 *
 * A collective is read as late as it may be: when all members have started and the first of them waits. The result
 * is written at each member's own wait and is NaN until then, so a program that touches an operand or a result
 * in between computes something else, and shows it.
 */
import { type Combine, type Dim, elementsOf } from '../../base/index.js'
import { type Cells, offsets, type Shape, sizeIn, strideOf } from '../../geometry/index.js'
import type { Collective } from '../../ir/index.js'

/** How pieces move: read[e] + i * readShift of part p goes to write[e] + p * writeShift of member i. */
export interface Move {
  readonly read: Int32Array
  readonly write: Int32Array
  readonly readShift: number
  readonly writeShift: number
  /** How elements of different parts that land on one cell become one. */
  readonly combine?: Combine
}

/** `cut`: the dim along which a part is cut, `lay`: the dim along which pieces are laid. */
export function moveOf(
  [source, out]: readonly [Shape, Shape],
  members: number,
  along: { cut?: string; lay?: string },
): Move {
  const shrink = (dims: readonly Dim[], name: string | undefined) =>
    dims.map(dim => (dim.name === name ? { name, size: dim.size / members } : dim))
  const piece = shrink(source.dims, along.cut)
  const expected = shrink(out.dims, along.lay)
  for (const { name, size } of piece)
    if (sizeIn(expected, name) !== size)
      throw new Error(
        `dim ${name}: pieces of ${size} do not fit a result of ${sizeIn(out.dims, name)} among ${members}`,
      )
  if (elementsOf(expected) !== elementsOf(piece)) throw new Error('operand and result have different dims')
  const shift = (dims: readonly Dim[], name = '') => (sizeIn(piece, name) ?? 0) * strideOf(dims, name)
  return {
    read: offsets(piece, source.dims),
    write: offsets(piece, out.dims),
    readShift: shift(source.dims, along.cut),
    writeShift: shift(out.dims, along.lay),
  }
}

/** Parts of a line: cut from it, or laid side by side to make it. The last of them may reach beyond its end. */
function lineMove(line: Shape, part: Shape, members: number, how: 'cut' | 'lay'): Move {
  const [all, size] = [elementsOf(line.dims), elementsOf(part.dims)]
  if (size !== Math.ceil(all / members))
    throw new Error(`parts of ${size} do not make a line of ${all} among ${members}`)
  const each = Int32Array.from({ length: size }, (_, i) => i)
  return { read: each, write: each, readShift: how === 'cut' ? size : 0, writeShift: how === 'lay' ? size : 0 }
}

/** Part i along a dim or, where none is named, part i of the line. */
export const cutMove = (shapes: readonly [Shape, Shape], members: number, dim: string | undefined): Move =>
  dim === undefined ? lineMove(shapes[0], shapes[1], members, 'cut') : moveOf(shapes, members, { cut: dim })

type Moves = {
  [K in Collective['kind']]: (c: Extract<Collective, { kind: K }>, s: [Shape, Shape], members: number) => Move
}

const moves: Moves = {
  'all-reduce': (c, shapes, members) => ({ ...moveOf(shapes, members, {}), combine: c.combine }),
  'all-gather': (c, shapes, members) =>
    c.dim === undefined ? lineMove(shapes[1], shapes[0], members, 'lay') : moveOf(shapes, members, { lay: c.dim }),
  'reduce-scatter': (c, shapes, members) => ({ ...cutMove(shapes, members, c.dim), combine: 'sum' }),
  'all-to-all': (c, shapes, members) => moveOf(shapes, members, { cut: c.to, lay: c.from }),
}

export const prepareMove = (collective: Collective, shapes: [Shape, Shape], members: number): Move =>
  (moves[collective.kind] as (c: Collective, s: [Shape, Shape], n: number) => Move)(collective, shapes, members) // total

/** Writes what member `index` gets from all parts. Beyond the end of a line zeros are read, and nothing is written. */
export function perform(move: Move, parts: readonly Cells[], index: number, out: Cells): void {
  const from = index * move.readShift
  if (move.combine) reduce(move, parts, from, out)
  else for (let p = 0; p < parts.length; p++) copy(move, parts[p], from, out, p * move.writeShift)
}

function copy({ read, write }: Move, part: Cells, from: number, out: Cells, at: number): void {
  for (let e = 0; e < read.length && at + write[e] < out.length; e++) out[at + write[e]] = part[from + read[e]] ?? 0
}

function reduce({ read, write, combine }: Move, parts: readonly Cells[], from: number, out: Cells): void {
  for (let e = 0; e < read.length; e++) {
    let total = parts[0][from + read[e]] ?? 0
    for (let p = 1; p < parts.length; p++) {
      const value = parts[p][from + read[e]] ?? 0
      total = combine === 'max' ? Math.max(total, value) : total + value
    }
    out[write[e]] = total
  }
}
