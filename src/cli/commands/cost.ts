/** lockstep cost: the time of a collective on a cluster, by algorithm. */
import { showBytes, showPercent, showTime, table } from '../../base/index.js'
import type { CollectiveKind } from '../../cluster/index.js'
import { type Collective, groupOn, type Offer, type Quote, quote, sizesBetween } from '../../cost/index.js'
// Not through the folder's index, which loads the instructions.
import { linkNames, showLatency } from '../../report/topology.js'
import { loadCluster } from '../files/load-cluster.js'
import type { Io } from '../io.js'

export interface CostOptions {
  readonly cluster: string
  readonly ranks: number
  readonly size?: number
  readonly sizes?: readonly [number, number]
  readonly stride?: number
  readonly ranksPerNode?: number
  readonly devices?: number
  readonly json?: boolean
}

export function costCommand(kind: CollectiveKind, options: CostOptions, io: Io): number {
  const { ranks, size = 2 ** 30, sizes, devices } = options
  const { group, cluster } = groupOn(n => loadCluster(options.cluster, io, n), { ...options, size: ranks, devices })
  const price = (bytes: number) => quote({ kind, bytes, group }, cluster)
  if (sizes) {
    const quotes = sizesBetween(...sizes).map(price)
    io.out(options.json ? `${JSON.stringify(quotes, null, 2)}\n` : tableText(quotes, cluster.name))
  } else io.out(options.json ? `${JSON.stringify(price(size), null, 2)}\n` : quoteText(price(size), cluster.name))
  return 0
}

const gigabytes = (rate: number): string => (rate / 1e9).toFixed(2)

function headline({ collective: { kind, group }, hops }: Quote, cluster: string): string[] {
  const where = group.stride === 1 ? 'consecutive ranks' : `stride ${group.stride}`
  const inside = hops.map(
    ({ link, fan, inner, bandwidth, latency }) =>
      `  ${fan} ${inner === 1 ? 'ranks' : `groups of ${inner} ranks`} over ${linkNames[link]}: ${gigabytes(bandwidth)} GB/s egress per ${inner === 1 ? 'rank' : 'group'}, ${showLatency(latency)} per step`,
  )
  const others = group.stride === 1 ? '' : '; the other ranks run the same collective in their own groups'
  return [`${kind} of ${group.size} ranks, ${where}, on ${cluster}${others}`, ...inside]
}

function quoteText(of: Quote, cluster: string): string {
  const { collective, offers, hops, chosen, seconds, start, algbw, busbw, busFactor, mostBusbw } = of
  const rows = offers.map(offer => [
    offer.algorithm === chosen ? `${offer.algorithm} *` : offer.algorithm,
    ...offer.carried.map(showBytes),
    ...[showTime(start), showTime(offer.latency), showTime(offer.transfer), showTime(offer.seconds)],
    gigabytes(collective.bytes / offer.seconds),
    gigabytes((busFactor * collective.bytes) / offer.seconds),
  ])
  const links = hops.map(({ link }) => `over ${linkNames[link]}`)
  return [
    ...headline(of, cluster),
    `${showBytes(collective.bytes)}: ${showTime(seconds)}, algbw ${gigabytes(algbw)} GB/s, busbw ${gigabytes(busbw)} GB/s (x ${Number(busFactor.toFixed(4))})`,
    '',
    ...(rows.length > 0
      ? [table(['algorithm', ...links, 'start', 'latency', 'bytes', 'time', 'algbw', 'busbw'], rows), '']
      : []),
    ...whyText(of),
    ...offers.map(({ algorithm, words }) => `${algorithm}: ${words}`),
    `Upper bound of busbw for this group: ${gigabytes(mostBusbw)} GB/s (reached: ${showPercent(mostBusbw > 0 ? busbw / mostBusbw : 0)}). Lower bound of time: ${showTime(start + least(offers))}.`,
    'Bytes per rank or group; start: kernel launch and stragglers; 1 GB is 1e9 bytes.',
    '',
  ].join('\n')
}

const least = (offers: readonly Offer[]): number => Math.min(...offers.map(({ latency }) => latency), Infinity)

function whyText({ chosen, offers, seconds }: Quote): string[] {
  if (chosen === 'measured') return [`* measured on this cluster: ${showTime(seconds)}; no algorithm was modeled`]
  const [best, next] = offers
  if (best === undefined) return ['a single rank has no collective']
  const bound = best.latency > best.transfer ? 'latency' : 'bandwidth'
  const other = next
    ? `, ${showPercent(next.seconds / seconds - 1)} faster than ${next.algorithm}`
    : ', the only one modeled'
  return [`* ${best.algorithm} is the fastest${other}; ${bound}-bound`]
}

/** The columns of nccl-tests, of which `count` is that of one rank where the whole is split over them. */
function tableText(quotes: readonly Quote[], cluster: string): string {
  const rows = quotes.map(({ collective: { kind, bytes, group }, seconds, algbw, busbw, chosen }) => [
    ...[bytes, Math.floor(bytes / 4 / (isSplit(kind) ? group.size : 1)), 'float', reduces(kind) ? 'sum' : 'none'],
    ...[rootOf(kind), (seconds * 1e6).toFixed(2), gigabytes(algbw), gigabytes(busbw), chosen],
  ])
  const header = ['size (B)', 'count', 'type', 'redop', 'root', 'time (us)', 'algbw (GB/s)', 'busbw (GB/s)']
  return `${[...headline(quotes[0], cluster), '', table([...header, 'algorithm'], rows)].join('\n')}\n`
}

const isSplit = (kind: Collective['kind']): boolean =>
  ['all-gather', 'reduce-scatter', 'all-to-all', 'gather', 'scatter'].includes(kind)
const reduces = (kind: Collective['kind']): boolean => ['all-reduce', 'reduce-scatter', 'reduce'].includes(kind)
const rootOf = (kind: Collective['kind']): number =>
  ['broadcast', 'reduce', 'gather', 'scatter'].includes(kind) ? 0 : -1
