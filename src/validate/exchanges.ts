/** Rows on their way to experts and back, as libraries print them of their own measurements (validation/parts/exchanges.csv). */
import { clusterOf } from '../cluster/index.js'
import { priceExchange, sendsOnce, type Transport } from '../cost/index.js'
import { type Experts, partsOfToken } from '../estimate/index.js'
import { type Cell, type ComparedPart, type PartRows, partRows } from './part-rows.js'

export interface ComparedExchange extends ComparedPart {
  readonly device: string
  readonly kind: string
  readonly phase: string
  readonly ep: number
}

export type ExchangeRows = PartRows<ComparedExchange>

const devices: Readonly<Record<string, string>> = { GB200: 'gb200', H100: 'h100', H800: 'h800' }

export const compareExchanges = (text: string): ExchangeRows =>
  partRows(text, cell => {
    const device = devices[cell('gpu')]
    return device === undefined
      ? `${cell('kind')} names the architecture ${cell('gpu')}, no device, and counts bytes that never leave`
      : comparedAt(device, cell)
  })

/**
 * Of a row that has a rate and no time, the time is that of the bytes DeepEP's tests count: copies of tokens to all nodes (of one
 * node: to all ranks), those that stay included.
 */
function comparedAt(device: string, cell: Cell): Omit<ComparedExchange, 'error'> {
  const [kind, phase, ep, rate] = [cell('kind'), cell('phase'), Number(cell('ep')), cell('bottleneck_gb_per_s')]
  const transport = transportOf(kind)
  // DeepEP's tests have no groups on one node, and a group per node on four, of which a token may reach all.
  const experts: Experts = {
    ...{ count: Number(cell('experts')), active: Number.parseInt(cell('topk'), 10) },
    ...{ ffn: 2048, shared: 0, dense: 0 },
  }
  const copies = (parts: number) => (sendsOnce(transport) ? partsOfToken(experts, parts) : experts.active)
  const bytes = Number(cell('tokens_per_rank')) * Number(cell('hidden')) * 2
  const predicted = priceExchange({ bytes, group: { size: ep, stride: 1 }, transport, copies }, clusterOf(device, ep))
  const parts = ep > 8 ? ep / 8 : ep
  const measured = rate === '' ? Number(cell('microseconds')) / 1e6 : (bytes * copies(parts)) / (Number(rate) * 1e9)
  return { device, kind, phase, ep, measured, predicted }
}

const transportOf = (kind: string): Transport =>
  kind.startsWith('NCCL') ? 'all-to-all' : kind.startsWith('DeepEP') ? 'deep-ep' : 'hybrid-ep'
