/** A plan's ranks as a block that can be turned: one direction for each axis, the chosen rank's node filled, its groups as lines. */
import { useRef } from 'preact/hooks'
import { type Knobs, oneOf, readKnobs } from '../../base/knobs.js'
import { defineText } from '../../base/language.js'
import { narrow } from '../../base/narrow.js'
import { bytes } from '../../base/numbers.js'
import { Figure } from '../../parts/figure.js'
import { Controls } from '../../parts/knobs.js'
import { Trouble } from '../../parts/trouble.js'
import { useAnswer } from '../../work/answer.js'
import type { JobText } from '../../work/jobs.js'
import type { CubeAnswer, CubeGroup } from '../../work/placement.js'
import './cube.css'

const text = defineText(
  {
    title: 'The ranks of the plan, to be turned',
    knobs: { inside: 'Counted fastest', rank: 'Rank', turn: 'Turn', tilt: 'Tilt' },
    degrees: (n: number) => `${n}°`,
    how: 'Drag the picture, or move Turn and Tilt by arrow keys. Letters are nodes; filled ranks share the node of the chosen one.',
    caption: (rank: number, node: string, groups: string) => `Rank ${rank} lies in node ${node}. ${groups}`,
    group: (axis: string, size: number, nodes: number) =>
      `Its ${axis} group of ${size} lies in ${nodes === 1 ? 'one node' : `${nodes} nodes`}`,
    sends: (sent: string) => `, and it sends ${sent} a step along it`,
    over: (amount: string, link: string) => `${amount} over ${link}`,
    and: ' and ',
    stop: '. ',
    head: ['Axis', 'Ranks that meet', 'Nodes', 'Sent by the rank in a step'],
  },
  {
    title: '方案的所有 rank，可以转动',
    knobs: { inside: '最先编号的轴', rank: 'rank', turn: '转动', tilt: '俯仰' },
    degrees: (n: number) => `${n}°`,
    how: '拖动图，或用方向键移动“转动”和“俯仰”。字母是节点；填色的 rank 与选中的在同一节点。',
    caption: (rank: number, node: string, groups: string) => `rank ${rank} 在节点 ${node}。${groups}`,
    group: (axis: string, size: number, nodes: number) => `它的 ${axis} 组有 ${size} 个 rank，分在 ${nodes} 个节点`,
    sends: (sent: string) => `，一步里沿这个轴发出 ${sent}`,
    over: (amount: string, link: string) => `${amount}（走 ${link}）`,
    and: '、',
    stop: '。',
    head: ['轴', '在一起的 rank', '节点数', '这个 rank 一步发出'],
  },
)

const orders = { tp: 'tp-cp-ep-dp-pp', dp: 'dp-tp-cp-ep-pp', pp: 'pp-tp-cp-ep-dp' } as const

const step = 5
const range = (from: number, to: number, by: number): number[] =>
  Array.from({ length: (to - from) / by + 1 }, (_, n) => from + n * by)

const table = {
  inside: oneOf(['tp', 'dp', 'pp']),
  rank: oneOf(range(0, 63, 1), 0),
  turn: oneOf(range(-180, 180, step), -20),
  tilt: oneOf(range(-90, 90, step), 20),
}
type Turning = Knobs<typeof table>

interface CubeProps {
  /** Of 64 ranks, in the order that is asked for. */
  readonly jobOf: (order: string) => JobText
  readonly device: string
}

export function Cube({ jobOf, device }: CubeProps) {
  const knobs = readKnobs(table)
  const { inside, rank } = knobs.chosen
  const input = { job: jobOf(orders[inside]), device, rank }
  const { value, refusal, pending } = useAnswer('fast', ['placement', 'cube'], input)
  const words = text()
  const caption = value ? captionOf(value) : '…'
  const labels = {
    inside: { label: words.knobs.inside },
    rank: { label: words.knobs.rank },
    turn: { label: words.knobs.turn, show: words.degrees },
    tilt: { label: words.knobs.tilt, show: words.degrees },
  }
  const rows = {
    head: words.head,
    body: (value?.groups ?? []).map(group => [group.axis, group.ranks.join(' '), group.nodes, sentBy(group)]),
  }
  return (
    <>
      {refusal && <Trouble why={refusal} />}
      <Figure title={words.title} caption={caption} rows={rows} pending={pending}>
        <p>
          <small>{words.how}</small>
        </p>
        <Controls knobs={knobs} labels={labels} />
        {value && <Block value={value} knobs={knobs} label={caption} />}
      </Figure>
    </>
  )
}

const letterOf = (node: number): string => String.fromCharCode(65 + (node % 26))

const sentBy = ({ sent }: CubeGroup): string =>
  sent.map(([link, amount]) => text().over(bytes(amount), link)).join(text().and)

function captionOf({ rank, ranks, groups }: CubeAnswer): string {
  const words = text()
  const said = groups.map(group => {
    const sent = sentBy(group)
    return `${words.group(group.axis, group.ranks.length, group.nodes)}${sent && words.sends(sent)}${words.stop}`
  })
  return words.caption(rank, letterOf(ranks[rank]!.node), said.join('')).trim()
}

/** The room, and how far it is from rank to rank along each direction. */
const wide = { width: 640, height: 400, pitch: { tp: 62, pp: 76, dp: 100 } }
const small = { width: 360, height: 380, pitch: { tp: 37, pp: 76, dp: 90 } }
const roomOf = () => (narrow.value ? small : wide)
/** Directions of the axes before anything is turned. */
const directions = { tp: 'x', pp: 'y', dp: 'z' } as const
type Space = Readonly<Record<'x' | 'y' | 'z', number>>

/** Turned about the upright, then tilted towards the reader. */
function turned({ x, y, z }: Space, turn: number, tilt: number): Space {
  const [a, b] = [(turn * Math.PI) / 180, (tilt * Math.PI) / 180]
  const [right, deep] = [x * Math.cos(a) + z * Math.sin(a), z * Math.cos(a) - x * Math.sin(a)]
  return { x: right, y: y * Math.cos(b) - deep * Math.sin(b), z: deep * Math.cos(b) + y * Math.sin(b) }
}

function placesOf({ axes, ranks }: CubeAnswer, turn: number, tilt: number): readonly Space[] {
  const { width, height, pitch } = roomOf()
  const along = (at: Readonly<Record<string, number>>, name: keyof typeof directions) => {
    const size = axes.find(axis => axis.name === name)?.size ?? 1
    return ((at[name] ?? 0) - (size - 1) / 2) * pitch[name]
  }
  return ranks.map(({ at }) => {
    const { x, y, z } = turned({ x: along(at, 'tp'), y: along(at, 'pp'), z: along(at, 'dp') }, turn, tilt)
    const near = 1 + z / 1600
    return { x: width / 2 + x * near, y: height / 2 + y * near, z }
  })
}

interface BlockProps {
  readonly value: CubeAnswer
  readonly knobs: Turning
  readonly label: string
}

/** Where a drag began, and how the block stood then. */
interface Grip {
  readonly x: number
  readonly y: number
  readonly turn: number
  readonly tilt: number
}

const clamp = (value: number, most: number): number => Math.max(-most, Math.min(most, Math.round(value / step) * step))
const around = (value: number): number => ((((Math.round(value / step) * step + 180) % 360) + 360) % 360) - 180

function Block({ value, knobs, label }: BlockProps) {
  const { turn, tilt } = knobs.chosen
  const { width, height } = roomOf()
  const from = useRef<Grip>(undefined)
  const places = placesOf(value, turn, tilt)
  const order = places.map((_, rank) => rank).sort((a, b) => places[a]!.z - places[b]!.z)
  const drag = (event: PointerEvent, settled: boolean) => {
    const began = from.current
    if (!began) return
    const changes = {
      turn: around(began.turn + (event.clientX - began.x) / 2),
      tilt: clamp(began.tilt + (event.clientY - began.y) / 2, 90),
    }
    knobs.set(changes, settled)
  }
  // A finger scrolls; it turns the block by the sliders.
  const begin = (event: PointerEvent) => {
    if (event.pointerType === 'touch') return
    const svg = event.currentTarget as SVGElement // the handler is the picture's
    svg.setPointerCapture(event.pointerId)
    from.current = { x: event.clientX, y: event.clientY, turn, tilt }
  }
  const end = (event: PointerEvent) => {
    drag(event, true)
    from.current = undefined
  }
  return (
    <svg
      class="cube"
      viewBox={`0 0 ${width} ${height}`}
      role="img"
      aria-label={label}
      onPointerDown={begin}
      onPointerMove={event => drag(event, false)}
      onPointerUp={end}
      onPointerCancel={end}
    >
      {value.groups.map(group => (
        <Line key={group.axis} group={group} places={places} />
      ))}
      {order.map(rank => (
        <Rank key={rank} rank={rank} value={value} place={places[rank]!} />
      ))}
    </svg>
  )
}

function Line({ group: { axis, ranks }, places }: { readonly group: CubeGroup; readonly places: readonly Space[] }) {
  const ends = ranks.map(rank => places[rank]!)
  const [before, last] = [ends.at(-2)!, ends.at(-1)!]
  return (
    <g class={`meets ${axis}`}>
      <polyline points={ends.map(({ x, y }) => `${x.toFixed(1)},${y.toFixed(1)}`).join(' ')} />
      <text x={last.x + 0.7 * (last.x - before.x)} y={last.y + 0.7 * (last.y - before.y)} text-anchor="middle">
        {axis}
      </text>
    </g>
  )
}

interface RankProps {
  readonly rank: number
  readonly value: CubeAnswer
  readonly place: Space
}

function Rank({ rank, value: { ranks, rank: chosen, groups }, place: { x, y } }: RankProps) {
  const isNear = ranks[rank]!.node === ranks[chosen]!.node
  const isMet = groups.some(group => group.ranks.includes(rank))
  const classes = ['cell', isNear && 'near', isMet && 'met', rank === chosen && 'chosen'].filter(Boolean).join(' ')
  return (
    <g class={classes}>
      <rect x={x - 15} y={y - 10} width={30} height={20} rx={4} />
      <text x={x} y={y + 4} text-anchor="middle">
        {`${rank}${letterOf(ranks[rank]!.node)}`}
      </text>
    </g>
  )
}
