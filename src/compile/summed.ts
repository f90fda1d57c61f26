/** Where an update is written, and what its ops must add up over ranks first. */
import {
  type Dim,
  flatAxes,
  type Layout,
  type OptimizerKind,
  type OptimizerOf,
  partialAxes,
  sizeOf,
} from '../base/index.js'
import type { Instr, Ref } from '../ir/index.js'
import type { ShardedMesh } from './layouts.js'
import type { SegmentWriter, Tensor } from './segment.js'
import type { ParamClass } from './tail.js'

/** Where an update is written. */
export interface UpdateSite {
  readonly w: SegmentWriter
  readonly s: ShardedMesh
  readonly param: ParamClass
  readonly state: Layout
  readonly gradient: Ref
  /** What it updates: the parameter or its master, and states. */
  readonly outs: readonly Ref[]
  readonly scalars: Readonly<Record<string, Ref>>
  readonly clip: number
}

export interface Directed {
  /** Of the op. */
  readonly settings: OptimizerOf<OptimizerKind>
  /** What it is given beside gradient and scalars. */
  readonly given: readonly Ref[]
}

/** How the sum of what lies as the state does is cut, if it has these dims: partial on every axis that cuts others. */
export function summedOver({ s, state }: UpdateSite, dims: readonly Dim[]): Layout {
  const kept = Object.entries(state.splits).filter(([name]) => dims.some(dim => dim.name === name))
  const others = Object.entries(state.splits).filter(([name]) => !dims.some(dim => dim.name === name))
  const axes = [...others.flatMap(([, axes]) => axes), ...flatAxes(state)].filter(axis => sizeOf(s.mesh, axis) > 1)
  return { splits: Object.fromEntries(kept), partial: Object.fromEntries(axes.map(axis => [axis, 'sum'])) }
}

export interface Summed {
  readonly tensor: Tensor
  readonly layout: Layout
}

/** What an op makes of this rank's part, summed over all ranks. As many at once as may be: they are small, and cost that ranks meet. */
export function summed(
  { w }: UpdateSite,
  sums: readonly Summed[],
  op: (outs: readonly Ref[]) => Instr,
): readonly Ref[] {
  const make = ({ tensor, layout }: Summed) => w.make(tensor.name, tensor, layout, 'workspace').ref
  const parts = sums.map(make)
  const made = sums.map(({ tensor, layout }, i) =>
    partialAxes(layout).length === 0 ? parts[i] : make({ tensor, layout: { ...layout, partial: {} } }),
  )
  w.emit(op(parts))
  for (const over of new Set(sums.map(({ layout }) => partialAxes(layout).join()).filter(axes => axes !== ''))) {
    const group = [...sums.keys()].filter(i => partialAxes(sums[i].layout).join() === over)
    const [ins, outs] = [parts, made].map(refs => group.map(i => refs[i]))
    w.emit({ kind: 'all-reduce', ins, outs, group: { axes: partialAxes(sums[group[0]].layout) }, combine: 'sum' })
    w.emit({ kind: 'wait', on: outs[0] })
  }
  return made
}
