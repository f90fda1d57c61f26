/**
 * What a kernel is. It is made once from shapes (tables of offsets, nothing of a rank), and then called with the
 * cells of a rank and the places of its operands. Sums run in ascending index order in f64 and are rounded when
 * they are stored, so an f32 run differs from an f64 run by its stores alone.
 */
import type { Coordinates, OpKind, OpOf } from '../../base/index.js'
import type { Cells, Place, Shape } from '../../geometry/index.js'

/** When and for whom a kernel runs. */
export interface Moment {
  readonly seed: number
  readonly step: number
  /** The name of the block the segment is called for; empty outside blocks. */
  readonly block: string
  /** The parameter the segment is called for, if there is one. */
  readonly param?: string
  /** -1 for what happens once a step. */
  readonly microbatch: number
  /** The rank's place on the mesh. */
  readonly at: Coordinates
}

export type Kernel = (cells: Cells, ins: readonly Place[], outs: readonly Place[], moment: Moment) => void

export type Prepare<K extends OpKind> = (op: OpOf<K>, ins: readonly Shape[], outs: readonly Shape[]) => Kernel
