/**
 * Which links a group crosses. A group of `size` ranks, `stride` apart, has so many members inside a domain of each
 * level; where it has members in several domains it goes through the ports of the level above, which it shares with the
 * other groups of the domain.
 */
import type { Cluster, Level, Link } from '../cluster/index.js'
import type { Members } from './kernel.js'

export interface Hop {
  readonly link: Link
  /** Parts of the group that meet here, and members inside each part. */
  readonly fan: number
  readonly inner: number
  /** Links of this kind on a ring through all members. */
  readonly steps: number
  /** Bytes per second out of one part, of what the group gets: its share of the ports. */
  readonly bandwidth: number
}

/** Innermost first; at least one for a group of two or more. */
export function hopsOf(group: Members, { topology }: Cluster): readonly Hop[] {
  if (topology.kind === 'torus') return [torusHop(group, topology)]
  const hops: Hop[] = []
  let below = { size: 1, members: 1 }
  topology.levels.forEach((level, i) => {
    const outermost = i === topology.levels.length - 1
    const members = outermost ? group.size : membersIn(level.size, group)
    if (members > below.members) hops.push(treeHop(group, level, below, members))
    below = { size: level.size, members }
  })
  return hops
}

const membersIn = (domain: number, { size, stride }: Members): number =>
  Math.max(1, Math.min(size, Math.floor(domain / stride)))

function treeHop(group: Members, level: Level, below: { size: number; members: number }, members: number): Hop {
  const { link, ports, oversubscription } = level
  const sharing = Math.max(1, below.size / below.members)
  return {
    link,
    fan: members / below.members,
    inner: below.members,
    steps: group.size / below.members - (members === group.size ? 0 : group.size / members),
    bandwidth: (ports * link.bandwidth * link.efficiency) / (oversubscription * sharing),
  }
}

/** Rings along every dim at once, both ways round where the dim closes; members that are not neighbours share links. */
function torusHop({ size, stride }: Members, torus: Extract<Cluster['topology'], { kind: 'torus' }>): Hop {
  const { link, dims, wrapsFrom } = torus
  let bandwidth = 0
  let left = size
  let before = 1
  for (const dim of dims) {
    const spacing = Math.max(1, Math.min(dim, stride / before))
    const along = Math.min(left, Math.floor(dim / spacing))
    if (along > 1) {
      bandwidth += ((dim >= wrapsFrom && along * spacing >= dim ? 2 : 1) * link.bandwidth * link.efficiency) / spacing
      left /= along
    }
    before *= dim
  }
  return { link, fan: size, inner: 1, steps: size, bandwidth: bandwidth || link.bandwidth * link.efficiency }
}
