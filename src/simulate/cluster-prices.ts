/** The prices of a cluster: kernels on its device, collectives and messages over the links they cross. */
import { type Axis, type Mesh, sizeOf } from '../base/index.js'
import { type Cluster, diskOf, linksIn, type Precision, reachOf } from '../cluster/index.js'
import {
  type AttentionGeneration,
  isKernel,
  type Kernel,
  type Members,
  priceCollective,
  priceInStep,
  trafficOf,
  workFlops,
  workOf,
} from '../cost/index.js'
import {
  type Collective,
  type Group,
  type Instr,
  type Program,
  type Ref,
  type Segment,
  spaceOf,
  traitsOf,
} from '../ir/index.js'
import { fusedKernels, type SparedIn } from './fusion.js'
import type { Contention, Prices } from './prices.js'

export interface ClusterPricesOptions {
  /** The precision of products, where it is not that of what is stored. */
  readonly multiply?: Precision
  /** The attention kernel; by default the newest. */
  readonly attention?: AttentionGeneration
  readonly contention?: Contention
  /** The traffic that fusion saves, if it was analyzed before. */
  readonly spared?: SparedIn
  /** Instructions that are done by others on the way. */
  readonly fused?: (instr: Instr, segment: Segment) => boolean
}

/** What FSDP runs on A100 and H100 lose while a collective runs beside compute; what the collective loses is in its price. */
const usual: Contention = { compute: 0.12, network: 0 }

/** Ranks that carry their own bytes do nothing else meanwhile. */
const none: Contention = { compute: 1e9, network: 0 }

/** The costs of a program's instructions on a cluster, which `simulate` takes. */
export function clusterPrices(
  program: Pick<Program, 'mesh' | 'microbatches' | 'segments'>,
  cluster: Cluster,
  options: ClusterPricesOptions = {},
): Prices {
  const { mesh } = program
  const {
    multiply,
    attention,
    spared,
    contention = cluster.cores === undefined ? usual : none,
    fused = () => false,
  } = options
  const links = [...linksOf(cluster), ...(hasMoves(program) ? Object.values(ways) : [])]
  const linkOf = (members: Members) => links.indexOf(outermost(cluster, members))
  const priceMove = ({ way, crosses }: Moved, bytes: number) => ({
    seconds: moveSeconds(way, crosses, bytes, cluster),
    link: links.indexOf(ways[way]),
  })
  const stride = strideOf(mesh, 'pp')
  // Our own engine runs instructions nearly as they are; on other devices the program is emitted and compiled.
  const left =
    cluster.cores === undefined ? fusedKernels(program, spared) : (_: Instr, __: Segment, kernel: Kernel) => kernel
  return {
    links,
    compute: (instr, segment) => {
      if (fused(instr, segment)) return 0
      const work = workOf(instr, segment, { mesh, multiply, attention })
      if (work.kind === 'copy') return copySeconds(work.bytes, cluster)
      if (!isKernel(work)) return 0
      const kernel = left(instr, segment, work)
      return isOnHost(instr, segment) ? hostSeconds(kernel, cluster) : secondsOf(kernel, cluster)
    },
    collective: (instr, segment) => {
      const work = workOf(instr, segment, { mesh })
      if (work.kind === 'copy' && instr.kind === 'move') return priceMove(movedBy(instr, segment), work.bytes)
      if (work.kind !== 'collective') throw new Error(`internal: ${instr.kind} is not a collective`)
      const group = membersOf(mesh, work.group)
      const seconds = priceCollective({ kind: work.how, bytes: work.bytes, group }, cluster)
      return { seconds, link: linkOf(group) }
    },
    message: (bytes, from, to) => {
      const group = { size: 2, stride: stride * Math.abs(to - from) }
      const seconds = priceCollective({ kind: 'send', bytes, group }, cluster)
      return { seconds, link: linkOf(group), held: seconds }
    },
    flops: (instr, segment) => workFlops(workOf(instr, segment, { mesh, multiply })),
    contention,
  }
}

/** What is part of another kernel takes no time of its own. */
const secondsOf = (kernel: Kernel, { device }: Cluster): number =>
  kernel.kind === 'memory' && kernel.read + kernel.written === 0 ? 0 : priceInStep(kernel, device)

function linksOf({ topology }: Cluster): string[] {
  return [...new Set(linksIn(topology).map(({ kind }) => kind))]
}

/** The kind of the outermost links that members cross. */
function outermost({ topology }: Cluster, members: Members): string {
  const reach = reachOf(topology, members)
  if (reach.kind === 'torus') return (reach.beyond ?? reach).link.kind
  return (reach.levels.findLast(({ parts }) => parts > 1) ?? reach.levels[0]).level.link.kind
}

/** Who meets along the axes of a group, or at its stages. */
export function membersOf(mesh: Mesh, { axes, stages }: Group): Members {
  if (stages !== undefined && stages.length > 1)
    return { size: stages.length, stride: strideOf(mesh, 'pp') * Math.abs(stages[1] - stages[0]) }
  const wide = axes.filter(axis => sizeOf(mesh, axis) > 1)
  return {
    size: wide.reduce((size, axis) => size * sizeOf(mesh, axis), 1),
    stride: Math.min(...wide.map(axis => strideOf(mesh, axis)), Number.MAX_SAFE_INTEGER),
  }
}

/** Ranks from one place on an axis to the next. */
export function strideOf(mesh: Mesh, axis: Axis): number {
  let stride = 1
  for (const { name, size } of mesh.axes) {
    if (name === axis) return stride
    stride *= size
  }
  return stride
}

/** Lanes of moves: both ways at once, and no two the same way. */
const ways = { down: 'to the host', up: 'to the device', out: 'to the disk', in: 'from the disk' } as const
type Way = keyof typeof ways

const hasMoves = ({ segments }: Pick<Program, 'segments'>): boolean =>
  Object.values(segments).some(({ instrs }) => instrs.some(({ kind }) => kind === 'move'))

const spaceIn = ({ roles, buffers }: Segment, ref: Ref) => spaceOf(roles[buffers[ref].role])

/** Which way something goes; between the disk and the device it crosses the host's link too. */
interface Moved {
  readonly way: Way
  readonly crosses: boolean
}

function movedBy({ ins, outs }: Collective, segment: Segment): Moved {
  const [from, to] = [spaceIn(segment, ins[0]), spaceIn(segment, outs[0])]
  const crosses = from === 'device' || to === 'device'
  if (from === 'disk') return { way: 'in', crosses }
  if (to === 'disk') return { way: 'out', crosses }
  return { way: to === 'device' ? 'up' : 'down', crosses }
}

const isOnHost = (instr: Instr, segment: Segment): boolean =>
  traitsOf(instr).writes.some(ref => spaceIn(segment, ref) !== 'device')

/** Bound by memory, as all that hosts compute here. Where the host is the device, its memory is as fast. */
const hostSeconds = (kernel: Kernel, cluster: Cluster): number =>
  cluster.host
    ? trafficOf(kernel) / (cluster.host.bandwidth ?? cluster.host.link.bandwidth)
    : secondsOf(kernel, cluster)

/** What goes by way of the host goes in pieces: the slower of the two links decides. */
function moveSeconds(way: Way, crosses: boolean, bytes: number, cluster: Cluster): number {
  const { read, write, latency } = diskOf(cluster)
  if (way === 'in' || way === 'out') {
    const onDisk = bytes / (way === 'in' ? read : write)
    const { host } = cluster
    if (!crosses || !host) return latency + onDisk
    return latency + host.link.latency + Math.max(onDisk, copySeconds(bytes, cluster) - host.link.latency)
  }
  if (cluster.host) return copySeconds(bytes, cluster)
  return secondsOf({ kind: 'memory', read: bytes, written: bytes }, cluster)
}

const copySeconds = (bytes: number, { host }: Cluster): number =>
  host ? host.link.latency + (bytes + host.link.half) / (host.link.bandwidth * host.link.efficiency) : 0
