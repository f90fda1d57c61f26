/**
 * Devices and how they are joined. A tree has levels, innermost first: what lies in one domain of a level talks over
 * its links, what does not goes one level up. A torus has links between neighbours along each of its dims; several of them, slices, may
 * be joined by a network.
 * Rank r is device r: neighbouring ranks share the innermost domain.
 */
import { z } from 'zod'
import { collectiveKinds } from './collective-kinds.js'
import { Device } from './device.js'

const linkKinds = ['memory', 'nvlink', 'xgmi', 'pcie', 'infiniband', 'ethernet', 'ici'] as const
export type LinkKind = (typeof linkKinds)[number]

const Link = z.strictObject({
  kind: z.enum(linkKinds).describe('kind of link'),
  bandwidth: z.number().positive().describe('bytes per second in one direction, of one port'),
  efficiency: z.number().positive().max(1).describe('fraction of the bandwidth that large messages reach'),
  latency: z.number().min(0).describe('latency of one collective step, and of one message, in seconds'),
  half: z.number().min(0).default(0).describe('message size in bytes that reaches half of the bandwidth'),
})

/** One collective that was timed: `bytes` is the whole, what is reduced or what is there after a gather. */
export const CollectivePoint = z.strictObject({
  kind: z.enum(collectiveKinds),
  ranks: z.int().min(2),
  bytes: z.number().positive(),
  seconds: z.number().positive(),
})

export const Level = z.strictObject({
  name: z.string().describe('name of one domain'),
  size: z
    .int()
    .min(1)
    .describe('devices in one domain, including those of inner levels; the last level has all devices'),
  link: Link,
  ports: z
    .int()
    .min(1)
    .describe(
      'ports of this level that one domain of the level below shares: 8 NICs a node, or 1. At the first level: of a device',
    ),
  oversubscription: z
    .number()
    .min(1)
    .default(1)
    .describe('oversubscription at the top of a domain: 1 is a full fat tree'),
  measured: z
    .array(CollectivePoint)
    .optional()
    .describe(
      'times measured inside one domain; they replace the model for collectives and numbers of ranks that have points',
    ),
})

export const Topology = z.discriminatedUnion('kind', [
  z.strictObject({ kind: z.literal('tree'), levels: z.array(Level).min(1) }),
  z.strictObject({
    kind: z.literal('torus'),
    dims: z.array(z.int().min(1)).min(1).max(3).describe('devices along each dim of one slice'),
    /** Along each dim one link to either neighbour. */
    link: Link,
    wrapsFrom: z.int().min(1).default(1).describe('a dim shorter than this has no wraparound link'),
    slices: z
      .strictObject({
        count: z.int().min(2).describe('number of slices, all equal'),
        /** Every device of a slice has one port. */
        link: Link,
      })
      .optional()
      .describe('several slices, connected by a network'),
  }),
])

/** The schema of a cluster (Zod): device, links and topology. */
export const Cluster = z.strictObject({
  name: z.string().describe('name of the cluster'),
  device: Device.describe('device description, or the name of a device in the catalog'),
  devices: z.int().min(1).describe('number of devices'),
  /**
   * Where ranks are threads of one machine: so many of them run at once, more take turns; and they carry their own bytes,
   * so that no collective is hidden behind compute.
   */
  cores: z.int().min(1).optional().describe('ranks are threads of one machine with this many cores'),
  topology: Topology.describe('topology: levels of a tree, innermost first, or a torus'),
  /** What is behind one device: its share of the host's memory, and the link to it, each way. */
  host: z
    .strictObject({
      memory: z.number().positive().describe('host memory per device, in bytes'),
      link: Link,
      bandwidth: z
        .number()
        .positive()
        .optional()
        .describe(
          'host memory bandwidth per device in bytes per second, reads plus writes, while all ranks of a node compute on the host',
        ),
    })
    .optional(),
  /** One device's share of the disks of its node: bytes per second of each way, and what they hold. */
  disk: z
    .strictObject({
      read: z.number().positive().describe('bytes per second'),
      write: z.number().positive().describe('bytes per second'),
      latency: z.number().min(0).default(1e-4).describe('access latency in seconds'),
      memory: z.number().positive().optional().describe('capacity in bytes'),
    })
    .optional(),
  sources: z.array(z.string()).min(1).describe('sources of these numbers'),
})

export type Link = z.output<typeof Link>
export type CollectivePoint = z.output<typeof CollectivePoint>
export type Level = z.output<typeof Level>
export type Topology = z.output<typeof Topology>
export type Torus = Extract<Topology, { kind: 'torus' }>
export type Cluster = z.output<typeof Cluster>

/** What is meant where a cluster says nothing of disks: an NVMe drive of PCIe 4 for every device, or about that. */
export const usualDisk: NonNullable<Cluster['disk']> = { read: 6e9, write: 4e9, latency: 1e-4 }

/** Those of all levels, innermost first. */
export const linksIn = (topology: Topology): readonly Link[] =>
  topology.kind === 'tree'
    ? topology.levels.map(({ link }) => link)
    : [topology.link, ...(topology.slices ? [topology.slices.link] : [])]

/** Whether prices of products, of attention or of collectives go through points that were measured. */
export function isTimed({ device, topology }: Pick<Cluster, 'device' | 'topology'>): boolean {
  const { matmul, attention } = device.curves
  const collectives = topology.kind === 'tree' ? topology.levels.flatMap(({ measured = [] }) => measured) : []
  return matmul.measured.length + (attention.measured?.length ?? 0) + collectives.length > 0
}

/** Devices of one torus; there may be several. */
export const sliceSize = ({ dims }: Pick<Torus, 'dims'>): number => dims.reduce((n, size) => n * size, 1)

export const diskOf = ({ disk = usualDisk }: Cluster): NonNullable<Cluster['disk']> => disk
