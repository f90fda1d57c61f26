/** Where the ranks of a plan lie: their coordinates along its axes, their nodes, and what one of them sends along each axis. */
import { clusterOf, coordinatesOf, linkTraffic, worldOf } from 'lockstep'
import { type JobText, programOf } from './jobs.js'

export interface CubeInput {
  readonly job: JobText
  readonly device: string
  readonly rank: number
}

export interface CubeRank {
  readonly at: Readonly<Record<string, number>>
  readonly node: number
}

/** The ranks that meet the chosen one along an axis. */
export interface CubeGroup {
  readonly axis: string
  readonly ranks: readonly number[]
  readonly nodes: number
  /** Out of the chosen rank in a step, by the kind of link. */
  readonly sent: readonly (readonly [link: string, bytes: number])[]
}

export interface CubeAnswer {
  readonly rank: number
  /** Of more than one rank, the one that counts fastest first. */
  readonly axes: readonly { readonly name: string; readonly size: number }[]
  readonly ranks: readonly CubeRank[]
  readonly groups: readonly CubeGroup[]
}

export function cube({ job, device, rank }: CubeInput): CubeAnswer {
  const program = programOf(job)
  const { mesh } = program
  const world = worldOf(mesh)
  const cluster = clusterOf(device, world)
  const { topology } = cluster
  const nodeSize = topology.kind === 'torus' ? world : topology.levels[0]!.size
  const ranks = Array.from({ length: world }, (_, n) => ({
    at: coordinatesOf(mesh, n),
    node: Math.floor(n / nodeSize),
  }))
  const here = ranks[rank]!.at
  const traffic = linkTraffic(program, cluster, here.pp ?? 0)
  const axes = mesh.axes.filter(({ size }) => size > 1).map(({ name, size }) => ({ name, size }))
  const groups = axes.map(({ name: axis }) => {
    const met = ranks.flatMap(({ at }, n) =>
      axes.every(({ name }) => name === axis || at[name] === here[name]) ? [n] : [],
    )
    const sent = new Map<string, number>()
    for (const { link, bytes } of traffic.filter(row => row.axis === axis))
      sent.set(link, (sent.get(link) ?? 0) + bytes)
    return { axis, ranks: met, nodes: new Set(met.map(n => ranks[n]!.node)).size, sent: [...sent] }
  })
  return { rank, axes, ranks, groups }
}
