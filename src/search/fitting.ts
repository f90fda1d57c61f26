/** Whether the plans of a request fit, by their price. */
import { type Fit, fitOf } from '../estimate/index.js'
import type { Request } from './request.js'
import { capacityOf, type Priced } from './search.js'

export const fitOfPrice = (request: Request, { bytes }: Pick<Priced, 'bytes'>): Fit =>
  fitOf(bytes, capacityOf(request), request.cluster.device, request.software)
