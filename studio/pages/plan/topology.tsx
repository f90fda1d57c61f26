/** How the devices are joined, and what a step sends over each kind of link: the wider a line the more bytes, and its colour says how busy. */

import { useState } from 'preact/hooks'
import { narrow } from '../../base/narrow.js'
import { bytes, percent } from '../../base/numbers.js'
import { Figure } from '../../parts/figure.js'
import { levelName } from '../../parts/names.js'
import { useAnswer } from '../../work/answer.js'
import type { Link } from '../../work/plan/link.js'
import type { TopologyAnswer } from '../../work/plan/views.js'
import { views } from './text-views.js'

export default function TopologyView({ link }: { readonly link: Link }) {
  const words = views().topology
  const { value, pending } = useAnswer('program', ['plan-program', 'topology'], link)
  const levels = value ? loadsOf(value) : []
  const busiest = [...levels].sort((a, b) => b.bytes - a.bytes)[0]
  const caption = !value
    ? '…'
    : busiest && busiest.bytes > 0
      ? words.caption(`${levelName(busiest.name)} (${busiest.link})`, bytes(busiest.bytes), percent(busiest.busy))
      : words.none
  const body = (value?.traffic ?? []).map(({ axis, op, level, link, bytes: sent, count }) => [
    ...[axis, op, levelName(level), link, bytes(sent)],
    count,
  ])
  return (
    <Figure title={words.title} caption={caption} rows={{ head: words.head, body }} pending={pending}>
      {value && <Drawing answer={value} levels={levels} label={caption} />}
    </Figure>
  )
}

interface Load {
  readonly name: string
  readonly link: string
  /** Devices of one domain. */
  readonly size: number
  readonly bytes: number
  /** Share of the step. */
  readonly busy: number
}

/** Innermost first. */
function loadsOf({ topology, uses, devices }: TopologyAnswer): Load[] {
  const useOf = (level: string) => {
    const { bytes = 0, utilization: busy = 0 } = uses.find(use => use.level === level) ?? {}
    return { bytes, busy }
  }
  if (topology.kind === 'torus') {
    const { link, slices } = topology
    const load = (name: string, { kind }: typeof link, size: number) => ({
      ...{ name, link: kind, size, ...useOf(name) },
    })
    const inside = load('torus', link, devices / (slices?.count ?? 1))
    return slices ? [inside, load('slices', slices.link, devices)] : [inside]
  }
  return topology.levels.map(({ name, size, link }) => ({
    ...{ name, link: link.kind, size },
    ...useOf(name),
  }))
}

interface DrawingProps {
  readonly answer: TopologyAnswer
  readonly levels: readonly Load[]
  readonly label: string
}

function Drawing({ answer, levels, label }: DrawingProps) {
  const words = views().topology
  const [axis, choose] = useState<string | undefined>(undefined)
  const group = answer.groups.find(([name]) => name === axis)?.[1]
  return (
    <>
      {answer.topology.kind === 'torus' ? (
        <Torus dims={answer.topology.dims} load={levels[0]!} group={group} label={label} />
      ) : (
        <Tree levels={levels} devices={answer.devices} group={group} label={label} />
      )}
      <p class="chips">
        <small>{words.groups}:</small>
        {answer.groups.map(([name, ranks]) => (
          <button
            key={name}
            type="button"
            class="quiet"
            aria-pressed={axis === name}
            title={ranks.slice(0, 16).join(' ')}
            onClick={() => choose(axis === name ? undefined : name)}
          >
            {`${name}: ${ranks.slice(0, 4).join(' ')}${ranks.length > 4 ? ' …' : ''}`}
          </button>
        ))}
      </p>
    </>
  )
}

const heat = (busy: number): string => (busy > 0.5 ? 'hot' : busy > 0.2 ? 'warm' : 'cool')
/** Points for bytes, on one scale for all levels. */
const widthOf = (load: Load, most: number): number => (load.bytes === 0 ? 1 : 2 + 12 * Math.sqrt(load.bytes / most))

interface TreeProps {
  readonly levels: readonly Load[]
  readonly devices: number
  readonly group: readonly number[] | undefined
  readonly label: string
}

const rowHeight = 92
/** Where there is little room, fewer devices, and what they are below them. */
const wide = { width: 1000, left: 190, shown: 16, below: 0, columns: 12, raised: 0 }
const small = { width: 400, left: 0, shown: 8, below: 26, columns: 4, raised: 24 }
const roomOf = () => (narrow.value ? small : wide)

/** The first devices, and the domains they lie in, level by level. */
function Tree({ levels, devices, group, label }: TreeProps) {
  const words = views().topology
  const { width, left, shown, below, raised } = roomOf()
  const count = Math.min(devices, shown)
  const most = Math.max(...levels.map(({ bytes }) => bytes), 1)
  const height = (levels.length + 1) * rowHeight
  const x = (device: number) => left + ((device + 0.5) / count) * (width - left - 10)
  const y = (row: number) => height - 30 - row * rowHeight
  /** Middles of the domains of a row; devices are row 0. */
  const middles = (row: number): number[] => {
    const size = row === 0 ? 1 : Math.min(count, levels[row - 1]!.size)
    return Array.from({ length: Math.ceil(count / size) }, (_, n) =>
      x(n * size + (Math.min(size, count - n * size) - 1) / 2),
    )
  }
  const parentOf = (row: number, n: number): number => {
    const [own, next] = [row === 0 ? 1 : Math.min(count, levels[row - 1]!.size), Math.min(count, levels[row]!.size)]
    return Math.floor((n * own) / next)
  }
  return (
    <svg class="topology" viewBox={`0 0 ${width} ${height + below}`} role="img" aria-label={label}>
      {levels.map((load, row) => (
        <g key={load.name}>
          {middles(row).map((from, n) => (
            <line
              key={from}
              class={`wire ${heat(load.busy)}`}
              {...{ x1: from, y1: y(row) - 12, x2: middles(row + 1)[parentOf(row, n)]!, y2: y(row + 1) + 12 }}
              stroke-width={widthOf(load, most)}
            />
          ))}
          <text x={0} y={y(row) - rowHeight / 2 - 4 - raised}>{`${load.link} · ${bytes(load.bytes)}`}</text>
          <text x={0} y={y(row) - rowHeight / 2 + 14 - raised}>{`${percent(load.busy)} ${words.busy}`}</text>
        </g>
      ))}
      {levels.map((load, row) => (
        <g key={load.name}>
          {middles(row + 1).map(at => (
            <rect key={at} class="domain" x={at - 34} y={y(row + 1) - 13} width={68} height={26} rx={5} />
          ))}
          {middles(row + 1).map(at => (
            <text key={at} x={at} y={y(row + 1) + 5} text-anchor="middle">
              {levelName(load.name)}
            </text>
          ))}
        </g>
      ))}
      {middles(0).map((at, device) => (
        <g key={at} class={group?.includes(device) ? 'device met' : 'device'}>
          <rect x={at - 16} y={y(0) - 13} width={32} height={26} rx={4} />
          <text x={at} y={y(0) + 5} text-anchor="middle">
            {device}
          </text>
        </g>
      ))}
      <text x={0} y={y(0) + 5 + 1.2 * below}>
        {devices > count ? `${words.device} 0 – ${count - 1} / ${devices}` : words.device}
      </text>
    </svg>
  )
}

interface TorusProps {
  readonly dims: readonly number[]
  readonly load: Load
  readonly group: readonly number[] | undefined
  readonly label: string
}

/** The first plane: devices and the links to their neighbours. */
function Torus({ dims, load, group, label }: TorusProps) {
  const words = views().topology
  const { width, columns: most } = roomOf()
  const [columns, lines] = [Math.min(dims[0] ?? 1, most), Math.min(dims[1] ?? 1, 8)]
  const [x, y] = [(column: number) => 60 + column * 76, (line: number) => 60 + line * 56]
  const devices = Array.from({ length: columns * lines }, (_, n) => [n % columns, Math.floor(n / columns)] as const)
  const wire = widthOf(load, Math.max(load.bytes, 1)) / 2
  return (
    <svg class="topology" viewBox={`0 0 ${width} ${lines * 56 + 70}`} role="img" aria-label={label}>
      <text x={0} y={18}>
        {`${words.torus(dims.join(' × '))} · ${load.link} · ${bytes(load.bytes)} · ${percent(load.busy)} ${words.busy}`}
      </text>
      {devices.map(([column, line]) => (
        <g key={`${column} ${line}`} class={`wire ${heat(load.busy)}`} stroke-width={wire}>
          {column + 1 < columns && <line x1={x(column) + 16} y1={y(line)} x2={x(column + 1) - 16} y2={y(line)} />}
          {line + 1 < lines && <line x1={x(column)} y1={y(line) + 13} x2={x(column)} y2={y(line + 1) - 13} />}
        </g>
      ))}
      {devices.map(([column, line]) => {
        const device = column + line * (dims[0] ?? 1)
        return (
          <g key={device} class={group?.includes(device) ? 'device met' : 'device'}>
            <rect x={x(column) - 16} y={y(line) - 13} width={32} height={26} rx={4} />
            <text x={x(column)} y={y(line) + 5} text-anchor="middle">
              {device}
            </text>
          </g>
        )
      })}
    </svg>
  )
}
