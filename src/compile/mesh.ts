/**
 * The mesh of a plan: its axes in their rank order, factored where heads are split by several, every factor cut further where the
 * grid of experts cuts it; the sequence, or each document of it, in zigzag over the major factor of cp.
 */
import type { Axis, Mesh, MeshAxis } from '../base/index.js'
import { commonFactors, contextOf, dataGroups, expertGrid, headSplit, type Plan, zigzagOf } from '../plan/index.js'
import { type ExpertAxes, type ShardedMesh, shardedOn } from './layouts.js'

export type MeshPlan = Pick<Plan, MeshAxis | 'etp' | 'rankOrder' | 'zigzag' | 'attention' | 'shard'>
type Sizes = Readonly<Record<string, number>>
type AxisSize = Mesh['axes'][number]

/** The mesh of a plan, and how experts and replicas see its axes. */
export const shardedMeshOf = (plan: MeshPlan & Pick<Plan, 'sequenceParallel'>, dims: Sizes): ShardedMesh =>
  shardedOn(meshOf(plan, dims), plan, expertAxesOf(plan, dims), replicaAxesOf(plan, dims))

function meshOf(plan: MeshPlan, dims: Sizes): Mesh {
  const axes = axesOf(plan, dims).map(({ name, size }) => ({ name, size }))
  const axis = factorsOf(plan, dims.kvHeads).cp.at(-1)!.name
  const zigzag = zigzagOf(plan, dims.seq)
  if (zigzag === undefined) return { axes }
  return { axes, zigzag: { dim: 'seq', axis, ...(zigzag === 'documents' && { documents: true }) } }
}

/** Which axes of that mesh the experts are split over. */
function expertAxesOf(plan: MeshPlan, dims: Sizes): ExpertAxes {
  const axes = axesOf(plan, dims)
  const ofExperts = (expert: string) =>
    axes.filter(axis => axis.expert === expert && axis.size > 1).map(({ name }) => name)
  return { ep: ofExperts('ep'), etp: ofExperts('etp') }
}

/** Axes of that mesh across which data-parallel groups are replicas (HSDP): ZeRO does not shard over them. */
const replicaAxesOf = (plan: MeshPlan, dims: Sizes): Axis[] =>
  axesOf(plan, dims)
    .filter(({ of, name, size }) => size > 1 && (of ?? name) === factorsOf(plan, dims.kvHeads).replicas)
    .map(({ name }) => name)

/** Fastest first. A model without experts, or a plan that does not split them, has the plan's own axes. `of`: the axis it is a piece of. */
function axesOf(plan: MeshPlan, dims: Sizes): readonly (AxisSize & { expert?: string; of?: Axis })[] {
  const names = plan.rankOrder.split('-') as MeshAxis[] // checked with the plan
  const factored = factorsOf(plan, dims.kvHeads)
  const own = names.flatMap(name =>
    name === 'tp' || name === 'cp' || name === 'dp' ? factored[name] : [{ name, size: plan[name] }],
  )
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
    ).map(piece => ({ ...piece, of: axis.name })),
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

/** The axes of a plan that are one in the plan and several in the mesh, each fastest first. */
export interface FactoredAxes {
  readonly tp: readonly AxisSize[]
  readonly cp: readonly AxisSize[]
  readonly dp: readonly AxisSize[]
  /** The factor of dp, or dp, whose ranks are replicas. */
  readonly replicas?: Axis
}

/**
 * tp = tp.0 x tp.1 where key-value heads are too few for tp: tp.0 = gcd(tp, kvHeads). cp = cp.0 x cp.1 x cp.2 where ranks
 * exchange sequence for heads: cp.2 takes key-value heads, cp.1 groups of queries where those are too few.
 * dp = dp.0 x dp.1 under HSDP: dp.1 are the ranks of a group, among which ZeRO shards, dp.0 the groups.
 */
export function factorsOf(
  plan: Pick<Plan, 'tp' | 'cp' | 'dp' | 'attention' | 'shard'>,
  kvHeads: number | undefined,
): FactoredAxes {
  const { outer, ulysses: exchanging } = contextOf(plan)
  const { tp, ulysses } = headSplit(plan.tp, exchanging, kvHeads)
  const several = (...axes: readonly AxisSize[]) => axes.filter(({ size }) => size > 1)
  return {
    ...groupsOf(plan),
    tp:
      tp.group === 1
        ? [{ name: 'tp', size: plan.tp }]
        : [
            { name: 'tp.1', size: tp.group },
            { name: 'tp.0', size: tp.kvHeads },
          ],
    cp:
      exchanging === 1
        ? [{ name: 'cp', size: plan.cp }]
        : several(
            { name: 'cp.2', size: ulysses.kvHeads },
            { name: 'cp.1', size: ulysses.group },
            { name: 'cp.0', size: outer },
          ),
  }
}

function groupsOf(plan: Pick<Plan, 'dp' | 'shard'>): Pick<FactoredAxes, 'dp' | 'replicas'> {
  const { shard, groups } = dataGroups(plan)
  if (groups === 1) return { dp: [{ name: 'dp', size: plan.dp }] }
  if (shard === 1) return { dp: [{ name: 'dp', size: plan.dp }], replicas: 'dp' }
  return {
    dp: [
      { name: 'dp.1', size: shard },
      { name: 'dp.0', size: groups },
    ],
    replicas: 'dp.0',
  }
}
