/** lockstep cluster: the devices that are known, and how many of them would be joined. */
import { save, scaled, showBytes, table, wrapped } from '../../base/index.js'
import {
  type Cluster,
  clusterOf,
  type Device,
  deviceNames,
  deviceOf,
  findEntry,
  precisions,
} from '../../cluster/index.js'
// Not through the folder's index, here and below: it loads the instructions too, which take longer to load than this takes.
import { linkFigures, linkNames, showLatency, showRate, topologyText, torusShape } from '../../report/topology.js'
import { topologySvg } from '../../report/topology-svg.js'
import { loadCluster } from '../files/load-cluster.js'
import type { Io } from '../io.js'

export interface ShowOptions {
  readonly devices?: number
  readonly svg?: string
  readonly json?: boolean
}

export function clusterList({ json }: { json?: boolean }, io: Io): number {
  io.out(`${json ? JSON.stringify(deviceNames.map(deviceOf), null, 2) : listText()}\n`)
  return 0
}

export function clusterShow(given: string, { devices, svg, json }: ShowOptions, io: Io): number {
  const shown = loadCluster(given, io, devices ?? (findEntry(given) ? fewOf(given) : undefined))
  if (svg !== undefined) save(svg, topologySvg({ ...headline(shown), cluster: shown }), io)
  io.out(`${json ? JSON.stringify(shown, null, 2) : showText(shown)}\n`)
  return 0
}

/** Enough of them to see how they are joined. */
function fewOf(name: string): number {
  const { topology } = clusterOf(name, 64)
  return topology.kind === 'tree' ? 4 * topology.levels[0].size : 64
}

function listText(): string {
  const rows = deviceNames.map(name => {
    const device = deviceOf(name)
    const { topology } = clusterOf(name, 256)
    const near = topology.kind === 'tree' ? topology.levels[0] : undefined
    const far = topology.kind === 'tree' ? topology.levels[1] : undefined
    const link = topology.kind === 'tree' ? topology.levels[0].link : topology.link
    return [
      name,
      String(Math.round(halfPeak(device) / 1e12)),
      showBytes(device.memory),
      showRate(device.bandwidth),
      `${near ? near.size : 'torus'} by ${linkNames[link.kind]} ${showRate(link.bandwidth)}`,
      far ? `${far.ports} x ${showRate(far.link.bandwidth)}` : '-',
      device.pricePerHour === undefined ? '-' : device.pricePerHour.toFixed(2),
    ]
  })
  const list = table(['name', 'TFLOP/s', 'memory', 'bandwidth', 'intra-node', 'NICs', '$/h'], rows)
  return `${list}\n\`lockstep cluster show NAME\` shows one in detail. TFLOP/s: dense, in bf16 or f16.`
}

/** The peak rate in the 16 bits it trains in. */
const halfPeak = ({ peak }: Device): number => peak.bf16 ?? peak.f16 ?? Math.max(...Object.values(peak))

function headline({ name, device, devices }: Cluster): { title: string; subtitle: string } {
  const price = device.pricePerHour === undefined ? [] : [`$${scaled(device.pricePerHour * devices)} /hour`]
  const total = [`${scaled(halfPeak(device) * devices, ' ')}FLOP/s`, showBytes(device.memory * devices), ...price]
  return { title: `${name}: ${devices} x ${device.title}`, subtitle: `total: ${total.join(', ')}` }
}

function showText(cluster: Cluster): string {
  const { title, subtitle } = headline(cluster)
  return [
    title,
    subtitle,
    '',
    topologyText(cluster.topology, cluster.devices),
    '',
    linkTable(cluster),
    '',
    deviceTable(cluster.device),
    '',
    'Sources',
    ...[...new Set([...cluster.device.sources, ...cluster.sources])].flatMap(source => wrapped(`- ${source}`)),
  ].join('\n')
}

function linkTable({ topology, host }: Cluster): string {
  const rows =
    topology.kind === 'tree'
      ? topology.levels.map(({ name, link }) => [
          name,
          linkNames[link.kind],
          showRate(link.bandwidth),
          linkFigures(link),
        ])
      : [
          [
            torusShape(topology),
            linkNames[topology.link.kind],
            showRate(topology.link.bandwidth),
            linkFigures(topology.link),
          ],
        ]
  const behind = host
    ? [
        [
          'host',
          linkNames[host.link.kind],
          showRate(host.link.bandwidth),
          `${linkFigures(host.link)}, ${showBytes(host.memory)} per device`,
        ],
      ]
    : []
  return table(['level', 'link', 'bandwidth', ''], [...rows, ...behind])
}

function deviceTable(device: Device): string {
  const { matmul, attention, memory, floor } = device.curves
  const rate = (flops: number | undefined) => (flops === undefined ? '-' : `${scaled(flops, ' ')}FLOP/s`)
  const percent = (share: number) => `${Number((100 * share).toFixed(1))} %`
  const rates = precisions
    .filter(precision => device.peak[precision] !== undefined)
    .map(precision => {
      const reached = matmul.efficiency[precision] ?? matmul.efficiency.bf16
      return `${precision} ${rate(device.peak[precision])}${reached === undefined ? '' : `, ${percent(reached)} reached`}`
    })
  const { bytes, fraction } = device.reserve
  const half = memory.half > 0 ? `, half of that at ${showBytes(memory.half)}` : ''
  return table(
    ['device', ''],
    [
      ...rates.map((text, i) => [i === 0 ? 'matmul' : '', text]),
      ['', `tiles of ${matmul.tile.join(' x ')} on ${matmul.units} units, half the rate at k = ${matmul.halfK}`],
      ...(matmul.measured.length > 0 ? [['', `${matmul.measured.length} matmul shapes measured`]] : []),
      ['attention', `${percent(attention.forward)} forward, ${percent(attention.backward)} backward`],
      ['memory', `${showBytes(device.memory)}, of which ${showBytes(bytes)} and ${percent(fraction)} are reserved`],
      ['bandwidth', `${showRate(device.bandwidth)}, ${percent(memory.efficiency)} reached${half}`],
      ['kernel', `at least ${showLatency(floor)}`],
      ...(device.pricePerHour === undefined ? [] : [['price', `$${device.pricePerHour} /hour`]]),
    ],
  )
}
