/** What joins devices: links of a cluster, a collective on near and far ranks, and collectives timed among threads of this page. */
import { type Cluster, clusterOf, quote } from 'lockstep'
import { benchCollectives } from 'lockstep/engine'
import type { Context } from './modules.js'

export interface HardwareInput {
  readonly device: string
  /** Nodes that a group of 8 is spread over. */
  readonly spread: number
  /** Times the network's own bandwidth. */
  readonly network: number
  readonly bytes: number
}

/** A way for bytes to go, fastest first. */
export interface Rung {
  readonly name: string
  /** Bytes a second, one way, of one device. */
  readonly bandwidth: number
  /** Of the bytes asked for. */
  readonly seconds: number
}

export interface Spread {
  readonly nodes: number
  /** Ranks from one of the group to the next. */
  readonly stride: number
  readonly seconds: number
  readonly busbw: number
  readonly algorithm: string
}

/** What one level of a cluster joins, innermost first. */
export interface Level {
  readonly name: string
  /** Devices of one domain. */
  readonly size: number
  readonly kind: string
  /** Bytes a second, one way, of one port. */
  readonly bandwidth: number
  /** Of each of the parts that it joins. */
  readonly ports: number
}

export interface HardwareAnswer {
  readonly levels: readonly Level[]
  readonly rungs: readonly Rung[]
  readonly spreads: readonly Spread[]
  readonly nodeSize: number
  readonly title: string
  readonly sources: readonly string[]
}

type Tree = Extract<Cluster['topology'], { kind: 'tree' }>

/** The network of a cluster so many times as fast: every level but the innermost. */
function faster(cluster: Cluster, times: number): Cluster {
  const { topology } = cluster
  if (topology.kind === 'torus') return cluster
  const levels = topology.levels.map((level, n) =>
    n === 0 ? level : { ...level, link: { ...level.link, bandwidth: level.link.bandwidth * times } },
  )
  return { ...cluster, topology: { ...topology, levels } }
}

export function hardware({ device, network, bytes }: HardwareInput): HardwareAnswer {
  const cluster = faster(clusterOf(device, 256), network)
  const { topology } = cluster
  const links =
    topology.kind === 'torus'
      ? [{ name: topology.link.kind, bandwidth: topology.link.bandwidth }]
      : topology.levels.map(({ link, ports }, n) => ({
          name: link.kind,
          bandwidth: link.bandwidth * (n === 0 ? ports : 1),
        }))
  const rungs = [{ name: 'memory', bandwidth: cluster.device.bandwidth }, ...links]
  const nodeSize = topology.kind === 'torus' ? cluster.devices : topology.levels[0]!.size
  const levels = topology.kind === 'torus' ? [] : topology.levels.map(levelOf)
  return {
    levels,
    rungs: rungs.map(rung => ({ ...rung, seconds: bytes / rung.bandwidth })),
    spreads: [1, 2, 4, 8].map(nodes => spreadOf(cluster, nodes, nodeSize, bytes)),
    ...{ nodeSize, title: cluster.device.title, sources: cluster.device.sources },
  }
}

const levelOf = ({ name, size, link, ports }: Tree['levels'][number]): Level => ({
  ...{ name, size, ports },
  ...{ kind: link.kind, bandwidth: link.bandwidth },
})

/** An all-reduce of 8 devices that lie in so many nodes. */
function spreadOf(cluster: Cluster, nodes: number, nodeSize: number, bytes: number): Spread {
  const perNode = 8 / nodes
  const stride = nodes === 1 ? 1 : Math.max(1, nodeSize / perNode)
  const { seconds, busbw, chosen } = quote({ kind: 'all-reduce', bytes, group: { size: 8, stride } }, cluster)
  return { nodes, stride, seconds, busbw, algorithm: chosen }
}

export interface BandwidthInput {
  readonly device: string
  readonly ranks: number
}

export interface Priced {
  readonly bytes: number
  readonly seconds: number
  readonly busbw: number
  readonly algorithm: string
}

const sizes = [10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30].map(power => 2 ** power)

/** An all-reduce of a cluster over sizes, and which algorithm a library would take. */
export function pricedSizes({ device, ranks }: BandwidthInput): readonly Priced[] {
  const cluster = clusterOf(device, ranks)
  return sizes.map(bytes => {
    const { seconds, busbw, chosen } = quote({ kind: 'all-reduce', bytes, group: { size: ranks, stride: 1 } }, cluster)
    return { bytes, seconds, busbw, algorithm: chosen }
  })
}

export interface Measured {
  readonly bytes: number
  readonly seconds: number
  readonly busbw: number
}

export interface Fit {
  /** Seconds before the first byte, and bytes a second after it. */
  readonly alpha: number
  readonly rate: number
}

export interface Bench {
  readonly points: readonly Measured[]
  readonly fit: Fit
}

/** Times all-reduces among threads of this page; every point is told as it is measured. */
export async function bench({ ranks }: { readonly ranks: number }, { progress }: Context): Promise<Bench> {
  if (!globalThis.crossOriginIsolated) throw new Error('this page may not share memory, so it has no threads to time')
  const points: Measured[] = []
  const rows = benchCollectives({
    ranks,
    sizes: sizes.filter(size => size <= 2 ** 24),
    ops: ['all-reduce'],
    repeats: 7,
  })
  for await (const { bytes, seconds, busbw } of rows) {
    points.push({ bytes, seconds, busbw: busbw * 1e9 })
    progress([...points])
  }
  return { points, fit: fitted(points) }
}

/** The straight line through the prices of a cluster. */
export const lineOf = (input: BandwidthInput): Fit => fitted(pricedSizes(input))

/** T = α + M / B, where relative errors count: small messages and large ones alike. */
function fitted(points: readonly Measured[]): Fit {
  const sum = (of: (point: Measured) => number) => points.reduce((total, point) => total + of(point), 0)
  // Least squares of (α + β M) / T - 1.
  const [a, b, c] = [
    sum(p => p.seconds ** -2),
    sum(p => p.bytes / p.seconds ** 2),
    sum(p => (p.bytes / p.seconds) ** 2),
  ]
  const [u, v] = [sum(p => 1 / p.seconds), sum(p => p.bytes / p.seconds)]
  const determinant = a * c - b * b
  return { alpha: Math.max(0, (u * c - v * b) / determinant), rate: determinant / (a * v - b * u) }
}
