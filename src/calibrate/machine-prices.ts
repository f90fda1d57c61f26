/** The prices of a cluster; of the machine the engine runs on, with what its contractions do on the way. */
import type { Cluster } from '../cluster/index.js'
import { type Fusion, fusionOf } from '../engine/native/index.js'
import type { Instr, Program, Segment } from '../ir/index.js'
import { type ClusterPricesOptions, clusterPrices, type Prices } from '../simulate/index.js'

export function machinePrices(program: Program, cluster: Cluster, options: ClusterPricesOptions = {}): Prices {
  if (cluster.cores === undefined) return clusterPrices(program, cluster, options)
  const known = new Map<Segment, Fusion>()
  const fused = (instr: Instr, segment: Segment) => {
    const fusion = known.get(segment) ?? fusionOf(segment)
    known.set(segment, fusion)
    // A contraction may be done later, where its sum stood: it is done all the same.
    return instr.kind !== 'contract' && fusion.instead.has(instr)
  }
  return clusterPrices(program, cluster, { ...options, fused })
}
