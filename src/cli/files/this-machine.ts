/** This machine as `lockstep calibrate` last found it: kept in the user's cache, so that runs are predicted without being told. */
import { dirname, join } from 'node:path'
import { ProblemsError, save, writing } from '../../base/index.js'
import { titleOf } from '../../calibrate/index.js'
import type { Cluster } from '../../cluster/index.js'
import { thisHost } from '../../node/index.js'
import { cacheFolderOf } from '../../platform/node-cache.js'
import type { Io } from '../io.js'
import { loadCluster } from './load-cluster.js'

/** Of this host, since a home may be shared by many. */
function fileOf({ env, process }: Io): string | undefined {
  const cache = cacheFolderOf(env)
  return cache ? join(cache, 'lockstep', `calibration-${process.host.replaceAll(/[^\w.-]/g, '-')}.yaml`) : undefined
}

/** Where it is now; undefined: it could not be kept, which is no reason to fail. */
export function keepCalibration(text: string, io: Io): string | undefined {
  const path = fileOf(io)
  try {
    if (path === undefined) return undefined
    writing(path, () => io.makeFolder(dirname(path)))
    save(path, text, io)
    return path
  } catch (e) {
    if (e instanceof ProblemsError) return undefined
    throw e
  }
}

export interface Calibrated {
  readonly path: string
  readonly cluster: Cluster
}

/** With so many ranks; undefined: nobody measured this machine, or it was another then. */
export function keptCalibration(ranks: number, io: Io): Calibrated | undefined {
  const path = fileOf(io)
  if (path === undefined || !io.exists(path)) return undefined
  try {
    const cluster = loadCluster(path, io, ranks)
    return cluster.device.title === titleOf(thisHost()) ? { path, cluster } : undefined
  } catch (e) {
    if (!(e instanceof ProblemsError)) throw e
    io.err(`${path} is not used: ${e.problems[0].message}; lockstep calibrate writes a new one\n`)
    return undefined
  }
}
