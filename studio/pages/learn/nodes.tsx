/** Nodes as the catalog has them: devices on a switch inside, a NIC for each way out, and rails that join the same NIC of every node. */
import { defineText } from '../../base/language.js'
import { perSecond, short } from '../../base/numbers.js'
import { Figure } from '../../parts/figure.js'
import { levelName } from '../../parts/names.js'
import type { HardwareAnswer, Level } from '../../work/hardware-lessons.js'

const text = defineText(
  {
    title: (device: string) => `How they are joined: ${device}`,
    caption: (inner: Level, outer: Level, more: string) =>
      `A ${inner.name} joins ${inner.size} devices by ${inner.kind}, ${perSecond(inner.bandwidth)} each; ${outer.ports} NICs lead out of it, ${perSecond(outer.bandwidth)} each over ${outer.kind}. A device has ${more} times as much inside as outside.`,
    group: (each: number, nodes: number, name: string) =>
      `The group of eight has ${each} in each of ${nodes} ${name}s; what goes from one to another leaves by a NIC.`,
    head: ['Level', 'Joins', 'Link', 'Bytes a second, one way', 'Ways out of what it joins'],
    more: (n: number) => `… ${n} in all`,
    rest: (name: string, n: number) => `${name} … ${n} in all`,
    rails: 'rails',
  },
  {
    title: (device: string) => `怎样连接：${device}`,
    caption: (inner: Level, outer: Level, more: string) =>
      `一个${levelName(inner.name)}用 ${inner.kind} 连接 ${inner.size} 个设备，每个 ${perSecond(inner.bandwidth)}；往外有 ${outer.ports} 块网卡，走 ${outer.kind}，每块 ${perSecond(outer.bandwidth)}。每个设备在内部的带宽是对外的 ${more} 倍。`,
    group: (each: number, nodes: number, name: string) =>
      `这一组八个设备分在 ${nodes} 个${levelName(name)}里，每个 ${each} 个；彼此之间的字节都要经过网卡。`,
    head: ['层级', '连接的设备数', '链路', '每秒字节数（单向）', '每个下级的出口数'],
    more: (n: number) => `…… 共 ${n} 个`,
    rest: (name: string, n: number) => `共 ${n} 个${name}`,
    rails: '轨道',
  },
)

interface NodesProps {
  readonly value: HardwareAnswer | undefined
  /** Nodes that the group of eight lies in. */
  readonly spread: number
  readonly pending: boolean
}

const mostDevices = 8
const mostNodes = 4

export function Nodes({ value, spread, pending }: NodesProps) {
  const words = text()
  const [inner, outer] = value?.levels ?? []
  if (!value || !inner || !outer) return null
  const outside = (outer.bandwidth * outer.ports) / inner.size
  const caption = `${words.caption(inner, outer, short(inner.bandwidth / outside))} ${words.group(8 / spread, spread, inner.name)}`
  const body = value.levels.map(({ name, size, kind, bandwidth, ports }) => [
    ...[levelName(name), size, kind, perSecond(bandwidth)],
    ports,
  ])
  return (
    <Figure title={words.title(value.title)} caption={caption} rows={{ head: words.head, body }} pending={pending}>
      <Drawing inner={inner} outer={outer} spread={spread} label={caption} />
    </Figure>
  )
}

interface DrawingProps {
  readonly inner: Level
  readonly outer: Level
  readonly spread: number
  readonly label: string
}

/** Of one node; nodes stand beside each other, or below where there is no room, and rails go through all of them. */
const [width, margin] = [250, 6]
const rows = { name: 16, bar: 26, device: 76, nic: 128, rails: 168 }
const between = 9

function Drawing({ inner, outer, spread, label }: DrawingProps) {
  const words = text()
  const count = Math.min(spread, mostNodes)
  const devices = Math.min(inner.size, mostDevices)
  const nics = Math.min(Math.round((outer.ports * devices) / inner.size), devices)
  const rest = spread > count ? ` · ${words.rest(levelName(inner.name), spread)}` : ''
  return (
    <>
      <div class="nodes" role="img" aria-label={label}>
        {Array.from({ length: count }, (_, n) => (
          <Node key={n} {...{ n, inner, devices, nics }} met={8 / spread} more={words.more(inner.size)} />
        ))}
      </div>
      <p>
        <small>{`${nics} ${words.rails} · ${outer.kind} ${perSecond(outer.bandwidth)}${rest}`}</small>
      </p>
    </>
  )
}

interface NodeProps {
  readonly n: number
  readonly inner: Level
  readonly devices: number
  readonly nics: number
  /** Of the group. */
  readonly met: number
  readonly more: string
}

const railAt = (nic: number): number => rows.rails + between * nic
const range = (length: number): number[] => Array.from({ length }, (_, n) => n)

function Node({ n, inner, devices, nics, met, more }: NodeProps) {
  const pitch = (width - 2 * margin - 8) / devices
  const at = (device: number) => margin + 4 + pitch * (device + 0.5)
  const box = Math.min(34, pitch - 4)
  return (
    <svg viewBox={`0 0 ${width} ${railAt(nics)}`} aria-hidden="true">
      {range(nics).map(nic => (
        <line key={nic} class="rail" x1={0} x2={width} y1={railAt(nic)} y2={railAt(nic)} />
      ))}
      <rect class="node" x={margin} y={2} width={width - 2 * margin} height={rows.nic + 26} rx={6} />
      <text x={margin + 8} y={rows.name}>
        {`${levelName(inner.name)} ${n}${inner.size > devices ? ` ${more}` : ''}`}
      </text>
      <rect class="switch" x={margin + 6} y={rows.bar} width={width - 2 * margin - 12} height={20} rx={3} />
      <text class="on-switch" x={width / 2} y={rows.bar + 14} text-anchor="middle">
        {`${inner.kind} ${perSecond(inner.bandwidth)}`}
      </text>
      {range(devices).map(device => (
        <g key={device} class={device < met ? 'device met' : 'device'}>
          <line class="inside" x1={at(device)} x2={at(device)} y1={rows.bar + 20} y2={rows.device} />
          <rect x={at(device) - box / 2} y={rows.device} width={box} height={26} rx={4} />
          <text x={at(device)} y={rows.device + 17} text-anchor="middle">
            {device}
          </text>
        </g>
      ))}
      {range(nics).map(nic => (
        <g key={nic}>
          <line class="rail" x1={at(nic)} x2={at(nic)} y1={rows.device + 26} y2={railAt(nic)} />
          <rect class="nic" x={at(nic) - box / 2} y={rows.nic} width={box} height={14} rx={2} />
          <circle class="joint" cx={at(nic)} cy={railAt(nic)} r={2.5} />
        </g>
      ))}
    </svg>
  )
}
