/**
 * Collectives are one idea: every member hands in a part; member i reads from each part a piece (cut along one dim,
 * or not), and lays the pieces side by side (along one dim, or not) or adds them up, always in group order.
 *
 * A collective is read as late as it may be: when all members have started and the first of them waits. The result
 * is written at each member's own wait and is NaN until then, so a program that touches an operand or a result
 * in between computes something else, and shows it.
 */
import {
  type Axis,
  type Combine,
  coordinatesAlong,
  type Dim,
  elementsOf,
  isZigzagCut,
  type Mesh,
  partAlong,
} from '../../base/index.js'
import { type Cells, indexing, offsets, type Shape, sizeIn, strideOf } from '../../geometry/index.js'
import type { Collective, InstrOf } from '../../ir/index.js'

/** How pieces move: read[e] + i * readShift of part p goes to write[e] + p * writeShift of member i. */
export interface Move {
  readonly read: Int32Array
  readonly write: Int32Array
  readonly readShift: number
  readonly writeShift: number
  /** Where the dim along which is cut or laid is split in zigzag: what is read by member i, and where part p goes. */
  readonly reads?: readonly Int32Array[]
  readonly writes?: readonly Int32Array[]
  /** Only one part is read: that of the member so many before. */
  readonly by?: number
  /** How elements of different parts that land on one cell become one. */
  readonly combine?: Combine
}

/** Who takes part: the members of a group in their order, along these axes. */
export interface Members {
  readonly mesh: Mesh
  readonly axes: readonly Axis[]
  readonly count: number
}

/** `cut`: the dim along which a part is cut, `lay`: the dim along which pieces are laid. */
export function moveOf(
  [source, out]: readonly [Shape, Shape],
  members: Members,
  along: { cut?: string; lay?: string },
): Move {
  const { count } = members
  const shrink = (dims: readonly Dim[], name: string | undefined) =>
    dims.map(dim => (dim.name === name ? { name, size: dim.size / count } : dim))
  const piece = shrink(source.dims, along.cut)
  const expected = shrink(out.dims, along.lay)
  for (const { name, size } of piece)
    if (sizeIn(expected, name) !== size)
      throw new Error(`dim ${name}: pieces of ${size} do not fit a result of ${sizeIn(out.dims, name)} among ${count}`)
  if (elementsOf(expected) !== elementsOf(piece)) throw new Error('operand and result have different dims')
  const shift = (dims: readonly Dim[], name = '') => (sizeIn(piece, name) ?? 0) * strideOf(dims, name)
  return {
    read: offsets(piece, source.dims),
    write: offsets(piece, out.dims),
    readShift: shift(source.dims, along.cut),
    writeShift: shift(out.dims, along.lay),
    ...(isZigzag(members, along.cut) && { reads: tablesOf(members, piece, source.dims, along.cut!) }),
    ...(isZigzag(members, along.lay) && { writes: tablesOf(members, piece, out.dims, along.lay!) }),
  }
}

const isZigzag = ({ mesh, axes }: Members, dim: string | undefined): boolean => isZigzagCut(mesh, axes, dim)

/** For each member, where the elements of its piece lie in a tensor that has all pieces along a dim split in zigzag. */
function tablesOf({ mesh, axes, count }: Members, piece: readonly Dim[], dims: readonly Dim[], name: string) {
  const table = indexing(piece, dims)
  return Array.from({ length: count }, (_, member) => {
    const at = coordinatesAlong(mesh, axes, member)
    const parts = piece.map(dim => partAlong(mesh, dim.name === name ? axes : [], dim, at))
    const indexOf = table(parts)
    return Int32Array.from({ length: elementsOf(piece) }, (_, element) => indexOf(element))
  })
}

/** Parts of a line: cut from it, or laid side by side to make it. The last of them may reach beyond its end. */
function lineMove(line: Shape, part: Shape, { count: members }: Members, how: 'cut' | 'lay'): Move {
  const [all, size] = [elementsOf(line.dims), elementsOf(part.dims)]
  if (size !== Math.ceil(all / members))
    throw new Error(`parts of ${size} do not make a line of ${all} among ${members}`)
  const each = Int32Array.from({ length: size }, (_, i) => i)
  return { read: each, write: each, readShift: how === 'cut' ? size : 0, writeShift: how === 'lay' ? size : 0 }
}

/** Part i along a dim or, where none is named, part i of the line. */
export const cutMove = (shapes: readonly [Shape, Shape], members: Members, dim: string | undefined): Move =>
  dim === undefined ? lineMove(shapes[0], shapes[1], members, 'cut') : moveOf(shapes, members, { cut: dim })

/** Collectives whose pieces lie where shapes say. */
export type Shaped = Exclude<Collective, InstrOf<'all-dispatch' | 'all-combine'>>

type Moves = {
  [K in Shaped['kind']]: (c: Extract<Shaped, { kind: K }>, s: [Shape, Shape], members: Members) => Move
}

const moves: Moves = {
  'all-reduce': (c, shapes, members) => ({ ...moveOf(shapes, members, {}), combine: c.combine }),
  'all-gather': (c, shapes, members) =>
    c.dim === undefined ? lineMove(shapes[1], shapes[0], members, 'lay') : moveOf(shapes, members, { lay: c.dim }),
  'reduce-scatter': (c, shapes, members) => ({ ...cutMove(shapes, members, c.dim), combine: 'sum' }),
  'all-to-all': (c, shapes, members) => moveOf(shapes, members, { cut: c.to, lay: c.from }),
  shift: (c, shapes, members) => ({ ...moveOf(shapes, members, {}), by: c.by }),
  move: (_, shapes, members) => ({ ...moveOf(shapes, members, {}), by: 0 }),
}

export function prepareMove(mesh: Mesh, collective: Shaped, shapes: [Shape, Shape], count: number): Move {
  const move = moves[collective.kind] as (c: Shaped, s: [Shape, Shape], members: Members) => Move // total
  return move(collective, shapes, { mesh, axes: collective.group.axes, count })
}

/** Writes what member `index` gets from all parts. Beyond the end of a line zeros are read, and nothing is written. */
export function perform(move: Move, parts: readonly Cells[], index: number, out: Cells): void {
  const read = move.reads?.[index] ?? move.read
  const from = move.reads ? 0 : index * move.readShift
  if (move.by !== undefined) copy(move, parts[before(index, move.by, parts.length)], 0, out, 0)
  else if (move.combine) reduce({ ...move, read }, parts, from, out)
  else
    for (let p = 0; p < parts.length; p++) {
      const write = move.writes?.[p] ?? move.write
      copy({ read, write }, parts[p], from, out, move.writes ? 0 : p * move.writeShift)
    }
}

const before = (index: number, by: number, members: number): number => (((index - by) % members) + members) % members

function copy({ read, write }: Pick<Move, 'read' | 'write'>, part: Cells, from: number, out: Cells, at: number): void {
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
