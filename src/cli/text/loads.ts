/** The tables of `simulate` and `explain`: network traffic and kernels of a rank. */
import { scaled, showBytes, showTime, table } from '../../base/index.js'
import type { RankLoad } from '../../simulate/index.js'

export function trafficLines({ pp, traffic }: RankLoad): string[] {
  if (traffic.length === 0) return []
  const rows = traffic.map(({ what, link, count, bytes, seconds }) => [
    ...[
      what === 'messages pp' ? 'P2P pp' : what,
      link,
      count,
      showBytes(bytes),
      showTime(seconds / count),
      showTime(seconds),
    ],
  ])
  return [table([`network (a rank of pp ${pp})`, 'link', 'calls', 'bytes', 'per call', 'total'], rows), '']
}

const mostKernels = 8

export function kernelLines({ pp, kernels, ridge }: RankLoad): string[] {
  const rows = kernels.slice(0, mostKernels).map(({ what, count, flops, bytes, seconds }) => {
    const intensity = flops / bytes
    const bound = intensity > ridge ? 'compute' : 'memory'
    return [what, count, flops === 0 ? '-' : scaled(intensity), showTime(seconds / count), showTime(seconds), bound]
  })
  return [
    table([`kernels (a rank of pp ${pp})`, 'calls', 'FLOP/byte', 'per call', 'total', 'bound'], rows),
    `ridge point ${scaled(ridge)} FLOP/byte: kernels above it are compute-bound`,
    '',
  ]
}
