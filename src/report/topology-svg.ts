/**
 * A cluster as a picture. A tree is boxes within boxes: devices in a node, nodes in a pod, each kind under the switch
 * that joins them, with as many lines to it as it has ports. A torus is a grid, or a pile of grids. Where there are too
 * many of a kind, the first ones and the last one are drawn.
 */
import { counted } from '../base/index.js'
import type { Cluster, Level, LinkKind, Torus } from '../cluster/index.js'
import { type Fill, inkOn, palette, type Theme } from './palette.js'
import { escapeXml, round } from './svg.js'
import { betweenSlices, linkNames, linksOf, showRate, torusShape } from './topology.js'

/** Something to place: its size, and its drawing at a corner. */
interface Block {
  readonly width: number
  readonly height: number
  draw(x: number, y: number): string
}

const margin = 20
const top = 64
const gap = 18
const barHeight = 26
/** From a switch to what hangs under it. */
const drop = 26
const charWidth = 6.3

export function topologySvg({ title, subtitle, cluster }: TopologyPicture): string {
  const { topology, devices } = cluster
  const block =
    topology.kind === 'tree' ? domainBlock(topology.levels, topology.levels.length - 1, devices) : torusBlock(topology)
  const width = Math.ceil(Math.max(block.width, 8.6 * title.length, charWidth * subtitle.length) + 2 * margin)
  const height = Math.ceil(top + block.height + margin)
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" role="img">
<style>${styles}</style>
<rect class="page" width="${width}" height="${height}"/>
<text class="title" x="${margin}" y="28">${escapeXml(title)}</text>
<text class="small" x="${margin}" y="46">${escapeXml(subtitle)}</text>
${block.draw(margin, top)}
</svg>
`
}

export interface TopologyPicture {
  readonly title: string
  readonly subtitle: string
  readonly cluster: Cluster
}

/** One domain of level `at` with `devices` in it; in brief, what lies inside is only counted. */
function domainBlock(levels: readonly Level[], at: number, devices: number, brief = false): Block {
  const level = levels[at]
  const over = level.oversubscription > 1 ? ` · ${level.oversubscription} : 1 at its top` : ''
  const label = `${linksOf(levels, at)}${over}`
  const parts = at === 0 ? '' : `${counted(Math.ceil(devices / levels[at - 1].size), levels[at - 1].name)}, `
  const inner = brief ? nothing : at === 0 ? deviceGrid(devices, level.link.kind) : childrenBlock(levels, at, devices)
  const width = Math.max(inner.width, charWidth * label.length + 24) + 2 * gap
  const height = inner.height + barHeight + gap + 2 * 12
  return {
    width,
    height,
    draw: (x, y) =>
      [
        `<rect class="box d${Math.min(at, 2)}" x="${round(x)}" y="${round(y)}" width="${round(width)}" height="${round(height)}" rx="10"/>`,
        bar({ x: x + gap, y: y + 12, width: width - 2 * gap }, level.link.kind, label),
        inner.draw(x + (width - inner.width) / 2, y + 12 + barHeight),
        `<text class="small end" x="${round(x + width - gap)}" y="${round(y + height - 8)}">${escapeXml(`${level.name}: ${parts}${counted(devices, 'device')}`)}</text>`,
      ].join(''),
  }
}

const nothing: Block = { width: 0, height: 0, draw: () => '' }

const bar = ({ x, y, width }: { x: number; y: number; width: number }, kind: LinkKind, label: string): string =>
  `<rect class="l-${kind}" x="${round(x)}" y="${round(y)}" width="${round(width)}" height="${barHeight}" rx="5"/>` +
  `<text class="on i-${kind}" x="${round(x + width / 2)}" y="${round(y + 17)}">${escapeXml(label)}</text>`

const side = 24
const shownDevices = 72

/** Devices under their switch, in rows; the top row is tied to it. */
function deviceGrid(devices: number, kind: LinkKind): Block {
  const shown = Math.min(devices, shownDevices)
  const columns = shown <= 8 ? shown : shown <= 32 ? 8 : 18
  const pitch = shown > 32 ? 20 : side + 8
  const box = pitch - 8
  const rows = Math.ceil(shown / columns)
  const left = devices - shown
  return {
    width: columns * pitch - 8,
    height: drop + rows * pitch - 8 + (left > 0 ? 18 : 0),
    draw: (x, y) => {
      const cells = Array.from({ length: shown }, (_, i) => {
        const [cx, cy] = [x + (i % columns) * pitch, y + drop + Math.floor(i / columns) * pitch]
        const tie = `<line class="s-${kind}" x1="${round(cx + box / 2)}" y1="${round(i < columns ? y : cy - 8)}" x2="${round(cx + box / 2)}" y2="${round(cy)}"/>`
        return `${tie}<rect class="device" x="${round(cx)}" y="${round(cy)}" width="${box}" height="${box}" rx="4"/>`
      })
      const more =
        left > 0
          ? `<text class="small" x="${round(x)}" y="${round(y + drop + rows * pitch + 8)}">${left} more</text>`
          : ''
      return cells.join('') + more
    },
  }
}

const mostPorts = 8

/** The domains of the level below, side by side, each with its ports to the switch above. */
function childrenBlock(levels: readonly Level[], at: number, devices: number): Block {
  const { size, name } = levels[at - 1]
  const { ports, link } = levels[at]
  const count = Math.ceil(devices / size)
  const elided = count - 3
  // Domains that hold domains are large: the first shows what is in all of them.
  const child = (index: number) =>
    domainBlock(levels, at - 1, Math.min(size, devices - index * size), at > 1 && index > 0)
  const shown = elided > 0 ? [child(0), child(1), child(count - 1)] : Array.from({ length: count }, (_, i) => child(i))
  const more = elided > 0 ? `⋯ ${elided} more ⋯` : ''
  const space = (index: number) => (elided > 0 && index === 1 ? charWidth * more.length + 24 : gap)
  const starts = shown.map((_, i) => shown.slice(0, i).reduce((x, block, j) => x + block.width + space(j), 0))
  const height = Math.max(...shown.map(block => block.height))
  return {
    width: starts[starts.length - 1] + shown[shown.length - 1].width,
    height: drop + height,
    draw: (x, y) => {
      const parts = shown.map(
        (block, i) =>
          ties(x + starts[i] + block.width / 2, y, Math.min(ports, mostPorts), link.kind) +
          block.draw(x + starts[i], y + drop),
      )
      const middle = round(y + drop + (shown[1]?.height ?? 0) / 2)
      const between =
        elided > 0
          ? `<text class="more" x="${round(x + starts[2] - space(1) / 2)}" y="${middle}"><title>${escapeXml(counted(elided, name))}</title>${more}</text>`
          : ''
      return parts.join('') + between
    },
  }
}

const ties = (centre: number, y: number, ports: number, kind: LinkKind): string =>
  Array.from({ length: ports }, (_, i) => {
    const x = round(centre + (i - (ports - 1) / 2) * 7)
    return `<line class="s-${kind}" x1="${x}" y1="${round(y)}" x2="${x}" y2="${round(y + drop)}"/>`
  }).join('')

/** So many devices are drawn along a dim, and so far apart. */
const flat = { most: 8, step: 40 }
const deepened = { most: 4, step: 72 }
/** A layer behind another is drawn up and to the right. */
const tilt = { x: 17, y: 13 }
const stub = 14

function torusBlock(topology: Torus): Block {
  const { dims, link } = topology
  const { most, step } = dims.length > 2 ? deepened : flat
  const [across, down = 1, deep = 1] = [...dims].reverse()
  const [columns, rows, layers] = [across, down, deep].map(size => Math.min(size, most))
  const label = `${torusShape(topology)} · ${linkNames[link.kind]}, ${showRate(link.bandwidth)} one way per link`
  const between = topology.slices ? `between slices: ${betweenSlices(topology.slices)}` : ''
  const hidden = dims.some(size => size > most)
  const drawn = [layers, rows, columns].slice(-dims.length).join(' x ')
  const note = [between, hidden ? `drawn: ${drawn} of ${dims.join(' x ')}` : ''].filter(Boolean).join(' · ')
  const [width, height] = [(columns - 1) * step + (layers - 1) * tilt.x, (rows - 1) * step + (layers - 1) * tilt.y]
  const wraps = (size: number) => size >= topology.wrapsFrom && size > 2
  const line = [
    { shown: columns, wraps: wraps(across), more: across > columns, dx: step, dy: 0 },
    { shown: rows, wraps: wraps(down), more: down > rows, dx: 0, dy: step },
    { shown: layers, wraps: false, more: false, dx: tilt.x, dy: -tilt.y },
  ]
  return {
    width: Math.max(width + side + 2 * stub, charWidth * label.length + 24),
    height: barHeight + gap + 2 * stub + height + side + (note ? 24 : 0),
    draw: (x, y) => {
      const [left, upper] = [x + stub, y + barHeight + gap + stub]
      // From the back, and lines before boxes: what is in front is drawn last.
      const layer = (l: number) => {
        const cells = Array.from({ length: rows * columns }, (_, i) => {
          const [c, r] = [i % columns, Math.floor(i / columns)]
          const centre = { x: left + c * step + l * tilt.x, y: upper + (layers - 1 - l) * tilt.y + r * step }
          return cell(
            centre,
            line.flatMap((dim, i) => endsOf(dim, [c, r, l][i], l === 0)),
            l === 0,
          )
        })
        return cells.map(({ lines }) => lines).join('') + cells.map(({ box }) => box).join('')
      }
      const cells = Array.from({ length: layers }, (_, i) => layer(layers - 1 - i))
      const head = bar({ x, y, width: charWidth * label.length + 24 }, link.kind, label)
      const foot = note
        ? `<text class="small" x="${round(left)}" y="${round(upper + height + side + stub + 18)}">${note}</text>`
        : ''
      return head + cells.join('') + foot
    },
  }
}

type Offset = readonly [x: number, y: number]

interface Dim {
  readonly shown: number
  readonly wraps: boolean
  readonly more: boolean
  readonly dx: number
  readonly dy: number
}

/** Where the lines of a device along one dim end, from its centre: at the next one, or in a stub where a ring closes. */
function endsOf({ shown, wraps, more, dx, dy }: Dim, index: number, front: boolean): Offset[] {
  const short = (sign: number): Offset => [
    sign * Math.sign(dx) * (side / 2 + stub),
    sign * Math.sign(dy) * (side / 2 + stub),
  ]
  if (index + 1 < shown) return index === 0 && wraps && front ? [[dx, dy], short(-1)] : [[dx, dy]]
  return front && (wraps || more) ? [short(1), ...(shown === 1 ? [short(-1)] : [])] : []
}

interface Cell {
  readonly lines: string
  readonly box: string
}

function cell({ x, y }: { readonly x: number; readonly y: number }, ends: readonly Offset[], front: boolean): Cell {
  const size = front ? side : side - 8
  const [cx, cy] = [x + side / 2, y + side / 2]
  const line = ([dx, dy]: Offset) =>
    `<line class="s-ici${front ? '' : ' far'}" x1="${round(cx)}" y1="${round(cy)}" x2="${round(cx + dx)}" y2="${round(cy + dy)}"/>`
  const box = `<rect class="device${front ? '' : ' back'}" x="${round(cx - size / 2)}" y="${round(cy - size / 2)}" width="${size}" height="${size}" rx="4"/>`
  return { lines: ends.map(line).join(''), box }
}

/** A switch and its lines have the colour of one kind of span. */
const fills: Readonly<Record<LinkKind, Fill>> = {
  memory: palette.other,
  nvlink: palette.W,
  xgmi: palette.B,
  pcie: palette.I,
  infiniband: palette.F,
  ethernet: palette.optimizer,
  ici: palette.F,
}

const paint = (theme: Theme): string =>
  Object.entries(fills)
    .map(
      ([kind, { [theme]: fill }]) =>
        `.l-${kind}{fill:${fill}}.s-${kind}{stroke:${fill}}.i-${kind}{fill:${inkOn(fill)}}`,
    )
    .join('')

const light = `.page{fill:#fff}text{fill:#1b1f24}.small,.more{fill:#57606a}.box{stroke:#d0d7de}.d0{fill:#fff}.d1{fill:#f6f8fa}.d2{fill:#eceff3}.device{fill:#dce6f2;stroke:#6a87ab}.back{fill:#eef3f9;stroke:#9db2cb}${paint('light')}`
const dark = `.page{fill:#0d1117}text{fill:#e6edf3}.small,.more{fill:#9da7b3}.box{stroke:#30363d}.d0{fill:#161b22}.d1{fill:#1c2128}.d2{fill:#22272e}.device{fill:#26384f;stroke:#7d9cc4}.back{fill:#1a2636;stroke:#526b8c}${paint('dark')}`
const styles = `text{font:11px system-ui,-apple-system,"Segoe UI",sans-serif}.title{font-size:16px;font-weight:600}.on{font-weight:600;text-anchor:middle}.more{text-anchor:middle}.end{text-anchor:end}line{stroke-width:1.6}.far{stroke-width:.8;opacity:.55}${light}@media (prefers-color-scheme:dark){${dark}}`
