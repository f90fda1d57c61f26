/** What a rank asks of its device and of its links in a step. */
import type { Cluster, Precision } from '../cluster/index.js'
import { multipliesIn } from '../cost/index.js'
import type { Program } from '../ir/index.js'
import { clusterPrices } from './cluster-prices.js'
import { type KernelLoad, kernelLoads, ridgeOf } from './intensity.js'
import { rankTraffic, type Traffic } from './traffic.js'

export interface RankLoad {
  readonly pp: number
  readonly traffic: readonly Traffic[]
  readonly kernels: readonly KernelLoad[]
  /** FLOP/byte of the device, in the precision of products. */
  readonly ridge: number
}

export function rankLoadOf(program: Program, cluster: Cluster, pp: number, multiply?: Precision): RankLoad {
  const prices = clusterPrices(program, cluster, multiply ? { multiply } : {})
  return {
    pp,
    traffic: rankTraffic(program, prices, pp),
    kernels: kernelLoads(program, prices, pp, multiply),
    ridge: ridgeOf(cluster.device, multipliesIn(program, multiply)),
  }
}
