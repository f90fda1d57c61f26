/** Who a rank works with: the members of its groups, and its peers along the pipeline. */
import { type Axis, coordinatesOf, groupOf, type Mesh, type Rank, rankAt } from '../base/index.js'
import type { Group } from '../ir/index.js'

/** The ranks a collective of `rank` brings together, in group order: stages first, then the axes; and a name for them. */
export function membersOf(mesh: Mesh, rank: Rank, { axes, stages }: Group): { members: Rank[]; key: string } {
  const others = axes.filter((axis: Axis) => axis !== 'pp')
  const members = stages
    ? stages.flatMap(pp => groupOf(mesh, peerOf(mesh, rank, pp), others))
    : groupOf(mesh, rank, axes)
  if (!members.includes(rank)) throw new Error(`rank ${rank} is not on the group's stages ${stages?.join(' ')}`)
  return { members, key: members.toSorted((a, b) => a - b).join(' ') }
}

/** The rank at the same place on every axis but pp. */
export const peerOf = (mesh: Mesh, rank: Rank, pp: number): Rank => rankAt(mesh, { ...coordinatesOf(mesh, rank), pp })
