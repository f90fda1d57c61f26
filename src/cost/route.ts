/** The links a group crosses, as its algorithms see them: one hop for each level of a tree, one for a torus, one for what joins slices. */
import { type Cluster, type LevelReach, type Link, reachOf, type TorusReach } from '../cluster/index.js'
import type { Members } from './kernel.js'

export interface Hop {
  /** What the links join: 'node', 'fabric'; of a torus the torus, or slices. */
  readonly level: string
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
  const reach = reachOf(topology, group)
  return reach.kind === 'torus' ? torusHops(group, reach) : treeHops(group, reach.levels)
}

function treeHops({ size }: Members, levels: readonly LevelReach[]): Hop[] {
  const hops: Hop[] = []
  levels.forEach(({ level: { link, name }, parts, members, bandwidth }, i) => {
    if (parts <= 1) return
    const inner = i === 0 ? 1 : levels[i - 1].members
    const steps = size / inner - (i === levels.length - 1 ? 0 : size / members)
    hops.push({
      level: name,
      link,
      fan: parts,
      inner,
      steps: Math.max(1, steps),
      bandwidth: bandwidth * link.efficiency,
    })
  })
  return hops
}

/** Rings along every side at once, both ways round where the side closes; spaced groups share the links between. */
function torusHops({ size }: Members, { link, members, sides, beyond }: TorusReach): Hop[] {
  const lanes = sides.reduce((sum, { ring, spacing }) => sum + (ring ? 2 : 1) / spacing, 0)
  const inside = { level: 'torus', link, fan: members, inner: 1, bandwidth: lanes * link.bandwidth * link.efficiency }
  if (!beyond) return [{ ...inside, steps: size }]
  const { link: network, parts, bandwidth } = beyond
  const outside = { level: 'slices', link: network, fan: parts, inner: members, steps: parts }
  return [
    ...(members > 1 ? [{ ...inside, steps: size - parts }] : []),
    { ...outside, bandwidth: bandwidth * network.efficiency },
  ]
}
