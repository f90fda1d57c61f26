/** Throughput, utilization and cost of an estimated or simulated plan. */
import { peakOf } from '../cost/index.js'
import { type Rates, ratesOf } from '../metrics/index.js'
import { flopsPerToken } from '../model/index.js'
import { adaptersOf } from '../plan/index.js'
import type { Request } from './request.js'
import type { Priced } from './search.js'

/** Tokens/s, MFU, HFU and cost of a plan; `step` if not the estimated one. */
export function ratesOfPlan(request: Request, { estimate, split }: Priced, step: number = estimate.step): Rates {
  const { cluster, shape, globalBatch, precision, model, said, published } = request
  const { flops } = estimate
  const tokens = globalBatch * shape.seq
  const lora = said?.training.lora
  const adapters = lora && adaptersOf({ model, training: { lora } })
  const { pricePerHour } = cluster.device
  return ratesOf(step, {
    ...{ devices: cluster.devices, tokens, peak: peakOf(cluster.device, split.fp8 ? 'fp8' : precision) },
    modelFlops: published ? flops.model : tokens * flopsPerToken(model, shape.seq, adapters),
    recomputedFlops: flops.hardware - flops.model,
    ...(pricePerHour !== undefined && { price: pricePerHour }),
  })
}
