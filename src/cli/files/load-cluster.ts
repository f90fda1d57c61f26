/** The cluster that `--cluster` names: a device of the catalog, or a file that describes one. */
import { didYouMean, error, type Problem, ProblemsError, shorten } from '../../base/index.js'
import {
  type Cluster,
  clusterOf,
  deviceNames,
  findEntry,
  type ParsedCluster,
  parseCluster,
  unknownDevice,
} from '../../cluster/index.js'
import { parseText } from '../../plan/document.js'
import type { Io } from '../io.js'

const kind = { name: 'cluster', holds: 'such as {device: h100, devices: 64}' }

/** Throws everything that is wrong with it. `devices` goes before what a file says. */
export function loadCluster(given: string, io: Io, devices?: number): Cluster {
  const { cluster, problems } = findEntry(given) ? fromCatalog(given, devices) : fromFile(given, io, devices)
  // Problems with a place are those of a file that could be read.
  if (!cluster) throw new ProblemsError(problems, problems.some(p => p.line !== undefined) ? given : undefined)
  return cluster
}

/** The same kind of cluster with another number of devices, if that is possible. */
export function clusterIfAny(clusterAt: (devices: number) => Cluster, devices: number): Cluster | undefined {
  try {
    return clusterAt(devices)
  } catch {
    return undefined
  }
}

const fromCatalog = (name: string, devices: number | undefined): ParsedCluster =>
  devices === undefined
    ? {
        problems: [
          error('cluster/devices', '--devices', `a \`${name}\` of the catalog is one device`, 'say how many there are'),
        ],
      }
    : { cluster: clusterOf(name, devices), problems: [] }

function fromFile(path: string, io: Io, devices: number | undefined): ParsedCluster {
  let text: string
  try {
    text = io.read(path)
  } catch (e) {
    return { problems: [unreadable(path, e)] }
  }
  const { value, problems, locate } = parseText(text, kind)
  if (problems.length > 0) return { problems }
  const parsed = parseCluster(devices === undefined ? value : resized(value, devices))
  return { ...parsed, problems: parsed.problems.map(locate) }
}

function unreadable(path: string, e: unknown): Problem {
  const reason = e instanceof Error ? e.message : String(e)
  const name = shorten(path, 60)
  // A name without a dot or a slash was hardly meant as a file.
  return /[./-]/.test(path)
    ? error('cluster/unreadable', '', `cannot read the cluster \`${name}\`: ${reason}`, didYouMean(path, deviceNames))
    : unknownDevice(path, '')
}

/** The last level of a tree holds them all, however many there are. */
function resized(value: unknown, devices: number): unknown {
  if (typeof value !== 'object' || value === null) return value
  const topology = 'topology' in value ? (value.topology as { levels?: unknown } | null) : undefined // read, then checked by the schema
  if (!Array.isArray(topology?.levels)) return { ...value, devices }
  const levels = topology.levels.map((level, i, all) => (i === all.length - 1 ? { ...level, size: devices } : level))
  return { ...value, devices, topology: { ...topology, levels } }
}
