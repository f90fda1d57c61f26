/** What moves between the device and another space take. */
import { activationBytes, type Elsewhere } from '../base/index.js'
import { type Cluster, diskOf } from '../cluster/index.js'
import type { Setup } from './setup.js'

interface Move {
  readonly space: Elsewhere
  readonly way: 'in' | 'out'
  readonly bytes: number
  /** One after the other. */
  readonly tensors: number
}

/** From there, or back: the slower of the links it crosses decides. */
export function moveSeconds(cluster: Cluster, { space, way, bytes, tensors }: Move): number {
  const { host, device } = cluster
  const overLink = host
    ? (bytes + host.link.half) / (host.link.bandwidth * host.link.efficiency)
    : (2 * bytes) / (device.bandwidth * device.curves.memory.efficiency)
  const link = host?.link.latency ?? 0
  if (space === 'host') return link + overLink
  const { read, write, latency } = diskOf(cluster)
  const onDisk = bytes / (way === 'in' ? read : write)
  return tensors * (latency + link) + Math.max(onDisk, host ? overLink : 0)
}

/** What one layer hands to the next: the seconds in which it leaves for where it waits, and in which it comes back. */
export function carriedSeconds({ shape, split, cluster, precision }: Setup): Readonly<Record<'out' | 'in', number>> {
  const { waiting, cp, tp, sequenceParallel, microbatch } = split
  if (!waiting) return { out: 0, in: 0 }
  const tokens = (microbatch * shape.seq) / (cp * (sequenceParallel ? tp : 1))
  const move = { space: waiting, bytes: activationBytes(precision) * tokens * shape.embed, tensors: 1 }
  return { out: moveSeconds(cluster, { ...move, way: 'out' }), in: moveSeconds(cluster, { ...move, way: 'in' }) }
}
