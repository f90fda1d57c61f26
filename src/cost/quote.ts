/**
 * A collective priced in the open: every algorithm the model knows, what it puts on the wire, how much of its time is latency
 * and how much bandwidth, and the rates that nccl-tests would print (GB is 1e9 bytes).
 */
import { error, ProblemsError } from '../base/index.js'
import type { Cluster, CollectiveKind, LinkKind } from '../cluster/index.js'
import { algorithmsOf, measuredSeconds, priceCollective, startSeconds } from './collective.js'
import type { Collective } from './kernel.js'
import { type Hop, hopsOf } from './route.js'

/** The cost breakdown of a collective: every algorithm considered, steps, bytes and bandwidths. */
export interface Quote {
  readonly collective: Collective
  /** Time of the chosen algorithm; 0 for a single rank. */
  readonly seconds: number
  /** Bytes/s: size over time, and that times `busFactor`, as nccl-tests define them. */
  readonly algbw: number
  readonly busbw: number
  readonly busFactor: number
  /** Time before the first byte: the launch, and ranks that do not arrive together. */
  readonly start: number
  /** Quickest first. */
  readonly offers: readonly Offer[]
  /** `measured`: such collectives were measured on this cluster, so no algorithm is modeled. */
  readonly chosen: Offer['algorithm'] | 'measured'
  readonly hops: readonly QuotedHop[]
  /** The upper bound of bus bandwidth. */
  readonly mostBusbw: number
}

export interface Offer {
  readonly algorithm: string
  /** In words: who sends what to whom. */
  readonly words: string
  readonly seconds: number
  /** Seconds of steps of no bytes, and of the bytes alone. */
  readonly latency: number
  readonly transfer: number
  /** Bytes out of one part over each kind of link, innermost first. */
  readonly carried: readonly number[]
}

/** A kind of link on the way, innermost first. */
export interface QuotedHop {
  readonly level: string
  readonly link: LinkKind
  /** Parts that meet here, of so many ranks each. */
  readonly fan: number
  readonly inner: number
  readonly latency: number
  /** Bytes per second out of one part, one way, of what the group gets and long messages reach. */
  readonly bandwidth: number
}

/** What nccl-tests multiplies the algorithm bandwidth with (its PERFORMANCE.md). */
const busFactors: Readonly<Record<CollectiveKind, (ranks: number) => number>> = {
  'all-reduce': n => (2 * (n - 1)) / n,
  'all-gather': n => (n - 1) / n,
  'reduce-scatter': n => (n - 1) / n,
  'all-to-all': n => (n - 1) / n,
  broadcast: () => 1,
  send: () => 1,
  reduce: () => 1,
  gather: n => (n - 1) / n,
  scatter: n => (n - 1) / n,
}

/** What a rank sends in the best algorithm, over the bytes of the collective. */
export const busFactorOf = (kind: CollectiveKind, ranks: number): number => (ranks > 1 ? busFactors[kind](ranks) : 0)

/** The cost breakdown of a collective, with the algorithm that the cost model picks. */
export function quote(collective: Collective, cluster: Cluster): Quote {
  const { kind, bytes, group } = collective
  const hops = group.size > 1 ? hopsOf(group, cluster) : []
  const seconds = priceCollective(collective, cluster)
  const busFactor = busFactorOf(kind, group.size)
  const algbw = seconds > 0 ? bytes / seconds : 0
  const offers = hops.length === 0 ? [] : offersOf(collective, hops)
  const timed = hops.length > 0 && measuredSeconds(collective, cluster) !== undefined
  return {
    ...{ collective, seconds, algbw, busbw: algbw * busFactor, busFactor, start: startSeconds, offers },
    chosen: timed ? 'measured' : (offers[0]?.algorithm ?? 'none'),
    hops: hops.map(({ level, link, fan, inner, bandwidth }) => ({
      ...{ level, link: link.kind, fan, inner, latency: link.latency, bandwidth },
    })),
    mostBusbw: mostBusbw(collective, hops, busFactor),
  }
}

function offersOf({ kind, bytes, group }: Collective, hops: readonly Hop[]): Offer[] {
  const endless = hops.map(hop => ({ ...hop, bandwidth: Number.POSITIVE_INFINITY }))
  return algorithmsOf(kind)
    .map(({ name, words, seconds, carried }) => {
      const all = seconds(bytes, group.size, hops)
      const latency = seconds(bytes, group.size, endless)
      return {
        ...{ algorithm: name, words, seconds: startSeconds + all, latency, transfer: all - latency },
        carried: hops.map((hop, i) => carried(bytes, group.size, hop, i === hops.length - 1)),
      }
    })
    .sort((a, b) => a.seconds - b.seconds)
}

/** The rate of the best algorithm where latency counts for nothing. */
function mostBusbw({ kind, group }: Collective, hops: readonly Hop[], busFactor: number): number {
  if (hops.length === 0) return 0
  const long = 2 ** 60
  return (busFactor * long) / Math.min(...algorithmsOf(kind).map(({ seconds }) => seconds(long, group.size, hops)))
}

/** Sizes from one to the other, each `factor` times the one before, the last included. */
export function sizesBetween(from: number, to: number, factor = 2): number[] {
  const sizes: number[] = []
  for (let size = from; size <= to && sizes.length < 200; size *= factor) sizes.push(Math.round(size))
  return sizes
}

export interface Placement {
  /** Ranks that meet. */
  readonly size: number
  readonly stride?: number | undefined
  /** Of each node so many meet, instead of a stride. */
  readonly ranksPerNode?: number | undefined
  /** Devices of the cluster; as many as the ranks need if not given. */
  readonly devices?: number | undefined
}

/** The group of ranks that a placement means, and the cluster it needs; throws what is wrong with it. */
export function groupOn(
  clusterAt: (devices: number) => Cluster,
  { size, stride, ranksPerNode, devices }: Placement,
): { readonly group: Collective['group']; readonly cluster: Cluster } {
  const spread = stride ?? (ranksPerNode === undefined ? 1 : strideOf(clusterAt(256), ranksPerNode))
  const needed = size * spread
  if (devices !== undefined && devices < needed)
    throw refused('--devices', `${size} ranks ${spread} apart are ${needed} devices, but the cluster has ${devices}`)
  return { group: { size, stride: spread }, cluster: clusterAt(devices ?? needed) }
}

function strideOf({ topology }: Cluster, perNode: number): number {
  if (topology.kind === 'torus')
    throw refused('--ranks-per-node', 'these devices are connected in a torus, which has no nodes', 'say --stride')
  const { size, name } = topology.levels[0]
  if (perNode > size || size % perNode !== 0)
    throw refused('--ranks-per-node', `a ${name} has ${size} devices, which ${perNode} does not divide`)
  return size / perNode
}

const refused = (path: string, message: string, suggestion?: string): ProblemsError =>
  new ProblemsError([error('cluster/devices', path, message, suggestion)])
