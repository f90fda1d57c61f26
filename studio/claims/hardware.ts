/** Devices and links: what is fast, what is slow, and what lies between nodes. */
import { claim, isNear, yesIf } from './claim.js'
import type { Lab } from './lab.js'

type Cluster = ReturnType<Lab['core']['clusterOf']>

/** Links of a tree, innermost first; a torus has one kind. */
const linksOf = ({ topology }: Cluster) =>
  topology.kind === 'tree' ? topology.levels.map(({ link }) => link) : [topology.link]

const gigabyte = 1e9

/** Eight ranks that sum a gigabyte, next to each other or each on a node of its own. */
const summed = (lab: Lab, device: string, stride: number) =>
  lab.core.quote(
    { kind: 'all-reduce', bytes: gigabyte, group: { size: 8, stride } },
    lab.core.clusterOf(device, 8 * stride),
  )

export const hardware = [
  claim({
    id: 'fast-inside-slow-between',
    notes: ['A1.2', 'C0', 'E4.1'],
    page: 'hardware',
    text: {
      en: 'Inside a node of A100 NVLink carries 300 GB/s one way; between nodes InfiniBand HDR carries 200 Gb/s.',
      zh: 'A100 节点内 NVLink 单向 300 GB/s，节点之间 InfiniBand HDR 只有 200 Gb/s。',
    },
    units: { inside: 'bytes/s', between: 'bytes/s', ratio: 'times' },
    numbers: lab => {
      const [inside, between] = linksOf(lab.core.clusterOf('a100-80', 64)).map(({ bandwidth }) => bandwidth)
      return { inside, between, ratio: inside / between }
    },
    holds: ({ inside, between }) => yesIf(isNear(inside, 300e9, 0.01) && isNear(between, 200e9 / 8, 0.01)),
    say: v => ({
      en: `The catalog has ${v.inside} inside and ${v.between} (200 Gb/s) between, each way and for each device: ${v.ratio}.`,
      zh: `目录中节点内 ${v.inside}，节点间每卡 ${v.between}（200 Gb/s），均为单向：相差 ${v.ratio}。`,
    }),
    command: 'lockstep cluster show a100-80 --devices 64',
  }),
  claim({
    id: 'h100-nine-hundred',
    notes: ['D1.2'],
    page: 'hardware',
    text: {
      en: 'The 18 NVLinks of an H100 carry 900 GB/s.',
      zh: 'H100 的 18 条 NVLink 总带宽 900 GB/s。',
    },
    units: { oneWay: 'bytes/s', both: 'bytes/s' },
    numbers: lab => {
      const [{ bandwidth }] = linksOf(lab.core.clusterOf('h100', 8))
      return { oneWay: bandwidth, both: 2 * bandwidth }
    },
    holds: ({ both }) => yesIf(isNear(both, 900e9, 0.01)),
    say: v => ({
      en: `${v.both} counts both directions; a collective sends over ${v.oneWay} of it.`,
      zh: `${v.both} 是双向之和；集合通信发送时能用的是其中的 ${v.oneWay}。`,
    }),
    command: 'lockstep cluster show h100 --devices 8',
  }),
  claim({
    id: 'h100-hbm',
    notes: ['D1.2'],
    page: 'hardware',
    text: {
      en: 'The memory of an H100 reads 3.9 TB/s.',
      zh: 'H100 的显存带宽是 3.9 TB/s。',
    },
    units: { bandwidth: 'bytes/s', successor: 'bytes/s' },
    numbers: lab => ({
      bandwidth: lab.core.clusterOf('h100', 8).device.bandwidth,
      successor: lab.core.clusterOf('h200', 8).device.bandwidth,
    }),
    holds: ({ bandwidth }) => yesIf(isNear(bandwidth, 3.9e12, 0.02)),
    say: v => ({
      en: `The H100 SXM that clusters are built of reads ${v.bandwidth}; 3.9 TB/s is the NVL card, and the H200 reads ${v.successor}.`,
      zh: `集群里用的 H100 SXM 是 ${v.bandwidth}；3.9 TB/s 是 NVL 版本，H200 则为 ${v.successor}。`,
    }),
    command: 'lockstep cluster show h100',
  }),
  claim({
    id: 'ladder-of-bandwidths',
    notes: ['A0', 'D0'],
    page: 'hardware',
    text: {
      en: 'The farther data is from the arithmetic, the slower it comes: memory, then NVLink, then the network, each several times slower.',
      zh: '数据离计算单元越远就越慢：显存、NVLink、网络，一级比一级慢好几倍。',
    },
    units: { memory: 'bytes/s', inside: 'bytes/s', between: 'bytes/s' },
    numbers: lab => {
      const cluster = lab.core.clusterOf('h100', 64)
      const [inside, between] = linksOf(cluster).map(({ bandwidth }) => bandwidth)
      return { memory: cluster.device.bandwidth, inside, between }
    },
    holds: ({ memory, inside, between }) => yesIf(memory > 4 * inside && inside > 4 * between),
    say: v => ({
      en: `On H100: memory ${v.memory}, NVLink ${v.inside}, InfiniBand ${v.between}.`,
      zh: `以 H100 为例：显存 ${v.memory}，NVLink ${v.inside}，InfiniBand ${v.between}。`,
    }),
    command: 'lockstep cluster show h100 --devices 64',
  }),
  claim({
    id: 'nvswitch-across-nodes',
    notes: ['D1.2'],
    page: 'hardware',
    disputed: true,
    text: {
      en: 'GPUs of different nodes talk over NVSwitch.',
      zh: '不同节点的 GPU 之间通过 NVSwitch 通信。',
    },
    units: { inH100: 'bytes/s', h100: 'bytes/s', inGb200: 'bytes/s', gb200: 'bytes/s' },
    numbers: lab => {
      const rate = (device: string, stride: number) => summed(lab, device, stride).hops.at(-1)?.bandwidth ?? Number.NaN
      return {
        ...{ inH100: rate('h100', 1), h100: rate('h100', 8) },
        ...{ inGb200: rate('gb200', 1), gb200: rate('gb200', 8) },
      }
    },
    holds: ({ inH100, h100, inGb200, gb200 }) =>
      isNear(h100, inH100, 0.1) ? 'yes' : isNear(gb200, inGb200, 0.1) ? 'depends' : 'no',
    say: v => ({
      en: `Ranks on eight nodes of H100 meet over InfiniBand, ${v.h100} each instead of ${v.inH100}; only in a rack such as NVL72 do ranks 8 apart stay on NVLink, at ${v.gb200}.`,
      zh: `分布在 8 个 H100 节点上的 rank 走 InfiniBand，每卡 ${v.h100}，而节点内是 ${v.inH100}；只有 NVL72 这样的机柜里，相隔 8 的 rank 才仍走 NVLink，为 ${v.gb200}。`,
    }),
    command: 'lockstep cost all-reduce --size 1GB --ranks 8 --stride 8 --cluster gb200',
  }),
  claim({
    id: 'keep-groups-inside',
    notes: ['A1.2', 'D1.2'],
    page: 'hardware',
    text: {
      en: 'Eight ranks that share a node sum their numbers many times faster than eight on as many nodes.',
      zh: '同一节点内的 8 个 rank 求和，比分散在 8 个节点上快很多倍。',
    },
    units: { inside: 'seconds', between: 'seconds', ratio: 'times' },
    numbers: lab => {
      const [inside, between] = [1, 8].map(stride => summed(lab, 'h100', stride).seconds)
      return { inside, between, ratio: between / inside }
    },
    holds: ({ ratio }) => yesIf(ratio > 4),
    say: v => ({
      en: `An all-reduce of 1 GB takes ${v.inside} inside a node of H100 and ${v.between} across eight: ${v.ratio}.`,
      zh: `1 GB 的 all-reduce，在一个 H100 节点内 ${v.inside}，跨 8 个节点 ${v.between}：${v.ratio}。`,
    }),
    command: 'lockstep cost all-reduce --size 1GB --ranks 8 --stride 8 --cluster h100',
  }),
]
