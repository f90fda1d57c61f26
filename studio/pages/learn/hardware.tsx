/** The ladder of bandwidths, and what it costs a group of ranks to lie further apart. */
import { oneOf, readKnobs } from '../../base/knobs.js'
import { defineText } from '../../base/language.js'
import { bytes, perSecond, seconds, short } from '../../base/numbers.js'
import { tex } from '../../base/tex.js'
import { Controls } from '../../parts/knobs.js'
import { Lesson } from '../../parts/lesson.js'
import { LogBars } from '../../parts/log-bars.js'
import { Trouble } from '../../parts/trouble.js'
import { useAnswer } from '../../work/answer.js'
import { ask } from '../../work/ask.js'
import type { HardwareAnswer } from '../../work/hardware-lessons.js'
import type { JobText } from '../../work/jobs.js'
import { Nodes } from './nodes.js'
import './nodes.css'

const text = defineText(
  {
    claim:
      'Bytes get slower the further they go: a device reads its own memory fastest, its neighbours in the node far slower, other nodes slower again. Placing ranks is choosing who has to cross which step.',
    ladder: (title: string) => `Ways for bytes to go: ${title}`,
    names: {
      memory: 'own memory',
      nvlink: 'NVLink, in the node',
      xgmi: 'Infinity Fabric, in the node',
      pcie: 'PCIe, in the node',
      infiniband: 'InfiniBand, between nodes',
      ethernet: 'Ethernet, between nodes',
      ici: 'ICI, to the neighbour',
    },
    ladderCaption: (size: string, near: string, far: string, times: string) =>
      `${size} take ${near} from a device’s own memory and ${far} over the slowest link, ${times} times as long.`,
    head: ['Way', 'Bytes a second', 'Time'],
    device: 'Device',
    size: 'Bytes',
    network: 'Network between nodes',
    times: (n: number) => `×${n}`,
    spread: 'Nodes that the eight lie in',
    groups: 'An all-reduce of eight devices, near and far',
    nodes: (n: number) => (n === 1 ? 'one node' : `${n} nodes`),
    groupsHead: ['Eight devices in', 'Time', 'Bus bandwidth', 'Algorithm'],
    groupsCaption: (one: string, spread: string, nodes: string, times: string) =>
      `In one node the sum takes ${one}, over ${nodes} ${spread}: ${times} times as long.`,
    sentence: (per: string, name: string) => `${name}: a step down the ladder is a factor of ${per} on average.`,
    letters: 'M bytes over a link of B bytes a second; latency left out.',
    question:
      'Suppose the network were four times as fast. How many times as long would eight devices in eight nodes take, compared with one node?',
    why: 'At this size bytes decide, so a faster network helps almost in full; it is still the slowest step that every byte has to cross.',
    notice: [
      'Data sheets count both directions: 900 GB/s of NVLink are 450 each way, and a collective sends one way at a time.',
      'Between nodes it is the network, InfiniBand or Ethernet, whatever joins devices inside; racks such as NVL72 move that border to 72 devices.',
      'What talks most belongs on the highest step: tensor parallel inside the node, pipeline and data parallel across.',
    ],
    sources: 'Sources of the figures',
  },
  {
    claim:
      '字节走得越远越慢：读自己的显存最快，到同节点的邻居慢得多，到别的节点更慢。安排 rank 的位置，就是决定谁要跨哪一级台阶。',
    ladder: (title: string) => `字节可走的路：${title}`,
    names: {
      memory: '自己的显存',
      nvlink: 'NVLink，节点内',
      xgmi: 'Infinity Fabric，节点内',
      pcie: 'PCIe，节点内',
      infiniband: 'InfiniBand，节点间',
      ethernet: '以太网，节点间',
      ici: 'ICI，到相邻设备',
    },
    ladderCaption: (size: string, near: string, far: string, times: string) =>
      `${size} 从自己的显存里读要 ${near}，走最慢的链路要 ${far}，是前者的 ${times} 倍。`,
    head: ['路径', '每秒字节数', '时间'],
    device: '设备',
    size: '字节数',
    network: '节点间网络',
    times: (n: number) => `×${n}`,
    spread: '这八个设备分布在几个节点',
    groups: '八个设备的 all-reduce，近与远',
    nodes: (n: number) => `${n} 个节点`,
    groupsHead: ['八个设备位于', '时间', '总线带宽', '算法'],
    groupsCaption: (one: string, spread: string, nodes: string, times: string) =>
      `在一个节点里求和要 ${one}，分布在 ${nodes}要 ${spread}，是前者的 ${times} 倍。`,
    sentence: (per: string, name: string) => `${name}：每下一级台阶，平均慢 ${per} 倍。`,
    letters: 'M 字节走每秒 B 字节的链路；不计延迟。',
    question: '假如网络快四倍，八个设备分在八个节点，all-reduce 的时间是在一个节点里的几倍？',
    why: '这样大的消息由字节数说了算，网络快几倍就几乎省几倍；但每个字节要跨的仍是最慢的那一级。',
    notice: [
      '产品手册把两个方向加在一起：NVLink 的 900 GB/s 是每个方向 450，而集合通信一次只朝一个方向发。',
      '不管节点内用什么互连，节点之间走的是网络：InfiniBand 或以太网；NVL72 这样的机柜把这条边界推到了 72 个设备。',
      '通信最多的放在最高一级：张量并行留在节点内，流水线并行和数据并行跨节点。',
    ],
    sources: '数据来源',
  },
)

const table = {
  device: oneOf(['a100-80', 'h100', 'h200', 'b200', 'gb200', 'mi300x'], 'h100'),
  size: oneOf([20, 24, 27, 30, 33], 30),
  network: oneOf([0.25, 0.5, 1, 2, 4], 1),
  spread: oneOf([2, 4, 8], 8),
}

const formula = tex`t = \frac{M}{B} = \class{live}{\text{M}}\,/\,\class{live}{\text{B}} = \class{live}{\text{t}}`
const classes = ['compute', 'workspace', 'gradients', 'optimizer']

/** A program whose data parallel ranks lie as far apart as the eight of the figure. */
const spreadJob = (stride: number): JobText => ({
  model: { family: 'mlp', layers: 1, embed: 8, ffn: 144 },
  training: { seq: 4, globalBatch: 8 },
  plan: { tp: stride, dp: 8 },
})

export default function Hardware() {
  const knobs = readKnobs(table)
  const { device, size, network, spread } = knobs.chosen
  const input = { device, network, spread, bytes: 2 ** size }
  const { value, refusal, pending } = useAnswer('fast', ['hardware', 'hardware'], input)
  const words = text()
  const rungs = value?.rungs ?? []
  const [near, far] = [rungs[0], rungs.at(-1)]
  const chosen = value?.spreads.find(({ nodes }) => nodes === spread)
  const code = useAnswer('fast', ['excerpts', 'talk'], chosen && { job: spreadJob(chosen.stride) }).value
  const farther = async () => {
    const { spreads } = await ask('fast', ['hardware', 'hardware'], { ...input, network: 4 })
    return spreads.at(-1)!.seconds / spreads[0]!.seconds
  }
  return (
    <Lesson
      name="hardware"
      claim={words.claim}
      controls={
        <Controls
          knobs={knobs}
          labels={{
            device: { label: words.device, show: (device: string) => device.toUpperCase() },
            size: { label: words.size, show: (power: number) => bytes(2 ** power) },
            network: { label: words.network, show: words.times },
            spread: { label: words.spread },
          }}
        />
      }
      figure={
        <>
          {refusal && <Trouble why={refusal} />}
          <LogBars
            title={words.ladder(value?.title ?? device)}
            caption={
              near && far
                ? words.ladderCaption(
                    bytes(2 ** size),
                    seconds(near.seconds),
                    seconds(far.seconds),
                    short(far.seconds / near.seconds),
                  )
                : ''
            }
            rows={rungs.map((rung, n) => ({
              label: words.names[rung.name as keyof typeof words.names] ?? rung.name,
              value: rung.bandwidth,
              kind: classes[n] ?? 'other',
              note: `${perSecond(rung.bandwidth)} · ${seconds(rung.seconds)}`,
              cells: [perSecond(rung.bandwidth), seconds(rung.seconds)],
            }))}
            head={words.head}
            pending={pending}
          />
        </>
      }
      more={
        <>
          <Nodes value={value} pending={pending} spread={spread} />
          <Groups value={value} pending={pending} spread={spread} />
        </>
      }
      sentence={
        near && far && rungs.length > 1
          ? words.sentence(short((near.bandwidth / far.bandwidth) ** (1 / (rungs.length - 1))), value?.title ?? device)
          : undefined
      }
      formula={{
        math: formula,
        live: far ? { M: bytes(2 ** size), B: perSecond(far.bandwidth), t: seconds(far.seconds) } : {},
        letters: words.letters,
      }}
      guess={{ question: words.question, run: farther, why: () => words.why, min: 0 }}
      notice={words.notice}
      program={code}
      listings={value ? [{ title: words.sources, what: '', code: value.sources.join('\n') }] : []}
      command={`lockstep cost all-reduce --size ${2 ** size} --ranks 8 --ranks-per-node ${8 / spread} --cluster ${device}`}
      says={chosen && network === 1 ? { field: 'seconds', value: chosen.seconds } : undefined}
    />
  )
}

interface GroupsProps {
  readonly value: HardwareAnswer | undefined
  readonly pending: boolean
  readonly spread: number
}

function Groups({ value, pending, spread }: GroupsProps) {
  const words = text()
  const spreads = value?.spreads ?? []
  const [one, chosen] = [spreads[0], spreads.find(({ nodes }) => nodes === spread)]
  return (
    <LogBars
      title={words.groups}
      caption={
        one && chosen
          ? words.groupsCaption(
              seconds(one.seconds),
              seconds(chosen.seconds),
              words.nodes(spread),
              short(chosen.seconds / one.seconds),
            )
          : ''
      }
      rows={spreads.map(({ nodes, seconds: time, busbw, algorithm }) => ({
        label: words.nodes(nodes),
        value: time,
        kind: nodes === spread ? 'gradients' : 'other',
        note: seconds(time),
        cells: [seconds(time), perSecond(busbw), algorithm],
      }))}
      head={words.groupsHead}
      pending={pending}
    />
  )
}
