/** Devices and clusters by name. */
import { meant, type Problem, ProblemsError, shorten } from '../base/index.js'
import { build } from './build.js'
import type { Entry } from './catalog/entry.js'
import { aliases, entries } from './catalog/index.js'
import type { Cluster } from './cluster.js'
import { type Device, type Precision, precisions } from './device.js'
import { refused } from './phrases.js'
import type { Overrides } from './request.js'

/** The devices of the catalog, such as `h100`. */
export const deviceNames: readonly string[] = [...entries.keys()]

export function findEntry(name: string): Entry | undefined {
  const low = name.toLowerCase()
  return entries.get(Object.hasOwn(aliases, low) ? aliases[low] : low)
}

export const unknownDevice = (name: string, path = 'device'): Problem =>
  refused(path, 'cluster/device', {
    ...{ name: shorten(name, 60), instead: meant(name, [...deviceNames, ...Object.keys(aliases)]) },
  })

/** Whether a device multiplies in a precision: one that does not has no price in it. */
export function precisionProblem({ title, peak }: Device, precision: Precision, path: string): Problem | undefined {
  if (peak[precision] !== undefined) return undefined
  const has = precisions.filter(known => peak[known] !== undefined)
  return refused(path, 'cluster/precision', { device: title, precision, precisions: has })
}

/** The device of that name; throws what is wrong with it. */
export function deviceOf(name: string): Device {
  const entry = findEntry(name)
  if (!entry) throw new ProblemsError([unknownDevice(name)])
  return entry.device
}

/**
 * A cluster of n devices of the catalog, connected as its vendor does: `clusterOf('h100', 16_384)`. Throws a
 * `ProblemsError`.
 */
export function clusterOf(name: string, devices: number, overrides: Overrides = {}): Cluster {
  const entry = findEntry(name)
  if (!entry) throw new ProblemsError([unknownDevice(name)])
  const built = build(entry, devices, overrides)
  if ('problems' in built) throw new ProblemsError(built.problems)
  return built.cluster
}
