/**
 * Rows on their way to experts and back. A library that knows only sends every choice of a token by itself; one that knows
 * of experts sends a token once to every rank, and to every node, that needs it. The busiest kind of link sets the time.
 */
import type { Cluster } from '../cluster/index.js'
import { startSeconds } from './collective.js'
import type { Members } from './kernel.js'
import { type Hop, hopsOf } from './route.js'

export interface Exchange {
  /** Of the tokens of one rank, each counted once. */
  readonly bytes: number
  readonly group: Members
  readonly transport: Transport
  /** Copies of a token that travel to parts of the group, if there are so many of them; its own part may be one. */
  readonly copies: (parts: number) => number
}

/** `all-to-all`: each choice by itself. The others send a token once to each part: DeepEP, and HybridEP, which came later. */
export type Transport = 'all-to-all' | 'deep-ep' | 'hybrid-ep'

/** Whether a token travels once to each part, however many of its experts are there. */
export const sendsOnce = (transport: Transport): boolean => transport !== 'all-to-all'

/**
 * Of the bandwidth of a link, what is reached: between devices that are close, and over a network. Fitted on half of the rows of
 * validation/parts/exchanges.csv (the combines).
 */
const reached: Readonly<Record<Transport, { readonly near: number; readonly far: number }>> = {
  'all-to-all': { near: 0.7, far: 0.87 },
  'deep-ep': { near: 0.71, far: 0.71 },
  'hybrid-ep': { near: 0.86, far: 0.97 },
}

/** Seconds in one direction, where all ranks send as much. */
export function priceExchange({ bytes, group, transport, copies }: Exchange, cluster: Cluster): number {
  if (group.size <= 1 || bytes === 0) return 0
  const seconds = (hop: Hop): number => {
    const parts = group.size / hop.inner
    const leaving = (hop.inner * bytes * copies(parts) * (parts - 1)) / parts
    return Math.ceil(Math.log2(hop.fan)) * hop.link.latency + (leaving + hop.link.half) / bandwidthOf(hop, transport)
  }
  return startSeconds + Math.max(...hopsOf(group, cluster).map(seconds))
}

const bandwidthOf = ({ link, bandwidth }: Hop, transport: Transport): number => {
  const { near, far } = reached[transport]
  return (bandwidth / link.efficiency) * (isNear(link.kind) ? near : far)
}

const isNear = (kind: Hop['link']['kind']): boolean => kind !== 'infiniband' && kind !== 'ethernet'
