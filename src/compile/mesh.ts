/**
 * The mesh of a plan: its axes in their rank order, tp in two factors where key-value heads are fewer, every factor cut further
 * where the grid of experts cuts it; the sequence in zigzag over cp.
 */
import { type Axis, gcd, type Mesh, type MeshAxis } from '../base/index.js'
import { commonFactors, expertGrid, isZigzag, type Plan } from '../plan/index.js'
import type { ExpertAxes } from './layouts.js'

export type MeshPlan = Pick<Plan, MeshAxis | 'etp' | 'order' | 'zigzag'>
type Sizes = Readonly<Record<string, number>>
type AxisSize = Mesh['axes'][number]

export function meshOf(plan: MeshPlan, dims: Sizes): Mesh {
  const axes = axesOf(plan, dims).map(({ name, size }) => ({ name, size }))
  return isZigzag(plan, dims.seq) ? { axes, zigzag: { dim: 'seq', axis: 'cp' } } : { axes }
}

/** Which axes of that mesh the experts are split over. */
export function expertAxesOf(plan: MeshPlan, dims: Sizes): ExpertAxes {
  const axes = axesOf(plan, dims)
  const ofExperts = (expert: string) =>
    axes.filter(axis => axis.expert === expert && axis.size > 1).map(({ name }) => name)
  return { ep: ofExperts('ep'), etp: ofExperts('etp') }
}

/** Fastest first. A model without experts, or a plan that does not split them, has the plan's own axes. */
function axesOf(plan: MeshPlan, dims: Sizes): readonly (AxisSize & { expert?: string })[] {
  const names = plan.order.split('-') as MeshAxis[] // checked with the plan
  const own = names.flatMap(name => (name === 'tp' ? factorsOf(plan.tp, dims.kvHeads) : [{ name, size: plan[name] }]))
  if (dims.expert === undefined || plan.ep * plan.etp === 1) return own
  const [dense, pp] = [
    own.filter(({ name }) => name !== 'pp' && name !== 'ep'),
    own.filter(({ name }) => name === 'pp'),
  ]
  const common = commonFactors(dense, expertGrid(plan))
  if (!common) throw new Error('internal: the grids of the plan have no common factors')
  const pieces = dense.flatMap(axis =>
    named(
      axis,
      common.filter(factor => factor.dense === axis.name),
    ),
  )
  return [...pieces, ...pp]
}

/** The pieces of an axis, fastest first; the major one has the lowest number. */
function named({ name, size }: AxisSize, pieces: readonly { size: number; expert: string }[]) {
  if (pieces.length === 0) return [{ name, size }]
  if (pieces.length === 1) return [{ name, size, expert: pieces[0].expert }]
  const factor = name.includes('.') ? name : `${name}.0`
  return pieces.map((piece, i) => ({
    name: `${factor}.${pieces.length - 1 - i}` as Axis, // a factor of a factor
    ...piece,
  }))
}

/** tp = tp.0 x tp.1 where key-value heads are too few for tp: tp.0 = gcd(tp, kvHeads). */
export function factorsOf(tp: number, kvHeads: number | undefined): AxisSize[] {
  const common = kvHeads === undefined ? tp : gcd(tp, kvHeads)
  if (common === tp) return [{ name: 'tp', size: tp }]
  return [
    { name: 'tp.1', size: tp / common }, // fastest first
    { name: 'tp.0', size: common },
  ]
}
