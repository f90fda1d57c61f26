/** What the views of a program draw: its timeline, its memory over time, and the bytes on the links of the cluster. */
import {
  type Cluster,
  type LinkTraffic,
  linkTraffic,
  liveBytes,
  type Program,
  rankTraffic,
  worldOfPlan,
} from 'lockstep'
import type { TimelineData } from '../../parts/timeline/track.js'
import { timelineOf } from '../timeline.js'
import { type Built, built } from './exact.js'
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

export interface MemoryAnswer {
  readonly link: Link
  readonly pp: number
  readonly stages: number
  readonly step: number
  readonly capacity: number
  /** Seconds at which each column ends. */
  readonly times: Float64Array<ArrayBuffer>
  /** Bytes by kind; each column has the most of its time. */
  readonly kinds: readonly (readonly [kind: string, bytes: Float64Array<ArrayBuffer>])[]
  readonly peak: { readonly at: number; readonly bytes: number }
}

const columns = 400

export async function memoryOver({ link, pp: asked }: MemoryInput): Promise<MemoryAnswer> {
  const all = await built(link)
  const { program, simulation, forecast } = all
  const pp = Math.min(Math.max(0, asked), program.streams.length - 1)
  const live = Object.entries(liveBytes(program.streams[pp]!))
  const when = timesOfSteps(all, pp)
  const { step } = simulation
  const binOf = (at: number) => Math.min(columns - 1, Math.floor((when[at]! / step) * columns))
  const kinds = live.map(([kind, bytes]) => [kind, binned(bytes, binOf)] as const)
  return {
    ...{ link, pp, stages: program.streams.length, step, capacity: forecast.memory.usable },
    times: Float64Array.from({ length: columns }, (_, n) => ((n + 1) * step) / columns),
    kinds: kinds.filter(([, bytes]) => bytes.some(value => value > 0)),
    peak: peakOf(
      live.map(([, bytes]) => bytes),
      when,
    ),
  }
}

/** When each step of a stream begins: steps that take no time have that of the next. */
function timesOfSteps({ program, simulation }: Built, pp: number): Float64Array {
  const { steps } = program.streams[pp]!
  const rank = simulation.roles.find(role => role.pp === pp && simulation.watched(role.rank))?.rank ?? 0
  const { start, step, lane } = simulation.columnsOf(rank)
  const times = new Float64Array(steps.length).fill(Number.NaN)
  for (let i = 0; i < start.length; i++)
    if (lane[i] === 0) times[step[i]!] = Math.min(start[i]!, times[step[i]!] || Infinity)
  let next = simulation.step as number
  for (let at = steps.length - 1; at >= 0; at--) {
    if (Number.isNaN(times[at]!)) times[at] = next
    next = Math.min(next, times[at]!)
    times[at] = next
  }
  return times
}

/** The most in each column; where nothing happens it stays as it was. */
function binned(bytes: Float64Array, binOf: (at: number) => number): Float64Array<ArrayBuffer> {
  const most = new Float64Array(columns).fill(-1)
  let last = -1
  let before = bytes[0] ?? 0
  for (let at = 0; at < bytes.length; at++) {
    const bin = binOf(at)
    for (let empty = last + 1; empty < bin; empty++) most[empty] = Math.max(most[empty]!, before)
    most[bin] = Math.max(most[bin]!, bytes[at]!)
    before = bytes[at]!
    last = Math.max(last, bin)
  }
  for (let empty = last + 1; empty < columns; empty++) most[empty] = before
  return most
}

function peakOf(live: readonly Float64Array[], when: Float64Array): MemoryAnswer['peak'] {
  let peak = { at: 0, bytes: 0 }
  for (let at = 0; at < when.length; at++) {
    const bytes = live.reduce((sum, column) => sum + column[at]!, 0)
    if (bytes > peak.bytes) peak = { at: when[at]!, bytes }
  }
  return peak
}

export interface TopologyAnswer {
  readonly link: Link
  readonly topology: Cluster['topology']
  readonly devices: number
  readonly step: number
  readonly pp: number
  /** Out of the heaviest rank, by axis and level. */
  readonly traffic: readonly LinkTraffic[]
  /** Seconds in which a link of a kind is busy for that rank, each collective with the link to itself. */
  readonly busy: readonly (readonly [link: string, seconds: number])[]
  /** Of each axis the ranks that meet rank 0. */
  readonly groups: readonly (readonly [axis: string, ranks: readonly number[]])[]
}

export async function topology(link: Link): Promise<TopologyAnswer> {
  const { program, prices, simulation, asked, forecast } = await built(link)
  const { cluster } = asked
  const pp = forecast.memory.pp
  const busy = new Map<string, number>()
  for (const { link: name, seconds } of rankTraffic(program, prices, pp))
    busy.set(name, (busy.get(name) ?? 0) + seconds)
  return {
    ...{ link, topology: cluster.topology, devices: cluster.devices, step: simulation.step, pp },
    traffic: linkTraffic(program, cluster, pp),
    busy: [...busy],
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
