/**
 * The time of a collective of ranks: latency for each step of the algorithm, and bytes over the slowest link on the way.
 * What a group gets of a level's ports is its share: all groups of the same shape meet at the same time, and those of
 * one domain go out through the same ports. Of the algorithms that fit, the best is taken, as libraries do.
 */
import { type Cluster, type CollectiveKind, reachOf } from '../cluster/index.js'
import type { Collective } from './kernel.js'
import { interpolate } from './measured.js'
import { type Hop, hopsOf } from './route.js'

/** Seconds before the first byte moves: the launch, and ranks that do not arrive together. */
export const startSeconds = 20e-6

/** The predicted time of a collective, in seconds. */
export function priceCollective(collective: Collective, cluster: Cluster): number {
  const { kind, bytes, group } = collective
  if (group.size <= 1 || bytes === 0) return 0
  const timed = measuredSeconds(collective, cluster)
  if (timed !== undefined) return timed
  const hops = hopsOf(group, cluster)
  return startSeconds + Math.min(...algorithms[kind].map(({ seconds }) => seconds(bytes, group.size, hops)))
}

/** Where the group stays inside a domain in which such collectives were timed. */
export function measuredSeconds({ kind, bytes, group }: Collective, cluster: Cluster): number | undefined {
  const reach = reachOf(cluster.topology, group)
  const [only, ...others] = reach.kind === 'tree' ? reach.levels.filter(({ parts }) => parts > 1) : []
  if (only === undefined || others.length > 0) return undefined
  const points = (only.level.measured ?? []).filter(point => point.kind === kind && point.ranks === group.size)
  if (points.length === 0) return undefined
  const sorted = points.map(point => [point.bytes, point.seconds] as const).sort(byFirst)
  // Fewer bytes than were ever timed take as long as the fewest.
  const alone = interpolate(sorted, bytes, sorted[0][1])
  // Threads that took turns while they were timed had less to do than it took: how they take turns is not priced here.
  return cluster.cores === undefined ? alone : alone * Math.min(1, cluster.cores / group.size)
}

const byFirst = (a: readonly [number, number], b: readonly [number, number]): number => a[0] - b[0]

/** How ranks bring a collective about. */
export interface Algorithm {
  readonly name: string
  readonly words: string
  readonly seconds: (bytes: number, size: number, hops: readonly Hop[]) => number
  /** Bytes out of one part over the links of a hop. */
  readonly carried: (bytes: number, size: number, hop: Hop, outermost: boolean) => number
}

/** Everything passes around once each round: n-1 steps of an n-th. */
const ring = (rounds: 1 | 2): Algorithm => ({
  name: 'ring',
  words: `${rounds === 2 ? 'twice' : 'once'} around the ring, 1/n of the bytes per step`,
  seconds: (bytes, size, hops) => {
    const around = sum(hops, hop => hop.steps * hop.link.latency)
    const step = slowest(hops, hop => transfer(bytes / size, hop))
    return rounds * (size - 1) * (around / size + step)
  },
  carried: (bytes, size) => (rounds * (size - 1) * bytes) / size,
})

/** Sums go up a tree and come down again, half of the bytes on each of two trees: few steps, a little less bandwidth. */
const tree: Algorithm = {
  name: 'tree',
  words: 'double binary tree, half of the bytes on each',
  seconds: (bytes, size, hops) =>
    sum(hops, hop => 2 * Math.log2(hop.fan) * hop.link.latency) +
    slowest(hops, hop => transfer(tree.carried(bytes, size, hop, false), hop)) / treeShare,
  carried: (bytes, _, { fan }) => (2 * bytes * (fan - 1)) / fan,
}
const treeShare = 0.9

/** Level by level: reduce-scatter inside, all-reduce across, all-gather inside. */
const hierarchical: Algorithm = {
  name: 'hierarchical',
  words: 'reduce-scatter inside, all-reduce across, all-gather inside',
  seconds: (bytes, _, hops) =>
    sum(hops, hop => 2 * (hop.fan - 1) * (hop.link.latency + transfer(bytes / hop.fan, hop))),
  carried: (bytes, _, { fan }) => (2 * (fan - 1) * bytes) / fan,
}

/** From one rank to all, or their sum to one, in pieces that follow each other along a chain. */
const chain: Algorithm = {
  name: 'chain',
  words: 'pipelined chain, in chunks',
  seconds: (bytes, _, hops) =>
    sum(hops, hop => hop.steps * hop.link.latency) + slowest(hops, hop => transfer(bytes, hop)),
  carried: bytes => bytes,
}

/** Every rank sends an n-th of what it holds to every other; what stays inside a part does not go through its ports. */
const pairwise: Algorithm = {
  name: 'pairwise',
  words: 'every rank to every other, 1/n of its bytes each',
  seconds: (bytes, size, hops) =>
    slowest(hops, hop => (hop.fan - 1) * hop.link.latency + transfer(pairwise.carried(bytes, size, hop, false), hop)),
  carried: (bytes, size, { inner }) => (inner * bytes * (size - inner)) / size,
}

/** Between the root and every other rank, an n-th of the bytes each. The root's own n-th does not leave it. */
const direct: Algorithm = {
  name: 'direct',
  words: 'between the root and every other rank directly, 1/n of the bytes each',
  seconds: (bytes, size, hops) =>
    slowest(hops, hop => (hop.fan - 1) * hop.link.latency + transfer(direct.carried(bytes, size, hop, false), hop)),
  carried: (bytes, size, { inner }) => (bytes * (size - inner)) / size,
}

/** One message to the next rank, over the outermost link between them. */
const message: Algorithm = {
  name: 'message',
  words: 'one message to the next rank, over the outermost link between them',
  seconds: (bytes, _, hops) => {
    const last = hops[hops.length - 1]
    return last.link.latency + transfer(bytes, last)
  },
  carried: (bytes, _, __, outermost) => (outermost ? bytes : 0),
}

const algorithms: Readonly<Record<CollectiveKind, readonly Algorithm[]>> = {
  'all-reduce': [ring(2), tree, hierarchical],
  'all-gather': [ring(1)],
  'reduce-scatter': [ring(1)],
  'all-to-all': [pairwise],
  broadcast: [chain],
  send: [message],
  reduce: [chain],
  gather: [direct],
  scatter: [direct],
}

export const algorithmsOf = (kind: CollectiveKind): readonly Algorithm[] => algorithms[kind]

const transfer = (bytes: number, hop: Hop): number => (bytes + hop.link.half) / hop.bandwidth
const sum = (hops: readonly Hop[], of: (hop: Hop) => number): number => hops.reduce((total, hop) => total + of(hop), 0)
const slowest = (hops: readonly Hop[], of: (hop: Hop) => number): number => Math.max(...hops.map(of))
