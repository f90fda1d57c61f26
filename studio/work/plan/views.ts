/** What the views of a program draw: its timeline, its memory over time, and the bytes on the links of the cluster. */
import {
  type Cluster,
  type LinkTraffic,
  type LinkUse,
  linkTraffic,
  linkUseOf,
  type Program,
  worldOfPlan,
} from 'lockstep'
import type { TimelineData } from '../../parts/timeline/track.js'
import { type Live, liveOver } from '../live.js'
import { timelineOf } from '../timeline.js'
import { built } from './exact.js'
import type { Link } from './link.js'

export interface TimelineAnswer {
  readonly link: Link
  readonly data: TimelineData
}

export async function timeline(link: Link): Promise<TimelineAnswer> {
  const { program, simulation, asked } = await built(link)
  return { link, data: timelineOf(program, simulation, worldOfPlan(asked.job.plan)) }
}

export interface MemoryInput {
  readonly link: Link
  readonly pp: number
}

export interface MemoryAnswer extends Live {
  readonly link: Link
  readonly pp: number
  readonly stages: number
  readonly capacity: number
}

export async function memoryOver({ link, pp: asked }: MemoryInput): Promise<MemoryAnswer> {
  const { program, simulation, forecast } = await built(link)
  const stages = program.streams.length
  const pp = Math.min(Math.max(0, asked), stages - 1)
  return { ...{ link, pp, stages, capacity: forecast.memory.usable }, ...liveOver(program, simulation, pp) }
}

export interface TopologyAnswer {
  readonly link: Link
  readonly topology: Cluster['topology']
  readonly devices: number
  readonly step: number
  readonly pp: number
  /** Out of the heaviest rank, by axis and level. */
  readonly traffic: readonly LinkTraffic[]
  /** Of each link that carries any. */
  readonly uses: readonly LinkUse[]
  /** Of each axis the ranks that meet rank 0. */
  readonly groups: readonly (readonly [axis: string, ranks: readonly number[]])[]
}

export async function topology(link: Link): Promise<TopologyAnswer> {
  const { program, simulation, asked, forecast } = await built(link)
  const { cluster } = asked
  const pp = forecast.memory.pp
  const traffic = linkTraffic(program, cluster, pp)
  return {
    ...{ link, topology: cluster.topology, devices: cluster.devices, step: simulation.step, pp },
    traffic,
    uses: linkUseOf(traffic, simulation.step),
    groups: groupsOf(program),
  }
}

/** The first rank and those it meets along each axis. */
function groupsOf({ mesh }: Program): TopologyAnswer['groups'] {
  let stride = 1
  return mesh.axes.flatMap(({ name, size }) => {
    const ranks = Array.from({ length: size }, (_, n) => n * stride)
    stride *= size
    return size > 1 ? [[name, ranks] as const] : []
  })
}
