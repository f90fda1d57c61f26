/** Rows on their way to experts and back, as libraries print them of their own measurements (validation/parts/exchanges.csv). */
import { clusterOf } from '../cluster/index.js'
import { priceExchange, type Transport } from '../cost/index.js'
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

/** Of a row that has no time but a rate, the time is that of the bytes of its busiest link. */
function comparedAt(device: string, cell: Cell): Omit<ComparedExchange, 'error'> {
  const [kind, phase, ep, rate] = [cell('kind'), cell('phase'), Number(cell('ep')), cell('bottleneck_gb_per_s')]
  const transport: Transport = kind.startsWith('NCCL') ? 'all-to-all' : 'once'
  // DeepEP routes to four of eight groups.
  const groups = rate === '' ? {} : { groups: { all: 8, chosen: 4 } }
  const count = Number(cell('experts'))
  const experts: Experts = {
    count,
    active: Number.parseInt(cell('topk'), 10),
    ffn: 2048,
    shared: 0,
    dense: 0,
    ...groups,
  }
  const copies = (parts: number) => (transport === 'once' ? partsOfToken(experts, parts) : experts.active)
  const bytes = Number(cell('tokens_per_rank')) * Number(cell('hidden')) * 2
  const predicted = priceExchange({ bytes, group: { size: ep, stride: 1 }, transport, copies }, clusterOf(device, ep))
  const parts = ep > 8 ? ep / 8 : ep
  const measured =
    rate === ''
      ? Number(cell('microseconds')) / 1e6
      : (bytes * copies(parts) * (parts - 1)) / parts / (Number(rate) * 1e9)
  return { device, kind, phase, ep, measured, predicted }
}
