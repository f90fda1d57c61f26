/** How the devices of a cluster are joined, in words and in letters. */
import { showBytes } from '../base/index.js'
import type { Level, Link, LinkKind, Topology, Torus } from '../cluster/index.js'

export const linkNames: Readonly<Record<LinkKind, string>> = {
  memory: 'shared memory',
  nvlink: 'NVLink',
  xgmi: 'Infinity Fabric',
  pcie: 'PCIe',
  infiniband: 'InfiniBand',
  ethernet: 'Ethernet',
  ici: 'ICI',
}

/** 4.5e11 -> '450 GB/s' */
export const showRate = (bytesPerSecond: number): string => {
  const [by, unit] = bytesPerSecond >= 1e12 ? [1e12, 'TB/s'] : [1e9, 'GB/s']
  return `${Number((bytesPerSecond / by).toPrecision(3))} ${unit}`
}

export const showLatency = (seconds: number): string => `${Number((seconds * 1e6).toPrecision(3))} µs`

/** 'InfiniBand, 8 x 50 GB/s per node' */
export function linksOf(levels: readonly Level[], at: number): string {
  const { link, ports } = levels[at]
  const who = at === 0 ? 'device' : levels[at - 1].name
  return `${linkNames[link.kind]}, ${ports > 1 ? `${ports} x ` : ''}${showRate(link.bandwidth)} per ${who}`
}

/** What is known of a link beside its name: 'reaches 80 %, 12 µs a step'. */
export const linkFigures = ({ efficiency, latency, half }: Link): string =>
  [
    `reaches ${Number((100 * efficiency).toPrecision(3))} %`,
    `${showLatency(latency)} per step`,
    ...(half > 0 ? [`half of it at ${showBytes(half)}`] : []),
  ].join(', ')

/** '8 x 8 x 4', how many of them, and which dims close to rings. */
export function torusShape({ dims, wrapsFrom, slices }: Torus): string {
  const rings = dims.filter(size => size >= wrapsFrom && size > 2).length
  const many = slices ? `${slices.count} slices, each a ` : ''
  return `${many}${dims.join(' x ')} torus, ${rings === dims.length ? 'every dim a ring' : rings === 0 ? 'no dim wraps' : `${rings} of ${dims.length} dims are rings`}`
}

/** 'Ethernet, 3.13 GB/s per device' */
export const betweenSlices = ({ link }: NonNullable<Torus['slices']>): string =>
  `${linkNames[link.kind]}, ${showRate(link.bandwidth)} per device`

export const topologyText = (topology: Topology, devices: number): string =>
  (topology.kind === 'tree' ? treeText(topology.levels, devices) : torusText(topology)).join('\n')

/** So many of a kind are drawn: the first, some more, the last. */
const shownAtOnce = 3
const widestRow = 18

function treeText(levels: readonly Level[], devices: number): string[] {
  const top = levels.length - 1
  const heading = `${levels[top].name} of ${devices} devices: ${linksOf(levels, top)}`
  return [heading, ...inside(levels, top, devices)]
}

/** The lines under a domain's heading. */
function inside(levels: readonly Level[], at: number, devices: number): string[] {
  if (at === 0) return boxes(devices)
  const { name, size, oversubscription } = levels[at - 1]
  const count = Math.ceil(devices / size)
  const over = oversubscription > 1 ? `, ${oversubscription} : 1 oversubscribed` : ''
  const domain = (index: number): string[] => {
    const own = Math.min(size, devices - index * size)
    const about = index === 0 ? `: ${linksOf(levels, at - 1)}${over}` : ''
    const last = index === count - 1
    const lines = index === 0 || at === 1 ? inside(levels, at - 1, own) : []
    return [`${last ? '└' : '├'}─ ${name} ${index}${about}`, ...lines.map(line => `${last ? ' ' : '│'}  ${line}`)]
  }
  const left = count - shownAtOnce
  if (left <= 0) return Array.from({ length: count }, (_, i) => domain(i)).flat()
  return [...domain(0), ...domain(1), `┆  ${left} more`, ...domain(count - 1)]
}

function boxes(devices: number): string[] {
  const rows = Math.min(4, Math.ceil(devices / widestRow))
  const lines = Array.from({ length: rows }, (_, row) =>
    Array.from({ length: Math.min(widestRow, devices - row * widestRow) }, () => '■').join(' '),
  )
  const left = devices - rows * widestRow
  return left > 0 ? [...lines, `${left} more`] : lines
}

/** The last two dims as a grid; a third one is a pile of such grids. */
function torusText(topology: Torus): string[] {
  const { dims, link, wrapsFrom, slices } = topology
  const [across, down = 1, deep = 1] = [...dims].reverse()
  const most = 8
  const wraps = (size: number) => size >= wrapsFrom && size > 2
  const columns = Math.min(across, most)
  const rows = Math.min(down, most)
  const row = `${wraps(across) ? '─' : ' '}${Array.from({ length: columns }, () => '■').join('──')}${across > most ? '┄┄' : wraps(across) ? '─' : ''}`
  const between = ` ${Array.from({ length: columns }, () => '│').join('  ')}`
  const grid = Array.from({ length: rows }, (_, i) => (i === 0 ? [row] : [between, row])).flat()
  const vertical = wraps(down) ? [between] : []
  const more = down > most ? [` ${Array.from({ length: columns }, () => '┆').join('  ')}`] : vertical
  return [
    `${torusShape(topology)}: ${linkNames[link.kind]}, ${showRate(link.bandwidth)} one way per link`,
    ...vertical,
    ...grid,
    ...more,
    ...(deep > 1 ? [`${deep} such layers${wraps(deep) ? ', in a ring' : ''}`] : []),
    ...(slices ? [`${slices.count} such slices: ${betweenSlices(slices)}`] : []),
  ]
}
