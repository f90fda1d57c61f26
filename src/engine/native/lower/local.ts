/** What a rank holds of the buffers of a segment. */
import {
  type Coordinates,
  type DimPart,
  elementsOf,
  flatAxes,
  heldElements,
  indexAlong,
  isZigzagCut,
  type Mesh,
  partAlong,
  partStart,
  sizeOfAll,
  zigzagAxes,
} from '../../../base/index.js'
import { acrossMicrobatches, lineShape, partsOf, type Shape, wholeDims } from '../../../geometry/index.js'
import { type Buffer, bytesPer, type Program, type Ref, type Segment } from '../../../ir/index.js'
import type { Site } from './site.js'

/** Bytes of the parts before its own, where a part lies among all. */
export const bytesBefore = (mesh: Mesh, { dtype, dims, layout, inside }: Buffer, at: Coordinates): number =>
  inside ? partStart(mesh, dims, layout, at) * bytesPer[dtype] : 0

export type Shapes = (segment: Segment) => Readonly<Record<Ref, Shape>>

/** Shapes of every buffer of a segment, made once for all ranks. */
export function shapesIn({ mesh, microbatches }: Program): Shapes {
  const known = new Map<Segment, Readonly<Record<Ref, Shape>>>()
  const shape = ({ dims, layout }: Buffer): Shape =>
    flatAxes(layout).length > 0
      ? lineShape(heldElements(mesh, dims, layout), dims)
      : { dims, whole: acrossMicrobatches(wholeDims(mesh, dims, layout), microbatches) }
  return segment => {
    const shapes =
      known.get(segment) ??
      Object.fromEntries(Object.entries(segment.buffers).map(([ref, buffer]) => [ref, shape(buffer)]))
    known.set(segment, shapes)
    return shapes
  }
}

/** The batch dim of one microbatch is a run of the global batch's. */
export function partsIn({ mesh }: Program, { dims, layout }: Buffer, at: Coordinates, microbatch: number): DimPart[] {
  const samples = wholeDims(mesh, dims, layout)
  return partsOf(mesh, dims, layout, at).map((part, i) =>
    dims[i].name === 'batch' ? { ...part, origin: part.origin + Math.max(0, microbatch) * samples[i].size } : part,
  )
}

type OnMesh = 'mesh' | 'place' | 'part' | 'index' | 'ranksAlong' | 'isZigzag' | 'behindZigzag' | 'isFirst'

/** What a site knows of its rank's place. */
export const placedOn = (mesh: Mesh, place: Coordinates): Pick<Site, OnMesh> => ({
  ...{ mesh, place },
  part: (axes, dim) => partAlong(mesh, axes, dim, place),
  index: axes => indexAlong(mesh, axes, place),
  ranksAlong: axes => sizeOfAll(mesh, axes),
  isZigzag: (axes, dim) => isZigzagCut(mesh, axes, dim),
  behindZigzag: axes => axes.slice(zigzagAxes(mesh, axes).length),
  isFirst: axes => axes.every(axis => (place[axis] ?? 0) === 0),
})

/** The gradients of queries are summed in f32 until all keys were seen, head by head, and rounded then. */
export function sumsBytes({ segments }: Program, shapes: Shapes): number {
  const needs = Object.values(segments).flatMap(segment =>
    segment.instrs.flatMap(instr => {
      if (instr.kind !== 'attentionGrad' || bytesPer[segment.buffers[instr.outs[0]].dtype] === 4) return []
      const { dims } = shapes(segment)[instr.outs[0]]
      return bytesPer.f32 * elementsOf(dims.filter(({ name }) => name !== 'batch' && name !== 'kvHeads'))
    }),
  )
  return Math.max(0, ...needs)
}

/** What is made once, by what it is made of. */
export function remembering(): Site['once'] {
  const known = new WeakMap<object, unknown>()
  return <T>(key: object, make: () => T): T => {
    const found = known.get(key) as T | undefined // one instruction is asked for one kind of thing only
    if (found !== undefined) return found
    const made = make()
    known.set(key, made)
    return made
  }
}
