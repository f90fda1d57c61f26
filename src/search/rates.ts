/** A price in the figures people compare. */
import type { Request } from './request.js'
import type { Priced } from './search.js'

export interface PlanRates {
  readonly tokensPerSecond: number
  /** Useful FLOPs over what the devices could do in the precision that is multiplied in. */
  readonly mfu?: number
  /** US dollars for a billion tokens, where the device has a price. */
  readonly dollars?: number
}

/** Tokens/s, MFU and cost of an estimated plan. */
export function ratesOfPlan(request: Request, { estimate }: Priced, step: number = estimate.step): PlanRates {
  const { cluster, shape, globalBatch, precision } = request
  const { peak, pricePerHour } = cluster.device
  const tokensPerSecond = (globalBatch * shape.seq) / step
  const most = peak[precision] ?? peak.bf16
  const hours = 1e9 / tokensPerSecond / 3600
  return {
    tokensPerSecond,
    ...(most !== undefined && { mfu: estimate.flops.model / (most * cluster.devices * step) }),
    ...(pricePerHour !== undefined && { dollars: hours * cluster.devices * pricePerHour }),
  }
}
