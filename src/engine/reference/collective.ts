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

type Moves = {
  [K in Collective['kind']]: (c: Extract<Collective, { kind: K }>, s: [Shape, Shape], members: number) => Move
}

const moves: Moves = {
  'all-reduce': (c, shapes, members) => ({ ...moveOf(shapes, members, {}), combine: c.combine }),
  'all-gather': (c, shapes, members) => moveOf(shapes, members, { lay: c.dim }),
  'reduce-scatter': (c, shapes, members) => ({ ...moveOf(shapes, members, { cut: c.dim }), combine: 'sum' }),
  'all-to-all': (c, shapes, members) => moveOf(shapes, members, { cut: c.to, lay: c.from }),
}

export const prepareMove = (collective: Collective, shapes: [Shape, Shape], members: number): Move =>
  (moves[collective.kind] as (c: Collective, s: [Shape, Shape], n: number) => Move)(collective, shapes, members) // total

/** Writes what member `index` gets from all parts. */
export function perform(move: Move, parts: readonly Cells[], index: number, cells: Cells, at: number): void {
  const from = index * move.readShift
  if (move.combine) reduce(move, parts, from, cells, at)
  else for (let p = 0; p < parts.length; p++) copy(move, parts[p], from, cells, at + p * move.writeShift)
}

function copy({ read, write }: Move, part: Cells, from: number, cells: Cells, at: number): void {
  for (let e = 0; e < read.length; e++) cells[at + write[e]] = part[from + read[e]]
}

function reduce({ read, write, combine }: Move, parts: readonly Cells[], from: number, cells: Cells, at: number): void {
  for (let e = 0; e < read.length; e++) {
    let total = parts[0][from + read[e]]
    for (let p = 1; p < parts.length; p++) {
      const value = parts[p][from + read[e]]
      total = combine === 'max' ? Math.max(total, value) : total + value
    }
    cells[at + write[e]] = total
  }
}
