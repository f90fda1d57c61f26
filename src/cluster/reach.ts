/**
 * Which links a group of ranks crosses, and with how many others it shares them. A group is `size` ranks, `stride`
 * apart; all groups of that shape, which together are the whole cluster, meet at the same time.
 *
 * On a tree, level by level: 16 ranks side by side on nodes of 8 are 2 parts of 8 members; the 8 meet inside the node,
 * and the 2 parts through the NICs of their nodes, which they have to themselves. 2 ranks 8 apart are 2 parts of 1
 * member, and 8 such groups share the NICs of a node.
 *
 * On a torus, dim by dim: the group lies on a side of `members` devices, `spacing` apart, along each dim it covers. What leaves a slice
 * goes through the ports of its devices, as it leaves a node.
 */
import { gcd } from '../base/index.js'
import { type Level, type Link, sliceSize, type Topology, type Torus } from './cluster.js'

export interface Group {
  readonly size: number
  readonly stride: number
}

export type Reach = { readonly kind: 'tree'; readonly levels: readonly LevelReach[] } | TorusReach

export interface TorusReach {
  readonly kind: 'torus'
  readonly link: Link
  /** Members of the group in one slice, rounded up, and where these lie. */
  readonly members: number
  readonly sides: readonly Side[]
  /** Where the group has members in several slices: how many, and bytes per second, one way, in and out of one. */
  readonly beyond?: { readonly link: Link; readonly parts: number; readonly bandwidth: number }
}

/** What happens at one level, for the group that is worst off. */
export interface LevelReach {
  readonly level: Level
  /** Domains of this level that hold members of the group. */
  readonly domains: number
  /** Members of the group in one of them, rounded up. */
  readonly members: number
  /** Parts that meet at this level inside one domain: members at the first level, domains of the level below after it. 1: nothing crosses these links. */
  readonly parts: number
  /** Groups that share the ports of one part. */
  readonly groups: number
  /** Bytes per second, one way, in and out of one part, for each of the groups that share it. Not yet times the link's efficiency. */
  readonly bandwidth: number
}

export interface Side {
  /** Devices along this dim of the torus. */
  readonly length: number
  readonly members: number
  /** Devices from one member to the next; so many groups share each link. */
  readonly spacing: number
  /** The last member has a link (through others, if spaced) to the first. */
  readonly ring: boolean
}

export const reachOf = (topology: Topology, group: Group): Reach =>
  topology.kind === 'tree' ? { kind: 'tree', levels: levelsOf(topology.levels, group) } : slicesOf(topology, group)

function levelsOf(levels: readonly Level[], group: Group): LevelReach[] {
  const reached: LevelReach[] = []
  for (const level of levels) {
    const below = reached.at(-1)
    // The last level holds them all, also groups that do not tile it.
    const domains = reached.length === levels.length - 1 ? 1 : domainsOf(group, level.size)
    const members = Math.ceil(group.size / domains)
    const groups = below ? below.level.size / below.members : 1
    const over = below ? below.level.oversubscription : 1
    reached.push({
      level,
      domains,
      members,
      parts: below ? Math.ceil(below.domains / domains) : members,
      groups,
      bandwidth: (level.ports * level.link.bandwidth) / over / groups,
    })
  }
  return reached
}

function slicesOf(torus: Torus, group: Group): TorusReach {
  const { link, slices } = torus
  const parts = slices ? Math.min(slices.count, domainsOf(group, sliceSize(torus))) : 1
  const members = Math.ceil(group.size / parts)
  const inside = { size: members, stride: group.stride }
  const of = { kind: 'torus', link, members, sides: members > 1 ? sidesOf(torus, inside) : [] } as const
  if (!slices || parts === 1) return of
  // Groups that lie in the same slices share their ports: each has those of its own members.
  return { ...of, beyond: { link: slices.link, parts, bandwidth: members * slices.link.bandwidth } }
}

/** How many domains of `domain` neighbouring ranks the group touches that touches most: groups need not be aligned. */
function domainsOf({ size, stride }: Group, domain: number): number {
  if (stride >= domain) return size
  // Groups start at multiples of size x stride, plus less than stride: the latest start within a domain.
  const grain = gcd(size * stride, domain)
  const start = domain - grain + Math.min(stride, grain) - 1
  return Math.floor((start + (size - 1) * stride) / domain) + 1
}

/** The last dim is that of neighbouring ranks. */
function sidesOf(torus: Torus, { size, stride }: Group): Side[] {
  const { dims, wrapsFrom } = torus
  const sides: Side[] = []
  let [left, step] = [size, stride]
  for (const length of [...dims].reverse()) {
    // Steps of whole rows leave this dim alone.
    if (left > 1 && step < length) {
      const members = Math.min(left, Math.ceil(length / step))
      sides.push({ length, members, spacing: step, ring: members * step >= length && length >= wrapsFrom })
      left = Math.ceil(left / members)
      step = 1
    } else step = Math.max(1, Math.ceil(step / length))
  }
  return sides.length > 0 || size === 1 ? sides : askew(torus, { size, stride })
}

/** Members that no row holds, as the first and the last stage of a pipeline: along every dim as far as they differ in it. */
function askew({ dims, wrapsFrom }: Torus, { size, stride }: Group): Side[] {
  const sides: Side[] = []
  let step = stride
  for (const length of [...dims].reverse()) {
    const apart = step % length
    step = Math.floor(step / length)
    const spacing = length >= wrapsFrom ? Math.min(apart, length - apart) : apart
    if (apart > 0) sides.push({ length, members: size, spacing, ring: false })
  }
  return sides
}
