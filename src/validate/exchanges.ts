/** Rows on their way to experts and back, as libraries print them of their own measurements (validation/parts/exchanges.csv). */
import { clusterOf } from '../cluster/index.js'
import { priceExchange, type Transport } from '../cost/index.js'
import { type Experts, partsOfToken } from '../estimate/index.js'
import { recordsOf } from './row.js'

export interface ComparedExchange {
  readonly device: string
  readonly kind: string
  readonly phase: string
  readonly ep: number
  /** Seconds. */
  readonly measured: number
  readonly predicted: number
  /** predicted / measured - 1 */
  readonly error: number
}

export interface ExchangeRows {
  readonly compared: readonly ComparedExchange[]
  readonly aside: readonly { readonly reason: string; readonly rows: number }[]
}

const devices: Readonly<Record<string, string>> = { GB200: 'gb200', H100: 'h100', H800: 'h800' }

export function compareExchanges(text: string): ExchangeRows {
  const [header = [], ...records] = recordsOf(text)
  const compared: ComparedExchange[] = []
  const aside = new Map<string, number>()
  for (const record of records) {
    const cell = (name: string) => record[header.indexOf(name)] ?? ''
    const device = devices[cell('gpu')]
    if (device !== undefined) compared.push(comparedAt(device, cell))
    else {
      const reason = `${cell('kind')} names the architecture ${cell('gpu')}, no device, and counts bytes that never leave`
      aside.set(reason, (aside.get(reason) ?? 0) + 1)
    }
  }
  return { compared, aside: [...aside].map(([reason, rows]) => ({ reason, rows })) }
}

/** Of a row that has no time but a rate, the time is that of the bytes of its busiest link. */
function comparedAt(device: string, cell: (name: string) => string): ComparedExchange {
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
  return { device, kind, phase, ep, measured, predicted, error: predicted / measured - 1 }
}
