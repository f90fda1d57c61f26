/** A line of the catalog: a device, and how its maker joins many of them. */
import type { Link } from '../cluster.js'
import type { Device } from '../device.js'

export interface Entry {
  readonly device: Device
  readonly network: TreeNetwork | TorusNetwork
  /** The host's share behind one device. */
  readonly host?: { readonly memory: number; readonly link: Link; readonly bandwidth?: number }
  /** Where the figures of the links come from. */
  readonly sources: readonly string[]
}

/** Domains of devices that are close (a node, a rack), joined by a fat tree in which each domain has its NICs. */
export interface TreeNetwork {
  readonly kind: 'tree'
  readonly domain: string
  readonly perNode: number
  readonly near: Link
  readonly nicsPerNode: number
  readonly nic: Link
  /** Devices of one pod: the part of the fabric that is never oversubscribed. */
  readonly pod: number
}

export interface TorusNetwork {
  readonly kind: 'torus'
  readonly dims: 2 | 3
  readonly link: Link
  readonly wrapsFrom: number
  /** Devices of the largest slice. */
  readonly most: number
  /** What joins slices, as one device has it. */
  readonly beyond: Link
}
