/**
 * Where the buffers of a segment lie in its frames. What lies among all parts of a line covers the bytes of all of them,
 * and so does the whole side of a flat collective: peers move equal parts, padding included.
 */
import { elementsOf, heldElements, lineElements, type Mesh, sameDims, sameLayout } from '../../base/index.js'
import { type Instr, isCollective, isFlat, pairsOf, type Ref } from '../instr.js'
import { type Buffer, bytesPer, type Segment } from '../program.js'

/** Bytes of a role, where roles that share a frame are one. */
export interface Spot {
  readonly role: number
  readonly from: number
  readonly to: number
}

export interface BufferSpot extends Spot {
  /** Some part of the line ends in padding. */
  readonly padded: boolean
  /** The bytes behind the last element that belong to the buffer: what a scatter may fill with zeros. */
  readonly tail: Spot
}

export type Spots = Readonly<Record<Ref, BufferSpot>>

/** bind -> for each role the first role played by the same frame: [7, 9, 7] -> [0, 1, 0]. */
export const patternOf = (bind: readonly number[]): number[] => bind.map(frame => bind.indexOf(frame))

export const overlap = (a: Spot, b: Spot): boolean => a.role === b.role && a.from < b.to && b.from < a.to
export const sameStart = (a: Spot, b: Spot): boolean => a.role === b.role && a.from === b.from
export const sameSpot = (a: Spot, b: Spot): boolean => sameStart(a, b) && a.to === b.to

export function spotsOf(mesh: Mesh, { buffers, instrs }: Segment, pattern: readonly number[]): Spots {
  const lines = new Map(instrs.flatMap(linesOf).map(({ whole, part }) => [whole, buffers[part]]))
  const spotOf = (ref: Ref, buffer: Buffer): BufferSpot => {
    const { dtype, dims, layout, role, offset, inside } = buffer
    const line = lines.get(ref) ?? (inside ? buffer : undefined)
    const held = heldElements(mesh, dims, layout)
    const at = (n: number) => offset + n * bytesPer[dtype]
    const to = at(line ? lineElements(mesh, line.dims, line.layout) : held)
    const padded = lineElements(mesh, dims, layout) > elementsOf(dims)
    return { role: pattern[role], from: offset, to, padded, tail: { role: pattern[role], from: at(held), to } }
  }
  return Object.fromEntries(Object.entries(buffers).map(([ref, buffer]) => [ref, spotOf(ref, buffer)]))
}

/** The whole and the part of each pair of a flat collective. */
function linesOf(instr: Instr): { whole: Ref; part: Ref }[] {
  if (!isCollective(instr) || !isFlat(instr)) return []
  return pairsOf(instr).map(({ in: x, out }) =>
    instr.kind === 'all-gather' ? { whole: out, part: x } : { whole: x, part: out },
  )
}

/** The part of the one is a slice of the other. */
export function isViewOf(view: Buffer, whole: Buffer): boolean {
  const { flat: _, ...layout } = view.layout
  const alike = view.dtype === whole.dtype && sameDims(view.dims, whole.dims) && sameLayout(layout, whole.layout)
  return view.inside === true && !whole.inside && alike
}
